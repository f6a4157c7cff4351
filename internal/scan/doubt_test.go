package scan

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"instep/guard"
	"instep/internal/catalog"
)

// faulty is a Tree with faults.
type faulty struct {
	Tree
	open  func(name string) error
	lstat func(name string) error
	read  func(name string) // before each Read
	list  func(name string) error
}

func (t faulty) Open(name string) (fs.ReadDirFile, error) {
	if t.open != nil {
		if err := t.open(name); err != nil {
			return nil, &fs.PathError{Op: "open", Path: name, Err: err}
		}
	}
	f, err := t.Tree.Open(name)
	return faultyFile{f, t, name}, err
}

func (t faulty) Lstat(name string) (fs.FileInfo, error) {
	if t.lstat != nil {
		if err := t.lstat(name); err != nil {
			return nil, &fs.PathError{Op: "lstat", Path: name, Err: err}
		}
	}
	return t.Tree.Lstat(name)
}

type faultyFile struct {
	fs.ReadDirFile
	t    faulty
	name string
}

func (f faultyFile) Read(p []byte) (int, error) {
	if f.t.read != nil {
		f.t.read(f.name)
	}
	return f.ReadDirFile.Read(p)
}

func (f faultyFile) ReadDir(n int) ([]fs.DirEntry, error) {
	if f.t.list != nil {
		if err := f.t.list(f.name); err != nil {
			return nil, err
		}
	}
	entries, err := f.ReadDirFile.ReadDir(n)
	for i, e := range entries {
		entries[i] = faultyEntry{e, f.t, join(f.name, e.Name())}
	}
	return entries, err
}

type faultyEntry struct {
	fs.DirEntry
	t    faulty
	name string
}

func (e faultyEntry) Info() (fs.FileInfo, error) {
	if e.t.lstat != nil {
		if err := e.t.lstat(e.name); err != nil {
			return nil, &fs.PathError{Op: "lstat", Path: e.name, Err: err}
		}
	}
	return e.DirEntry.Info()
}

// Sub is a tree with the same faults at the same files.
func (t faulty) Sub(dir string) (Tree, error) {
	sub, err := t.Tree.Sub(dir)
	if err != nil {
		return nil, err
	}
	s := faulty{Tree: sub}
	if t.open != nil {
		s.open = func(name string) error { return t.open(join(dir, name)) }
	}
	if t.read != nil {
		s.read = func(name string) { t.read(join(dir, name)) }
	}
	return s, nil
}

func on(name string, err error) func(string) error {
	return func(n string) error {
		if n == name {
			return err
		}
		return nil
	}
}

// The directory is gone or shrinks, before or while it is scanned: nothing is
// deleted, and nothing is recorded where that is refused.
func TestCat_PUB_05(t *testing.T) {
	var many []string
	for i := range 100 {
		many = append(many, fmt.Sprintf("d%d/f%d", i/10, i))
	}
	opened := 0
	for _, test := range []struct {
		name    string
		happens func(f *fixture)
		check   func(t *testing.T, p *Plan, planErr, applyErr error)
	}{
		{"unmounted before", func(f *fixture) {
			for i := range 10 {
				f.remove(fmt.Sprintf("d%d", i))
			}
		}, expectGuard},
		{"shrunken", func(f *fixture) { f.remove("d0", "d1") }, expectGuard},
		{"removed", func(f *fixture) { f.remove(".") }, expectRoot},
		{"unmounted while it is scanned", func(f *fixture) {
			f.Tree = faulty{Tree: f.Tree, open: func(name string) error {
				if opened++; opened > 4 {
					return syscall.ENOENT
				}
				return nil
			}}
		}, expectDoubt(7)},
		{"a directory cannot be opened", func(f *fixture) {
			f.Tree = faulty{Tree: f.Tree, open: on("d3", syscall.EACCES)}
		}, expectDoubt(1)},
		{"a directory cannot be listed", func(f *fixture) {
			f.Tree = faulty{Tree: f.Tree, list: on("d3", syscall.EIO)}
		}, expectDoubt(1)},
		{"the root cannot be listed", func(f *fixture) {
			f.Tree = faulty{Tree: f.Tree, list: on(".", syscall.EIO)}
		}, expectRoot},
		{"the root cannot be opened", func(f *fixture) {
			f.Tree = faulty{Tree: f.Tree, open: on(".", syscall.EACCES)}
		}, expectRoot},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := setUp(t, many...)
			f.scan()
			before := f.paths()
			test.happens(f)
			p, planErr := f.Plan(t.Context())
			var applyErr error
			if planErr == nil {
				defer p.Close()
				_, applyErr = f.Apply(t.Context(), p)
			}
			test.check(t, p, planErr, applyErr)
			same(t, "members", f.paths(), before)
			same(t, "changes", len(f.log(100)), 0)
		})
	}
}

