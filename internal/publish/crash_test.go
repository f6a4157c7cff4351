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
	"instep/source"
)

// place is a bucket that a run writes to.
type place string

const (
	output  place = "output"
	staging place = "staging"
	content place = "content"
)

// broken runs with a disk that fails by plan at one place.
func (w *world) broken(plan blobtest.Plan, at place) error {
	w.t.Helper()
	w.now = w.now.Add(10 * time.Second)
	s, err := w.openBroken(w.site(), plan, at)
	if err != nil {
		return err
	}
	_, err = s.Publish(w.t.Context(), w.what)
	return errors.Join(err, s.Close())
}

// openBroken opens a site on such a disk.
func (w *world) openBroken(site Site, plan blobtest.Plan, at place) (*Session, error) {
	w.t.Helper()
	o, err := site.validate()
	if err != nil {
		w.t.Fatal(err)
	}
	p, err := openPlaces(w.t.Context(), o)
	if err != nil {
		w.t.Fatal(err)
	}
	switch at {
	case output:
		p.bucket = blobtest.Faulty(p.bucket, plan)
	case staging:
		p.staging = blobtest.Faulty(p.staging, plan)
	}
	s, err := openSession(w.t.Context(), o, p)
	if err == nil && at == content {
		s.sets[0].content.Bucket = blobtest.Faulty(s.sets[0].content.Bucket, plan)
	}
	return s, err
}

// interrupt records what changed and fails before it publishes it.
func (w *world) interrupt() {
	w.t.Helper()
	if err := w.broken(blobtest.At(blobtest.OpBegin, 1, blobtest.Fault{}), staging); !errors.Is(err, blobtest.ErrInjected) {
		w.t.Fatalf("got %v, want the injected fault", err)
	}
}

