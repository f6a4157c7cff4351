package mirror

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"instep/destination"
	"instep/harvest"
)

// stray asks for a file of w as a plan does.
func stray(t *testing.T, m *Mirror, w *harvest.Resource) (path string, ok bool, err error) {
	t.Helper()
	held, err := m.Lookup(t.Context(), set, []string{w.URI})
	if err != nil {
		return "", false, err
	}
	return m.Stray(t.Context(), w, &held[0])
}

// replay does what a run does with the resources of a Source: it takes what it finds, and
// stores the rest.
func replay(t *testing.T, m *Mirror, bodies map[string]string, digests bool) (failed []error) {
	t.Helper()
	commit(t, m, func(b destination.Batch) error {
		for name, body := range bodies {
			w := wantedOfBody(home+"/"+name, body, noon)
			if !digests {
				w.Digests = nil
			}
			path, ok, err := stray(t, m, &w)
			if err != nil {
				return err
			}
			if ok {
				_, err = b.Adopt(t.Context(), set, w, path)
			} else {
				_, err = b.Put(t.Context(), set, w, strings.NewReader(body), true)
			}
			if errors.Is(err, destination.ErrOccupied) {
				failed = append(failed, err)
				err = b.Due(t.Context(), set, w, "occupied")
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	return failed
}

// A catalog from a backup knows neither the files that came later nor those that changed.
func TestFilesThatTheCatalogDoesNotKnowAreTakenBack(t *testing.T) {
	now := map[string]string{"a": "new a", "b": "b", "d/c": "c", "D/c": "upper", "e?q": "query", "d": "file", "@x": "at"}
	for _, layout := range []Layout{Tree, Flat} {
		for _, digests := range []bool{true, false} {
			dir := t.TempDir()
			o := options(dir)
			o.Layout, o.Now = layout, time.Now
			m := openMirror(t, o)
			replay(t, m, map[string]string{"a": "old a", "b": "b"}, digests)
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
			backup := filepath.Join(t.TempDir(), catName)
			copyOver(t, backup, filepath.Join(dir, ours, catName))
			m = openMirror(t, o)
			replay(t, m, now, digests)
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
			files := filesIn(t, dir, isOurs)
			copyOver(t, filepath.Join(dir, ours, catName), backup)
			m = openMirror(t, o)
			runs := 1
			for failed := replay(t, m, now, digests); len(failed) > 0; failed = replay(t, m, now, digests) {
				if runs++; runs > 3 || digests {
					t.Fatalf("layout %q, digests %v: %v", layout, digests, failed)
				}
			}
			if digests && layout == Tree && m.Taken() != int64(len(now)) {
				t.Errorf("%d of %d files were taken back", m.Taken(), len(now))
			}
			wantFiles(t, dir, files)
			for name, want := range now {
				if got := bodyOf(t, m, home+"/"+name); got != want {
					t.Errorf("%s: got %q, want %q", name, got, want)
				}
			}
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func copyOver(t *testing.T, to, from string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, text, 0o640)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A file of the user's has other bytes. It is not replaced, and the resource fails.
func TestAFileWithOtherBytesIsNotTakenBack(t *testing.T) {
	for _, digests := range []bool{true, false} {
		dir := t.TempDir()
		m := openMirror(t, options(dir))
		write(t, dir, "a", "mine")
		write(t, dir, "d/same", "same")
		write(t, dir, "b", "a file where a directory belongs")
		failed := replay(t, m, map[string]string{"a": "them", "d/same": "same", "b/c": "c"}, digests)
		if len(failed) != 2 {
			t.Errorf("got %v, want that two fail", failed)
		}
		wantFiles(t, dir, map[string]string{"a": "mine", "d/same": "same", "b": "a file where a directory belongs"})
		if h := lookup(t, m, set, "d/same"); !h.Stored || m.Taken() != 1 {
			t.Errorf("held: %+v, taken back: %d", h, m.Taken())
		}
		// When the user has moved it away, the resource has its place.
		if err := os.Rename(filepath.Join(dir, "a"), filepath.Join(dir, "moved")); err != nil {
			t.Fatal(err)
		}
		if failed := replay(t, m, map[string]string{"a": "them"}, digests); len(failed) > 0 {
			t.Error(failed)
		}
		if got := bodyOf(t, m, home+"/a"); got != "them" {
			t.Errorf("got %q", got)
		}
	}
}

// A first run was killed, or the power failed, somewhere before it had stored anything.
func TestAKilledFirstRunIsGoneOnWith(t *testing.T) {
	for _, c := range []struct {
		name string
		kill func(dir string) error
	}{
		{"marker without catalog", func(dir string) error { return os.Remove(filepath.Join(dir, ours, catName)) }},
		{"catalog without marker", func(dir string) error { return os.Remove(filepath.Join(dir, markerKey)) }},
		{"nothing but a lock", func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, markerKey)), os.Remove(filepath.Join(dir, ours, catName)))
		}},
		{"before it knew its Source", func(string) error { return nil }},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			m, err := Open(t.Context(), options(dir))
			if err == nil {
				err = errors.Join(m.Close(), c.kill(dir))
			}
			if err != nil {
				t.Fatal(err)
			}
			ro, err := OpenReadOnly(t.Context(), options(dir))
			if err != nil {
				t.Fatalf("a dry run: %v", err)
			}
			ro.Close()
			m = openMirror(t, options(dir))
			if failed := replay(t, m, map[string]string{"a": "a"}, true); len(failed) > 0 {
				t.Error(failed)
			}
			wantFiles(t, dir, map[string]string{"a": "a"})
		})
	}
}

// The log of a catalog is lost while nothing of it was taken over into the database.
func TestAMirrorWhoseLogIsLostKeepsItsFiles(t *testing.T) {
	dir, lost := t.TempDir(), filepath.Join(t.TempDir(), "lost")
	m := openMirror(t, options(dir))
	bodies := map[string]string{"a": "a", "d/b": "b"}
	replay(t, m, bodies, true)
	if err := errors.Join(os.CopyFS(lost, os.DirFS(dir)), os.Remove(filepath.Join(lost, ours, catName+"-wal"))); err != nil {
		t.Fatal(err)
	}
	m = openMirror(t, options(lost))
	if failed := replay(t, m, bodies, true); len(failed) > 0 || m.Taken() != 2 {
		t.Errorf("%d files were taken back; failed: %v", m.Taken(), failed)
	}
	wantFiles(t, lost, bodies)
}

// The files are gone, or others than the catalog says: that shows without an audit.
func TestAGlanceFindsWhatWasLost(t *testing.T) {
	dir := t.TempDir()
	o := options(dir)
	o.Now = time.Now
	m := openMirror(t, o)
	bodies := map[string]string{}
	for i := range 3*glanceFiles + 5 {
		bodies[strconv.Itoa(i)] = "body"
	}
	replay(t, m, bodies, true)
	glance := func(want int64) {
		t.Helper()
		if n, err := m.Glance(t.Context()); n != want || err != nil {
			t.Errorf("got %d, %v, want %d", n, err, want)
		}
	}
	glance(0)
	for name := range bodies {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	glance(int64(len(bodies)))
	glance(0) // all are due
	due := 0
	for h, err := range m.Due(t.Context(), set) {
		if err != nil || h.Wanted.Length.Int64() != 4 {
			t.Errorf("%+v, %v", h, err)
		}
		due++
	}
	if due != len(bodies) {
		t.Errorf("%d are due, want %d", due, len(bodies))
	}
}

// Of a small mirror every file is looked at.
func TestAGlanceReadsWhatWasTouched(t *testing.T) {
	dir := t.TempDir()
	o := options(dir)
	o.Now = time.Now
	m := openMirror(t, o)
	replay(t, m, map[string]string{"a": "body", "b": "body", "c": "body"}, true)
	later := time.Now().Add(time.Hour)
	write(t, dir, "b", "mine")
	for _, name := range []string{"a", "c"} {
		if err := os.Chtimes(filepath.Join(dir, name), later, later); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := m.Glance(t.Context()); n != 1 || err != nil {
		t.Errorf("got %d, %v, want b alone", n, err)
	}
	if h := lookup(t, m, set, "b"); h.Due == "" {
		t.Errorf("held: %+v", h)
	}
	wantFiles(t, dir, map[string]string{"a": "body", "b": "mine", "c": "body"})
}
