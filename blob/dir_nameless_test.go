package blob_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"instep/blob"
	"instep/internal/durable"
)

// namelessDir opens a directory where objects are written into files without a name,
// at most most of them at a time.
func namelessDir(t *testing.T, most int) (*blob.Dir, string) {
	t.Helper()
	root := t.TempDir()
	d := openDir(t, root)
	if d.Disk().OpenNameless == nil {
		t.Skip("SKIPPED: this file system makes no files without a name")
	}
	d.SetNameless(most)
	write(t, d, "first", "first")
	return d, root
}

// create writes n objects that are not yet put.
func create(t *testing.T, batch blob.Batch, n int) []blob.Object {
	t.Helper()
	var made []blob.Object
	for i := range n {
		o, err := batch.Create(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := o.Write([]byte(strconv.Itoa(i))); err != nil {
			t.Fatal(err)
		}
		made = append(made, o)
	}
	return made
}

func beginDir(t *testing.T, d *blob.Dir) blob.Batch {
	t.Helper()
	batch, err := d.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := batch.Discard(); err != nil {
			t.Error(err)
		}
	})
	return batch
}

// wantTemp checks how many names the temporary directory has.
func wantTemp(t *testing.T, root string, want int) {
	t.Helper()
	left, err := os.ReadDir(filepath.Join(root, ".instep", "tmp"))
	if err != nil || len(left) != want {
		t.Errorf("temporary names: got %v, %v, want %d", left, err, want)
	}
}

func TestOnlyAsManyFilesWithoutANameAreOpenAsAllowed(t *testing.T) {
	d, root := namelessDir(t, 3)
	batch := beginDir(t, d)
	made := create(t, batch, 5)
	wantTemp(t, root, 2)
	if err := made[0].Discard(); err != nil {
		t.Error(err)
	}
	made = append(made[1:], create(t, batch, 2)...) // one in the place of what was discarded
	wantTemp(t, root, 3)
	for i, o := range made {
		if err := o.Close(); err != nil {
			t.Error(err)
		}
		batch.Put(o, blob.Put{Key: "many/" + strconv.Itoa(i)})
	}
	if got := d.Nameless(); got != 3 {
		t.Errorf("%d files without a name are open, want 3", got)
	}
	if err := batch.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantTemp(t, root, 0)
	wantTree(t, root, map[string]string{
		".instep/": "", ".instep/tmp/": "", "first": "first", "many/": "",
		"many/0": "1", "many/1": "2", "many/2": "3", "many/3": "4", "many/4": "0", "many/5": "1",
	})
	if got := d.Nameless(); got != 0 {
		t.Errorf("%d files without a name are open after Commit", got)
	}
}

