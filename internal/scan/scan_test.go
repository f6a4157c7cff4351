package scan

import (
	"crypto/md5"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"instep/guard"
	"instep/internal/catalog"
	"instep/resourcesync"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const base = "https://example.org/col/"

// fixture is a directory and a Dir that scans it.
type fixture struct {
	*Dir
	catalog *catalog.Catalog
	t       testing.TB
	root    string
	events  []string
}

func setUp(t testing.TB, files ...string) *fixture {
	t.Helper()
	f := &fixture{t: t, root: t.TempDir()}
	root, err := os.OpenRoot(f.root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := root.Close(); err != nil {
			t.Error(err)
		}
	})
	c, set := newCatalog(t)
	f.catalog = c
	f.Dir = &Dir{Tree: RootTree(root), Deps: Deps{BaseURL: base, Facts: c.Facts, Seen: c.Publisher, Set: set, Workers: 3, Spool: t.TempDir(),
		Now: later, Observe: f.observe}}
	for _, name := range files {
		f.write(name, "content of "+name)
	}
	return f
}

func newCatalog(t testing.TB) (*catalog.Catalog, catalog.SetID) {
	t.Helper()
	c, err := catalog.Open(t.Context(), catalog.Options{Path: filepath.Join(t.TempDir(), "catalog.db"), Create: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	set, err := c.Facts.Set(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	return c, set
}

// later is a clock by which no file changed recently.
func later() time.Time { return time.Now().Add(time.Hour) }

func (f *fixture) observe(e Event) {
	if e.Err != nil {
		f.events = append(f.events, "failed "+e.Path)
		return
	}
	f.events = append(f.events, string(e.Change)+" "+e.Path)
}

func (f *fixture) path(name string) string { return filepath.Join(f.root, filepath.FromSlash(name)) }

func (f *fixture) write(name, content string) {
	f.t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(f.path(name)), 0o700), os.WriteFile(f.path(name), []byte(content), 0o600)); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) remove(names ...string) {
	f.t.Helper()
	for _, name := range names {
		if err := os.RemoveAll(f.path(name)); err != nil {
			f.t.Fatal(err)
		}
	}
}

func (f *fixture) link(to, name string) {
	f.t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(f.path(name)), 0o700), os.Symlink(to, f.path(name))); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) plan() *Plan {
	f.t.Helper()
	p, err := f.Plan(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		if err := p.Close(); err != nil {
			f.t.Error(err)
		}
	})
	return p
}

func (f *fixture) apply(p *Plan) Result {
	f.t.Helper()
	r, err := f.Apply(f.t.Context(), p)
	if err != nil {
		f.t.Fatal(err)
	}
	return r
}

func (f *fixture) scan() Result {
	f.t.Helper()
	return f.apply(f.plan())
}