func expectGuard(t *testing.T, p *Plan, planErr, applyErr error) {
	t.Helper()
	var refused *GuardError
	if planErr != nil || p.Guard == nil || !errors.As(applyErr, &refused) {
		t.Errorf("Plan = %v, Apply = %v; want a GuardError", planErr, applyErr)
	}
}

func expectDoubt(failures int64) func(*testing.T, *Plan, error, error) {
	return func(t *testing.T, p *Plan, planErr, applyErr error) {
		t.Helper()
		if err := errors.Join(planErr, applyErr); err != nil {
			t.Fatal(err)
		}
		if !p.Doubt || p.Vanished != 0 || p.Failures.Count != failures {
			t.Errorf("plan %+v; want doubt, nothing vanished and %d failures", p, failures)
		}
	}
}

func expectRoot(t *testing.T, _ *Plan, planErr, _ error) {
	t.Helper()
	if !errors.Is(planErr, ErrRoot) {
		t.Errorf("Plan = %v, want ErrRoot", planErr)
	}
}

func TestDeepDirectoriesAreDoubt(t *testing.T) {
	f := setUp(t, "a", strings.Repeat("d/", maxDepth)+"in", "x")
	expect(t, f.scan(), 3, 0, 0, 0)
	f.write(strings.Repeat("d/", maxDepth+1)+"too deep", "1")
	f.remove("a")
	r := f.scan()
	expect(t, r, 0, 0, 0, 2)
	if r.Failures.Count != 1 || !strings.Contains(r.Failures.First[0].Error(), "256 deep") {
		t.Errorf("failures %+v", r.Failures)
	}
}

// A file that cannot be looked at or read stays as recorded; the others go on.
func TestUnreadableFileKeepsItsState(t *testing.T) {
	for name, fault := range map[string]faulty{
		"lstat": {lstat: on("b", syscall.EIO)},
		"open":  {open: on("b", syscall.EACCES)},
	} {
		t.Run(name, func(t *testing.T) {
			f := setUp(t, "a", "b", "c")
			f.scan()
			before := f.members()[1]
			f.write("a", "2")
			f.write("b", "2")
			fault.Tree = f.Tree
			f.Tree = fault
			f.events = nil
			r := f.scan()
			expect(t, r, 0, 1, 0, 1)
			if r.Failures.Count != 1 || r.Failures.First[0].Path != "b" {
				t.Errorf("failures %+v, want one of b", r.Failures)
			}
			if got := f.members()[1]; got.Digests.String() != before.Digests.String() || got.Stat != before.Stat {
				t.Errorf("b is now %+v, want %+v", got, before)
			}
			if len(f.events) != 2 {
				t.Errorf("events %q, want a failure and a change", f.events)
			}
		})
	}
}

func TestFailuresAreBoundedAndCounted(t *testing.T) {
	f := setUp(t)
	for i := range maxFailures + 10 {
		f.write(fmt.Sprint(i), "1")
	}
	f.Tree = faulty{Tree: f.Tree, open: func(name string) error {
		if name == "." {
			return nil
		}
		return syscall.EACCES
	}}
	r := f.scan()
	if r.Failures.Count != maxFailures+10 || len(r.Failures.First) != maxFailures {
		t.Errorf("%d failures, %d kept", r.Failures.Count, len(r.Failures.First))
	}
}

// What happens between the plan and its execution.
func TestTreeChangesAfterThePlan(t *testing.T) {
	for _, test := range []struct {
		name    string
		before  func(f *fixture)
		after   func(f *fixture)
		want    string // members
		deleted int64
		gone    int64
	}{
		{"a new file vanishes", func(f *fixture) { f.write("new", "1") },
			func(f *fixture) { f.remove("new") }, "a b c", 0, 1},
		{"a vanished file is back", func(f *fixture) { f.remove("b") },
			func(f *fixture) { f.write("b", "1") }, "a b c", 0, 1},
		{"a vanished file stays away", func(f *fixture) { f.remove("b") },
			func(*fixture) {}, "a c", 1, 0},
		{"a vanished file comes back in a linked directory", func(f *fixture) { f.write("d/x", "1"); f.scan(); f.remove("d") },
			func(f *fixture) { f.write(".hidden/x", "1"); f.link(".hidden", "d") }, "a b c", 1, 0},
		{"a file becomes a link to a secret", func(f *fixture) { f.write("new", "1"); f.write(".env", "secret") },
			func(f *fixture) { f.remove("new"); f.link(".env", "new") }, "a b c", 0, 1},
		{"a file becomes a directory", func(f *fixture) { f.write("new", "1") },
			func(f *fixture) { f.remove("new"); f.write("new/x", "1") }, "a b c", 0, 1},
		{"a file becomes a FIFO", func(f *fixture) { f.write("new", "1") },
			func(f *fixture) {
				f.remove("new")
				makeFIFO(f.t, f.path("new"))
			}, "a b c", 0, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := setUp(t, "a", "b", "c")
			f.scan()
			test.before(f)
			p := f.plan()
			test.after(f)
			r := f.apply(p)
			if got := strings.Join(f.paths(), " "); got != test.want || r.Deleted != test.deleted || r.Gone != test.gone {
				t.Errorf("members %q, deleted %d, gone %d; want %q, %d, %d", got, r.Deleted, r.Gone, test.want, test.deleted, test.gone)
			}
			if r.Failures.Count != 0 {
				t.Errorf("failures %+v", r.Failures)
			}
		})
	}
}

