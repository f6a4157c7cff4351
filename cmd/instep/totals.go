package main

import (
	"fmt"
	"strings"
	"time"

	"instep/internal/runs"
	"instep/transfer"
)

// totals are the counts of a run, for display.
type totals struct{ runs.Totals }

// withheldMessage returns how many deletions are withheld, and how many are permitted.
func withheldMessage(w *runs.Withheld, limit string) string {
	if w.Guard.Doubted > 0 {
		return fmt.Sprintf("%s withheld: %d of them come from a list that named more resources when it was read before, at the same moment", counted(w.N, "deletion"), w.Guard.Doubted)
	}
	if limit != "" {
		return fmt.Sprintf("%s withheld: the run has deleted %d before, and --max-delete %s allows %d of %d", counted(w.N, "deletion"), w.Guard.Before, limit, w.Guard.Allowed, w.Guard.Members)
	}
	return fmt.Sprintf("%s withheld: without your consent %d of %d resources may be deleted in 24 hours, and %d were",
		counted(w.N, "deletion"), w.Guard.Allowed, w.Guard.Members, w.Guard.Before)
}

// withheldHint returns how to approve withheld deletions.
func withheldHint(w *runs.Withheld, approve string) string {
	hint := "look at the deletions with sync -n; to approve them: " + approve + ", then sync again"
	if w.Guard.Doubted > 0 {
		hint += "; --max-delete does not release them, and a newer list settles it"
	}
	return hint
}

// ways lists the ways by which resources are transferred.
func (t *totals) ways() string {
	var parts []string
	for via, n := range sorted(t.Via) {
		parts = append(parts, fmt.Sprintf("%s=%d", via, n))
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// done returns the counts of a run for people.
func (t *totals) done() string {
	s := fmt.Sprintf("same=%d, created=%d, updated=%d, deleted=%d, failed=%d", t.Same, t.Created, t.Updated, t.Deleted, t.Failed)
	if t.Unverified > 0 {
		s += fmt.Sprintf(", unverified=%d", t.Unverified)
	}
	return s
}

// line returns the last line of a run for people. If the run ended early the line
// counts all received bytes, stored or not.
func (t *totals) line(status string, net *traffic, took time.Duration) string {
	bytes := t.Bytes
	if status == "interrupted" || status == "failed" {
		bytes = max(bytes, net.bytes.Load())
	}
	return fmt.Sprintf("Status: %s (%s)   %s, %s in %s", words[status], t.done(),
		took.Round(10*time.Millisecond), humanSize(bytes), counted(net.requests.Load(), "request"))
}

func (t *totals) summary(status string, net *traffic, took time.Duration, code int) summary {
	s := summary{
		Status: status, Same: num(t.Same), Created: num(t.Created), Updated: num(t.Updated), Deleted: num(t.Deleted),
		Failed: num(t.Failed), Bytes: num(t.Bytes), Requests: num(net.requests.Load()), Seconds: seconds(took), ExitCode: code,
	}
	if t.Taken > 0 {
		s.Adopted = num(t.Taken)
	}
	if len(t.Gaps) > 0 {
		s.Gaps = num(int64(len(t.Gaps)))
	}
	s.Skipped, s.Via = named(t.Skipped), named(t.Via)
	if p := t.Patches; p != (transfer.PatchCounts{}) {
		s.Patches = &patchCounts{Used: num(p.Used), Saved: num(p.Saved), Failed: num(p.Failed), Wasted: num(p.Wasted)}
	}
	if status == "plan" {
		s.Planned = num(t.Planned)
	} else {
		s.Unverified = num(t.Unverified)
	}
	for _, w := range t.Withheld {
		if s.Withheld == nil {
			s.Withheld = num(0)
		}
		*s.Withheld += w.N
		s.Plan = w.Hash
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
