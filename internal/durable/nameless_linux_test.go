package durable

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// openNamelessIn makes a file without a name that holds data.
func openNamelessIn(t *testing.T, root *os.Root, data string) *os.File {
	t.Helper()
	dir, err := root.Open(".")
	if err != nil {
		t.Fatal(err)
	}
	f, err := openNameless(dir, 0o640)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EISDIR) {
		t.Skip("SKIPPED: this file system makes no files without a name: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(f.Close(), dir.Close()); err != nil {
			t.Error(err)
		}
	})
	if _, err := f.WriteString(data); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestNameNewNeverReplaces(t *testing.T) {
	root, dir := openRoot(t)
	if err := root.MkdirAll("dir/sub", 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, root, "dir/taken", "taken")
	p := &Parents{Root: root}
	f := openNamelessIn(t, root, "a")
	if names, err := os.ReadDir(dir); len(names) != 1 || err != nil {
		t.Errorf("before it is named: got the names %v, %v, want dir", names, err)
	}
	for _, taken := range []string{"dir/taken", "dir/sub"} {
		if err := p.nameNew(f, taken); !errors.Is(err, fs.ErrExist) {
			t.Errorf("to %s: got %v, want ErrExist", taken, err)
		}
	}
	if err := p.nameNew(f, "missing/a"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("to a directory that is missing: got %v, want ErrNotExist", err)
	}
	if err := p.nameNew(f, "dir/a"); err != nil {
		t.Error(err)
	}
	wantFile(t, root, "dir/a", "a")
	wantFile(t, root, "dir/taken", "taken")
	if st, err := root.Lstat("dir/a"); err != nil || st.Mode()&^0o640 != 0 {
		t.Errorf("got the mode %v, %v, want at most 0640", st.Mode(), err)
	}
	if err := p.Forget(); err != nil {
		t.Error(err)
	}
}

// Both ways to name a file are taken, by kernel and privilege; each of them names it,
// or says that it is not open with ENOENT, as it does of a directory that is gone.
func TestEachWayToNameAFile(t *testing.T) {
	for name, link := range map[string]func(fd, dir int, name string) error{"by the file": linkByFile, "by /proc": linkByProc} {
		t.Run(name, func(t *testing.T) {
			root, _ := openRoot(t)
			dir, err := root.Open(".")
			if err != nil {
				t.Fatal(err)
			}
			defer dir.Close()
			f := openNamelessIn(t, root, "data")
			err = link(int(f.Fd()), int(dir.Fd()), "a")
			if errors.Is(err, unix.ENOENT) {
				t.Skip("SKIPPED: this process may not do that")
			}
			if err != nil {
				t.Fatal(err)
			}
			wantFile(t, root, "a", "data")
			if err := link(int(openNamelessIn(t, root, "other").Fd()), int(dir.Fd()), "a"); !errors.Is(err, fs.ErrExist) {
				t.Errorf("to a name that is taken: got %v, want ErrExist", err)
			}
			wantFile(t, root, "a", "data")
		})
	}
}

func TestMaxNamelessLeavesMostOfTheFilesToOthers(t *testing.T) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	got := MaxNameless()
	if got > maxNameless || uint64(got) > limit.Cur/4 || limit.Cur >= 4*maxNameless && got != maxNameless {
		t.Errorf("got %d of %d", got, limit.Cur)
	}
}

// lend makes files without a name that g is to sync and not to close.
func lend(t *testing.T, g *Group, root *os.Root, n int) []*os.File {
	t.Helper()
	var files []*os.File
	for i := range n {
		f := openNamelessIn(t, root, strconv.Itoa(i))
		if err := g.Lend(f); err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	return files
}

func TestGroupSyncsWhatItIsLentAndLeavesItOpen(t *testing.T) {
	for _, c := range []struct {
		whole                                  bool
		lent, added, returned, synced, syncsFS int
	}{
		{false, 1, 0, 0, 1, 0}, {false, 300, 10, 5, 305, 0}, {true, 3, 2, 1, 4, 0},
		{true, fewFiles, 0, 0, fewFiles, 0}, {true, fewFiles + 1, 0, 0, 0, 1},
		{true, 30, 30, 0, 0, 1}, {true, fewFiles + 1, 0, fewFiles + 1, 0, 1},
	} {
		root, _ := openRoot(t)
		n := &counting{files: map[string]int{}}
		synced := map[*os.File]bool{}
		disk := n.disk(System(root), c.whole)
		disk.Sync = func(f *os.File) error {
			n.mu.Lock()
			defer n.mu.Unlock()
			if synced[f] {
				t.Errorf("%+v: a file was synced twice", c)
			}
			synced[f] = true
			return nil
		}
		g, err := disk.NewGroup(root, 0)
		if err != nil {
			t.Fatal(err)
		}
		files := lend(t, g, root, c.lent)
		add(t, g, root, 0, c.added)
		for _, f := range files[:c.returned] {
			g.Return(f)
		}
		for range 2 { // the second has nothing to do
			if err := g.Sync(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if len(synced) != c.synced || n.whole != c.syncsFS {
			t.Errorf("%+v: %d files and %d times all", c, len(synced), n.whole)
		}
		if err := g.Close(); err != nil {
			t.Error(err)
		}
		for _, f := range files {
			if _, err := f.WriteString("still open"); err != nil {
				t.Errorf("%+v: %v", c, err)
			}
		}
	}
}

func TestGroupRemembersAFailedSyncOfWhatItWasLent(t *testing.T) {
	for _, files := range []int{3, fewFiles + 10} {
		root, _ := openRoot(t)
		disk := System(root)
		answer := error(syscall.EIO)
		disk.Sync = func(*os.File) error { return answer }
		disk.SyncFS = disk.Sync
		g, err := disk.NewGroup(root, 0)
		if err != nil {
			t.Fatal(err)
		}
		lend(t, g, root, files)
		for range 2 {
			if err := g.Sync(t.Context()); !errors.Is(err, syscall.EIO) {
				t.Errorf("%d files: got %v, want EIO", files, err)
			}
			answer = nil
		}
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}
}
