package mirror

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"instep/blob"
	"instep/blob/blobtest"
	"instep/destination"
	"instep/destination/mirrortest"
	"instep/internal/catalog"
)

func TestFlatIsABucket(t *testing.T) {
	blobtest.Run(t, func(t *testing.T) blob.Bucket {
		files, err := blob.OpenDir(t.TempDir(), blob.DirOptions{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = files.Close() })
		o := catalog.Options{Path: filepath.Join(t.TempDir(), catName), Create: true, Now: time.Now}
		cat, err := catalog.Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cat.Close() })
		return newFlat(files, cat.Mirror)
	})
}

func flatOptions(dir string) Options {
	o := options(dir)
	o.Layout = Flat
	return o
}

func TestAFlatMirrorIsADestinationMirror(t *testing.T) {
	mirrortest.Run(t, func(t *testing.T) destination.Mirror {
		return openMirror(t, flatOptions(filepath.Join(t.TempDir(), "mirror")))
	})
}

// contents returns the files of a flat mirror: each has to have the name of its bytes.
func contents(t *testing.T, dir string) []string {
	t.Helper()
	bodies := []string{}
	for path, body := range filesIn(t, dir, isOurs) {
		d := wantedOfBody("", body, noon).Digests[0]
		if path != contentKey(d) {
			t.Errorf("%q holds %q", path, body)
		}
		bodies = append(bodies, body)
	}
	slices.Sort(bodies)
	return bodies
}

func wantContents(t *testing.T, dir string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, contents(t, dir), cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("bytes (-want +got):\n%s", diff)
	}
}

// The bytes of several URIs are there once, and go with the last of all their names,
// which is in the trash for a while.
func TestTheFlatLayoutHasBytesOnce(t *testing.T) {
	dir, now := t.TempDir(), noon
	o := flatOptions(dir)
	o.Now = func() time.Time { return now }
	m := openMirror(t, o)
	commit(t, m, func(b destination.Batch) error {
		return putAll(b, map[string]string{"a": "twice", "d/b": "twice", "c": "once", "empty": ""})
	})
	wantContents(t, dir, "", "once", "twice")
	commit(t, m, func(b destination.Batch) error { return b.Delete(t.Context(), set, home+"/a", time.Time{}) })
	now = now.AddDate(0, 0, 1)
	later := now
	commit(t, m, func(b destination.Batch) error { return put(b, set, "c", "new", later) })
	commit(t, m, func(b destination.Batch) error { return put(b, set, "d/b", "new", later) })
	wantContents(t, dir, "", "new", "once", "twice")
	purge(t, m, now, 0)
	wantContents(t, dir, "", "new", "once", "twice") // of today
	purge(t, m, now.AddDate(0, 0, 1), 0)
	wantContents(t, dir, "", "new")
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	m = openMirror(t, options(dir)) // the marker says what it is
	if h := lookup(t, m, set, "d/b"); !h.Stored || m.flat == nil {
		t.Errorf("held: %+v", h)
	}
}

func TestTheLayoutIsChosenOnce(t *testing.T) {
	for _, c := range []struct{ made, asked Layout }{{Flat, Tree}, {Tree, Flat}, {"", Flat}, {Flat, "other"}} {
		dir := t.TempDir()
		o := options(dir)
		o.Layout = c.made
		if err := openMirror(t, o).Close(); err != nil {
			t.Fatal(err)
		}
		o.Layout = c.asked
		for _, open := range []func(context.Context, Options) (*Mirror, error){Open, OpenReadOnly} {
			if m, err := open(t.Context(), o); !errors.Is(err, ErrLayout) {
				t.Errorf("made as %q, opened as %q: got %v, want ErrLayout", c.made, c.asked, err)
				_ = m.Close()
			}
		}
	}
}

