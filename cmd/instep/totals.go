package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"instep/destination"
	"instep/fetch"
)

// totals are the counts of a run over all its sets.
type totals struct {
	destination.Counts
	failed, bytes int64
	unverified    int64                     // resources brought that nothing of the Source's proves
	taken         int64                     // files that were in the directory and not known, and were taken over
	planned       int64                     // requests that a plan will send
	via           map[destination.Via]int64 // resources that are brought, by way
	failures      []destination.Failure
	origins       map[string]int64
	partial       []error
	withheld      []withheld
	trust
}

// withheld has the deletions of a set that wait for consent.
type withheld struct {
	set, hash string
	n         int64
	guard     destination.Guard
}

// message says how many there are of them, and how many may go.
func (w *withheld) message(limit string) string {
	if w.guard.Doubted > 0 {
		return fmt.Sprintf("%s withheld: %d of them come from a list that named more resources when it was read before, at the same moment", counted(w.n, "deletion"), w.guard.Doubted)
	}
	if limit != "" {
		return fmt.Sprintf("%s withheld: the run has deleted %d before, and --max-delete %s allows %d of %d", counted(w.n, "deletion"), w.guard.Before, limit, w.guard.Allowed, w.guard.Members)
	}
	return fmt.Sprintf("%s withheld: without your consent %d of %d resources may be deleted in 24 hours, and %d were",
		counted(w.n, "deletion"), w.guard.Allowed, w.guard.Members, w.guard.Before)
}

// hint returns the command that releases them.
func (w *withheld) hint(approve string) string {
	hint := "look at them with -n; if they are right: " + approve + ", then sync again"
	if w.guard.Doubted > 0 {
		hint += "; --max-delete does not release them, and a newer list settles it"
	}
	return hint
}

func (t *totals) addCounts(c destination.Counts, origins map[string]int64, partial error) {
	t.Same += c.Same
	t.Created += c.Created
	t.Updated += c.Updated
	t.Deleted += c.Deleted
	t.Skipped = addAll(t.Skipped, c.Skipped)
	t.origins = addAll(t.origins, origins)
	if partial != nil {
		t.partial = append(t.partial, partial)
	}
}

func addAll[K comparable](to, from map[K]int64) map[K]int64 {
	if to == nil {
		to = map[K]int64{}
	}
	for k, n := range from {
		to[k] += n
	}
	return to
}

func (t *totals) addPlan(p *destination.SetPlan) {
	t.addCounts(p.Counts, p.Origins, p.Partial)
	t.bytes += p.Bytes
	t.planned += p.Requests
	if p.Withheld {
		t.withheld = append(t.withheld, withheld{p.Set, p.Hash, p.Deleted, p.Guard})
	}
	t.trust.add(p.Set, p.RolledBack, p.Gap, p.Latest)
}

func (t *totals) addReport(r *destination.SetReport) {
	t.addCounts(r.Counts, r.Origins, r.Partial)
	t.bytes += r.Bytes
	t.via = addAll(t.via, r.Via)
	t.failed += r.Failed
	t.unverified += r.Unverified
	t.failures = append(t.failures, r.Failures...)
	if r.Withheld > 0 {
		t.withheld = append(t.withheld, withheld{r.Set, r.Hash, r.Withheld, r.Guard})
	}
	t.trust.add(r.Set, r.RolledBack, r.Gap, r.Latest)
}

// count takes an action of a plan down by its way.
func (t *totals) count(act destination.Action) {
	if act.Via == "" {
		return
	}
	if t.via == nil {
		t.via = map[destination.Via]int64{}
	}
	t.via[act.Via]++
}

// ways lists the ways by which resources are transferred.
func (t *totals) ways() string {
	var parts []string
	for via, n := range sorted(t.via) {
		parts = append(parts, fmt.Sprintf("%s=%d", via, n))
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// exitCode is the exit code of a complete run.
func (t *totals) exitCode() int {
	switch {
	case len(t.withheld) > 0, t.doubted(), t.withdrawn():
		return exitGuard
	case len(t.partial) > 0 && !slices.ContainsFunc(t.partial, func(err error) bool { return !errors.Is(err, fetch.Temporary) }):
		return exitTemporary // documents that cannot be had now
	case len(t.partial) > 0:
		return exitFailed // a document that cannot be used
	case len(t.frozen)+len(t.gaps) > 0, t.failed+destination.Missed(t.Skipped) > 0:
		return exitPartial
	}
	return exitOK
}

// status is the status of a complete run.
func (t *totals) status() string {
	switch t.exitCode() {
	case exitOK:
		return "in-sync"
	case exitGuard:
		return "refused"
	}
	return "partial"
}

// done formats the counts of a run for people.
func (t *totals) done() string {
	s := fmt.Sprintf("same=%d, created=%d, updated=%d, deleted=%d, failed=%d", t.Same, t.Created, t.Updated, t.Deleted, t.failed)
	if t.unverified > 0 {
		s += fmt.Sprintf(", unverified=%d", t.unverified)
	}
	return s
}

// line is the last line of a run for people. If the run ended early it counts all received
// bytes, stored or not.
func (t *totals) line(status string, net *traffic, took time.Duration) string {
	bytes := t.bytes
	if status == "interrupted" || status == "failed" {
		bytes = max(bytes, net.bytes.Load())
	}
	return fmt.Sprintf("Status: %s (%s)   %s, %s in %s", words[status], t.done(),
		took.Round(10*time.Millisecond), humanize.Bytes(uint64(bytes)), counted(net.requests.Load(), "request"))
}

func (t *totals) summary(status string, net *traffic, took time.Duration, code int) summary {
	s := summary{
		Status: status, Same: num(t.Same), Created: num(t.Created), Updated: num(t.Updated), Deleted: num(t.Deleted),
		Failed: num(t.failed), Bytes: num(t.bytes), Requests: num(net.requests.Load()), Seconds: seconds(took), ExitCode: code,
	}
	if t.taken > 0 {
		s.Adopted = num(t.taken)
	}
	if len(t.gaps) > 0 {
		s.Gaps = num(int64(len(t.gaps)))
	}
	s.Skipped, s.Via = named(t.Skipped), named(t.via)
	if status == "plan" {
		s.Planned = num(t.planned)
	} else {
		s.Unverified = num(t.unverified)
	}
	for _, w := range t.withheld {
		if s.Withheld == nil {
			s.Withheld = num(0)
		}
		*s.Withheld += w.n
		s.Plan = w.hash
	}
	return s
}

// named returns counts by name; nil if there are none.
func named[K ~string](counts map[K]int64) (out map[string]int64) {
	for k, n := range counts {
		if out == nil {
			out = map[string]int64{}
		}
		out[string(k)] = n
	}
	return out
}
