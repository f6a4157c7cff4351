package scan

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"instep/internal/catalog"
	"instep/resourcesync"
)

// looked returns which files the next plan looks up one by one: those of pieces
// that are not the same.
func looked(f *fixture) string {
	f.t.Helper()
	b := planner{ctx: f.t.Context(), d: f.Dir, p: f.plan()}
	n, _, err := f.Facts.Count(b.ctx, f.Set)
	if err != nil {
		f.t.Fatal(err)
	}
	b.p.Set = n
	var names []string
	err = f.walk(b.ctx, func(s observation) error {
		if s.reason != "" || s.err != nil {
			return s.err
		}
		b.files = append(b.files[:0], s)
		if err := b.checkPieces(); err != nil {
			return err
		}
		if !s.piece.same {
			names = append(names, s.name)
		}
		return nil
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return strings.Join(names, " ")
}

func TestOnlyPiecesThatChangedAreLookedUp(t *testing.T) {
	f := setUp(t, "a", "d/b", "d/c", "d/e/f", "g/h")
	f.scan()
	for _, test := range []struct {
		name   string
		change func()
		want   string
		after  int // files that a scan finds changed
	}{
		{"nothing", func() {}, "", 0},
		{"written", func() { f.write("d/b", "2") }, "d/b d/c", 1},
		{"new", func() { f.write("g/i", "1") }, "g/h g/i", 1},
		{"removed", func() { f.remove("d/c") }, "d/b", 1},
		{"touched", func() { f.write("a", "content of a") }, "a", 0},
		{"renamed", func() {
			if err := os.Rename(f.path("d/e/f"), f.path("d/e/z")); err != nil {
				t.Fatal(err)
			}
		}, "d/e/z", 2},
		{"moved with its directory", func() {
			if err := os.Rename(f.path("g"), f.path("k")); err != nil {
				t.Fatal(err)
			}
		}, "k/h k/i", 4},
		{"a hidden file", func() { f.write("d/.x", "1") }, "d/b", 0},
		{"other algorithms", func() { f.Algorithms = []resourcesync.Algorithm{resourcesync.SHA256, resourcesync.MD5} },
			"a d/b d/e/z k/h k/i", 0},
		{"a file is excluded", func() { f.Exclude = []string{"k/i"} }, "k/h", 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			f.MaxDelete = everything(t)
			test.change()
			same(t, "looked up", looked(f), test.want)
			r := f.scan()
			same(t, "changed", int(r.Created+r.Updated+r.Deleted), test.after)
			same(t, "looked up afterwards", looked(f), "")
			if p := f.plan(); p.work.Len() != 0 || p.Vanished != 0 || p.Files != p.Unchanged {
				t.Errorf("plan %+v; want all at rest", p)
			}
		})
	}
}

// A directory goes and comes back with the very same files: they are recorded as
// deleted, and created again.
func TestDirectoryThatComesBackIsNew(t *testing.T) {
	f := setUp(t, "a", "b", "d/c", "d/e/f")
	f.MaxDelete = everything(t)
	f.scan()
	move := func(from, to string) {
		if err := os.Rename(f.path(from), f.path(to)); err != nil {
			t.Fatal(err)
		}
	}
	move("d", ".d")
	expect(t, f.scan(), 0, 0, 2, 2)
	f.remove("b")
	f.remove("a") // so that there are as many files as members
	move(".d", "d")
	expect(t, f.scan(), 2, 0, 2, 0)
}

// What applications record of a directory's files is found to differ from them.
func TestRecordedElsewhereIsLookedUp(t *testing.T) {
	f := setUp(t, "a", "d/b", "d/c")
	f.scan()
	uri := URI(base, "d/b")
	if err := f.Facts.Record(t.Context(), f.Set, []catalog.Change{
		{Change: resourcesync.Deleted, Resource: catalog.Resource{URI: uri}},
	}); err != nil {
		t.Fatal(err)
	}
	same(t, "looked up", looked(f), "d/b d/c")
	expect(t, f.scan(), 1, 0, 0, 2)
	same(t, "looked up", looked(f), "")
}

// Two sets of one directory: what one records the other still finds.
func TestEachSetFindsTheChangesOfItsFiles(t *testing.T) {
	f := setUp(t, "a", "d/b")
	second, err := f.catalog.Facts.Set(t.Context(), "second")
	if err != nil {
		t.Fatal(err)
	}
	both := []catalog.SetID{f.Set, second}
	for round, want := range []string{"created", "updated", "deleted"} {
		switch round {
		case 1:
			f.write("d/b", "2")
		case 2:
			f.remove("d/b")
			f.MaxDelete = everything(t)
		}
		for _, set := range both {
			f.Set = set
			var before int64
			if n, _, err := f.catalog.Facts.LastSeq(t.Context(), set); err == nil {
				before = n
			}
			f.scan()
			got := changes(f, before)
			if len(got) == 0 || got[len(got)-1].URI != URI(base, "d/b") || string(got[len(got)-1].Change) != want {
				t.Errorf("set %d, round %d: changes %v; want d/b %s", set, round, got, want)
			}
			same(t, "looked up", looked(f), "")
		}
	}
}

// A piece with a file that was changed a moment ago is looked up until it is at rest.
func TestPieceWithARecentFileIsNotKept(t *testing.T) {
	f := setUp(t, "a", "d/b")
	f.Now = time.Now
	f.scan()
	same(t, "looked up", looked(f), "a d/b")
	f.Now = later
	f.scan()
	same(t, "looked up", looked(f), "")
}

// A directory that takes more than one reading has pieces of its own.
func TestLargeDirectoryIsLookedUpInPieces(t *testing.T) {
	f := setUp(t)
	n := 2*chunkSize + 10
	for i := range n {
		f.write(fmt.Sprintf("d/%05d", i), "1")
	}
	expect(t, f.scan(), int64(n), 0, 0, 0)
	same(t, "looked up", looked(f), "")
	f.write("d/00007", "2")
	names := strings.Fields(looked(f))
	if len(names) == 0 || len(names) > chunkSize {
		t.Errorf("%d files are looked up for one, want at most %d", len(names), chunkSize)
	}
	expect(t, f.scan(), 0, 1, 0, int64(n-1))
	same(t, "looked up", len(strings.Fields(looked(f))) <= n, true)
	expect(t, f.scan(), 0, 0, 0, int64(n))
	same(t, "looked up", looked(f), "")
}

// All pieces are as recorded, and yet there is a member more than files.
func TestFailedDeletionIsTriedAgain(t *testing.T) {
	f := setUp(t, "a", "b", "c")
	f.scan()
	f.remove("b")
	p := f.plan()
	whole := f.Tree
	f.Tree = faulty{Tree: whole, lstat: on("b", errors.New("input/output error"))}
	if r := f.apply(p); r.Deleted != 0 {
		t.Errorf("result %+v; want no deletion", r)
	}
	f.Tree = whole
	expect(t, f.scan(), 0, 0, 1, 2)
}