func TestALayoutIsOneThatIsKnown(t *testing.T) {
	o := options(filepath.Join(t.TempDir(), "mirror"))
	o.Layout = "other"
	if m, err := OpenReadOnly(t.Context(), o); !errors.Is(err, ErrLayout) {
		t.Errorf("for reading: got %v, want ErrLayout", err)
		_ = m.Close()
	}
	if m, err := Open(t.Context(), o); !errors.Is(err, ErrLayout) {
		t.Errorf("got %v, want ErrLayout", err)
		_ = m.Close()
	}
	if _, err := os.Stat(filepath.Join(o.Dir, ours)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("something was made: %v", err)
	}
}

// A batch of a flat mirror that is interrupted has not happened, and leaves no bytes.
func TestAFlatBatchHappensWholeOrNotAtAll(t *testing.T) {
	later := noon.AddDate(0, 0, 1)
	do := func(b destination.Batch) error {
		return errors.Join(putAll(b, map[string]string{"twin": "same", "new": "new"}),
			put(b, set, "replaced", "new", later), put(b, set, "due", "repaired", later),
			b.Delete(context.Background(), set, home+"/d/deleted", time.Time{}))
	}
	all := faults()
	for _, dead := range []bool{false, true} {
		for _, table := range []string{"INSERT ON content_loose", "INSERT ON content_name", "DELETE ON content_name", "DELETE ON content_loose"} {
			all = append(all, fault{name: table, dead: dead,
				sql: "CREATE TRIGGER fault BEFORE " + table + " BEGIN SELECT RAISE(ABORT, 'injected'); END"})
		}
	}
	for _, f := range all {
		name := f.name
		if f.dead {
			name += ", then a crash"
		}
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			o, arm := faulty(flatOptions(dir), f)
			m := openMirror(t, o)
			commit(t, m, fillBefore)
			before := flatState(t, m)
			f.interrupt(t, m, dir, arm, do)
			m = openMirror(t, options(dir))
			if diff := cmp.Diff(before, flatState(t, m)); diff != "" {
				t.Errorf("in the next run (-want +got):\n%s", diff)
			}
			wantContents(t, dir, "damaged", "deleted", "kept", "old", "same")
			if err := tryCommit(m, storyMove, do); err != nil {
				t.Fatal(err)
			}
			wantContents(t, dir, "damaged", "deleted", "kept", "new", "old", "repaired", "same")
		})
	}
}

// interrupt ends a batch by the fault, and the run.
func (f fault) interrupt(t *testing.T, m *Mirror, dir string, arm func(), do func(destination.Batch) error) {
	t.Helper()
	trigger(t, dir, f.sql)
	arm()
	if err := tryCommit(m, storyMove, do); err == nil {
		t.Fatal("the batch was committed in spite of the fault")
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if f.sql != "" {
		trigger(t, dir, "DROP TRIGGER fault")
	}
}

// What was in its file before a batch that is interrupted is there afterwards.
func TestAnInterruptedFlatBatchLeavesWhatItFound(t *testing.T) {
	all := faults()
	for _, table := range []string{"INSERT ON content_loose", "INSERT ON content_name", "DELETE ON content_loose"} {
		all = append(all, fault{name: table, sql: "CREATE TRIGGER fault BEFORE " + table + " BEGIN SELECT RAISE(ABORT, 'injected'); END"})
	}
	later := noon.AddDate(0, 0, 1)
	w := wantedOfBody(home+"/found", "found", later)
	found := contentKey(w.Digests[0])
	do := func(b destination.Batch) error {
		_, err := b.Adopt(context.Background(), set, w, found)
		return errors.Join(err, put(b, set, "held", "found", later), put(b, set, "new", "new", later))
	}
	for _, f := range all {
		name := f.name
		if f.dead {
			name += ", then a crash"
		}
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			flatly := flatOptions(dir)
			flatly.Adopt = true
			o, arm := faulty(flatly, f)
			m := openMirror(t, o)
			commit(t, m, func(b destination.Batch) error { return put(b, set, "held", "old", noon) })
			write(t, dir, found, "found")
			f.interrupt(t, m, dir, arm, do)
			m = openMirror(t, flatly)
			wantContents(t, dir, "found", "old")
			if err := tryCommit(m, storyMove, do); err != nil {
				t.Fatal(err)
			}
			wantContents(t, dir, "found", "new", "old")
			commit(t, m, func(b destination.Batch) error {
				return errors.Join(b.Delete(t.Context(), set, home+"/held", time.Time{}), b.Delete(t.Context(), set, w.URI, time.Time{}))
			})
			purge(t, m, later.AddDate(1, 0, 0), 0)
			wantContents(t, dir, "new")
		})
	}
}

