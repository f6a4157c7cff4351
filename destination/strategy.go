package destination

import (
	"cmp"
	"strings"

	"instep/harvest"
	"instep/internal/packages"
)

// This file chooses: functions of what the Source offers, what is held and what was
// asked for. They read nothing; the planner gathers the inputs and does what was chosen.

// planInputs are what the choice of a way depends on.
type planInputs struct {
	*harvest.Offered
	prefer   Prefer
	followed bool   // a baseline was completed earlier
	covered  bool   // resources left out since then are also left out now
	restored bool   // states were brought back here since the last run
	overdue  string // why it is time for a baseline all the same; "" if it is not
	members  int64  // that the mirror has
}

// mode is how the set is brought in step, by which track if it is by one, and why
// (1.1 §5.2): an increment needs a cursor and a track that reaches back to it. follow looks along a
// track, and may find that it is time for a baseline.
func (f *planInputs) mode(follow func(harvest.Track) (harvest.Outcome, error)) (_ Mode, _ harvest.Track, why string, err error) {
	switch {
	case !f.followed && f.members > 0:
		return Baseline, 0, "earlier runs found no moment to go on from", nil
	case !f.followed:
		return Baseline, 0, "no earlier synchronisation", nil
	case f.restored:
		return Baseline, 0, "earlier states were brought back here, so everything is compared", nil
	case !f.covered:
		return Baseline, 0, "the filters or limits are different from last time", nil
	}
	for _, tr := range harvest.TrackOrder(f.prefer == PreferDump) {
		if !f.Tells[tr] {
			continue
		}
		switch o, err := follow(tr); {
		case err != nil:
			return "", 0, "", err
		case o.Reaches && f.overdue != "":
			return Baseline, tr, f.overdue, nil
		case o.Reaches:
			return Incremental, tr, o.Why, nil
		default:
			why = cmp.Or(why, o.Why)
		}
	}
	return Baseline, 0, cmp.Or(why, "the Source offers no Change List"), nil
}

// baselineSource is the snapshot by which a baseline is made, and why; false if there is none.
func (f *planInputs) baselineSource() (harvest.SnapshotKind, string, bool) {
	order, why := []harvest.SnapshotKind{harvest.ResourceList, harvest.ResourceDump}, "it tells what is missing here"
	switch {
	case f.prefer == PreferList:
		why = "it was asked for"
	case f.prefer == PreferDump:
		order, why = []harvest.SnapshotKind{harvest.ResourceDump, harvest.ResourceList}, "it was asked for"
	case f.members == 0 && f.Shows[harvest.ResourceDump]:
		order, why = []harvest.SnapshotKind{harvest.ResourceDump, harvest.ResourceList}, "nothing of the set is here yet"
	}
	s, ok := f.First(append(order, harvest.Archived...)...)
	switch {
	case !ok:
		return 0, "", false
	case s == order[1]:
		why = f.lacks(order[0])
	case s != order[0]:
		why = "the present ones cannot be used"
	}
	return s, why, true
}

// lacks says why a snapshot is not taken.
func (f *planInputs) lacks(s harvest.SnapshotKind) string {
	if f.Shows[s] {
		return s.String() + " cannot be used"
	}
	return "no " + strings.TrimPrefix(s.String(), "the ") + " is offered"
}

// weighs reports whether a plan by Resource List, whose requests cost so much, is to
// be compared with one by Resource Dump.
func (f *planInputs) weighs(gets int64) bool {
	return f.prefer == "" && f.Usable(harvest.ResourceDump) && gets > packages.Cost(0, worthLooking)
}

// pays reports whether a dump may cost less than the requests for single resources:
// all of its packages, or after a look at their manifests parts of them.
func pays(gets, whole, count, members int64) bool {
	return whole < gets || packages.Cost(members*manifestEntry, count*(1+directoryRequests+1)) < gets/2
}

// manifestEntry is about what a manifest takes for each bitstream, in bytes.
const manifestEntry = 300

// worthLooking is how many requests have to be saved before a further document is read
// for their sake.
const worthLooking = 8

// carries reports whether what Change Lists name, whose requests cost so much, is
// worth looking for in the packages of Change Dumps.
func (f *planInputs) carries(tr harvest.Track, gets int64) bool {
	return f.prefer != PreferList && f.Tells[harvest.ChangeDumps] && tr != harvest.ChangeDumps && tr != harvest.ChangeDumpArchive && gets > packages.Cost(0, worthLooking)
}