// TestCat_PUB_02: whatever write fails, and however much of it took effect, a
// reader gets the old state or the new one, and the next run publishes all.
func TestCat_PUB_02(t *testing.T) {
	w := archived(t)
	restore := w.save()
	failOnce := func(at place, op blobtest.Op, n, steps int) bool {
		restore()
		return w.failOnce(at, op, n, steps)
	}
	for _, at := range []place{output, staging, content} {
		for _, op := range []blobtest.Op{blobtest.OpBegin, blobtest.OpCreate, blobtest.OpWrite, blobtest.OpClose} {
			if !failOnce(at, op, 1, 0) {
				t.Errorf("%s: there was no %s", at, op)
			}
		}
		for _, steps := range []int{0, 1, blobtest.All} {
			for n := 1; failOnce(at, blobtest.OpCommit, n, steps); n++ {
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

// archived is a site with everything that can be offered, a day after its first
// publications: the next one has lists to divide, to archive and to remove.
func archived(t *testing.T) *world {
	w := dumped(t)
	w.set.MaxEntries, w.set.ChangeListMax = 4, 2
	w.set.Policy.Archive = &source.Archive{Count: 1}
	w.set.Policy.KeepChanges = time.Hour
	w.set.Policy.FixedChanges = true
	w.fill(6)
	w.run()
	for i := range 3 {
		w.write("room 3/item.txt", fmt.Sprint("state ", i))
		w.write("room 4/item.txt", fmt.Sprint("state ", i))
		w.run()
		w.now = w.now.Add(13 * time.Hour)
	}
	return w
}

// save remembers all files of the world and the time. What it returns brings them back.
func (w *world) save() (restore func()) {
	w.t.Helper()
	dir, saved, now := filepath.Dir(w.o.Dir), w.t.TempDir(), w.now
	copyAll := func(to, from string) {
		w.t.Helper()
		if err := os.CopyFS(to, os.DirFS(from)); err != nil {
			w.t.Fatal(err)
		}
	}
	copyAll(saved, dir)
	return func() {
		w.t.Helper()
		w.now = now
		for _, name := range []string{w.o.Dir, w.o.Out, w.o.State} {
			if err := os.RemoveAll(name); err != nil {
				w.t.Fatal(err)
			}
		}
		copyAll(dir, saved)
	}
}

// failOnce lets the nth call of op fail; false if there are not so many.
func (w *world) failOnce(at place, op blobtest.Op, n, steps int) bool {
	t := w.t
	t.Helper()
	before := w.truth()
	w.write("room 0/item.txt", "changed")
	w.write("room 1/item.txt", "changed too")
	w.remove("room 2/item.txt")
	fails, failed := blobtest.At(op, n, blobtest.Fault{Steps: steps}), false
	err := w.broken(func(c blobtest.Call) *blobtest.Fault {
		fault := fails(c)
		failed = failed || fault != nil
		return fault
	}, at)
	where := fmt.Sprintf("%s, %s %d after %d", at, op, n, steps)
	if !failed {
		return false
	}
	// A file that could not be kept is one that could not be read: a dump needs it, so
	// that the run looks at it once more.
	if err != nil && !errors.Is(err, blobtest.ErrInjected) || err == nil && at != content {
		t.Fatalf("%s: got %v", where, err)
	}
	for _, got := range []map[string]string{w.replay(), w.replayDumps(), w.replayFixed()} {
		if !between(before, got, w.truth()) {
			t.Errorf("%s: a reader gets neither old nor new:\n%s", where, cmp.Diff(w.truth(), got))
		}
	}
	w.walk(base + "resourcesync/description.xml")
	w.run()
	for _, got := range []map[string]string{w.replay(), w.replayDumps(), w.replayFixed()} {
		if diff := cmp.Diff(w.truth(), got); diff != "" {
			t.Errorf("%s, next run (-directory +documents):\n%s", where, diff)
		}
	}
	for _, dir := range []string{stagingName, contentName} {
		if left := files(t, filepath.Join(w.o.State, dir)); len(left) != 0 {
			t.Errorf("%s, next run: %s holds %q", where, dir, left)
		}
	}
	if _, err := os.Stat(filepath.Join(w.o.Out, tempKey)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s, next run: temporary files are left", where)
	}
	w.walk(base + "resourcesync/description.xml")
	w.onlyWhatIsKnown(where)
	if rep := w.run(); rep.Published {
		t.Errorf("%s: there was still something to publish: %+v", where, rep)
	}
	return true
}

// onlyWhatIsKnown reports files in the output that the state does not know.
func (w *world) onlyWhatIsKnown(where string) {
	w.t.Helper()
	s, err := Open(w.t.Context(), w.site())
	if err != nil {
		w.t.Fatal(err)
	}
	for _, key := range files(w.t, w.o.Out) {
		if _, ours, err := s.pubs.Document(w.t.Context(), key); err != nil || !ours {
			w.t.Errorf("%s: %q was left behind, %v", where, key, err)
		}
	}
	if err := s.Close(); err != nil {
		w.t.Fatal(err)
	}
}

// TestAnyHistoryCanBeReplayed: whatever is done to a directory between
// publications, whatever the clock does, whatever is offered and whenever a run dies,
// a reader of the lists gets the directory, and so does one of the dumps.
func TestAnyHistoryCanBeReplayed(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t)
		w.set.MaxDelete = "100%"
		w.set.MaxEntries = rapid.IntRange(1, 8).Draw(rt, "max entries")
		w.set.ChangeListMax = rapid.IntRange(1, 6).Draw(rt, "change list max")
		w.set.Policy.FixedChanges = rapid.Bool().Draw(rt, "fixed changes")
		w.o.RebaseMin = time.Duration(rapid.IntRange(0, 60).Draw(rt, "rest")) * time.Minute
		names := rapid.SampledFrom([]string{"a", "b.txt", "d/e", "d/f g", "d/ü", "h/%41", "h/i/j&k"})
		for range rapid.IntRange(1, 3).Draw(rt, "publications") {
			w.set.Dumps = rapid.IntRange(0, 4).Draw(rt, "dumps") > 0
			w.what.Rebase = rapid.Bool().Draw(rt, "rebase")
			for range rapid.IntRange(0, 4).Draw(rt, "changes") {
				w.alter(names.Draw(rt, "name"), rapid.IntRange(0, 3).Draw(rt, "content"))
			}
			w.now = w.now.Add(time.Duration(rapid.IntRange(-3600, 3600).Draw(rt, "clock")) * time.Second)
			if n := rapid.IntRange(0, 12).Draw(rt, "dies after"); n > 0 {
				at := rapid.SampledFrom([]place{output, staging, content}).Draw(rt, "where")
				w.dies(at, n)
				w.alter(names.Draw(rt, "name"), rapid.IntRange(0, 3).Draw(rt, "content"))
			}
			w.run()
			if diff := cmp.Diff(w.truth(), w.replay()); diff != "" {
				rt.Fatalf("lists (-directory +documents):\n%s", diff)
			}
			if w.set.Policy.FixedChanges {
				if diff := cmp.Diff(w.truth(), w.replayFixed()); diff != "" {
					rt.Fatalf("Change List at a fixed name (-directory +documents):\n%s", diff)
				}
			}
			if !w.set.Dumps {
				continue
			}
			if diff := cmp.Diff(w.truth(), w.replayDumps()); diff != "" {
				rt.Fatalf("dumps (-directory +documents):\n%s", diff)
			}
		}
	})
}

// dies runs with a disk on which nothing succeeds from the nth commit on.
func (w *world) dies(at place, n int) {
	w.t.Helper()
	if at == content && !w.set.Dumps {
		at = output
	}
	err := w.broken(func(c blobtest.Call) *blobtest.Fault {
		if c.Op == blobtest.OpCommit && c.N >= n {
			return &blobtest.Fault{}
		}
		return nil
	}, at)
	if err != nil && !errors.Is(err, blobtest.ErrInjected) {
		w.t.Fatalf("got %v, want the injected fault or none", err)
	}
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

// TestUnfinishedDocumentsAreNoResources: what a set that failed has written so far, into
// the directory itself, is listed by no other set: not in that run, and not in the
// next one, which doesn't have the set any more.
func TestUnfinishedDocumentsAreNoResources(t *testing.T) {
	for n := 1; ; n++ {
		w := newWorld(t)
		w.fill(3)
		w.o.Out = ""
		site := w.o
		site.Sets = []Set{{Name: "failing", Dumps: true}, {Name: "other"}}
		failed := false
		fails := blobtest.At(blobtest.OpCommit, n, blobtest.Fault{Steps: 1})
		s, err := w.openBroken(site, func(c blobtest.Call) *blobtest.Fault {
			fault := fails(c)
			failed = failed || fault != nil
			return fault
		}, output)
		if err != nil {
			t.Fatal(err)
		}
		rep, err := s.Publish(t.Context(), What{})
		if err := errors.Join(err, s.Close()); failed && !errors.Is(err, blobtest.ErrInjected) {
			t.Fatalf("commit %d: got %v", n, err)
		}
		if !failed || rep.Sets[0].Published || len(rep.Sets) < 2 || !rep.Sets[1].Published {
			if n < 8 {
				t.Errorf("only %d commits failed", n-1)
			}
			return
		}
		if got := rep.Sets[1].Resources; got != 3 {
			t.Errorf("commit %d: the other set has %d resources, want 3", n, got)
		}
		site.Sets = site.Sets[1:]
		w.now = w.now.Add(time.Minute)
		if rep, err = Run(t.Context(), site, What{Rebase: true}); err != nil || rep.Resources != 3 {
			t.Errorf("commit %d, next run: got %d resources, %v, want 3", n, rep.Resources, err)
		}
	}
}

// TestDumpsBeginThoughAFileNeverRests: the second look at a file that was changed again
// before it could be packed keeps its bytes.
func TestDumpsBeginThoughAFileNeverRests(t *testing.T) {
	w := dumped(t)
	w.fill(3)
	w.write("log.txt", "begun")
	lines := 0
	s, err := w.openBroken(w.site(), func(c blobtest.Call) *blobtest.Fault {
		if c.Op == blobtest.OpBegin { // of each package, and of all that is written besides
			lines++
			w.write("log.txt", fmt.Sprint("line ", lines))
		}
		return nil
	}, output)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		if n > 0 {
			w.now = w.now.Add(time.Minute)
		}
		rep, err := s.Publish(t.Context(), What{})
		if err != nil || rep.ResourceDump == "" || rep.ChangeDump == "" || len(rep.Notes) != 0 {
			t.Errorf("publication %d: got dump %q, Change Dump %q, notes %q, %v", n+1, rep.ResourceDump, rep.ChangeDump, rep.Notes, err)
		}
		if diff := cmp.Diff(w.replay(), w.replayDumps()); diff != "" {
			t.Errorf("publication %d (-lists +dumps):\n%s", n+1, diff)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if kept := w.kept(); len(kept) != 0 {
		t.Errorf("%q are kept though they are published", kept)
	}
}
