//go:build unix

package mirror

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"instep/destination"
)

// TestCat_STO_03: what was planted in the mirror is neither followed nor replaced nor removed.
func TestCat_STO_03(t *testing.T) {
	plants := map[string]func(path, outside string) error{
		"link to a file":       func(path, outside string) error { return os.Symlink(filepath.Join(outside, "file"), path) },
		"link to a directory":  func(path, outside string) error { return os.Symlink(outside, path) },
		"link into the mirror": func(path, _ string) error { return os.Symlink(ours, path) },
		"dangling link":        func(path, outside string) error { return os.Symlink(filepath.Join(outside, "none"), path) },
		"FIFO":                 func(path, _ string) error { return syscall.Mkfifo(path, 0o600) },
		"directory":            func(path, _ string) error { return os.MkdirAll(filepath.Join(path, "mine"), 0o700) },
		"file":                 func(path, _ string) error { return os.WriteFile(path, []byte("theirs"), 0o600) },
	}
	for name, plant := range plants {
		for _, place := range []string{"new", "new/below", "held", "dir"} {
			t.Run(name+" at "+place, func(t *testing.T) { testPlant(t, plant, place) })
		}
	}
}

func testPlant(t *testing.T, plant func(path, outside string) error, place string) {
	dir, outside := t.TempDir(), t.TempDir()
	write(t, outside, "file", "outside")
	m := openMirror(t, options(dir))
	commit(t, m, func(b destination.Batch) error {
		return putAll(b, map[string]string{"held": "held", "dir/a": "one", "fine": "old"})
	})
	path := strings.TrimSuffix(place, "/below")
	if err := os.RemoveAll(filepath.Join(dir, path)); err != nil {
		t.Fatal(err)
	}
	if err := plant(filepath.Join(dir, path), outside); err != nil {
		t.Fatal(err)
	}
	planted := filesIn(t, dir, isOurs)
	name := place
	if place == "dir" {
		name = "dir/a"
	}
	free := planted[path] == "" && path != name         // a directory above: files of both may be in it
	mine := planted[path] == "theirs" && path == "held" // a file in its place is replaced, and kept in the trash
	commit(t, m, func(b destination.Batch) error {
		if err := put(b, set, name, "new", noon); !free && !mine && !errors.Is(err, destination.ErrOccupied) {
			t.Errorf("put: got %v, want ErrOccupied", err)
		}
		return put(b, set, "fine", "new", noon)
	})
	got := filesIn(t, dir, isOurs)
	if !mine && got[path] != planted[path] {
		t.Errorf("%s: got %q, want %q as planted", path, got[path], planted[path])
	}
	if got["fine"] != "new" {
		t.Error("the rest of the batch was not done")
	}
	openPlanted(t, m, name)
	commit(t, m, func(b destination.Batch) error { return b.Delete(t.Context(), set, home+"/"+name, time.Time{}) })
	if diff := cmp.Diff(map[string]string{"file": "outside"}, filesIn(t, outside, func(string) bool { return false })); diff != "" {
		t.Errorf("outside the mirror (-want +got):\n%s", diff)
	}
}

// openPlanted reads a resource in whose place something else may stand.
func openPlanted(t *testing.T, m *Mirror, name string) {
	t.Helper()
	h := lookup(t, m, set, name)
	r, err := m.Open(t.Context(), &h)
	if err != nil {
		return
	}
	defer r.Close()
	buf := make([]byte, 100)
	n, _ := r.Read(buf)
	if body := string(buf[:n]); body == "outside" {
		t.Errorf("open %s: read %q", name, body)
	}
}

// A directory that turns into a link while a batch is under way leads nowhere.
func TestADirectorySwappedForALinkIsNotFollowed(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	m := openMirror(t, options(dir))
	commit(t, m, func(b destination.Batch) error { return put(b, set, "d/a", "one", noon) })
	err := tryCommit(m, nil, func(b destination.Batch) error {
		if err := put(b, set, "d/b", "two", noon); err != nil {
			return err
		}
		return errors.Join(os.RemoveAll(filepath.Join(dir, "d")), os.Symlink(outside, filepath.Join(dir, "d")))
	})
	if err == nil {
		t.Error("the commit went through a link")
	}
	if got := filesIn(t, outside, func(string) bool { return false }); len(got) > 0 {
		t.Errorf("outside the mirror: %q", got)
	}
}