func TestDeletionIsWithheldIfTheSecondLookFails(t *testing.T) {
	f := setUp(t, "a", "b", "c")
	f.scan()
	f.remove("b")
	p := f.plan()
	f.Tree = faulty{Tree: f.Tree, lstat: on("b", syscall.EIO)}
	r := f.apply(p)
	if r.Deleted != 0 || r.Failures.Count != 1 {
		t.Errorf("result %+v; want a failure and no deletion", r)
	}
}

func TestApplyStopsWithItsContext(t *testing.T) {
	f := setUp(t)
	for i := range 3 * batchSize {
		f.write(fmt.Sprintf("%04d", i), "1")
	}
	p := f.plan()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f.Observe = func(Event) { cancel() } // the first batch is recorded
	r, err := f.Apply(ctx, p)
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("Apply = %v, want context.Canceled", err)
	}
	if n := int64(len(f.paths())); n != r.Created || n == 0 || n == 3*batchSize {
		t.Errorf("%d members, %d reported; want a part", n, r.Created)
	}
	f.Observe = nil
	recorded := r.Created
	r = f.scan()
	expect(t, r, 3*batchSize-recorded, 0, 0, recorded)
}

func TestApplyStopsWhenTheCatalogRefuses(t *testing.T) {
	f := setUp(t, "a", "b", "c")
	f.scan()
	id, err := f.catalog.Publisher.BeginPublication(t.Context(), f.Set)
	if err == nil {
		err = f.catalog.Publisher.CommitPublication(t.Context(), f.Set, id, time.Now(), "{}")
	}
	if err != nil {
		t.Fatal(err)
	}
	f.write("d", "1")
	f.Unpublished = true // which is not so
	if _, err := f.Apply(t.Context(), f.plan()); !errors.Is(err, catalog.ErrState) {
		t.Errorf("Apply = %v, want ErrState", err)
	}
	same(t, "changes", len(f.log(3)), 0)
}

func everything(t *testing.T) guard.Limit {
	t.Helper()
	l, err := guard.ParseLimit("100%")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// A writer changes a file while it is hashed: what is recorded is one state of it
// that stood still, or nothing.
func TestCat_PUB_03(t *testing.T) {
	for _, test := range []struct {
		name    string
		changes int // how often the file changes under the reader
		want    string
	}{
		{"at rest", 0, "content 0"},
		{"once", 1, "content 1"},
		{"twice", 2, "content 2"},
		{"always", 1 << 30, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := setUp(t, "a", "c")
			f.write("b", "content 0")
			changes := 0
			f.Tree = faulty{Tree: f.Tree, read: func(name string) {
				if name == "b" && changes < test.changes {
					changes++
					f.write("b", fmt.Sprintf("content %d", changes))
				}
			}}
			f.Workers = 1
			r := f.scan()
			if test.want == "" {
				var e *ChangedError
				if r.Failures.Count != 1 || !errors.As(r.Failures.First[0], &e) {
					t.Fatalf("failures %+v; want a ChangedError", r.Failures)
				}
				for _, part := range []string{`"b"`, "3 times", "expected 9 bytes of 2", "found"} {
					if !strings.Contains(r.Failures.First[0].Error(), part) {
						t.Errorf("error %q does not say %q", r.Failures.First[0], part)
					}
				}
				same(t, "members", f.paths(), []string{"a", "c"})
				return
			}
			now, err := os.ReadFile(f.path("b"))
			if err != nil {
				t.Fatal(err)
			}
			if string(now) != test.want || r.Failures.Count != 0 {
				t.Fatalf("b holds %q, failures %+v", now, r.Failures)
			}
			// In the end what is recorded is what is there.
			f.Tree = f.Tree.(faulty).Tree
			expect(t, f.scan(), 0, 0, 0, 3)
		})
	}
}
