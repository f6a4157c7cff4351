package blob_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"

	"instep/blob"
	"instep/internal/durable"
)

// failing makes the nth call to a disk fail with EIO, before or after it took effect.
type failing struct {
	mu      sync.Mutex
	n       int
	applied bool
	reached bool   // there were as many calls
	failed  string // the call that failed
}

func (f *failing) call(name string, do func() error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n--
	if f.n != 0 {
		return do()
	}
	f.reached = true
	if f.applied {
		if err := do(); err != nil {
			return err // it failed by itself
		}
	}
	f.failed = name
	return syscall.EIO
}

func (f *failing) disk(d durable.Disk) durable.Disk {
	made := durable.Disk{
		Sync: func(file *os.File) error { return f.call("sync", func() error { return d.Sync(file) }) },
		Rename: func(at *durable.Parents, from, to string) error {
			return f.call("rename", func() error { return d.Rename(at, from, to) })
		},
		RenameNew: func(at *durable.Parents, from, to string) error {
			return f.call("rename new", func() error { return d.RenameNew(at, from, to) })
		},
		Link: func(at *durable.Parents, from, to string) error {
			return f.call("link", func() error { return d.Link(at, from, to) })
		},
		Remove: func(root *os.Root, name string) error {
			return f.call("remove", func() error { return d.Remove(root, name) })
		},
	}
	made.SyncFS = func(file *os.File) error {
		return f.call("sync the file system", func() error { return d.SyncFS(file) })
	}
	if d.OpenNameless == nil {
		return made
	}
	made.OpenNameless = func(dir *os.File, mode fs.FileMode) (file *os.File, err error) {
		failed := f.call("open nameless", func() error {
			file, err = d.OpenNameless(dir, mode)
			return err
		})
		if failed != nil && file != nil {
			return nil, errors.Join(failed, file.Close())
		}
		return file, failed
	}
	made.NameNew = func(at *durable.Parents, file *os.File, to string) error {
		return f.call("name new", func() error { return d.NameNew(at, file, to) })
	}
	return made
}

// quick is a disk that only says that it syncs: these tests cut no power.
func quick(d durable.Disk) durable.Disk {
	d.Sync = func(*os.File) error { return nil }
	d.SyncFS = d.Sync
	return d
}

// change is one batch with every kind of step, and enough objects for one sync of
// the whole file system. It leads from before to after.
func change(ctx context.Context, d *blob.Dir, many int) error {
	batch, err := d.Begin(ctx)
	if err != nil {
		return err
	}
	var errs []error
	add := func(p blob.Put) {
		o, err := batch.Create(ctx)
		if err != nil {
			errs = append(errs, err)
			return
		}
		_, wrote := o.Write([]byte("new " + p.Key))
		errs = append(errs, wrote, o.Close())
		batch.Put(o, p)
	}
	add(blob.Put{Key: "replaced"})
	add(blob.Put{Key: "dir/kept", Keep: "trash/dir/kept"})
	for i := range many {
		add(blob.Put{Key: fmt.Sprintf("many/%d/%d", i%3, i)})
	}
	batch.Move("dir/moved", "trash/dir/moved")
	batch.Delete("gone/deleted")
	if err := errors.Join(errs...); err != nil {
		return errors.Join(err, batch.Discard())
	}
	return batch.Commit(ctx)
}

func before() map[string]string {
	return map[string]string{"replaced": "old", "dir/kept": "old", "dir/moved": "old", "gone/deleted": "old"}
}

func after(many int) map[string]string {
	want := map[string]string{
		"replaced": "new replaced", "dir/kept": "new dir/kept", "trash/dir/kept": "old", "trash/dir/moved": "old",
	}
	for i := range many {
		key := fmt.Sprintf("many/%d/%d", i%3, i)
		want[key] = "new " + key
	}
	return want
}

func held(t *testing.T, d *blob.Dir) map[string]string {
	t.Helper()
	got := map[string]string{}
	for info, err := range d.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		data, err := blob.ReadAll(t.Context(), d, info.Key, 1000)
		if err != nil {
			t.Fatal(err)
		}
		got[info.Key] = string(data)
	}
	return got
}

