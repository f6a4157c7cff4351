package blob_test

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"instep/blob"
	"instep/internal/durable"
)

// takeOver takes what is at from to its place, in which something else is.
func takeOver(t *testing.T, d *blob.Dir, from string) error {
	t.Helper()
	batch, err := d.Begin(t.Context())
	if err != nil {
		return err
	}
	o, err := batch.Take(t.Context(), from)
	if err != nil {
		return errors.Join(err, batch.Discard())
	}
	batch.Put(o, blob.Put{Key: "place/a", Keep: "trash/a"})
	return batch.Commit(t.Context())
}

// TestCat_STO_06_take lets each call to the disk fail in turn: what was taken is
// where it was or where it goes, and what was in its place is there or kept.
func TestCat_STO_06_take(t *testing.T) {
	for _, applied := range []bool{false, true} {
		for n := 1; ; n++ {
			d := openDir(t, t.TempDir())
			disk := quick(d.Disk())
			d.SetDisk(disk)
			write(t, d, "part/1", "new")
			write(t, d, "place/a", "old")
			f := &failing{n: n, applied: applied}
			d.SetDisk(f.disk(disk))
			err := takeOver(t, d, "part/1")
			if !f.reached {
				break // there are fewer calls than n
			}
			where := fmt.Sprintf("call %d (%s), applied %v", n, f.failed, applied)
			if f.failed != "" && !errors.Is(err, syscall.EIO) && f.failed != "link" { // it copies instead
				t.Errorf("%s: got %v, want EIO", where, err)
			}
			got := held(t, d)
			if got["part/1"] != "new" && got["place/a"] != "new" || got["place/a"] != "old" && got["trash/a"] != "old" {
				t.Errorf("%s: something was lost: %q", where, got)
			}
		}
	}
}

// The bytes of what was taken are durable before it has its new name, and then both
// directories are.
func TestDirSyncsWhatItTakes(t *testing.T) {
	root := t.TempDir()
	d := openDir(t, root)
	for _, key := range []string{"part/1", "part/2", "place/a"} {
		write(t, d, key, key)
	}
	var mu sync.Mutex
	var calls []string
	note := func(what, name string) {
		mu.Lock()
		defer mu.Unlock()
		if rel, err := filepath.Rel(root, name); err == nil {
			name = filepath.ToSlash(rel)
		}
		calls = append(calls, what+" "+name)
	}
	disk := d.Disk()
	d.SetDisk(durable.Disk{
		Sync: func(f *os.File) error { note("sync", f.Name()); return nil },
		Link: disk.Link, Remove: disk.Remove, RenameNew: disk.RenameNew,
		Rename: func(at *durable.Parents, from, to string) error {
			note("rename", path.Join(root, to))
			return disk.Rename(at, from, to)
		},
	})
	if err := takeOver(t, d, "part/1"); err != nil {
		t.Fatal(err)
	}
	if len(calls) < 2 || calls[0] != "sync part/1" || calls[1] != "rename place/a" {
		t.Errorf("got the calls %q, want the file synced and then renamed", calls)
	}
	after := map[string]bool{}
	for _, c := range calls {
		after[c] = true
	}
	if !after["sync part"] || !after["sync place"] {
		t.Errorf("got the calls %q, want both directories synced", calls)
	}
}

func TestDirTakesNothingThatIsWrittenTo(t *testing.T) {
	root := t.TempDir()
	d := openDir(t, root)
	write(t, d, "a", "one")
	batch, err := d.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	o, err := batch.Take(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "a"), []byte("longer"), 0o600); err != nil {
		t.Fatal(err)
	}
	batch.Put(o, blob.Put{Key: "b"})
	if err := batch.Commit(t.Context()); err == nil {
		t.Error("got no error")
	}
	if got := held(t, d); got["a"] != "longer" || got["b"] != "" {
		t.Errorf("got %q, want the file where it was", got)
	}
}
