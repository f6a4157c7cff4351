package main

import (
	"fmt"
	"strings"
	"time"

	"instep/internal/runs"
	"instep/transfer"
)

type totals struct{ runs.Totals }

func withheldMessage(w *runs.Withheld, limit string) string {
	if w.Guard.Doubted > 0 {
		named := fmt.Sprintf("%d of them", w.Guard.Doubted)
		if w.N == 1 {
			named = "the resource"
		}
		return fmt.Sprintf("%s withheld: an earlier list of the same moment named %s", counted(w.N, "deletion"), named)
	}
	if limit != "" {
		return fmt.Sprintf("%s withheld: --max-delete %s allows the deletion of %d of %d resources, and the run has already deleted %d", counted(w.N, "deletion"), limit, w.Guard.Allowed, w.Guard.Members, w.Guard.Before)
	}
	return fmt.Sprintf("%s withheld: without your consent %d of %d resources may be deleted in 24 hours, and %d already were",
		counted(w.N, "deletion"), w.Guard.Allowed, w.Guard.Members, w.Guard.Before)
}

func withheldHint(w *runs.Withheld, approve string, listed bool) string {
	hint := fmt.Sprintf("to approve them: %s, then sync again", approve)
	if !listed {
		hint = "sync -n lists the deletions; " + hint
	}
	if w.Guard.Doubted > 0 {
		hint += "; --max-delete does not release these deletions, but a newer list may"
	}
	return hint
}

func (t *totals) ways() string {
	var parts []string
	for via, n := range sortedByName(t.Via) {
		parts = append(parts, fmt.Sprintf("%s=%d", via, n))
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

func (t *totals) resourceCounts() string {
	s := fmt.Sprintf("same=%d, created=%d, updated=%d, deleted=%d, failed=%d", t.Same, t.Created, t.Updated, t.Deleted, t.Failed)
	if t.Unverified > 0 {
		s += fmt.Sprintf(", unverified=%d", t.Unverified)
	}
	return s
}

// lastLine returns the last line of the output of a run. If the run ended early, the line also
// counts bytes that were received but not stored.
func (t *totals) lastLine(status string, net *traffic, took time.Duration) string {
	bytes := t.Bytes
	if status == "interrupted" || status == "failed" {
		bytes = max(bytes, net.bytes.Load())
	}
	return fmt.Sprintf("Status: %s (%s)   %s, %s in %s", words[status], t.resourceCounts(),
		took.Round(10*time.Millisecond), humanSize(bytes), counted(net.requests.Load(), "request"))
}

func (t *totals) summary(status string, net *traffic, took time.Duration, code int) summary {
	s := summary{
		Status: status, Same: num(t.Same), Created: num(t.Created), Updated: num(t.Updated), Deleted: num(t.Deleted),
		Failed: num(t.Failed), Bytes: num(t.Bytes), Requests: num(net.requests.Load()), Seconds: seconds(took), ExitCode: code,
	}
	s.Adopted, s.Gaps = positive(t.Taken), positive(int64(len(t.Gaps)))
	s.Skipped, s.Via = stringKeys(t.Skipped), stringKeys(t.Via)
	if p := t.Patches; p != (transfer.PatchCounts{}) {
		s.Patches = &patchCounts{Used: num(p.Used), Saved: num(p.Saved), Failed: num(p.Failed), Wasted: num(p.Wasted)}
	}
	if status == "plan" {
		s.Planned = num(t.Planned)
	} else {
		s.Unverified = num(t.Unverified)
	}
	withheld := int64(0)
	for _, w := range t.Withheld {
		withheld += w.N
		s.Plan = w.Hash
	}
	s.Withheld = positive(withheld)
	return s
}

func stringKeys[K ~string](counts map[K]int64) map[string]int64 {
	out := map[string]int64{}
	for k, n := range counts {
		out[string(k)] = n
	}
	return out
}
