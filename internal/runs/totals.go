package runs

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"instep/destination"
	"instep/fetch"
	"instep/transfer"
)

// Exit codes of a run that was not interrupted.
const (
	ExitOK        = 0 // the mirror has the state of the Source
	ExitFailed    = 1 // a document of the Source cannot be used
	ExitPartial   = 4 // some resources failed or were left out, or changes are unknown
	ExitTemporary = 5 // a document of the Source is unavailable at present
	ExitGuard     = 6 // the run needs the consent of the user
)

// Totals are the results of a run over all its sets.
type Totals struct {
	destination.Counts
	Failed     int64                     // number of resources that could not be fetched
	Bytes      int64                     // bytes of resources
	Unverified int64                     // the number of fetched resources for which the Source states neither length nor digest
	Patches    transfer.PatchCounts      // counts of applied patches and of the bytes that they saved
	Taken      int64                     // the number of existing files that became resources of the mirror
	Planned    int64                     // number of requests that a plan will send
	Via        map[destination.Via]int64 // number of fetched resources by the way of transfer
	Failures   []destination.Failure     // the first failures
	Origins    map[string]int64          // number of resources left out because they are of another origin, by origin
	Partial    []error                   // errors of documents that could not be used
	Withheld   []Withheld                // deletions that need consent

	RolledBack []SetNote // sets of which the Source shows an older state than before
	Frozen     []SetNote // sets without changes for longer than --max-age
	Gaps       []SetNote // sets whose changes are partly unknown
	Orphans    []destination.Orphan
	latest     []setMoment // time of the newest change of each set
}

// Withheld describes the deletions of a set that need consent.
type Withheld struct {
	Set, Hash string
	N         int64
	Guard     destination.Guard
}

// SetNote is a remark about a set.
type SetNote struct{ Set, Text string }

type setMoment struct {
	set string
	at  time.Time
}

func (t *Totals) addCounts(c destination.Counts, origins map[string]int64, partial error) {
	t.Same += c.Same
	t.Created += c.Created
	t.Updated += c.Updated
	t.Deleted += c.Deleted
	t.Skipped = AddCounts(t.Skipped, c.Skipped)
	t.Origins = AddCounts(t.Origins, origins)
	if partial != nil {
		t.Partial = append(t.Partial, partial)
	}
}

// AddCounts adds the given counts to the map total and returns this map. If total is nil,
// it creates the map.
func AddCounts[K comparable](total, counts map[K]int64) map[K]int64 {
	if total == nil {
		total = map[K]int64{}
	}
	for k, n := range counts {
		total[k] += n
	}
	return total
}

// AddPlan adds the counts and notes of the plan for a set.
func (t *Totals) AddPlan(p *destination.SetPlan) {
	counts := p.Counts
	if p.Withheld {
		counts.Deleted = 0
	}
	t.addCounts(counts, p.Origins, p.Partial)
	t.Bytes += p.Bytes
	t.Planned += p.Requests
	if p.Withheld {
		t.Withheld = append(t.Withheld, Withheld{p.Set, p.Hash, p.Deleted, p.Guard})
	}
	t.addNotes(p.Set, p.RolledBack, p.Gap, p.Latest)
}

// AddReport adds the counts and notes of the report on a set.
func (t *Totals) AddReport(r *destination.SetReport) {
	t.addCounts(r.Counts, r.Origins, r.Partial)
	t.Bytes += r.Bytes
	t.Via = AddCounts(t.Via, r.Via)
	t.Failed += r.Failed
	t.Unverified += r.Unverified
	t.Patches.Add(r.Patches)
	t.Failures = append(t.Failures, r.Failures...)
	if r.Withheld > 0 {
		t.Withheld = append(t.Withheld, Withheld{r.Set, r.Hash, r.Withheld, r.Guard})
	}
	t.addNotes(r.Set, r.RolledBack, r.Gap, r.Latest)
}

// Count adds a planned action to the counts in Totals.Via, unless the action fetches nothing.
func (t *Totals) Count(act destination.Action) {
	if act.Via != "" {
		t.Via = AddCounts(t.Via, map[destination.Via]int64{act.Via: 1})
	}
}

// ExitCode returns the exit code of a run that was not interrupted.
func (t *Totals) ExitCode() int {
	switch {
	case len(t.Withheld) > 0, t.distrusts(), t.withdrawn():
		return ExitGuard
	case slices.ContainsFunc(t.Partial, func(err error) bool { return !errors.Is(err, fetch.Temporary) }):
		return ExitFailed
	case len(t.Partial) > 0:
		return ExitTemporary
	case len(t.Frozen)+len(t.Gaps) > 0, t.Failed+destination.Missed(t.Skipped) > 0:
		return ExitPartial
	}
	return ExitOK
}

// Status returns the status of a run that was not interrupted: in-sync, refused or
// partial.
func (t *Totals) Status() string {
	switch t.ExitCode() {
	case ExitOK:
		return "in-sync"
	case ExitGuard:
		return "refused"
	}
	return "partial"
}

func (t *Totals) addNotes(set, rolledBack, gap string, latest time.Time) {
	if rolledBack != "" {
		t.RolledBack = append(t.RolledBack, SetNote{set, rolledBack})
	}
	if gap != "" {
		t.Gaps = append(t.Gaps, SetNote{set, gap})
	}
	if !latest.IsZero() {
		t.latest = append(t.latest, setMoment{set, latest})
	}
}

// Close sets Orphans, the sets that the Source no longer offers, and Frozen, the sets whose newest
// change is older than maxAge. If maxAge is 0, no set is too old.
func (t *Totals) Close(orphans []destination.Orphan, maxAge time.Duration, now time.Time) {
	t.Orphans = orphans
	if maxAge == 0 {
		return
	}
	for _, m := range t.latest {
		if age := now.Sub(m.at); age > maxAge {
			t.Frozen = append(t.Frozen, SetNote{m.set, fmt.Sprintf("the newest change that the Source announced is from %s, %s ago", m.at.UTC().Format(time.RFC3339), age.Round(time.Second))})
		}
	}
}

// distrusts reports whether the Source showed an older state than before, or no longer offers a
// set.
func (t *Totals) distrusts() bool {
	return len(t.RolledBack) > 0 || slices.ContainsFunc(t.Orphans, func(o destination.Orphan) bool { return !o.Forget })
}

// withdrawn reports whether the Source no longer offers the documents of a set.
func (t *Totals) withdrawn() bool {
	return slices.ContainsFunc(t.Partial, func(err error) bool { return errors.Is(err, destination.ErrWithdrawn) })
}
