package scan

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"instep/guard"
)

// mountedAt has the directories given on devices of their own, which what is in them is on, too.
func mountedAt(mounts *[]string) func(string, fs.FileInfo) (uint64, bool) {
	return func(name string, _ fs.FileInfo) (device uint64, ok bool) {
		for i, m := range *mounts {
			if name == m || m != ".." && strings.HasPrefix(name, m+"/") || m == "." && name != ".." {
				device = uint64(i) + 1
			}
		}
		return device, true
	}
}

func TestCat_PUB_05_mount(t *testing.T) {
	for _, mount := range []string{"disk", "a/disk", "."} {
		t.Run(mount, func(t *testing.T) {
			f := setUp(t, "a/1", "a/2", "a/3", "a/4", "a/5", "a/6", "a/7", "a/8", "disk/x", "disk/d/y", "a/disk/x", "a/disk/d/y")
			mounts := []string{mount}
			f.Device, f.Above = mountedAt(&mounts), above(t, f)
			f.scan()
			f.scan() // and it stays known
			mounts = nil
			lost, deleted := []string{mount + "/x", mount + "/d/y"}, int64(2)
			if mount == "." {
				lost, deleted = []string{"a", "disk"}, 12
			}
			f.remove(lost...)
			var held *GuardError
			if _, err := f.Apply(t.Context(), f.plan()); !errors.As(err, &held) || held.Mount != mount || held.Deletes != deleted {
				t.Fatalf("got %v, want the %d deletions below %q held", err, deleted, mount)
			}
			f.write(mount+"/another", "of what is below the mount")
			if _, err := f.Apply(t.Context(), f.plan()); !errors.As(err, &held) {
				t.Fatalf("with a file that was not published: got %v, want a *GuardError", err)
			}
			f.remove(mount + "/another")

			f.MaxDelete, _ = guard.ParseLimit("99%") // as a configuration may always have it
			if _, err := f.Apply(t.Context(), f.plan()); !errors.As(err, &held) {
				t.Fatalf("with a limit that does not allow all: got %v, want a *GuardError", err)
			}
			f.MaxDelete, _ = guard.ParseLimit("100%")
			expect(t, f.scan(), 0, 0, deleted, 12-deleted)
			f.MaxDelete = guard.Limit{}
			expect(t, f.scan(), 0, 0, 0, 12-deleted)
		})
	}
}

// When it is mounted again nothing has happened.
func TestAMountThatComesBackIsAsItWas(t *testing.T) {
	f := setUp(t, "a", "b", "c", "disk/x")
	mounts := []string{"disk"}
	f.Device = mountedAt(&mounts)
	f.scan()
	mounts = nil
	f.remove("disk")
	if p := f.plan(); p.Guard == nil || p.Guard.Mount != "disk" {
		t.Fatalf("got %v, want the deletion held, as the directory is gone", p.Guard)
	}
	mounts = []string{"disk"}
	f.write("disk/x", "content of disk/x")
	if p := f.plan(); p.Guard != nil {
		t.Errorf("got %v, want nothing held", p.Guard)
	}
}

func TestMountsThatHoldNothingBack(t *testing.T) {
	for name, change := range map[string]func(f *fixture, mounts *[]string){
		"it is a mount still":        func(f *fixture, _ *[]string) { f.remove("disk/x", "disk/y") },
		"one of its files is there":  func(f *fixture, m *[]string) { f.remove("disk/x"); *m = nil },
		"what is gone was elsewhere": func(f *fixture, m *[]string) { f.remove("a"); *m = nil },
		"it is excluded":             func(f *fixture, _ *[]string) { f.Exclude = []string{"disk"} },
		"another was mounted":        func(f *fixture, m *[]string) { f.remove("d/z"); *m = []string{"disk", "d"} },
	} {
		t.Run(name, func(t *testing.T) {
			f := setUp(t, "a", "b", "c", "e", "d/z", "disk/x", "disk/y")
			mounts := []string{"disk"}
			f.Device = mountedAt(&mounts)
			f.scan()
			change(f, &mounts)
			if r := f.scan(); r.Deleted == 0 {
				t.Errorf("got %+v, want deletions", r)
			}
		})
	}
}

// Who looks at some paths only, or cannot look at all, forgets no mount point.
func TestMountsAreRememberedInDoubt(t *testing.T) {
	f := setUp(t, "a", "b", "c", "d/z", "disk/x")
	mounts := []string{"disk"}
	f.Device = mountedAt(&mounts)
	f.scan()
	f.Paths = []string{"a"}
	f.scan()
	f.Paths = nil
	tree := f.Tree
	f.Tree = faulty{Tree: tree, open: func(name string) error {
		if name == "disk" {
			return fs.ErrPermission
		}
		return nil
	}}
	f.scan()
	f.Tree = tree
	mounts = nil
	f.remove("disk/x")
	for _, paths := range [][]string{{"disk"}, {"disk/x"}, nil} {
		f.Paths = paths
		if p := f.plan(); p.Guard == nil || p.Guard.Mount != "disk" {
			t.Errorf("paths %v: got %v, want the deletion held", paths, p.Guard)
		}
	}
}

// The system tells the root of a tree from what it is in.
func TestRootThatNothingIsMountedOn(t *testing.T) {
	f := setUp(t, "a", "d/b")
	f.Above = above(t, f)
	if p := f.plan(); len(p.mounts) != 0 {
		t.Errorf("got the mount points %q, want none", p.mounts)
	}
}

func above(t *testing.T, f *fixture) fs.FileInfo {
	t.Helper()
	info, err := os.Stat(filepath.Dir(f.root))
	if err != nil {
		t.Fatal(err)
	}
	return info
}
