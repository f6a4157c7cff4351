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
	ExitOK        = 0 // the mirror is in step
	ExitFailed    = 1 // a document of the Source is unusable
	ExitPartial   = 4 // something failed, was left out, or is unknown
	ExitTemporary = 5 // a document of the Source is unavailable at present
	ExitGuard     = 6 // something needs the user's consent
)

// Totals are the counts of a run over all its sets.
type Totals struct {
	destination.Counts
	Failed     int64                     // resources that could not be fetched
	Bytes      int64                     // of resources
	Unverified int64                     // resources fetched whose bytes no fact of the Source proves
	Patches    transfer.PatchCounts      // bytes that patches have saved and cost
	Taken      int64                     // unknown files in the directory that were taken over as resources
	Planned    int64                     // number of requests that a plan will send
	Via        map[destination.Via]int64 // number of resources to fetch, by way
	Failures   []destination.Failure     // the first failures
	Origins    map[string]int64          // resources on other origins than the Source's, by origin
	Partial    []error                   // why documents could not be used
	Withheld   []Withheld                // deletions that need consent

	RolledBack []SetNote // sets in which the Source shows an older state than before, which was not followed
	Frozen     []SetNote // sets without changes for longer than expected
	Gaps       []SetNote // sets whose changes are partly unknown
	Orphans    []destination.Orphan
	latest     []setMoment
}

// Withheld are the deletions of a set that need consent.
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

// AddCounts adds counts to those in to, which it creates if nil.
func AddCounts[K comparable](to, from map[K]int64) map[K]int64 {
	if to == nil {
		to = map[K]int64{}
	}
	for k, n := range from {
		to[k] += n
	}
	return to
}

// AddPlan adds the plan of a set.
func (t *Totals) AddPlan(p *destination.SetPlan) {
	t.addCounts(p.Counts, p.Origins, p.Partial)
	t.Bytes += p.Bytes
	t.Planned += p.Requests
	if p.Withheld {
		t.Withheld = append(t.Withheld, Withheld{p.Set, p.Hash, p.Deleted, p.Guard})
	}
	t.note(p.Set, p.RolledBack, p.Gap, p.Latest)
}

// AddReport adds the report of a set.
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
	t.note(r.Set, r.RolledBack, r.Gap, r.Latest)
}

// Count counts an action of a plan by its way.
func (t *Totals) Count(act destination.Action) {
	if act.Via == "" {
		return
	}
	if t.Via == nil {
		t.Via = map[destination.Via]int64{}
	}
	t.Via[act.Via]++
}

// ExitCode returns the exit code of a run that was not interrupted.
func (t *Totals) ExitCode() int {
	switch {
	case len(t.Withheld) > 0, t.doubted(), t.withdrawn():
		return ExitGuard
	case len(t.Partial) > 0 && !slices.ContainsFunc(t.Partial, func(err error) bool { return !errors.Is(err, fetch.Temporary) }):
		return ExitTemporary // documents are unavailable at present
	case len(t.Partial) > 0:
		return ExitFailed // a document is unusable
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

// note adds the findings about a set that contradict earlier states of the Source.
func (t *Totals) note(set, rolledBack, gap string, latest time.Time) {
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

// Close adds the findings about all sets: those that the Source no longer offers, and
// those whose newest change is older than maxAge; 0 is no limit.
func (t *Totals) Close(orphans []destination.Orphan, maxAge time.Duration, now time.Time) {
	t.Orphans = orphans
	if maxAge == 0 {
		return
	}
	for _, m := range t.latest {
		if age := now.Sub(m.at); age > maxAge {
			t.Frozen = append(t.Frozen, SetNote{m.set, fmt.Sprintf("the Source has told of nothing newer than %s, %s ago", m.at.UTC().Format(time.RFC3339), age.Round(time.Second))})
		}
	}
}

// doubted reports whether a present state of the Source was not followed.
func (t *Totals) doubted() bool {
	for _, o := range t.Orphans {
		if !o.Forget {
			return true
		}
	}
	return len(t.RolledBack) > 0
}

// withdrawn reports whether a followed set no longer has any documents by which to
// follow it.
func (t *Totals) withdrawn() bool {
	for _, err := range t.Partial {
		if errors.Is(err, destination.ErrWithdrawn) {
			return true
		}
	}
	return false
}
