package mirror

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"instep/destination"
	"instep/harvest"
)

// moved completes a run on a set.
func moved(t *testing.T, m *Mirror, set string) {
	t.Helper()
	move := &destination.CursorMove{Set: set, Cursor: destination.Cursor{Position: harvest.Position{At: noon}}}
	if err := tryCommit(m, move, func(destination.Batch) error { return nil }); err != nil {
		t.Fatal(err)
	}
}

// logged is the log of some sets after a change, one change a line.
func logged(t *testing.T, m *Mirror, after int64, sets ...string) (lines []string) {
	t.Helper()
	end, _, err := m.LogEnd(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	err = m.EachLogged(t.Context(), after, end, sets, func(_ int64, _ time.Time, held []destination.Held) error {
		line := strings.TrimPrefix(held[0].URI, home) + " at " + held[0].Path
		for i := range held {
			if h := &held[i]; h.Member {
				line += fmt.Sprintf(" %d:%d", i, h.Length.Int64())
				if h.Due != "" {
					line += " due"
				}
			}
		}
		lines = append(lines, line)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

func wantLog(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got the log\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func register(t *testing.T, dir, name string, read int64, now time.Time) {
	t.Helper()
	if err := Register(t.Context(), dir, name, read, now); err != nil {
		t.Fatal(err)
	}
}

// TestTheLogHasEachStateOnceSomebodyReadsIt: of commits, of a restored state, and of a file
// that is not as it was stored.
func TestTheLogHasEachStateOnceSomebodyReadsIt(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "mirror")
	m := openMirror(t, options(dir))
	commit(t, m, func(b destination.Batch) error { return putAll(b, map[string]string{"a": "1", "b": "22"}) })
	moved(t, m, set)
	from, at, err := m.LogEnd(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wantLog(t, "before", logged(t, m, 0, set))
	register(t, dir, "one", 0, noon)
	commit(t, m, func(b destination.Batch) error { return put(b, set, "a", "333", noon) })
	commit(t, m, func(b destination.Batch) error {
		return errors.Join(put(b, set, "a", "4444", noon), b.Delete(t.Context(), set, home+"/b", noon))
	})
	commit(t, m, func(b destination.Batch) error {
		return errors.Join(put(b, set2, "first", "of a baseline", noon), put(b, set2, "a", "4444", noon))
	})
	if has, err := m.LogHas(t.Context(), from, at); !has || err != nil {
		t.Errorf("the log goes on from where it began: %v, %v; want it does", has, err)
	}
	wantLog(t, "commits", logged(t, m, from, set, set2), "/a at a 0:3", "/a at a 0:4", "/b at b", "/a at a 0:4 1:4")
	wantLog(t, "of one set", logged(t, m, from, set2), "/a at a", "/a at a", "/b at b", "/a at a 0:4")

	seq, _, _ := m.LogEnd(t.Context())
	if err := m.Revert(t.Context(), m.DeletedSince(t.Context(), noon), RevertOptions{}); err != nil {
		t.Fatal(err)
	}
	wantLog(t, "restored", logged(t, m, seq, set), "/b at b 0:2")
	seq, _, _ = m.LogEnd(t.Context())
	if err := os.Remove(filepath.Join(dir, "b")); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Glance(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantLog(t, "a file is gone", logged(t, m, seq, set), "/b at b 0:2 due")
}

// TestTheLogIsKeptForItsReaders: what none needs is removed, and one
// that does not come any more is forgotten.
func TestTheLogIsKeptForItsReaders(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "mirror")
	o := options(dir)
	now := noon
	o.Now = func() time.Time { return now }
	m := openMirror(t, o)
	commit(t, m, func(b destination.Batch) error { return put(b, set, "a", "1", noon) })
	moved(t, m, set)
	n := 1
	change := func() int64 {
		t.Helper()
		n++
		commit(t, m, func(b destination.Batch) error { return put(b, set, "a", strings.Repeat("x", n), noon) })
		seq, _, err := m.LogEnd(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return seq
	}
	forget := 90 * 24 * time.Hour
	reopen := func() []string {
		t.Helper()
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		m = openMirror(t, o)
		if err := m.TrimLog(t.Context(), forget); err != nil {
			t.Fatal(err)
		}
		return logged(t, m, 0, set)
	}
	register(t, dir, "slow", 0, now)
	register(t, dir, "fast", 0, now)
	first, second := change(), change()
	register(t, dir, "fast", second, now)
	wantLog(t, "one has read nothing", reopen(), "/a at a 0:2", "/a at a 0:3")
	register(t, dir, "slow", first, now)
	third := change()
	register(t, dir, "fast", third, now)
	wantLog(t, "one has read the first", reopen(), "/a at a 0:2", "/a at a 0:3", "/a at a 0:4")
	register(t, dir, "slow", second, now)
	wantLog(t, "one has read the second", reopen(), "/a at a 0:3", "/a at a 0:4")

	now = now.Add(forget / 2)
	register(t, dir, "fast", third, now)
	now = now.Add(forget/2 + time.Hour)
	wantLog(t, "one is forgotten", reopen(), "/a at a 0:4")
	change()
	if err := os.WriteFile(filepath.Join(dir, filepath.FromSlash(publishersKey), "torn"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	wantLog(t, "one that cannot be read needs all", reopen(), "/a at a 0:4", "/a at a 0:5")
	if err := os.Remove(filepath.Join(dir, filepath.FromSlash(publishersKey), "torn")); err != nil {
		t.Fatal(err)
	}
	forget, now = time.Hour, now.Add(time.Hour+time.Second)
	wantLog(t, "the last is forgotten", reopen())
	change()
	wantLog(t, "nobody reads it", reopen())
	if _, err := os.Stat(filepath.Join(dir, filepath.FromSlash(publishersKey))); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory of the publications: %v, want none", err)
	}
}

// TestRegisteringWritesOneFile: nothing else changes, and nothing if nothing is new.
func TestRegisteringWritesOneFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "mirror")
	m := openMirror(t, options(dir))
	name := filepath.Join(dir, filepath.FromSlash(publishersKey), "one")
	for _, test := range []struct {
		read  int64
		after time.Duration
		want  string
	}{
		{0, 0, `{"read":0,"seen":"2026-05-01T12:00:00Z"}`},
		{7, time.Minute, `{"read":7,"seen":"2026-05-01T12:01:00Z"}`},
		{7, time.Hour, `{"read":7,"seen":"2026-05-01T12:01:00Z"}`},
		{7, 25 * time.Hour, `{"read":7,"seen":"2026-05-02T13:00:00Z"}`},
		{7, 0, `{"read":7,"seen":"2026-05-01T12:00:00Z"}`},
	} {
		register(t, dir, "one", test.read, noon.Add(test.after))
		if got, err := os.ReadFile(name); strings.TrimSpace(string(got)) != test.want || err != nil {
			t.Errorf("read %d after %v: got %s, %v; want %s", test.read, test.after, got, err, test.want)
		}
	}
	for _, wrong := range []string{"", "..", "a/b", "../marker"} {
		if err := Register(context.Background(), dir, wrong, 0, noon); err == nil {
			t.Errorf("it registered %q", wrong)
		}
	}
	entries, err := os.ReadDir(filepath.Join(dir, ours))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() == "registering" {
			t.Error("a directory for temporary files is left")
		}
	}
	commit(t, m, func(b destination.Batch) error { return put(b, set, "a", "1", noon) }) // its own are there
}

// TestTheLogHasWhatLeavesASetForAnIncompleteOne: a resource that a complete set gives up
// while a set in its first baseline holds it is gone for the complete set.
func TestTheLogHasWhatLeavesASetForAnIncompleteOne(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "mirror")
	m := openMirror(t, options(dir))
	commit(t, m, func(b destination.Batch) error { return putAll(b, map[string]string{"a": "1", "b": "22"}) })
	moved(t, m, set)
	register(t, dir, "one", 0, noon)
	from, _, err := m.LogEnd(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	commit(t, m, func(b destination.Batch) error { return put(b, set2, "a", "1", noon) })
	commit(t, m, func(b destination.Batch) error { return b.Delete(t.Context(), set, home+"/a", noon) })
	wantLog(t, "given up", logged(t, m, from, set), "/a at a 0:1", "/a at a")
}
