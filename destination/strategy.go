package destination

import (
	"cmp"
	"strings"

	"instep/harvest"
	"instep/internal/packages"
)

// The functions in this file make choices for the planner. They read no documents: the
// planner collects the facts before it calls them.

type planInputs struct {
	*harvest.Offered
	prefer  Prefer
	known   known
	overdue string // reason why a baseline is due although an incremental synchronisation is possible; "" if none is due
	members int64  // number of members of the set in the mirror
}

// mode chooses between a baseline and an increment (1.1 §5.2), and returns the reason.
// For an increment it also returns the kind of change documents to read. follow reads
// them, and may find that they do not reach back to the cursor.
func (f *planInputs) mode(follow func(harvest.Track) (harvest.Outcome, error)) (_ Mode, _ harvest.Track, why string, err error) {
	switch {
	case !f.known.followed && f.members > 0:
		return Baseline, 0, "earlier runs recorded no position to continue from", nil
	case !f.known.followed:
		return Baseline, 0, "no earlier synchronisation", nil
	case f.known.Scope == ScopeRestored:
		return Baseline, 0, "earlier states were restored in the mirror, so everything is compared", nil
	case !f.known.whole:
		return Baseline, 0, "the filters or limits are different from last time", nil
	}
	for _, tr := range f.Order(f.prefer == PreferDump) {
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

func (f *planInputs) baselineSource() (harvest.SnapshotKind, string, bool) {
	order, why := []harvest.SnapshotKind{harvest.ResourceList, harvest.ResourceDump}, "it shows which resources are missing"
	switch {
	case f.prefer == PreferList:
		why = "the user prefers it"
	case f.prefer == PreferDump:
		order, why = []harvest.SnapshotKind{harvest.ResourceDump, harvest.ResourceList}, "the user prefers it"
	case f.members == 0 && f.Shows[harvest.ResourceDump]:
		order, why = []harvest.SnapshotKind{harvest.ResourceDump, harvest.ResourceList}, "the mirror has nothing of the set yet"
	}
	s, ok := f.First(append(order, harvest.Archived...)...)
	switch {
	case !ok:
		return 0, "", false
	case s == order[1]:
		why = f.whyUnused(order[0])
	case s != order[0]:
		why = "the present list and dump cannot be used"
	}
	return s, why, true
}

func (f *planInputs) whyUnused(s harvest.SnapshotKind) string {
	if f.Shows[s] {
		return s.String() + " cannot be used"
	}
	return "no " + strings.TrimPrefix(s.String(), "the ") + " is offered"
}

func (f *planInputs) worthComparing(gets int64) bool {
	return f.prefer == "" && f.Usable(harvest.ResourceDump) && gets > packages.Cost(0, worthLooking)
}

// dumpMaySave reports whether a dump may cost less than one request for each resource.
// Either its packages are transferred whole, or only their manifests and parts of them.
func dumpMaySave(st *harvest.Snapshot, gets, members int64) bool {
	bytes, known := st.Weight()
	count := int64(len(st.Packages))
	return known && packages.Cost(bytes, 2*count) < gets || packages.Cost(members*manifestEntry, count*(1+directoryRequests+1)) < gets/2
}

// manifestEntry is the estimated size in bytes of one entry of a manifest.
const manifestEntry = 300

// worthLooking is the minimum number of saved requests for which reading a further
// document is worthwhile.
const worthLooking = 8

func (f *planInputs) worthChangeDumps(tr harvest.Track, gets int64) bool {
	return f.prefer != PreferList && f.Tells[harvest.ChangeDumps] && tr != harvest.ChangeDumps && tr != harvest.ChangeDumpArchive && gets > packages.Cost(0, worthLooking)
}
