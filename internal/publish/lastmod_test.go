package publish

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"instep/internal/catalog"
	"instep/resourcesync"
)

// touch gives a file a time of modification.
func (w *world) touch(name string, at time.Time) {
	w.t.Helper()
	if err := os.Chtimes(filepath.Join(w.o.Dir, filepath.FromSlash(name)), at, at); err != nil {
		w.t.Fatal(err)
	}
}

var fraction = regexp.MustCompile(`\.\d+Z`)

// The time of a file is told in whole seconds, as Last-Modified tells it, which is what resync
// compares it with, within a second (resync/resource.py:457); the datetime
// of a change keeps its fraction, also where it stands in lastmod (1.0 §12.1).
func TestFileTimesAreInWholeSeconds(t *testing.T) {
	for _, profile10 := range []bool{false, true} {
		w := newWorld(t)
		w.set.Policy.Profile10 = profile10
		w.now = w.now.Truncate(time.Second).Add(123456 * time.Microsecond)
		modified := time.Date(2025, 3, 4, 5, 6, 7, 987654321, time.UTC)
		w.fill(2)
		w.touch("room 0/item.txt", modified)
		w.run()
		w.write("room 1/item.txt", "changed")
		w.touch("room 1/item.txt", modified)
		w.run()
		if got := w.linked("resourcelist").Entries; len(got) != 2 || got[0].LastMod != "2025-03-04T05:06:07Z" || got[1].LastMod != got[0].LastMod {
			t.Errorf("Resource List: got %+v, want lastmod in whole seconds, not later than the file", got)
		}
		changes := w.linked("changelist").Entries
		if len(changes) != 1 {
			t.Fatalf("changes: got %+v, want 1", changes)
		}
		switch got := changes[0]; {
		case profile10 && !fraction.MatchString(got.LastMod):
			t.Errorf("profile 1.0: lastmod %q lost the fraction of the datetime that it stands for", got.LastMod)
		case !profile10 && (got.LastMod != "2025-03-04T05:06:07Z" || !fraction.MatchString(got.MD.Datetime)):
			t.Errorf("got lastmod %q and datetime %q, want whole seconds and a fraction", got.LastMod, got.MD.Datetime)
		}
	}
}

// What was published with fractions, by earlier versions, is no change now.
func TestFractionsOfFormerListsAreNoChange(t *testing.T) {
	w := newWorld(t)
	w.fill(3)
	w.run()
	w.recordFractions()
	w.run() // lists what was recorded
	before := w.linked("changelist").Entries
	if len(before) != 3 || !fraction.MatchString(before[0].LastMod) {
		t.Fatalf("changes: got %+v, want 3 with fractions", before)
	}
	for name := range w.truth() {
		path := strings.TrimPrefix(strings.ReplaceAll(name, "%20", " "), base)
		w.touch(path, time.Now()) // read again, and found to be what it was
	}
	for range 2 {
		if rep := w.run(); rep.Published || rep.Updated != 0 || rep.Unchanged != 3 {
			t.Errorf("got %+v, want nothing to publish", rep.SetReport)
		}
	}
	w.write("room 1/item.txt", "changed")
	w.run()
	if got := w.linked("changelist").Entries; len(got) != 4 || fraction.MatchString(got[3].LastMod) {
		t.Errorf("changes: got %+v, want one more, in whole seconds", got)
	}
	w.check()

	w.lose()
	w.o.Adopt = true
	if rep := w.run(); rep.Created+rep.Updated+rep.Deleted > 0 || rep.Unchanged != 3 {
		t.Errorf("adopted: got %+v, want all as it was", rep.SetReport)
	}
	if got := w.linked("changelist").Entries; len(got) != 4 {
		t.Errorf("adopted: got %d changes, want the 4 that were", len(got))
	}
	w.check()
}

// recordFractions makes all members what a version that told times of files to the
// microsecond has recorded.
func (w *world) recordFractions() {
	w.t.Helper()
	s, err := Open(w.t.Context(), w.site())
	if err != nil {
		w.t.Fatal(err)
	}
	var changes []catalog.Change
	for m, err := range s.facts.Members(w.t.Context(), s.sets[0].id) {
		if err != nil {
			w.t.Fatal(err)
		}
		m.LastMod = resourcesync.DatetimeOf(m.LastMod.Time().Add(987654 * time.Microsecond))
		changes = append(changes, catalog.Change{Change: resourcesync.Updated, Resource: m})
	}
	if err := s.Record(w.t.Context(), "", changes); err != nil {
		w.t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		w.t.Fatal(err)
	}
}
