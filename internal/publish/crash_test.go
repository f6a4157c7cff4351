package publish

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"instep/blob/blobtest"
	"instep/resourcesync"
)

// broken runs with a disk that fails by plan, in the output or in the staging area.
func (w *world) broken(plan blobtest.Plan, staging bool) error {
	w.t.Helper()
	w.now = w.now.Add(10 * time.Second)
	s, err := w.o.settle()
	if err != nil {
		w.t.Fatal(err)
	}
	p, err := openPlaces(w.t.Context(), s)
	if err != nil {
		w.t.Fatal(err)
	}
	if staging {
		p.staging = blobtest.Faulty(p.staging, plan)
	} else {
		p.bucket = blobtest.Faulty(p.bucket, plan)
	}
	r := run{settled: s, places: p}
	return errors.Join(r.do(w.t.Context()), p.close())
}

// TestCat_PUB_02: whatever write fails, and however much of it took effect, a
// reader gets the old state or the new one, and the next run publishes all.
func TestCat_PUB_02(t *testing.T) {
	for _, staging := range []bool{false, true} {
		for _, op := range []blobtest.Op{blobtest.OpBegin, blobtest.OpCreate, blobtest.OpWrite, blobtest.OpClose} {
			if !failOnce(t, staging, op, 1, 0) {
				t.Errorf("staging %t: there was no %s", staging, op)
			}
		}
		for _, steps := range []int{0, 1, blobtest.All} {
			for n := 1; failOnce(t, staging, blobtest.OpCommit, n, steps); n++ {
			}
		}
	}
}

// failOnce lets the nth call of op fail; false if there are not so many.
func failOnce(t *testing.T, staging bool, op blobtest.Op, n, steps int) bool {
	w := newWorld(t)
	w.o.MaxEntries, w.o.ChangeListMax = 4, 2
	w.fill(6)
	w.run()
	before := w.truth()
	w.write("room 0/item.txt", "changed")
	w.write("room 1/item.txt", "changed too")
	w.remove("room 2/item.txt")
	err := w.broken(blobtest.At(op, n, blobtest.Fault{Steps: steps}), staging)
	where := fmt.Sprintf("staging %t, %s %d after %d", staging, op, n, steps)
	if err == nil {
		return false
	}
	if !errors.Is(err, blobtest.ErrInjected) {
		t.Fatalf("%s: got %v", where, err)
	}
	if got := w.replay(); !maps.Equal(got, before) && !maps.Equal(got, w.truth()) {
		t.Errorf("%s: a reader gets neither old nor new:\n%s", where, cmp.Diff(w.truth(), got))
	}
	w.run()
	if diff := cmp.Diff(w.truth(), w.replay()); diff != "" {
		t.Errorf("%s, next run (-directory +documents):\n%s", where, diff)
	}
	if left := files(t, filepath.Join(w.o.State, stagingName)); len(left) != 0 {
		t.Errorf("%s, next run: staging holds %q", where, left)
	}
	if _, err := os.Stat(filepath.Join(w.o.Out, tempKey)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s, next run: temporary files are left", where)
	}
	if rep := w.run(); rep.Published {
		t.Errorf("%s: there was still something to publish: %+v", where, rep)
	}
	return true
}

// TestAnyHistoryCanBeReplayed: whatever is done to a directory between
// publications, and whatever the clock does, a reader of the documents gets the
// directory.
func TestAnyHistoryCanBeReplayed(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t)
		w.o.MaxDelete = "100%"
		w.o.MaxEntries = rapid.IntRange(1, 8).Draw(rt, "max entries")
		w.o.ChangeListMax = rapid.IntRange(1, 6).Draw(rt, "change list max")
		names := rapid.SampledFrom([]string{"a", "b.txt", "d/e", "d/f g", "d/ü", "h/%41", "h/i/j&k"})
		for range rapid.IntRange(2, 4).Draw(rt, "publications") {
			for range rapid.IntRange(0, 4).Draw(rt, "changes") {
				w.alter(names.Draw(rt, "name"), rapid.IntRange(0, 3).Draw(rt, "content"))
			}
			w.o.Rebase = rapid.Bool().Draw(rt, "rebase")
			w.now = w.now.Add(time.Duration(rapid.IntRange(-3600, 3600).Draw(rt, "clock")) * time.Second)
			w.run()
			if diff := cmp.Diff(w.truth(), w.replay()); diff != "" {
				rt.Fatalf("(-directory +documents):\n%s", diff)
			}
		}
	})
}

