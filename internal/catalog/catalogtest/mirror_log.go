package catalogtest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"instep/internal/catalog"
	"instep/resourcesync"
)

// logOf marks the beginning of each commit with a | in the text.
func logOf(t *testing.T, s Stores, after catalog.LogPosition) string {
	t.Helper()
	end, err := s.Mirror.LogEnd(t.Context())
	must(t, err)
	var b strings.Builder
	var at time.Time
	for _, l := range collect(t, s.Mirror.Log(t.Context(), after.Seq, end.Seq)) {
		if !l.Datetime.Equal(at) {
			if l.Datetime.Before(at) {
				t.Errorf("an entry with the moment %v follows one with %v, which is later", l.Datetime, at)
			}
			at = l.Datetime
			b.WriteString("|")
		}
		fmt.Fprintf(&b, " %s %s", strings.TrimPrefix(l.URI, host), l.Path)
		if l.Change.Change == resourcesync.Updated {
			fmt.Fprintf(&b, " of %d", l.Set)
			if l.Length.Known() {
				fmt.Fprintf(&b, " %d bytes", l.Length.Int64())
			}
			if l.Due != "" {
				b.WriteString(" due")
			}
		}
	}
	return b.String()
}

func logged(t *testing.T, s Stores, _ *clock) {
	one, two := set(t, s.Facts, "one"), set(t, s.Facts, "two")
	b := s.batch(one, Start, nil).put("a", "1", "", "").put("b", "22", "", "")
	b.o.Cursor = &catalog.Cursor{Set: one, Body: "complete"}
	b.commit(t)
	s.Mirror.LogIf(answer(true))
	from, err := s.Mirror.LogEnd(t.Context())
	must(t, err)
	s.batch(one, Start, nil).put("a", "333", "a", "kept/a").put("d/new", "4444", "", "").commit(t)
	s.batch(two, Start, nil).put("first", "of a baseline", "", "").mark("b", "").commit(t)
	s.batch(one, Start, nil).remove("b", "").commit(t)
	s.batch(two, Start, nil).remove("b", "kept/b").commit(t)
	s.batch(one, Start, nil).mark("a", "changed").reserve("later", "new").commit(t)
	must(t, s.Mirror.Settle(t.Context(), catalog.Outcome{Cursor: &catalog.Cursor{Set: one, Body: "moved"}}, nil))
	want(t, "log", logOf(t, s, from), "| a a of 1 3 bytes d/new d/new of 1 4 bytes| b b of 1 2 bytes b b of 2 2 bytes"+
		"| b b of 2 2 bytes| b b| a a of 1 3 bytes due later later of 1 due")
	has, err := s.Mirror.LogHas(t.Context(), from)
	if must(t, err); !has {
		t.Error("LogHas reports that the log lacks changes since its beginning")
	}
	l := collect(t, s.Mirror.Log(t.Context(), from.Seq, from.Seq+1))[0]
	if !l.Changed.Equal(Start) || l.Digests[0] != digest("333") || l.Type != "text/plain" {
		t.Errorf("got %+v", l)
	}
}

func followed(t *testing.T, s Stores, _ *clock) {
	id := set(t, s.Facts, "")
	b := s.batch(id, Start, nil).put("a", "0", "", "")
	b.o.Cursor = &catalog.Cursor{Set: id, Body: "complete"}
	b.commit(t)
	change := func() catalog.LogPosition {
		t.Helper()
		s.batch(id, Start, nil).mark("a", "").commit(t)
		end, err := s.Mirror.LogEnd(t.Context())
		must(t, err)
		return end
	}
	has := func(what string, p catalog.LogPosition, expected bool) {
		t.Helper()
		got, err := s.Mirror.LogHas(t.Context(), p)
		must(t, err)
		want(t, what, got, expected)
	}
	before := change()
	has("the log has all changes after the last commit, although nobody reads it", before, true)
	before = change()
	want(t, "log", logOf(t, s, before), "")
	s.Mirror.LogIf(answer(true))
	first := change()
	has("the log has all changes since its beginning", before, true)
	has("the log has all changes since a commit before its beginning", catalog.LogPosition{At: before.At.Add(-1)}, false)
	has("the log has all changes after the first", first, true)
	has("the log has all changes after a change of another catalog", catalog.LogPosition{Seq: first.Seq, At: before.At}, false)
	second := change()
	s = s.Reopen()
	s.Mirror.LogIf(answer(true))
	third := change()
	must(t, s.Mirror.TrimLog(t.Context(), second.Seq))
	has("the log has all changes since its beginning, which was deleted", before, false)
	has("the log has all changes after a change that was deleted", first, false)
	has("the log has all changes after its oldest entry", second, true)
	want(t, "log", logOf(t, s, second), "| a a of 1 1 bytes")
	must(t, s.Mirror.TrimLog(t.Context(), 1000))
	has("the log has all changes after its last entry, which was deleted", third, false)
	fourth := change()
	has("the log, whose entries were deleted, has all changes after the next commit", fourth, true)
	s.Mirror.LogIf(answer(false))
	fifth := change()
	has("the log has all changes after a position, although it lacks the last commit", fourth, false)
	has("the log has all changes after the last commit, although it lacks that commit", fifth, true)
	s.Mirror.LogIf(answer(true))
	change()
	has("the log has all changes since a commit before the gap", fourth, false)
	has("the log has all changes since the gap", fifth, true)
	sixth := change()
	must(t, s.Mirror.CutLog(t.Context()))
	has("the log, which was cut, has all changes after its former end", sixth, false)
	change()
	has("the log, which was cut and began again, has all changes after a position before the cut", fifth, false)
	failed := errors.New("who knows")
	s.Mirror.LogIf(func() (bool, error) { return false, failed })
	if err := s.batch(id, Start, nil).mark("a", "").s.Mirror.Settle(t.Context(), catalog.Outcome{At: Start, Members: []catalog.Membership{{Set: id, URI: host + "a"}}}, nil); !errors.Is(err, failed) {
		t.Errorf("Settle = %v, want the error of the function for LogIf", err)
	}
}