// flatState is what a mirror holds: bodies by URI.
func flatState(t *testing.T, m *Mirror) map[string]string {
	t.Helper()
	held := map[string]string{}
	for h, err := range m.Members(t.Context(), set) {
		if err != nil {
			t.Fatal(err)
		}
		if !h.Stored {
			held[h.URI] = "due: " + h.Due
			continue
		}
		r, err := m.Open(t.Context(), &h)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r)
		if err := errors.Join(err, r.Close()); err != nil {
			t.Fatal(err)
		}
		held[h.URI] = string(body)
	}
	return held
}

// Damaged bytes are replaced for all that have them.
func TestAFlatMirrorIsRepaired(t *testing.T) {
	dir := t.TempDir()
	m := openMirror(t, flatOptions(dir))
	commit(t, m, func(b destination.Batch) error { return putAll(b, map[string]string{"a": "same", "b": "same"}) })
	w := wantedOfBody(home+"/a", "same", noon)
	write(t, dir, contentKey(w.Digests[0]), "damaged")
	commit(t, m, func(b destination.Batch) error { return b.Due(t.Context(), set, w, "damaged") })
	commit(t, m, func(b destination.Batch) error { return put(b, set, "a", "same", noon) })
	wantContents(t, dir, "same")
}

// TestCat_STO_03_flat: what was planted where bytes go is neither followed nor replaced.
func TestCat_STO_03_flat(t *testing.T) {
	key := contentKey(wantedOfBody("", "body", noon).Digests[0])
	for _, place := range []string{key, filepath.Dir(key), contentDir} {
		t.Run(place, func(t *testing.T) {
			dir, outside := t.TempDir(), t.TempDir()
			write(t, outside, "file", "outside")
			m := openMirror(t, flatOptions(dir))
			at := filepath.Join(dir, place)
			if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o750), os.Symlink(outside, at)); err != nil {
				t.Fatal(err)
			}
			err := tryCommit(m, nil, func(b destination.Batch) error { return put(b, set, "a", "body", noon) })
			if !errors.Is(err, destination.ErrOccupied) {
				t.Errorf("got %v, want ErrOccupied", err)
			}
			if diff := cmp.Diff(map[string]string{"file": "outside"}, filesIn(t, outside, func(string) bool { return false })); diff != "" {
				t.Errorf("outside the mirror (-want +got):\n%s", diff)
			}
		})
	}
}

// A flat mirror whose catalog is lost is made again from its files, and so is one of
// files that others fetched, which stay.
func TestAFlatMirrorAdoptsByCopying(t *testing.T) {
	dir := t.TempDir()
	bodies := map[string]string{"a": "same", "b": "same", "d/c": "other"}
	m := openMirror(t, flatOptions(dir))
	commit(t, m, func(b destination.Batch) error { return putAll(b, bodies) })
	if err := errors.Join(m.Close(), os.RemoveAll(filepath.Join(dir, ours))); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "museum.example.org/e", "by wget")
	write(t, dir, "wrong", "mine")
	bodies["e"], bodies["wrong"] = "by wget", "thei"
	o := flatOptions(dir)
	o.Adopt = true
	m = openMirror(t, o)
	for name, path := range adopt(t, m, bodies) {
		if (path == "") != (name == "wrong") {
			t.Errorf("%q was found at %q", name, path)
		}
	}
	if h := lookup(t, m, set, "e"); !h.Stored || !h.Verified {
		t.Errorf("held: %+v", h)
	}
	var left []string
	for path, err := range m.Strangers(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		left = append(left, path)
	}
	slices.Sort(left)
	if diff := cmp.Diff([]string{"museum.example.org/e", "wrong"}, left); diff != "" {
		t.Errorf("strangers (-want +got):\n%s", diff)
	}
}