// alter writes a file, or removes it when the content is 0.
func (w *world) alter(name string, content int) {
	w.t.Helper()
	if content > 0 {
		w.write(name, fmt.Sprint("content ", content))
		return
	}
	err := os.Remove(filepath.Join(w.o.Dir, filepath.FromSlash(name)))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.t.Fatal(err)
	}
}

// TestMoreChangesThanAListTakes: the list before them is closed, the next begins
// after them, and the Resource List has them all. With INSTEP_LONG the limit is
// that of the standard.
func TestMoreChangesThanAListTakes(t *testing.T) {
	hard := 5
	if os.Getenv("INSTEP_LONG") != "" {
		hard = resourcesync.MaxEntries
	}
	w := newWorld(t)
	w.fill(3)
	w.run()
	first := w.linked("changelist")
	for i := range hard + 1 {
		w.write(fmt.Sprintf("many/%d/%d", i/1000, i), "x")
	}
	rep := w.runWithLimit(hard)
	if rep.Created != int64(hard+1) || !rep.Rebased {
		t.Errorf("got %+v", rep)
	}
	w.check()
	list, changes := w.linked("resourcelist"), w.linked("changelist")
	if changes.MD.From != list.MD.At || len(changes.Entries) != 0 {
		t.Errorf("at %s, from %s, %d changes: want one moment and no change", list.MD.At, changes.MD.From, len(changes.Entries))
	}
	closed := w.document(base + "resourcesync/changes/4.xml")
	if closed.MD.From != first.MD.From || closed.MD.Until == "" || !moment(t, closed.MD.Until).Before(moment(t, changes.MD.From)) {
		t.Errorf("closed list from %s until %s, next from %s: want a gap that shows", closed.MD.From, closed.MD.Until, changes.MD.From)
	}
	w.write("many/0/0", "changed")
	w.runWithLimit(hard)
	w.check()
	if n := len(w.linked("changelist").Entries); n != 1 {
		t.Errorf("the next change: got %d entries, want 1", n)
	}
}

// TestMoreUnpublishedChangesThanAListTakes: a run has recorded them and was then
// interrupted.
func TestMoreUnpublishedChangesThanAListTakes(t *testing.T) {
	w := newWorld(t)
	w.fill(3)
	w.run()
	w.write("one more", "x")
	w.run()
	for i := range 9 {
		w.write(fmt.Sprint("many/", i), "x")
	}
	if err := w.broken(blobtest.At(blobtest.OpBegin, 1, blobtest.Fault{}), true); !errors.Is(err, blobtest.ErrInjected) {
		t.Fatalf("got %v, want the injected fault", err)
	}
	w.write("many/0", "changed")
	w.runWithLimit(5)
	w.check()
	closed, changes := w.document(base+"resourcesync/changes/4.xml"), w.linked("changelist")
	if len(closed.Entries) != 1 || !moment(t, closed.MD.Until).Before(moment(t, changes.MD.From)) {
		t.Errorf("closed list: %d entries until %s, next from %s: want 1 and a gap that shows", len(closed.Entries), closed.MD.Until, changes.MD.From)
	}
}

// runWithLimit publishes as if a Change List took fewer changes than the standard says.
func (w *world) runWithLimit(hard int) Report {
	w.t.Helper()
	w.now = w.now.Add(10 * time.Second)
	s, err := w.o.settle()
	if err != nil {
		w.t.Fatal(err)
	}
	s.hard = int64(hard)
	rep, err := s.run(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return rep
}

func TestDirectoryThatNeverRestsIsAnError(t *testing.T) {
	w := newWorld(t)
	w.fill(1)
	w.run()
	round := 0
	w.o.Observe = func(Event) {
		for i := range 3 {
			w.write(fmt.Sprintf("round %d/%d", round, i), "x")
		}
		round++
	}
	for i := range 3 {
		w.write(fmt.Sprint("start/", i), "x")
	}
	s, err := w.o.settle()
	if err != nil {
		t.Fatal(err)
	}
	s.hard = 2
	if _, err := s.run(t.Context()); err == nil || !strings.Contains(err.Error(), "changes faster") {
		t.Errorf("got %v, want an error that says so", err)
	}
	w.o.Observe = nil
	w.run()
	w.check()
}
