package blob_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"instep/blob"
)

// passingDir opens a directory for what is not read soon.
func passingDir(t *testing.T, root string) *blob.Dir {
	t.Helper()
	d := openDirAs(t, root, blob.DirOptions{Passing: true})
	if d.Disk().OpenNameless == nil {
		t.Skip("there are no files without a name")
	}
	write(t, d, "first", "first") // whether there are such files is tried with it
	return d
}

// Of what is passing each file is let go of once, when it has been made durable and has
// its name; of the rest none is.
func TestWhatIsPassingLeavesMemoryOnceItIsDurable(t *testing.T) {
	for name, passing := range map[string]bool{"passing": true, "not passing": false} {
		t.Run(name, func(t *testing.T) {
			var d *blob.Dir
			if passing {
				d = passingDir(t, t.TempDir())
			} else {
				d, _ = namelessDir(t, 100)
			}
			var mu sync.Mutex // guards synced
			synced, gone := map[uint64]bool{}, 0
			disk := d.Disk()
			plain := disk.Sync
			disk.SyncFS = nil // each file by itself
			disk.Sync = func(f *os.File) error {
				mu.Lock()
				synced[stat(t, f).Ino] = true
				mu.Unlock()
				return plain(f)
			}
			disk.Uncache = func(f *os.File) {
				gone++
				st := stat(t, f)
				if !synced[st.Ino] {
					t.Error("let go of before it was durable")
				}
				if st.Nlink != 1 {
					t.Error("let go of without its name")
				}
			}
			d.SetDisk(disk)
			batch := beginDir(t, d)
			for i, o := range create(t, batch, 7) {
				if err := o.Close(); err != nil {
					t.Error(err)
				}
				batch.Put(o, blob.Put{Key: strconv.Itoa(i)})
			}
			if err := batch.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			if want := map[bool]int{true: 7}[passing]; gone != want {
				t.Errorf("%d files were let go of, want %d", gone, want)
			}
		})
	}
}

var errSync = errors.New("the disk does not write")

// What is given up is not let go of: the system would write it to the disk before.
func TestWhatIsGivenUpIsNotWrittenForIt(t *testing.T) {
	for name, end := range map[string]func(*testing.T, blob.Batch, []blob.Object){
		"an object": func(t *testing.T, _ blob.Batch, all []blob.Object) {
			for _, o := range all {
				if err := o.Discard(); err != nil {
					t.Error(err)
				}
			}
		},
		"a batch": func(t *testing.T, b blob.Batch, _ []blob.Object) {
			if err := b.Discard(); err != nil {
				t.Error(err)
			}
		},
		"a batch that could not be made durable": func(t *testing.T, b blob.Batch, all []blob.Object) {
			for i, o := range all {
				if err := o.Close(); err != nil {
					t.Error(err)
				}
				b.Put(o, blob.Put{Key: strconv.Itoa(i)})
			}
			if err := b.Commit(t.Context()); !errors.Is(err, errSync) {
				t.Errorf("got %v, want %v", err, errSync)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := passingDir(t, t.TempDir())
			disk := d.Disk()
			disk.SyncFS = nil // each file by itself
			disk.Sync = func(*os.File) error { return errSync }
			disk.Uncache = func(*os.File) { t.Error("let go of what was given up") }
			d.SetDisk(disk)
			batch := beginDir(t, d)
			end(t, batch, create(t, batch, 3))
		})
	}
}

func stat(t *testing.T, f *os.File) (st unix.Stat_t) {
	t.Helper()
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		t.Error(err)
	}
	return st
}

// The system really does let go of what is passing, and what is read is what was written.
func TestTheSystemLetsGoOfWhatIsPassing(t *testing.T) {
	root := t.TempDir()
	d := passingDir(t, root)
	var st unix.Statfs_t
	if err := unix.Statfs(root, &st); err != nil || st.Type != unix.EXT4_SUPER_MAGIC && st.Type != unix.XFS_SUPER_MAGIC {
		t.Skipf("%s is on no file system whose files can leave memory (%v)", root, err)
	}
	data := strings.Repeat("some of the bytes ", 50)
	write(t, d, "passing", data)
	write(t, openDir(t, root), "kept", data)
	if !inMemory(t, filepath.Join(root, "kept")) {
		t.Skip("nothing stays in memory here")
	}
	if inMemory(t, filepath.Join(root, "passing")) {
		t.Error("it is in memory yet")
	}
	if got := held(t, d)["passing"]; got != data {
		t.Errorf("read %d bytes that are not those written", len(got))
	}
}

// inMemory reports whether a file begins in memory.
func inMemory(t *testing.T, name string) bool {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_, err = unix.Preadv2(int(f.Fd()), [][]byte{make([]byte, 1)}, 0, unix.RWF_NOWAIT)
	if err != nil && !errors.Is(err, unix.EAGAIN) {
		t.Skip("the system does not tell: ", err)
	}
	return err == nil
}