func (f *fixture) members() []catalog.Resource {
	f.t.Helper()
	var all []catalog.Resource
	for r, err := range f.Facts.Members(f.t.Context(), f.Set) {
		if err != nil {
			f.t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

func (f *fixture) paths() []string {
	f.t.Helper()
	var all []string
	for _, r := range f.members() {
		all = append(all, r.Path)
	}
	return all
}

// log returns the change log from the n-th change on.
func (f *fixture) log(n int) []string {
	f.t.Helper()
	var all []string
	for ch, err := range f.catalog.Facts.Changes(f.t.Context(), f.Set, 0, 1<<60) {
		if err != nil {
			f.t.Fatal(err)
		}
		all = append(all, string(ch.Change)+" "+strings.TrimPrefix(ch.URI, base))
	}
	return all[n:]
}

// expect compares the counts of a result.
func expect(t testing.TB, r Result, created, updated, deleted, unchanged int64) {
	t.Helper()
	got := fmt.Sprintf("created %d, updated %d, deleted %d, unchanged %d", r.Created, r.Updated, r.Deleted, r.Unchanged)
	want := fmt.Sprintf("created %d, updated %d, deleted %d, unchanged %d", created, updated, deleted, unchanged)
	if got != want {
		t.Errorf("the scan says %s; want %s", got, want)
	}
	if r.Completed.Before(r.At) {
		t.Errorf("completed at %s, before it began at %s", r.Completed, r.At)
	}
}

// failer is a test of the testing package or of rapid.
type failer interface {
	Helper()
	Errorf(format string, args ...any)
}

func same(t failer, what string, got, want any) {
	t.Helper()
	if d := cmp.Diff(got, want); d != "" {
		t.Errorf("%s (-got +want):\n%s", what, d)
	}
}

func TestFirstScanRecordsWhatIsThere(t *testing.T) {
	f := setUp(t)
	f.write("b.txt", "hello")
	f.write("a/x.html", "<p>hi</p>")
	f.write("a/empty", "")
	mtime := time.Date(2026, 2, 3, 4, 5, 6, 789000, time.UTC)
	if err := os.Chtimes(f.path("b.txt"), mtime, mtime); err != nil {
		t.Fatal(err)
	}
	p := f.plan()
	if p.Files != 3 || p.New != 3 || p.Bytes != 14 || p.ToHash != 14 || p.Unchanged != 0 || p.Set != 0 {
		t.Errorf("plan %+v", p)
	}
	if n, _, err := f.Facts.Count(t.Context(), f.Set); n != 0 || err != nil {
		t.Errorf("the plan recorded %d resources, %v", n, err)
	}
	r := f.apply(p)
	expect(t, r, 3, 0, 0, 0)
	if r.Hashed != 14 || r.At != p.At {
		t.Errorf("hashed %d, at %s; want 14 bytes at %s", r.Hashed, r.At, p.At)
	}
	same(t, "members", f.paths(), []string{"a/empty", "a/x.html", "b.txt"})
	same(t, "events", f.events, []string{"created a/empty", "created a/x.html", "created b.txt"})

	b := f.members()[2]
	got := []string{b.URI, b.LastMod.String(), b.Digests.String(), b.Type, fmt.Sprint(b.Length.Int64())}
	same(t, "b.txt", got, []string{base + "b.txt", "2026-02-03T04:05:06Z",
		"sha-256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824", "text/plain", "5"})
}

func TestUnpublishedSetHasMembersAndNoChanges(t *testing.T) {
	f := setUp(t, "a", "b", "c")
	f.Unpublished = true
	expect(t, f.scan(), 3, 0, 0, 0)
	f.remove("a")
	f.write("b", "other")
	expect(t, f.scan(), 0, 1, 1, 1)
	same(t, "members", f.paths(), []string{"b", "c"})
	same(t, "changes", len(f.log(0)), 0)
}

func TestSecondScanReadsNothing(t *testing.T) {
	f := setUp(t, "a", "b/c", "b/d")
	f.scan()
	p := f.plan()
	if p.Unchanged != 3 || p.ToHash != 0 || p.work.Len() != 0 {
		t.Errorf("plan %+v; want all unchanged", p)
	}
	r := f.apply(p)
	expect(t, r, 0, 0, 0, 3)
	if r.Hashed != 0 || len(f.log(3)) != 0 {
		t.Errorf("hashed %d bytes, recorded %v", r.Hashed, f.log(3))
	}
}

func TestChangesAreRecordedInTheOrderOfTheWalk(t *testing.T) {
	var files []string
	for i := range 40 {
		files = append(files, fmt.Sprintf("d%d/f%02d", i%4, i))
	}
	f := setUp(t, files...)
	f.write("d0/a large one", strings.Repeat("x", 4<<20)) // hashed long after the next
	f.scan()
	f.remove("d1/f05", "d3/f07")
	f.write("d2/f02", "other")
	f.write("d0/new", "new")
	f.write("z", "new")
	p := f.plan()
	want := []string{"created d0/new", "updated d2/f02", "created z", "deleted d1/f05", "deleted d3/f07"}
	var planned []string
	for a, err := range f.Actions(t.Context(), p) {
		if err != nil {
			t.Fatal(err)
		}
		planned = append(planned, string(a.Change)+" "+a.Path)
	}
	same(t, "actions", sortTail(planned, 3), want)
	r := f.apply(p)
	expect(t, r, 2, 1, 2, 38)
	got := f.log(41)
	same(t, "changes", sortTail(got, 3), want)
	first := f.log(0)[:41]
	sorted := slices.Clone(first)
	slices.Sort(sorted)
	same(t, "first changes", first, escape(sorted))
}

// sortTail sorts what comes from the n-th on: deletions are in order of keys.
func sortTail(all []string, n int) []string {
	slices.Sort(all[n:])
	return all
}

func escape(all []string) []string {
	for i := range all {
		kind, name, _ := strings.Cut(all[i], " ")
		all[i] = kind + " " + strings.ReplaceAll(name, " ", "%20")
	}
	return all
}

func TestTouchedFileIsNoChange(t *testing.T) {
	f := setUp(t, "a", "b")
	f.scan()
	if err := os.Chtimes(f.path("a"), later(), later()); err != nil {
		t.Fatal(err)
	}
	if p := f.plan(); p.Modified != 1 || p.Unchanged != 1 {
		t.Errorf("plan %+v; want one that may have changed", p)
	}
	r := f.scan()
	expect(t, r, 0, 0, 0, 2)
	if r.Hashed == 0 || len(f.log(2)) != 0 {
		t.Errorf("hashed %d bytes, recorded %v; want a file read and nothing recorded", r.Hashed, f.log(2))
	}
	if r := f.scan(); r.Hashed != 0 {
		t.Errorf("the next scan hashed %d bytes again", r.Hashed)
	}
}

// Size and modification time stay as they were; the bytes do not.
func TestDisguisedChangeIsFound(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(f *fixture)
	}{
		{"written in place", func(f *fixture) { f.write("a", "2") }},
		{"replaced", func(f *fixture) {
			f.write("new", "2")
			if err := os.Rename(f.path("new"), f.path("a")); err != nil {
				f.t.Fatal(err)
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := setUp(t)
			f.write("a", "1")
			old := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
			if err := os.Chtimes(f.path("a"), old, old); err != nil {
				t.Fatal(err)
			}
			f.scan()
			test.change(f)
			if err := os.Chtimes(f.path("a"), old, old); err != nil {
				t.Fatal(err)
			}
			expect(t, f.scan(), 0, 1, 0, 0)
		})
	}
}

// A file changed just before it is hashed is hashed again next time: one more
// change within the grain of the file system's clock would not show.
func TestRecentFileIsHashedAgain(t *testing.T) {
	f := setUp(t, "a")
	f.Now = time.Now
	f.scan()
	if p := f.plan(); p.Modified != 1 {
		t.Errorf("plan %+v; want the recent file to be hashed", p)
	}
	f.Now = later
	expect(t, f.scan(), 0, 0, 0, 1)
	if p := f.plan(); p.Unchanged != 1 {
		t.Errorf("plan %+v; want it at rest", p)
	}
}

func TestNewAlgorithmIsNoChange(t *testing.T) {
	f := setUp(t)
	f.write("a", "1")
	f.scan()
	f.Algorithms = []resourcesync.Algorithm{resourcesync.MD5, resourcesync.SHA256}
	r := f.scan()
	expect(t, r, 0, 0, 0, 1)
	if r.Hashed != 1 || len(f.log(1)) != 0 {
		t.Errorf("hashed %d, recorded %v; want the file read and nothing recorded", r.Hashed, f.log(1))
	}
	sum := md5.Sum([]byte("1"))
	if got := f.members()[0].Digests.Get(resourcesync.MD5).Sum(); string(got) != string(sum[:]) {
		t.Errorf("md5 = %x, want %x", got, sum)
	}
	if p := f.plan(); p.Unchanged != 1 {
		t.Errorf("plan %+v; want nothing to hash", p)
	}
}

func TestOtherAlgorithmIsNoChange(t *testing.T) {
	f := setUp(t)
	f.write("a", "1")
	f.write("b", "2")
	f.scan()
	f.write("b", "3")
	f.Algorithms = []resourcesync.Algorithm{resourcesync.MD5}
	expect(t, f.scan(), 0, 1, 0, 1)
	for _, m := range f.members() {
		if m.Digests.Get(resourcesync.MD5).IsZero() || len(m.Digests) != 1 {
			t.Errorf("digests of %q: got %v, want md5 alone", m.URI, m.Digests)
		}
	}
	if p := f.plan(); p.Unchanged != 2 {
		t.Errorf("plan %+v; want nothing to hash", p)
	}
}

func TestIncludeAndExclude(t *testing.T) {
	files := []string{"a.txt", "b.tmp", "d/c.txt", "d/e/f.txt", "g/h.txt", "g/i.html"}
	for _, test := range []struct {
		include, exclude []string
		want             string
		excluded         int64
	}{
		{nil, nil, "a.txt b.tmp d/c.txt d/e/f.txt g/h.txt g/i.html", 0},
		{[]string{"**/*.txt"}, nil, "a.txt d/c.txt d/e/f.txt g/h.txt", 2},
		{[]string{"/*.txt", "g/"}, nil, "a.txt g/h.txt g/i.html", 3},
		{[]string{"*.txt"}, nil, "a.txt d/c.txt d/e/f.txt g/h.txt", 2},
		{nil, []string{"e/", "*.tmp"}, "a.txt d/c.txt g/h.txt g/i.html", 2},
		{nil, []string{"**/*.{tmp,html}"}, "a.txt d/c.txt d/e/f.txt g/h.txt", 2},
		{nil, []string{"d/**"}, "a.txt b.tmp g/h.txt g/i.html", 1},
		{[]string{"d/**"}, []string{"d/e"}, "d/c.txt", 5},
	} {
		f := setUp(t, files...)
		f.Include, f.Exclude = test.include, test.exclude
		r := f.scan()
		if got := strings.Join(f.paths(), " "); got != test.want || r.Excluded[Pattern] != test.excluded {
			t.Errorf("include %q, exclude %q: %q, excluded %d; want %q, %d",
				test.include, test.exclude, got, r.Excluded[Pattern], test.want, test.excluded)
		}
	}
}

func TestExcludedLaterIsDeleted(t *testing.T) {
	f := setUp(t, "a", "b", "c", "d/e")
	f.scan()
	f.Exclude = []string{"d"}
	r := f.scan()
	expect(t, r, 0, 0, 1, 3)
	same(t, "changes", f.log(4), []string{"deleted d/e"})
}

func TestPlanRefusesBadOptions(t *testing.T) {
	for want, change := range map[string]func(d *Dir){
		`glob "[a"`:           func(d *Dir) { d.Exclude = []string{"[a"} },
		`glob "{"`:            func(d *Dir) { d.Include = []string{"{"} },
		`algorithm "crc"`:     func(d *Dir) { d.Algorithms = []resourcesync.Algorithm{"crc"} },
		"expected a slash at": func(d *Dir) { d.BaseURL = "https://example.org" },
	} {
		f := setUp(t, "a")
		change(f.Dir)
		if p, err := f.Plan(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Plan = %v, %v; want an error that says %q", p, err, want)
		}
	}
}

func TestLimitOfDeletionsCanBeRaised(t *testing.T) {
	f := setUp(t, "a", "b", "c", "d")
	f.scan()
	f.remove("a", "b", "c")
	var refused *GuardError
	_, err := f.Apply(t.Context(), f.plan())
	if !errors.As(err, &refused) || refused.Deletes != 3 || refused.Set != 4 {
		t.Fatalf("Apply = %v; want a GuardError for 3 of 4", err)
	}
	if f.MaxDelete, err = guard.ParseLimit("75%"); err != nil {
		t.Fatal(err)
	}
	expect(t, f.scan(), 0, 0, 3, 1)
}
