package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

func openRoot(t *testing.T) (*os.Root, string) {
	t.Helper()
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := root.Close(); err != nil {
			t.Error(err)
		}
	})
	return root, dir
}

func write(t *testing.T, root *os.Root, name, data string) {
	t.Helper()
	if err := root.WriteFile(name, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
}

func wantFile(t *testing.T, root *os.Root, name, want string) {
	t.Helper()
	if got, err := root.ReadFile(name); string(got) != want || err != nil {
		t.Errorf("%s: got %q, %v, want %q", name, got, err, want)
	}
}

func wantAbsent(t *testing.T, root *os.Root, name string) {
	t.Helper()
	if _, err := root.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s: got %v, want that it is absent", name, err)
	}
}

func TestRenameNewNeverReplaces(t *testing.T) {
	for name, rename := range map[string]func(p *Parents, from, to string) error{
		"the system's call": (*Parents).renameNew, "in two steps": (*Parents).linkAndRemove,
	} {
		t.Run(name, func(t *testing.T) {
			root, _ := openRoot(t)
			p := &Parents{Root: root}
			if err := root.MkdirAll("dir/sub", 0o700); err != nil {
				t.Fatal(err)
			}
			write(t, root, "a", "a")
			write(t, root, "b", "b")
			if err := rename(p, "a", "dir/a"); err != nil {
				t.Fatal(err)
			}
			wantAbsent(t, root, "a")
			wantFile(t, root, "dir/a", "a")
			for _, taken := range []string{"dir/a", "dir/sub"} {
				if err := rename(p, "b", taken); !errors.Is(err, fs.ErrExist) {
					t.Errorf("to %s: got %v, want ErrExist", taken, err)
				}
			}
			for _, try := range [][2]string{{"missing", "c"}, {"b", "missing/b"}, {"missing/b", "c"}} {
				if err := rename(p, try[0], try[1]); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s to %s: got %v, want ErrNotExist", try[0], try[1], err)
				}
			}
			wantFile(t, root, "dir/a", "a")
			wantFile(t, root, "b", "b")
			if err := p.Forget(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestRenameNewSeesADirectoryMadeAgainAfterForget(t *testing.T) {
	root, _ := openRoot(t)
	p := &Parents{Root: root}
	for _, data := range []string{"1", "2"} {
		if err := root.Mkdir("dir", 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, root, "a", data)
		if err := p.renameNew("a", "dir/a"); err != nil {
			t.Fatal(err)
		}
		wantFile(t, root, "dir/a", data)
		if err := root.RemoveAll("dir"); err != nil {
			t.Fatal(err)
		}
		if err := p.Forget(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestKeepLeavesTheOldBytesUnderASecondName(t *testing.T) {
	for _, links := range []bool{true, false} {
		root, _ := openRoot(t)
		disk := System(root)
		if !links {
			disk.Link = func(*Parents, string, string) error { return syscall.EPERM }
		}
		p := &Parents{Root: root}
		write(t, root, "a", "old")
		if err := disk.Keep(p, "a", "kept", "temp", 0o600); err != nil {
			t.Fatal(err)
		}
		write(t, root, "new", "new")
		if err := disk.Rename(p, "new", "a"); err != nil {
			t.Fatal(err)
		}
		if err := disk.Keep(p, "a", "kept", "temp", 0o600); !errors.Is(err, fs.ErrExist) {
			t.Errorf("links %v, again: got %v, want ErrExist", links, err)
		}
		if err := disk.Keep(p, "missing", "other", "temp", 0o600); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("links %v, nothing there: got %v, want ErrNotExist", links, err)
		}
		wantFile(t, root, "a", "new")
		wantFile(t, root, "kept", "old")
		wantAbsent(t, root, "temp")
		wantAbsent(t, root, "other")
		if err := p.Forget(); err != nil {
			t.Error(err)
		}
	}
}

func TestKeepLeavesNothingWhenTheCopyCanNotBeSynced(t *testing.T) {
	root, _ := openRoot(t)
	disk := System(root)
	disk.Link = func(*Parents, string, string) error { return syscall.EPERM }
	disk.Sync = func(*os.File) error { return syscall.EIO }
	write(t, root, "a", "old")
	p := &Parents{Root: root}
	if err := disk.Keep(p, "a", "kept", "temp", 0o600); !errors.Is(err, syscall.EIO) || !strings.Contains(err.Error(), syscall.EPERM.Error()) {
		t.Errorf("got %v, want EIO, and why there is no link", err)
	}
	wantAbsent(t, root, "kept")
	wantAbsent(t, root, "temp")
	wantFile(t, root, "a", "old")
}

func TestOpenRegularOpensNothingElse(t *testing.T) {
	root, dir := openRoot(t)
	write(t, root, "a", "a")
	err := errors.Join(root.Mkdir("dir", 0o700), os.Symlink("a", filepath.Join(dir, "link")))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"dir", "link"} {
		if _, err := OpenRegular(root, name); !errors.Is(err, ErrNotRegular) {
			t.Errorf("%s: got %v, want ErrNotRegular", name, err)
		}
	}
	f, err := OpenRegular(root, "a")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

// counting is a disk that counts what is synced.
type counting struct {
	mu    sync.Mutex
	files map[string]int
	whole int
}

func (c *counting) disk(d Disk, whole bool) Disk {
	d.Sync = func(f *os.File) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.files[filepath.Base(f.Name())]++
		return nil
	}
	d.SyncFS = nil
	if whole {
		d.SyncFS = func(*os.File) error {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.whole++
			return nil
		}
	}
	return d
}

func add(t *testing.T, g *Group, root *os.Root, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		f, err := root.Create(fmt.Sprint("f", i))
		if err != nil {
			t.Fatal(err)
		}
		if err := g.Add(f); err != nil {
			t.Fatal(err)
		}
	}
}

func TestGroupSyncsEveryFileOnceOrAllAtOnce(t *testing.T) {
	for _, c := range []struct {
		whole                  bool
		files, synced, syncsFS int
	}{
		{false, 0, 0, 0}, {false, 1, 1, 0}, {false, 600, 600, 0},
		{true, 0, 0, 0}, {true, fewFiles, fewFiles, 0}, {true, fewFiles + 1, 0, 1}, {true, 600, 0, 1},
	} {
		root, _ := openRoot(t)
		n := &counting{files: map[string]int{}}
		g, err := n.disk(System(root), c.whole).NewGroup(root, 0)
		if err != nil {
			t.Fatal(err)
		}
		add(t, g, root, 0, c.files)
		for range 2 { // the second has nothing to do
			if err := g.Sync(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if len(n.files) != c.synced || n.whole != c.syncsFS {
			t.Errorf("%+v: %d files and %d times all", c, len(n.files), n.whole)
		}
		for name, times := range n.files {
			if times != 1 {
				t.Errorf("%+v: %s was synced %d times", c, name, times)
			}
		}
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestGroupRemembersAFailedSync(t *testing.T) {
	for _, files := range []int{3, fewFiles + 10} {
		root, _ := openRoot(t)
		disk := System(root)
		failing := true
		disk.Sync = func(*os.File) error {
			if failing {
				return syscall.EIO
			}
			return nil
		}
		disk.SyncFS = disk.Sync
		g, err := disk.NewGroup(root, 1)
		if err != nil {
			t.Fatal(err)
		}
		add(t, g, root, 0, files)
		for range 2 { // the disk answers well the second time, as disks do: the bytes are lost all the same
			if err := g.Sync(t.Context()); !errors.Is(err, syscall.EIO) {
				t.Errorf("%d files: got %v, want EIO", files, err)
			}
			failing = false
		}
		add(t, g, root, files, files+1)
		if err := g.Sync(t.Context()); !errors.Is(err, syscall.EIO) {
			t.Errorf("%d files and one more: got %v, want EIO", files, err)
		}
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestGroupSyncsDirectories(t *testing.T) {
	root, _ := openRoot(t)
	var dirs []string
	for i := range fewFiles + 1 {
		dirs = append(dirs, fmt.Sprint("d", i))
		if err := root.Mkdir(dirs[i], 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, whole := range []bool{false, true} {
		n := &counting{files: map[string]int{}}
		g, err := n.disk(System(root), whole).NewGroup(root, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := g.SyncDirs(t.Context(), dirs); err != nil {
			t.Error(err)
		}
		if all := n.whole == 1 && len(n.files) == 0; whole != all || !whole && len(n.files) != len(dirs) && dirsSync {
			t.Errorf("whole %v: %d directories and %d times all", whole, len(n.files), n.whole)
		}
		if err := g.SyncDirs(t.Context(), []string{"missing"}); dirsSync && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a directory that vanished: got %v, want ErrNotExist", err)
		}
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestSystemSyncs(t *testing.T) {
	root, _ := openRoot(t)
	g, err := System(root).NewGroup(root, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{1, fewFiles + 10} {
		add(t, g, root, 0, n)
		if err := g.Sync(t.Context()); err != nil {
			t.Error(err)
		}
		if err := g.SyncDirs(t.Context(), []string{"."}); err != nil {
			t.Error(err)
		}
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
}