// TestCat_STO_06 lets each call to the disk fail in turn. Whatever fails, Commit
// says so, each object is whole and either old or new, what was kept is kept,
// no temporary file is left, and doing all again succeeds.
func TestCat_STO_06(t *testing.T) {
	for _, kind := range kinds {
		for _, many := range []int{3, 50} {
			for _, applied := range []bool{false, true} {
				for n := 1; ; n++ {
					f := &failing{n: n, applied: applied}
					if !failOnce(t, f, many, kind.of) {
						break // there are fewer calls than n
					}
					n += n / 4 // of many calls, not each
				}
			}
		}
	}
}

// filled opens a directory with the objects of before in it.
func filled(t *testing.T, root string, kind func(durable.Disk) durable.Disk) (*blob.Dir, durable.Disk) {
	t.Helper()
	d := openDir(t, root)
	disk := kind(quick(d.Disk()))
	d.SetDisk(disk)
	for key, data := range before() {
		write(t, d, key, data)
	}
	return d, disk
}

func failOnce(t *testing.T, f *failing, many int, kind func(durable.Disk) durable.Disk) bool {
	t.Helper()
	root := t.TempDir()
	d, disk := filled(t, root, kind)
	d.SetDisk(f.disk(disk))
	where := fmt.Sprintf("call %d, applied %v, %d objects", f.n, f.applied, many)
	err := change(t.Context(), d, many)
	d.SetDisk(disk)
	if f.failed == "" {
		if err != nil {
			t.Errorf("%s: nothing failed, got %v", where, err)
		}
		return f.reached
	}
	where += ", " + f.failed
	copied := f.failed == "link" && err == nil // instead
	if !errors.Is(err, syscall.EIO) && !copied {
		t.Errorf("%s: got %v, want EIO", where, err)
	}
	wantEach(t, where, held(t, d), before(), after(many))
	left, err := os.ReadDir(filepath.Join(root, ".instep", "tmp"))
	if open := d.Nameless(); len(left) > 0 || open > 0 || err != nil {
		t.Errorf("%s: left over: %v, %d without a name, %v", where, left, open, err)
	}
	if err := change(t.Context(), d, many); err != nil {
		t.Errorf("%s, again: %v", where, err)
	}
	if got := held(t, d); !maps.Equal(got, after(many)) {
		t.Errorf("%s, again: got %q, want %q", where, got, after(many))
	}
	return true
}

// wantEach checks that each object is in its old or its new state.
func wantEach(t *testing.T, where string, got, older, newer map[string]string) {
	t.Helper()
	for key, data := range got {
		if data != older[key] && data != newer[key] {
			t.Errorf("%s: %q holds %q", where, key, data)
		}
	}
	for _, key := range []string{"replaced", "dir/kept"} {
		if got[key] == "" {
			t.Errorf("%s: %q disappeared", where, key)
		}
	}
	if got["dir/kept"] != "old" && got["trash/dir/kept"] != "old" || got["dir/moved"] != "old" && got["trash/dir/moved"] != "old" {
		t.Errorf("%s: something old was lost: %q", where, got)
	}
}

// watching notes the order of syncs and renames.
type watching struct {
	t    *testing.T
	root string

	mu       sync.Mutex
	synced   map[string]bool   // files and directories not changed since they were synced
	nameless map[*os.File]bool // the same of files without a name
}

func (w *watching) set(name string, synced bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.synced[name] = synced
}

func (w *watching) renamed(from, to string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if strings.HasPrefix(from, ".instep/") && !w.synced[from] {
		w.t.Errorf("%q became %q before it was synced", from, to)
	}
	w.synced[path.Dir(to)] = false
}

func (w *watching) setNameless(f *os.File, synced bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nameless[f] = synced
}

func (w *watching) named(f *os.File, to string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.nameless[f] {
		w.t.Errorf("a file without a name became %q before it was synced", to)
	}
	delete(w.nameless, f)
	w.synced[to] = true
	w.synced[path.Dir(to)] = false
}

func (w *watching) sync(f *os.File, sync func(*os.File) error) error {
	rel, err := filepath.Rel(w.root, f.Name())
	if err == nil {
		err = sync(f)
	}
	w.mu.Lock()
	_, nameless := w.nameless[f]
	w.mu.Unlock()
	if nameless {
		w.setNameless(f, err == nil)
	} else {
		w.set(filepath.ToSlash(rel), err == nil)
	}
	return err
}

