package main

import (
	"time"

	"instep/destination"
)

// totals are the counts of a run over all its sets.
type totals struct {
	destination.Counts
	failed, bytes int64
	failures      []destination.Failure
	origins       map[string]int64
	partial       []error
	withheld      []withheld
}

// withheld are the deletions of a set that wait for consent.
type withheld struct {
	set, hash string
	n         int64
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
	if p.Withheld {
		t.withheld = append(t.withheld, withheld{p.Set, p.Hash, p.Deleted})
	}
}

func (t *totals) addReport(r *destination.SetReport) {
	t.addCounts(r.Counts, r.Origins, r.Partial)
	t.bytes += r.Bytes
	t.failed += r.Failed
	t.failures = append(t.failures, r.Failures...)
	if r.Withheld > 0 {
		t.withheld = append(t.withheld, withheld{r.Set, r.Hash, r.Withheld})
	}
}

// exitCode is the code of a run that came to its end.
func (t *totals) exitCode() int {
	switch {
	case len(t.withheld) > 0:
		return exitGuard
	case len(t.partial) > 0:
		return exitFailed // a document that cannot be used
	case t.failed > 0 || t.Skipped[destination.SkipOrigin]+t.Skipped[destination.SkipUnsupported]+t.Skipped[destination.SkipWeak] > 0:
		return exitPartial
	}
	return exitOK
}

func (t *totals) summary(status string, net *traffic, took time.Duration, code int) summary {
	s := summary{
		Status: status, Same: num(t.Same), Created: num(t.Created), Updated: num(t.Updated), Deleted: num(t.Deleted),
		Failed: num(t.failed), Bytes: num(t.bytes), Requests: num(net.requests.Load()), Seconds: seconds(took), ExitCode: code,
	}
	for skip, n := range t.Skipped {
		if s.Skipped == nil {
			s.Skipped = map[string]int64{}
		}
		s.Skipped[string(skip)] = n
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
