package mirror

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"instep/internal/catalog"
	"instep/internal/flock"
)

// openBeside makes or opens the mirror name below root, with a state beside it.
func openBeside(t *testing.T, root, name string) (*Mirror, error) {
	t.Helper()
	m, err := Open(t.Context(), Options{Dir: filepath.Join(root, name), State: filepath.Join(root, "state"), Create: true, Now: time.Now})
	if err == nil {
		t.Cleanup(func() { m.Close() })
	}
	return m, err
}

func TestOfManyThatMakeAMirrorWithOneStateOnlyOneDoes(t *testing.T) {
	for range 10 {
		root := t.TempDir()
		var mirrors [4]*Mirror
		var errs [4]error
		var all sync.WaitGroup
		for i := range mirrors {
			all.Go(func() { mirrors[i], errs[i] = openBeside(t, root, string(rune('a'+i))) })
		}
		all.Wait()
		made := 0
		for i, m := range mirrors {
			var locked *flock.LockedError
			switch {
			case m != nil:
				made++
			case !errors.As(errs[i], &locked):
				t.Errorf("got %v, want a LockedError", errs[i])
			}
		}
		if made != 1 {
			t.Errorf("%d were made, want 1", made)
		}
	}
}

func TestAStateIsUsedByOneAtATime(t *testing.T) {
	root := t.TempDir()
	m, err := openBeside(t, root, "a")
	if err != nil {
		t.Fatal(err)
	}
	var locked *flock.LockedError
	if _, err := flock.Acquire(filepath.Join(root, "state", "lock")); !errors.As(err, &locked) {
		t.Errorf("a publisher gets %v, want a LockedError", err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := openBeside(t, root, "a"); err != nil {
		t.Error(err)
	}
}

// A run that was killed before it knew its Source has left a marker, and a catalog that
// nobody seems to use.
func TestTheStateOfAMirrorThatWasNeverBoundGoesToOneDirectory(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"a", "b"} {
		m, err := openBeside(t, root, name)
		if err == nil {
			err = m.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := openBeside(t, root, "a"); !errors.Is(err, ErrWrongStore) || !errors.Is(err, catalog.ErrOther) {
		t.Errorf("got %v, want ErrWrongStore", err)
	}
	if _, err := openBeside(t, root, "b"); err != nil {
		t.Error(err)
	}
}

// Where a directory is gone, its state makes no other one, and a dry run plans nothing.
func TestAStateWhoseDirectoryIsGoneIsLeftAlone(t *testing.T) {
	root := t.TempDir()
	m, err := openBeside(t, root, "a")
	if err == nil {
		err = errors.Join(m.Bind(t.Context(), "https://example.org/", "https://example.org", "https://example.org/c"), m.Close())
	}
	if err == nil {
		err = os.Rename(filepath.Join(root, "a"), filepath.Join(root, "gone"))
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openBeside(t, root, "a"); !errors.Is(err, ErrWrongStore) {
		t.Errorf("got %v, want ErrWrongStore", err)
	}
	o := Options{Dir: filepath.Join(root, "a"), State: filepath.Join(root, "state"), Now: time.Now}
	if _, err := OpenReadOnly(t.Context(), o); !errors.Is(err, ErrWrongStore) {
		t.Errorf("only to be looked at: got %v, want ErrWrongStore", err)
	}
	if _, err := os.Stat(o.Dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory: got %v, want that there is none", err)
	}
}