func (w *watching) disk(d durable.Disk) durable.Disk {
	made := d
	made.Sync = func(f *os.File) error { return w.sync(f, d.Sync) }
	if d.OpenNameless != nil {
		made.OpenNameless = func(dir *os.File, mode fs.FileMode) (*os.File, error) {
			f, err := d.OpenNameless(dir, mode)
			w.setNameless(f, false)
			return f, err
		}
		made.NameNew = func(at *durable.Parents, f *os.File, to string) error {
			err := d.NameNew(at, f, to)
			if err == nil {
				w.named(f, to)
			}
			return err
		}
	}
	made.Rename = func(at *durable.Parents, from, to string) error {
		err := d.Rename(at, from, to)
		w.renamed(from, to)
		return err
	}
	made.RenameNew = func(at *durable.Parents, from, to string) error {
		err := d.RenameNew(at, from, to)
		if err == nil {
			w.renamed(from, to)
		}
		return err
	}
	made.Link = func(at *durable.Parents, from, to string) error {
		w.set(path.Dir(to), false)
		return d.Link(at, from, to)
	}
	made.Remove = func(root *os.Root, name string) error {
		w.set(path.Dir(name), false)
		return d.Remove(root, name)
	}
	return made
}

// all marks every file and directory as synced.
func (w *watching) all() {
	for name := range tree(w.t, w.root) {
		w.set(strings.TrimSuffix(name, "/"), true)
	}
	w.set(".", true)
	w.mu.Lock()
	defer w.mu.Unlock()
	for f := range w.nameless {
		w.nameless[f] = true
	}
}

// TestDirSyncsFilesBeforeAndDirectoriesAfterTheyGetNames also covers directories
// that are new, and those that an interrupted run may have made.
func TestDirSyncsFilesBeforeAndDirectoriesAfterTheyGetNames(t *testing.T) {
	for _, kind := range kinds {
		for _, many := range []int{3, 200} {
			for _, whole := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s, %d objects, whole file system %v", kind.name, many, whole), func(t *testing.T) {
					watchChange(t, many, whole, kind.of)
				})
			}
		}
	}
}

func watchChange(t *testing.T, many int, whole bool, kind func(durable.Disk) durable.Disk) {
	root := t.TempDir()
	d, disk := filled(t, root, kind)
	if err := os.MkdirAll(filepath.Join(root, "many", "1"), 0o750); err != nil {
		t.Fatal(err)
	}
	w := &watching{t: t, root: root, synced: map[string]bool{}, nameless: map[*os.File]bool{}}
	made := w.disk(disk)
	made.SyncFS = nil
	if whole {
		made.SyncFS = func(f *os.File) error {
			err := disk.SyncFS(f)
			w.all()
			return err
		}
	}
	d.SetDisk(made)
	if err := change(t.Context(), d, many); err != nil {
		t.Fatal(err)
	}
	for key := range after(many) {
		for dir := path.Dir(key); ; dir = path.Dir(dir) {
			if !w.synced[dir] {
				t.Errorf("%q was not synced after it changed", dir)
				w.set(dir, true)
			}
			if dir == "." {
				break
			}
		}
	}
}

// TestASecondBatchWaitsForTheDirectoriesOfTheFirst: a batch that finds a directory
// made by another one must not be acknowledged before that directory is durable.
func TestASecondBatchWaitsForTheDirectoriesOfTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := t.TempDir()
		d := openDir(t, root)
		slow := quick(d.Disk())
		release := make(chan struct{})
		slow.Sync = func(f *os.File) error {
			if filepath.Clean(f.Name()) == root {
				<-release
			}
			return nil
		}
		d.SetDisk(slow)
		put := func(ctx context.Context, key string) <-chan error {
			done := make(chan error, 1)
			go func() {
				_, err := blob.Write(ctx, d, strings.NewReader(key), blob.Put{Key: key})
				done <- err
			}()
			synctest.Wait()
			return done
		}
		ctx, cancel := context.WithCancel(t.Context())
		first, second, third := put(t.Context(), "new/1"), put(t.Context(), "new/2"), put(ctx, "new/3")
		cancel()
		if err := <-third; !errors.Is(err, context.Canceled) {
			t.Errorf("a batch that waits and is cancelled: got %v, want context.Canceled", err)
		}
		synctest.Wait()
		select {
		case err := <-first:
			t.Errorf("the first batch did not wait: %v", err)
		case err := <-second:
			t.Errorf("the second batch did not wait: %v", err)
		default:
		}
		close(release)
		if err := errors.Join(<-first, <-second); err != nil {
			t.Error(err)
		}
	})
}