// A name of an interrupted run is left alone when a file gets a name to replace another.
func TestAReplacingObjectPassesOverNamesLeftOver(t *testing.T) {
	d, root := namelessDir(t, 100)
	for i := range 36 {
		name := filepath.Join(root, ".instep", "tmp", strconv.FormatInt(int64(i), 36))
		if err := os.WriteFile(name, []byte("left"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(t, d, "first", "second")
	wantTemp(t, root, 36)
	for name, data := range tree(t, filepath.Join(root, ".instep", "tmp")) {
		if data != "left" {
			t.Errorf("%s holds %q", name, data)
		}
	}
	if got := held(t, d)["first"]; got != "second" {
		t.Errorf("got %q, want the second state", got)
	}
}

// openFiles counts the descriptors of this process.
func openFiles(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/dev/fd")
	if err != nil {
		t.Skipf("SKIPPED: the open files of this process cannot be counted: %v", err)
	}
	return len(list)
}

// TestNoFileStaysOpen ends batches in every way there is.
func TestNoFileStaysOpen(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, end := range map[string]func(t *testing.T, d *blob.Dir, batch blob.Batch, made []blob.Object) error{
		"commit": func(t *testing.T, _ *blob.Dir, batch blob.Batch, _ []blob.Object) error {
			return batch.Commit(t.Context())
		},
		"sync and commit": func(t *testing.T, _ *blob.Dir, batch blob.Batch, _ []blob.Object) error {
			return errors.Join(batch.(blob.Syncer).Sync(t.Context()), batch.Commit(t.Context()))
		},
		"discard": func(_ *testing.T, _ *blob.Dir, batch blob.Batch, _ []blob.Object) error {
			return batch.Discard()
		},
		"discard of each object": func(_ *testing.T, _ *blob.Dir, batch blob.Batch, made []blob.Object) error {
			var errs []error
			for _, o := range made {
				errs = append(errs, o.Discard(), o.Discard())
			}
			return errors.Join(append(errs, batch.Discard())...)
		},
		"an object that is open": func(t *testing.T, _ *blob.Dir, batch blob.Batch, _ []blob.Object) error {
			batch.Put(create(t, batch, 1)[0], blob.Put{Key: "open"})
			return wantError(batch.Commit(t.Context()), nil)
		},
		"an object that broke": func(t *testing.T, _ *blob.Dir, batch blob.Batch, _ []blob.Object) error {
			o := create(t, batch, 1)[0]
			blob.BreakObject(o)
			_, err := o.Write([]byte("more"))
			return errors.Join(wantError(err, fs.ErrClosed), wantError(o.Close(), fs.ErrClosed), batch.Commit(t.Context()))
		},
		"a key that is taken": func(t *testing.T, _ *blob.Dir, batch blob.Batch, _ []blob.Object) error {
			o := create(t, batch, 1)[0]
			err := o.Close()
			batch.Put(o, blob.Put{Key: "first", IfAbsent: true})
			return errors.Join(err, wantError(batch.Commit(t.Context()), blob.ErrExist))
		},
		"cancelled": func(_ *testing.T, _ *blob.Dir, batch blob.Batch, _ []blob.Object) error {
			return wantError(batch.Commit(cancelled), context.Canceled)
		},
		"a failed sync": func(t *testing.T, d *blob.Dir, batch blob.Batch, _ []blob.Object) error {
			return errors.Join(batch.Discard(), failedSync(t, d))
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, root := namelessDir(t, 70)
			before := openFiles(t)
			batch := beginDir(t, d)
			made := create(t, batch, 80) // some with a name
			for i, o := range made {
				if err := o.Close(); err != nil {
					t.Error(err)
				}
				batch.Put(o, blob.Put{Key: "first", Keep: "kept/" + strconv.Itoa(i)})
			}
			if err := end(t, d, batch, made); err != nil {
				t.Error(err)
			}
			if got := openFiles(t); got != before || d.Nameless() > 0 {
				t.Errorf("%d files are open, %d of them without a name; there were %d", got, d.Nameless(), before)
			}
			wantTemp(t, root, 0)
		})
	}
}

// wantError turns the absence of an expected error into one; nil expects any.
func wantError(got, want error) error {
	if got == nil || want != nil && !errors.Is(got, want) {
		return errors.Join(errors.New("expected another error"), got, want)
	}
	return nil
}

// failedSync writes one object whose bytes do not reach the disk: it gets no key.
func failedSync(t *testing.T, d *blob.Dir) error {
	disk := d.Disk()
	defer d.SetDisk(disk)
	broken := disk
	broken.Sync = func(*os.File) error { return syscall.EIO }
	d.SetDisk(broken)
	_, err := blob.Write(t.Context(), d, strings.NewReader("lost"), blob.Put{Key: "lost"})
	if _, there := held(t, d)["lost"]; there {
		return errors.New("what was not synced has a name")
	}
	return wantError(err, syscall.EIO)
}

// Where the first file without a name is not as it should be there are no others, and
// nothing else is different.
func TestWithoutFilesWithoutANameThereAreTemporaryOnes(t *testing.T) {
	for name, change := range map[string]func(d *durable.Disk){
		"none can be opened": func(d *durable.Disk) {
			d.OpenNameless = func(*os.File, fs.FileMode) (*os.File, error) { return nil, syscall.EOPNOTSUPP }
		},
		"none can be named": func(d *durable.Disk) {
			d.NameNew = func(*durable.Parents, *os.File, string) error { return syscall.ENOENT }
		},
		"named, and an error": func(d *durable.Disk) {
			nameNew := d.NameNew
			d.NameNew = func(at *durable.Parents, f *os.File, to string) error {
				return errors.Join(nameNew(at, f, to), syscall.EIO)
			}
		},
		"another mode": func(d *durable.Disk) {
			open := d.OpenNameless
			d.OpenNameless = func(dir *os.File, _ fs.FileMode) (*os.File, error) { return open(dir, 0o400) }
		},
		"the system has none": func(d *durable.Disk) { d.OpenNameless, d.NameNew = nil, nil },
	} {
		t.Run(name, func(t *testing.T) {
			if d := openDir(t, t.TempDir()); d.Disk().OpenNameless == nil {
				t.Skip("SKIPPED: this file system makes no files without a name")
			}
			before := openFiles(t)
			root := t.TempDir()
			d, err := blob.OpenDir(root, blob.DirOptions{})
			if err != nil {
				t.Fatal(err)
			}
			disk := d.Disk()
			change(&disk)
			d.SetDisk(disk)
			batch := beginDir(t, d)
			made := create(t, batch, 1)
			wantTemp(t, root, 1)
			batch.Put(made[0], blob.Put{Key: "a"})
			if err := errors.Join(made[0].Close(), batch.Commit(t.Context())); err != nil {
				t.Error(err)
			}
			write(t, d, "a", "again")
			wantTree(t, root, map[string]string{".instep/": "", ".instep/tmp/": "", "a": "again"})
			if err := d.Close(); err != nil {
				t.Error(err)
			}
			if got := openFiles(t); got != before {
				t.Errorf("%d files are open, there were %d", got, before)
			}
		})
	}
}

// TestNothingIsLeftOfWhatHasNoName is about the kill that comes before the commit.
func TestNothingIsLeftOfWhatHasNoName(t *testing.T) {
	d, root := namelessDir(t, 100)
	batch := beginDir(t, d)
	for _, o := range create(t, batch, 60) {
		if err := o.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := batch.(blob.Syncer).Sync(t.Context()); err != nil {
		t.Error(err)
	}
	wantTree(t, root, map[string]string{".instep/": "", ".instep/tmp/": "", "first": "first"})
}
