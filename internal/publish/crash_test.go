package publish

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"instep/blob/blobtest"
)

// broken runs with a disk that fails by plan, in the output or in the staging area.
func (w *world) broken(plan blobtest.Plan, staging bool) error {
	w.t.Helper()
	w.now = w.now.Add(10 * time.Second)
	o, err := w.site().settle()
	if err != nil {
		w.t.Fatal(err)
	}
	p, err := openPlaces(w.t.Context(), o)
	if err != nil {
		w.t.Fatal(err)
	}
	if staging {
		p.staging = blobtest.Faulty(p.staging, plan)
	} else {
		p.bucket = blobtest.Faulty(p.bucket, plan)
	}
	s, err := openSession(w.t.Context(), o, p)
	if err != nil {
		return err
	}
	_, err = s.Publish(w.t.Context(), w.what)
	return errors.Join(err, s.Close())
}

// interrupt records what changed and fails before it publishes it.
func (w *world) interrupt() {
	w.t.Helper()
	if err := w.broken(blobtest.At(blobtest.OpBegin, 1, blobtest.Fault{}), true); !errors.Is(err, blobtest.ErrInjected) {
		w.t.Fatalf("got %v, want the injected fault", err)
	}
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

// between reports whether each resource is in its old or in its new state: a Change
// List that was divided may be there as far as its first part.
func between(before, got, after map[string]string) bool {
	all := maps.Clone(before)
	maps.Copy(all, after)
	maps.Copy(all, got)
	for uri := range all {
		if got[uri] != before[uri] && got[uri] != after[uri] {
			return false
		}
	}
	return true
}

// failOnce lets the nth call of op fail; false if there are not so many.
func failOnce(t *testing.T, staging bool, op blobtest.Op, n, steps int) bool {
	w := newWorld(t)
	w.set.MaxEntries, w.set.ChangeListMax = 4, 2
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
	if got := w.replay(); !between(before, got, w.truth()) {
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
		w.set.MaxDelete = "100%"
		w.set.MaxEntries = rapid.IntRange(1, 8).Draw(rt, "max entries")
		w.set.ChangeListMax = rapid.IntRange(1, 6).Draw(rt, "change list max")
		names := rapid.SampledFrom([]string{"a", "b.txt", "d/e", "d/f g", "d/ü", "h/%41", "h/i/j&k"})
		for range rapid.IntRange(2, 4).Draw(rt, "publications") {
			for range rapid.IntRange(0, 4).Draw(rt, "changes") {
				w.alter(names.Draw(rt, "name"), rapid.IntRange(0, 3).Draw(rt, "content"))
			}
			w.what.Rebase = rapid.Bool().Draw(rt, "rebase")
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
