package mirror

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"instep/destination"
	"instep/harvest"
	"instep/internal/catalog"
	"instep/internal/flock"
)

// inside makes a mirror whose state is at a path below its directory, as earlier versions
// let anybody do.
func inside(t *testing.T, dir, path string, layout Layout) Options {
	t.Helper()
	o := options(dir)
	o.Layout, o.State = layout, filepath.Join(t.TempDir(), "state")
	m := openMirror(t, o)
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(dir, filepath.FromSlash(path))
	if err := errors.Join(os.MkdirAll(at, 0o750), os.CopyFS(at, os.DirFS(o.State)), os.RemoveAll(o.State), os.Remove(filepath.Join(at, lockName))); err != nil {
		t.Fatal(err)
	}
	o.State = at
	return o
}

func TestANewStateInsideTheDirectoryIsRefused(t *testing.T) {
	root := t.TempDir()
	if err := os.Symlink("a", filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	other := openMirror(t, options(filepath.Join(root, "other")))
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		dir, state string
		refused    bool
	}{
		{"a", "a/sub", true},
		{"a", "a", true},
		{"a", "a/.hidden", true},
		{"a", "a/sub/deeper", true},
		{"a", "a/.instep/sub", true},
		{"a", "link/sub", true},
		{"link", "a/sub", true},
		{"a", "other/sub", true},
		{"a", "a/../a/sub", true},
		{"other/nested", "other/sub", true},
		{"a", "a/.instep", false},
		{"a", "link/.instep", false},
		{"a", "beside", false},
		{"a", "ab", false},
		{"above/a", "above", false},
		{"other/nested", "other/nested/.instep", false},
		{"other/nested", "", false},
	} {
		for _, exists := range []bool{false, true} {
			at := func(name string) string { return filepath.Join(root, filepath.FromSlash(name)) }
			o := options(at(c.dir))
			if c.state != "" {
				o.State = root + "/" + c.state
			}
			if err := os.Mkdir(at("a"), 0o750); exists && err != nil && !errors.Is(err, fs.ErrExist) {
				t.Fatal(err)
			} else if !exists {
				if err := os.RemoveAll(at("a")); err != nil {
					t.Fatal(err)
				}
			}
			for _, open := range []func() (*Mirror, error){
				func() (*Mirror, error) { return OpenReadOnly(t.Context(), o) },
				func() (*Mirror, error) { return Open(t.Context(), o) },
			} {
				m, err := open()
				if err == nil {
					err = m.Close()
				}
				var se *StateError
				if refused := errors.As(err, &se); refused != c.refused || err != nil && !refused {
					t.Errorf("mirror %q (exists: %v), state %q: got %v, want refused: %v", c.dir, exists, c.state, err, c.refused)
				}
			}
			if _, err := os.Stat(filepath.Join(o.State, catName)); c.refused && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("state %q: got %v, want that nothing was made", c.state, err)
			}
			for _, name := range []string{"a", "beside", "ab", "above", "other/nested"} {
				if err := os.RemoveAll(at(name)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// hostile are names by which a Source reaches for the state at "x" or "s/x".
var hostile = []string{
	"x", "x/catalog.db-journal", "x/catalog.db-wal", "x/runs/20260101T000000Z.jsonl", "x/lock", "x/documents/a", "x/new/deep",
	"X/catalog.db-wal", "s/x/catalog.db-journal", "s/X/a", "%78/catalog.db-shm", "catalog.db", "catalog.db-journal",
	"runs/20260101T000000Z.jsonl", "CATALOG.DB-wal", ".instep/catalog.db-journal", ".instep/marker",
}

func TestAStateThatIsInsideIsNobodysNamespace(t *testing.T) {
	for _, layout := range []Layout{Tree, Flat} {
		for _, at := range []string{"x", "s/x", "."} {
			for _, adopts := range []bool{false, true} {
				t.Run(string(layout)+" "+at, func(t *testing.T) {
					dir := t.TempDir()
					o := inside(t, dir, at, layout)
					o.Adopt = adopts
					for round := range 2 { // the second one knows its directories
						bodies := map[string]string{}
						for _, name := range hostile {
							bodies[name] = name + strings.Repeat("'", round)
						}
						storeHostile(t, o, bodies)
					}
				})
			}
		}
	}
}

// storeHostile stores resources and checks that each has its bytes, and none is in the state.
func storeHostile(t *testing.T, o Options, bodies map[string]string) {
	t.Helper()
	m := openMirror(t, o)
	commit(t, m, func(b destination.Batch) error {
		for name, body := range bodies {
			if err := put(b, set, name, body, noon); err != nil {
				return err
			}
		}
		for _, name := range hostile { // what could not be fetched has a path too
			w := harvest.Resource{URI: home + "/" + name + "-due", Changed: noon}
			if err := b.Due(t.Context(), set, w, "not there"); err != nil {
				return err
			}
		}
		return nil
	})
	rel, err := filepath.Rel(o.Dir, o.State)
	if err != nil {
		t.Fatal(err)
	}
	for name := range bodies {
		h := lookup(t, m, set, name)
		path := strings.ToLower(h.Path)
		in := rel != "." && (path == rel || strings.HasPrefix(path, rel+"/")) || rel == "." && catalog.IsStateName(firstOf(path))
		if m.flat == nil && in {
			t.Errorf("%q is in the state, at %q", name, h.Path)
		}
		if got := bodyOf(t, m, home+"/"+name); got != bodies[name] {
			t.Errorf("%q: got %q, want %q", name, got, bodies[name])
		}
	}
	for name, err := range m.Strangers(t.Context()) {
		if err != nil || m.flat == nil && rel != "." {
			t.Errorf("a file of the state is somebody's: %q, %v", name, err)
		}
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
}

// An earlier version has stored resources in the state.
func TestResourcesInTheStateAreMovedOut(t *testing.T) {
	dir := t.TempDir()
	m := openMirror(t, options(dir))
	cursor := &destination.CursorMove{Set: set, Cursor: destination.Cursor{Position: harvest.Position{At: noon}}}
	if err := tryCommit(m, cursor, func(b destination.Batch) error {
		return errors.Join(put(b, set, "x/runs/a", "forged", noon), put(b, set, "x/kept", "kept", noon), put(b, set, "a", "a", noon))
	}); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "x/kept", "changed") // by the program, say
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	o := options(dir)
	o.State = filepath.Join(dir, "x")
	if err := os.CopyFS(o.State, os.DirFS(filepath.Join(dir, ours))); err != nil {
		t.Fatal(err)
	}
	m = openMirror(t, o)
	for name, want := range map[string]bool{"x/runs/a": false, "x/kept": false, "a": true} {
		if h := lookup(t, m, set, name); h.Member != want {
			t.Errorf("%s: member: %v, want %v", name, h.Member, want)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "x", "runs", "a")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the forged record: got %v, want that it is gone", err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "x", "kept")); err != nil || string(text) != "changed" {
		t.Errorf("a file with other bytes: got %q, %v, want it untouched", text, err)
	}
	if cur, ok, err := m.Cursor(t.Context(), set); err != nil || !ok || cur.Scope != destination.ScopeRestored {
		t.Errorf("cursor: %+v, %v, want that all is compared", cur, err)
	}
	commit(t, m, func(b destination.Batch) error { return put(b, set, "x/kept", "kept", noon) })
	if h := lookup(t, m, set, "x/kept"); strings.HasPrefix(h.Path, "x/") || bodyOf(t, m, home+"/x/kept") != "kept" {
		t.Errorf("stored again at %q", h.Path)
	}
}

// Another mirror, inside this one or beside it, has its state in this directory.
func TestAStateOfAnotherMirrorIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	m := openMirror(t, options(dir))
	nested := inside(t, filepath.Join(dir, "nested"), "../x", Tree)
	for round := range 2 {
		commit(t, m, func(b destination.Batch) error {
			return put(b, set, "x/catalog.db-journal", strings.Repeat("y", round), noon)
		})
	}
	if h := lookup(t, m, set, "x/catalog.db-journal"); strings.HasPrefix(h.Path, "x/") {
		t.Errorf("stored at %q", h.Path)
	}
	if err := openMirror(t, nested).Close(); err != nil {
		t.Error(err)
	}
}

func TestAStateInsideIsUsedByOneAtATime(t *testing.T) {
	for _, at := range []string{"x", "."} {
		dir := t.TempDir()
		o := inside(t, dir, at, Tree)
		m := openMirror(t, o)
		var locked *flock.LockedError
		if _, err := flock.Dir(o.State); !errors.As(err, &locked) {
			t.Errorf("%s: got %v, want *LockedError", at, err)
		}
		if _, err := os.Stat(filepath.Join(o.State, lockName)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: got %v, want that there is no lock file", at, err)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}

// While a run works, somebody removes its lock, or all that is ours.
func TestARunWhoseLockWasRemovedIsAlone(t *testing.T) {
	for _, c := range []struct{ name, remove string }{
		{"lock of the mirror", "mirror/.instep/lock"},
		{"own directory", "mirror/.instep"},
		{"lock of the state", "state/lock"},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			m, err := openBeside(t, root, "mirror")
			if err != nil {
				t.Fatal(err)
			}
			if err := os.RemoveAll(filepath.Join(root, filepath.FromSlash(c.remove))); err != nil {
				t.Skipf("SKIPPED: the system keeps the file of a lock: %v", err)
			}
			var locked *flock.LockedError
			o := Options{Dir: filepath.Join(root, "mirror"), State: filepath.Join(root, "state"), Create: true, Adopt: true, Now: time.Now}
			second, err := Open(t.Context(), o)
			if err == nil {
				second.Close()
			}
			if !errors.As(err, &locked) {
				t.Errorf("got %v, want *LockedError", err)
			}
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A Source cannot make a directory look like a state: downstream of the mirror nothing in
// it would be published.
func TestNoResourceHasTheNameOfACatalog(t *testing.T) {
	dir := t.TempDir()
	m := openMirror(t, options(dir))
	names := []string{"d/catalog.db", "d/CATALOG.db", "d/a", "catalog%2Edb"}
	commit(t, m, func(b destination.Batch) error {
		for _, name := range names {
			if err := put(b, set, name, name, noon); err != nil {
				return err
			}
		}
		return nil
	})
	for _, name := range names {
		path := lookup(t, m, set, name).Path
		if base := strings.ToLower(filepath.Base(path)); base == catName {
			t.Errorf("%s is at %q", name, path)
		}
	}
	if slices.Contains(names, lookup(t, m, set, "d/catalog.db").Path) {
		t.Error("a catalog keeps its name")
	}
}

func bodyOf(t *testing.T, m *Mirror, uri string) string {
	t.Helper()
	held, err := m.Lookup(t.Context(), "", []string{uri})
	if err != nil {
		t.Fatal(err)
	}
	r, err := m.Open(t.Context(), &held[0])
	if err != nil {
		t.Error(err)
		return ""
	}
	defer r.Close()
	text, err := io.ReadAll(r)
	if err != nil {
		t.Error(err)
	}
	return string(text)
}
