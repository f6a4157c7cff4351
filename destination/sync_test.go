package destination_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"instep/destination"
	"instep/fetch"
	"instep/guard"
	"instep/mirror"
	"instep/resourcesync"
)

func TestBaselineThenIncrementalThenNothing(t *testing.T) {
	s, paths, m := inStep(t, 20)
	m.wantFiles(paths...)

	s.put("/r/3", []byte("three, again"))
	s.put("/r/new", []byte("new"))
	s.changes(0, s.change(1, resourcesync.Updated, "/r/3"), s.change(2, resourcesync.Created, "/r/new"), s.change(3, resourcesync.Deleted, "/r/4"))
	s.asked("/")
	m.mustSync(destination.Incremental, 0, 1, 1, 1)
	if got := s.asked("/r/"); got != 2 {
		t.Errorf("resources asked for: got %d, want 2", got)
	}
	m.wantFiles(append(slices.Delete(slices.Clone(paths), 4, 5), "/r/new")...)

	s.asked("/")
	m.mustSync(destination.Incremental, 0, 0, 0, 0)
	if got := s.asked("/"); got != 3 {
		t.Errorf("requests of an idle sync: got %d, want 3 (description, Capability List, Change List)", got)
	}
	if v := m.audit(); v[destination.VerdictSame] != 20 || len(v) != 1 {
		t.Errorf("audit: got %v, want 20 the same and nothing else", v)
	}
}

func TestBaselineAppliesTheChangesAfterItsList(t *testing.T) {
	s := newSource(t)
	paths := s.fill(10)
	s.list(0, paths...)
	s.put("/r/1", []byte("changed since the list"))
	s.put("/late", []byte("created since the list"))
	s.changes(0, s.change(1, resourcesync.Updated, "/r/1"), s.change(2, resourcesync.Created, "/late"), s.change(3, resourcesync.Deleted, "/r/2"))
	m := newMirror(t, s)
	m.mustSync(destination.Baseline, 0, 10, 0, 0)
	m.wantFiles(append(slices.Delete(slices.Clone(paths), 2, 3), "/late")...)
	m.mustSync(destination.Incremental, 0, 0, 0, 0)
}

func TestGapLeadsToABaselineThatSaysWhy(t *testing.T) {
	s := newSource(t)
	paths := s.fill(10)
	s.list(0, paths...)
	s.changes(0, s.change(1, resourcesync.Updated, "/r/1"))
	m := newMirror(t, s)
	m.mustSync(destination.Baseline, 0, 10, 0, 0)
	s.put("/r/5", []byte("changed in the gap"))
	s.list(10, paths...)
	s.changes(9)
	rep := m.mustSync(destination.Baseline, 9, 0, 1, 0)
	if !strings.Contains(rep.Why, "gap") {
		t.Errorf("why: got %q, want the gap named", rep.Why)
	}
	m.wantFiles(paths...)
}

func TestWithoutAChangeListEverySyncIsABaseline(t *testing.T) {
	s := newSource(t)
	s.offer("/list.xml", "")
	paths := s.fill(10)
	s.list(0, paths...)
	m := newMirror(t, s)
	m.mustSync(destination.Baseline, 0, 10, 0, 0)
	s.put("/r/1", []byte("other"))
	s.list(1, paths[:9]...)
	m.mustSync(destination.Baseline, 8, 0, 1, 1)
	m.wantFiles(paths[:9]...)
}

func TestRewrittenChangeListIsReadWhole(t *testing.T) {
	s := newSource(t)
	paths := s.fill(10)
	s.list(0, paths...)
	m := newMirror(t, s)
	s.changes(0, s.change(1, resourcesync.Updated, "/r/1"), s.change(2, resourcesync.Updated, "/r/2"))
	m.mustSync(destination.Baseline, 0, 10, 0, 0)
	s.put("/r/3", []byte("three"))
	s.changes(0, s.change(2, resourcesync.Updated, "/r/2"), s.change(3, resourcesync.Updated, "/r/3"))
	m.mustSync(destination.Incremental, 1, 0, 1, 0)
	m.wantFiles(paths...)
}

func TestTheLastOfSeveralChangesCounts(t *testing.T) {
	for name, order := range map[string]func([]resourcesync.Entry){
		"in order":     func([]resourcesync.Entry) {},
		"newest first": func(e []resourcesync.Entry) { slices.Reverse(e) },
		"mixed":        func(e []resourcesync.Entry) { e[0], e[2] = e[2], e[0] },
	} {
		t.Run(name, func(t *testing.T) {
			s, paths, m := inStep(t, 10)
			old := s.change(1, resourcesync.Updated, "/r/1")
			old.Digests = nil // a state that can't be fetched any more
			s.put("/r/1", []byte("the last state"))
			entries := []resourcesync.Entry{old, s.change(2, resourcesync.Deleted, "/r/1"), s.change(3, resourcesync.Created, "/r/1"), s.change(4, resourcesync.Deleted, "/r/2")}
			order(entries)
			s.changes(0, entries...)
			m.mustSync(destination.Incremental, 0, 0, 1, 1)
			m.wantFiles(slices.Delete(slices.Clone(paths), 2, 3)...)
			if rep, err := m.sync(); err != nil || rep.Mode != destination.Incremental || rep.Created+rep.Updated+rep.Deleted != 0 {
				t.Errorf("once more: got %+v, %v; want nothing to do", rep, err)
			}
		})
	}
}

func TestSameBytesUnderAnotherURIAreCopied(t *testing.T) {
	s, paths, m := inStep(t, 10)
	s.put("/moved/1", s.bodies["/r/1"])
	s.changes(0, s.change(1, resourcesync.Created, "/moved/1"), s.change(1, resourcesync.Deleted, "/r/1"))
	s.asked("/")
	rep := m.mustSync(destination.Incremental, 0, 1, 0, 1)
	if got := s.asked("/moved/") + s.asked("/r/"); got != 0 || rep.Bytes != 0 || rep.Copied == 0 {
		t.Errorf("a move: got %d requests, %d bytes fetched, %d copied; want only copied bytes", got, rep.Bytes, rep.Copied)
	}
	m.wantFiles(append(slices.Delete(slices.Clone(paths), 1, 2), "/moved/1")...)
}

func TestDamagedCopySourceIsNotTrusted(t *testing.T) {
	s, _, m := inStep(t, 10)
	flip(t, filepath.Join(m.dir, "r", "1"))
	s.put("/moved/1", s.bodies["/r/1"])
	s.changes(0, s.change(1, resourcesync.Created, "/moved/1"))
	m.mustSync(destination.Incremental, 0, 1, 0, 0)
	if got := m.files()["/moved/1"]; got != string(s.bodies["/moved/1"]) {
		t.Errorf("got %q, want the Source's bytes", got)
	}
}

func flip(t *testing.T, path string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[0] ^= 1
	if err := os.WriteFile(path, b, 0o640); err != nil {
		t.Fatal(err)
	}
}

func TestCat_VER_01(t *testing.T) {
	cases := map[string]http.HandlerFunc{
		"other bytes": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "bxdy 1. body 1. ") },
		"too long":    func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "body 1. body 1. and more") },
		"too short":   func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "body 1.") },
		"a page":      func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>Just a moment</html>") },
		"missing":     http.NotFound,
		"cut":         cutBody("body 1. body 1. "),
		"long chunked": func(w http.ResponseWriter, _ *http.Request) {
			w.(http.Flusher).Flush()
			fmt.Fprint(w, "body 1. body 1. and more")
		},
	}
	for name, answer := range cases {
		t.Run(name, func(t *testing.T) {
			s, paths, m := inStep(t, 10)
			good := m.files()["/r/1"]

			s.put("/r/1", []byte("body 1. body 1. ")[:16])
			s.put("/r/1", []byte("BODY 1. BODY 1. "))
			s.changes(0, s.change(1, resourcesync.Updated, "/r/1"), s.change(2, resourcesync.Deleted, "/r/2"))
			s.answer("/r/1", answer)
			rep, err := m.sync()
			if err != nil || rep.Failed != 1 || rep.Deleted != 1 || rep.Failures[0].URI != s.uri("/r/1") {
				t.Fatalf("got %+v, %v; want one failure that names the URI, and the rest done", rep, err)
			}
			if got := m.files()["/r/1"]; got != good {
				t.Errorf("the good copy was replaced by %q", got)
			}
			s.answer("/r/1", nil)
			m.mustSync(destination.Incremental, 0, 0, 1, 0)
			m.wantFiles(slices.Delete(slices.Clone(paths), 2, 3)...)
		})
	}
}

// cutBody announces body and ends the connection in its middle.
func cutBody(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		fmt.Fprint(w, body[:len(body)/2])
		panic(http.ErrAbortHandler)
	}
}

func TestCat_VER_02(t *testing.T) {
	s := newSource(t)
	paths := s.fill(3)
	entries := s.entries(paths...)
	wrong, err := resourcesync.ParseDigest("md5:00000000000000000000000000000000")
	if err != nil {
		t.Fatal(err)
	}
	entries[1].Digests = append(entries[1].Digests[1:], wrong)
	s.doc("/list.xml", head(resourcesync.CapabilityResourceList, func(h *resourcesync.Header) { h.At = at(0) }), entries...)
	s.changes(0)
	m := newMirror(t, s)
	rep, err := m.sync()
	if err != nil || rep.Failed != 1 || rep.Created != 2 {
		t.Fatalf("got %+v, %v; want the resource with one wrong digest of two to fail alone", rep, err)
	}
}

func TestCat_DEL_01(t *testing.T) {
	paths := func(s *aSource) []string { return s.fill(100) }
	cases := map[string]struct {
		damage  func(*aSource, []string)
		failing bool // Plan has to fail
	}{
		"cut in the middle": {func(s *aSource, _ []string) { s.put("/list.xml", s.bodies["/list.xml"][:len(s.bodies["/list.xml"])/2]) }, true},
		"not there":         {func(s *aSource, _ []string) { s.answer("/list.xml", http.NotFound) }, true},
		"a page": {func(s *aSource, _ []string) {
			s.put("/list.xml", []byte("<!doctype html><html><body>Log in</body></html>"))
		}, true},
		"a Change List in its place": {func(s *aSource, _ []string) { s.put("/list.xml", s.bodies["/changes.xml"]) }, true},
		"nothing at all":             {func(s *aSource, _ []string) { s.put("/list.xml", nil) }, true},
		"empty":                      {func(s *aSource, _ []string) { s.list(5) }, false},
		"one of a hundred":           {func(s *aSource, p []string) { s.list(5, p[0]) }, false},
		"a fifth gone":               {func(s *aSource, p []string) { s.list(5, p[20:]...) }, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := newSource(t)
			p := paths(s)
			s.offer("/list.xml", "")
			s.list(0, p...)
			s.changes(0)
			m := newMirror(t, s)
			m.mustSync(destination.Baseline, 0, 100, 0, 0)
			c.damage(s, p)
			rep, err := m.sync()
			if c.failing != (err != nil) {
				t.Fatalf("got %+v, %v", rep, err)
			}
			if err == nil && (rep.Withheld == 0 || rep.Deleted != 0 || rep.Hash == "") {
				t.Errorf("got %+v, want the deletions withheld", rep)
			}
			m.wantFiles(p...)
		})
	}
}

func TestPartOfAnIndexThatFailsDeletesNothing(t *testing.T) {
	s := newSource(t)
	s.offer("/index.xml", "")
	paths := s.fill(30)
	part := func(n int, path string, paths ...string) {
		s.doc(path, head(resourcesync.CapabilityResourceList, func(h *resourcesync.Header) { h.At = at(n) }), s.entries(paths...)...)
	}
	index := func(n int) {
		h := head(resourcesync.CapabilityResourceList, func(h *resourcesync.Header) { h.At, h.Root = at(n), resourcesync.SitemapIndex })
		s.doc("/index.xml", h, resourcesync.Entry{Loc: s.uri("/1.xml")}, resourcesync.Entry{Loc: s.uri("/2.xml")})
	}
	index(0)
	part(0, "/1.xml", paths[:15]...)
	part(0, "/2.xml", paths[15:]...)
	m := newMirror(t, s)
	m.mustSync(destination.Baseline, 0, 30, 0, 0)

	s.put("/r/0", []byte("changed"))
	damage := map[string]func(){
		"missing part":         func() { s.answer("/2.xml", http.NotFound) },
		"older part":           func() { part(0, "/2.xml", paths[16:]...) },
		"cut part":             func() { part(9, "/2.xml", paths[16:]...); s.put("/2.xml", s.bodies["/2.xml"][:300]) },
		"an index in its part": func() { s.put("/2.xml", s.bodies["/index.xml"]) },
	}
	for name, do := range damage {
		t.Run(name, func(t *testing.T) {
			m.t = t
			s.answer("/2.xml", nil)
			index(5)
			part(5, "/1.xml", paths[:14]...)
			do()
			rep, err := m.sync()
			if err != nil || rep.Partial == nil || rep.Deleted != 0 {
				t.Fatalf("got %+v, %v; want a partial run that deletes nothing", rep, err)
			}
			m.wantFiles(paths...)
		})
	}
}

func TestGuardHoldsUntilExactlyThatPlanIsApproved(t *testing.T) {
	s, paths, m := inStep(t, 100)

	var entries []resourcesync.Entry
	for _, p := range paths[:50] {
		entries = append(entries, s.change(1, resourcesync.Deleted, p))
	}
	s.put("/r/99", []byte("changed as well"))
	s.changes(0, append(entries, s.change(2, resourcesync.Updated, "/r/99"))...)
	rep, err := m.sync()
	if err != nil || rep.Withheld != 50 || rep.Updated != 1 || rep.Deleted != 0 {
		t.Fatalf("got %+v, %v; want 50 deletions withheld and the update applied", rep, err)
	}
	m.wantFiles(paths...)
	approve := func(hash string) error {
		return m.with(func(ctx context.Context, _ *destination.Destination, mm *mirror.Mirror) error {
			_, _, err := mm.Approve(ctx, hash)
			return err
		})
	}
	if err := approve(strings.Repeat("0", len(rep.Hash))); err == nil {
		t.Error("another hash was approved")
	}
	if err := approve(rep.Hash); err != nil {
		t.Fatal(err)
	}
	// One more deletion makes another plan.
	s.changes(0, append(entries, s.change(2, resourcesync.Updated, "/r/99"), s.change(3, resourcesync.Deleted, "/r/60"))...)
	other, err := m.sync()
	if err != nil || other.Withheld != 51 || other.Hash == rep.Hash {
		t.Fatalf("got %+v, %v; want 51 deletions withheld under another hash", other, err)
	}
	s.changes(0, append(entries, s.change(2, resourcesync.Updated, "/r/99"))...)
	m.mustSync(destination.Incremental, 1, 0, 0, 50)
	m.wantFiles(paths[50:]...)
}

func TestMaxDeleteReplacesTheDefault(t *testing.T) {
	s := newSource(t)
	paths := s.fill(100)
	s.offer("/list.xml", "")
	s.list(0, paths...)
	m := newMirror(t, s)
	m.mustSync(destination.Baseline, 0, 100, 0, 0)
	limit, err := guard.ParseLimit("100%")
	if err != nil {
		t.Fatal(err)
	}
	m.set = func(d *destination.Destination) { d.MaxDelete = limit }
	s.list(1, paths[0])
	m.mustSync(destination.Baseline, 1, 0, 0, 99)
	m.wantFiles(paths[0])
}

func TestKeepDeletedDeletesNothing(t *testing.T) {
	s, _, m := inStep(t, 10)
	m.set = func(d *destination.Destination) { d.KeepDeleted = true }
	s.changes(0, s.change(1, resourcesync.Deleted, "/r/1"))
	m.mustSync(destination.Incremental, 1, 0, 0, 0)
	if got := len(m.files()); got != 10 {
		t.Errorf("files: got %d, want 10", got)
	}
}

func TestNeverBack(t *testing.T) {
	s := newSource(t)
	paths := s.fill(10)
	s.list(0, paths...)
	stale := s.bodies["/list.xml"]
	s.changes(0)
	m := newMirror(t, s)
	m.mustSync(destination.Baseline, 0, 10, 0, 0)
	s.put("/r/1", []byte("newer"))
	s.put("/r/new", []byte("new"))
	s.changes(0, s.change(5, resourcesync.Updated, "/r/1"), s.change(6, resourcesync.Created, "/r/new"))
	m.mustSync(destination.Incremental, 0, 1, 1, 0)

	// A stale list, and changes that do not reach back: neither is older bytes a state
	// to go back to, nor is a resource missing from it deleted.
	s.put("/list.xml", stale)
	s.changes(60)
	m.mustSync(destination.Baseline, 11, 0, 0, 0)
	m.wantFiles(append(paths, "/r/new")...)
}

// A Change List as it was before, from a cache, tells of a resource that was deleted since.
func TestOlderChangeListBringsNothingBack(t *testing.T) {
	s, paths, m := inStep(t, 10)
	update := s.change(1, resourcesync.Updated, "/r/1")
	s.changes(0, update)
	older := s.bodies["/changes.xml"]
	s.changes(0, update, s.change(2, resourcesync.Deleted, "/r/1"))
	m.mustSync(destination.Incremental, 0, 0, 0, 1)
	whole := s.bodies["/changes.xml"]
	s.put("/changes.xml", older)
	if rep, err := m.sync(); err != nil || rep.Created+rep.Failed != 0 {
		t.Errorf("got %+v, %v; want nothing created", rep, err)
	}
	m.wantFiles(slices.Delete(slices.Clone(paths), 1, 2)...)
	s.put("/changes.xml", whole)
	m.mustSync(destination.Incremental, 0, 0, 0, 0)
}

func TestForeignOriginIsSkippedAndNamed(t *testing.T) {
	s, other := newSource(t), newSource(t)
	other.put("/x", []byte("elsewhere"))
	paths := s.fill(3)
	entries := append(s.entries(paths...), other.entry("/x"))
	entries = append(entries, resourcesync.Entry{Loc: "ftp://example.org/file"})
	s.doc("/list.xml", head(resourcesync.CapabilityResourceList, func(h *resourcesync.Header) { h.At = at(0) }), entries...)
	s.changes(0)
	m := newMirror(t, s)
	rep := m.mustSync(destination.Baseline, 0, 3, 0, 0)
	if rep.Skipped[destination.SkipOrigin] != 1 || rep.Origins[other.srv.URL] != 1 || rep.Skipped[destination.SkipUnsupported] != 1 {
		t.Errorf("skipped: got %v of %v", rep.Skipped, rep.Origins)
	}
	if other.asked("/") != 0 {
		t.Error("the other origin was asked")
	}
}

func TestFilterIsNoReasonToDelete(t *testing.T) {
	s := newSource(t)
	paths := s.fill(10)
	s.offer("/list.xml", "")
	s.list(0, paths...)
	m := newMirror(t, s)
	m.mustSync(destination.Baseline, 0, 10, 0, 0)
	m.set = func(d *destination.Destination) { d.Exclude = []string{"r/[0-7]"} }
	m.mustSync(destination.Baseline, 2, 0, 0, 0)
	m.wantFiles(paths...)
}

func TestStrictTakesOnlyWhatIsProved(t *testing.T) {
	s := newSource(t)
	paths := s.fill(3)
	entries := s.entries(paths...)
	entries[0].Digests = entries[0].Digests[:1] // md5 alone
	entries[1].Digests = nil
	s.doc("/list.xml", head(resourcesync.CapabilityResourceList, func(h *resourcesync.Header) { h.At = at(0) }), entries...)
	s.changes(0)
	m := newMirror(t, s)
	m.set = func(d *destination.Destination) { d.Strict = true }
	rep := m.mustSync(destination.Baseline, 0, 1, 0, 0)
	if rep.Skipped[destination.SkipWeak] != 2 {
		t.Errorf("skipped: got %v, want 2 unproved", rep.Skipped)
	}
}

func TestPageInsteadOfAnUnhashedResourceReplacesNothing(t *testing.T) {
	s := newSource(t)
	s.put("/a.pdf", []byte("%PDF-1.7"))
	entry := func(n int) resourcesync.Entry {
		return resourcesync.Entry{Loc: s.uri("/a.pdf"), LastMod: at(n), Metadata: resourcesync.Metadata{Type: "application/pdf"}}
	}
	list := func(n int) {
		s.doc("/list.xml", head(resourcesync.CapabilityResourceList, func(h *resourcesync.Header) { h.At = at(n + 1) }), entry(n))
	}
	s.offer("/list.xml", "")
	list(0)
	m := newMirror(t, s)
	m.mustSync(destination.Baseline, 0, 1, 0, 0)
	m.mustSync(destination.Baseline, 1, 0, 0, 0) // the same lastmod: the same resource
	list(1)
	s.answer("/a.pdf", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, "<html>Are you human?</html>")
	})
	rep, err := m.sync()
	if err != nil || rep.Failed != 1 {
		t.Fatalf("got %+v, %v; want the resource to fail", rep, err)
	}
	m.wantFiles("/a.pdf")
}

func TestOutageEndsTheRunAndKeepsTheCursor(t *testing.T) {
	s := newSource(t)
	paths := slices.Sorted(slices.Values(s.fill(100))) // the order in which they are requested
	s.list(0, paths...)
	s.changes(0)
	for _, p := range paths[10:] {
		s.answer(p, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	}
	m := newMirror(t, s)
	rep, err := m.sync()
	if !errors.Is(err, destination.ErrOutage) || rep.Created == 0 || rep.Failed >= 60 {
		t.Fatalf("got %+v, %v; want an early end with what came first kept", rep, err)
	}
	kept := rep.Created
	for _, p := range paths {
		s.answer(p, nil)
	}
	rep, err = m.sync()
	if err != nil || rep.Mode != destination.Baseline || rep.Same != kept || rep.Created != 100-kept {
		t.Fatalf("got %+v, %v; want a baseline that goes on after %d", rep, err, kept)
	}
	m.wantFiles(paths...)
}

func TestInterruptedRunKeepsWhatCame(t *testing.T) {
	s := newSource(t)
	paths := s.fill(600)
	s.list(0, paths...)
	s.changes(0)
	m := newMirror(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	s.answer("/r/400", func(http.ResponseWriter, *http.Request) { cancel(); panic(http.ErrAbortHandler) })
	var created int64
	err := m.with(func(_ context.Context, d *destination.Destination, mm *mirror.Mirror) error {
		plan, err := d.Plan(ctx)
		if err != nil {
			return err
		}
		defer plan.Close()
		if err := mm.Bind(ctx, plan.Source, plan.Origin); err != nil {
			return err
		}
		rep, err := d.Apply(ctx, plan)
		created = rep.Sets[0].Created
		return err
	})
	if !errors.Is(err, context.Canceled) || created < 300 {
		t.Fatalf("got %d created, %v; want what came before the interruption to be kept", created, err)
	}
	s.answer("/r/400", nil)
	m.mustSync(destination.Baseline, created, 600-created, 0, 0)
	m.wantFiles(paths...)
}

func TestPlanTouchesNothing(t *testing.T) {
	s := newSource(t)
	paths := s.fill(10)
	s.list(0, paths...)
	s.changes(0)
	m := newMirror(t, s)
	ctx := t.Context()
	c, err := fetch.New(fetch.Options{AllowPrivate: []string{strings.TrimPrefix(s.srv.URL, "http://")}})
	if err != nil {
		t.Fatal(err)
	}
	mm, err := mirror.OpenReadOnly(ctx, mirror.Options{Dir: m.dir})
	if err != nil {
		t.Fatal(err)
	}
	defer mm.Close()
	d := &destination.Destination{Source: s.uri("/"), Mirror: mm, Client: c}
	plan, err := d.Plan(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer plan.Close()
	if plan.Sets[0].Created != 10 {
		t.Errorf("plan: got %+v, want 10 to create", plan.Sets[0])
	}
	if _, err := os.Stat(m.dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the mirror's directory was made: %v", err)
	}
}

func TestAuditFindsEveryDifferenceAndSyncRepairsIt(t *testing.T) {
	_, paths, m := inStep(t, 50)
	flip(t, filepath.Join(m.dir, "r", "7"))
	if err := os.Remove(filepath.Join(m.dir, "r", "8")); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(m.dir, "r", "9"), 3); err != nil {
		t.Fatal(err)
	}
	v := m.audit()
	if v[destination.VerdictDifferent] != 2 || v[destination.VerdictMissing] != 1 || v[destination.VerdictSame] != 47 {
		t.Fatalf("audit: got %v, want 2 different, 1 missing, 47 the same", v)
	}
	rep, err := m.sync()
	if err != nil || rep.Failed != 0 || rep.Created+rep.Updated != 3 {
		t.Fatalf("got %+v, %v; want 3 repaired", rep, err)
	}
	m.wantFiles(paths...)
	if v := m.audit(); v[destination.VerdictSame] != 50 {
		t.Errorf("audit after the repair: got %v", v)
	}
}

func TestAuditNamesWhatIsMissingAndExtra(t *testing.T) {
	s, _, m := inStep(t, 50)
	s.put("/new", []byte("new"))
	s.changes(0, s.change(1, resourcesync.Created, "/new"), s.change(2, resourcesync.Deleted, "/r/1"))
	v := m.audit()
	if v[destination.VerdictMissing] != 1 || v[destination.VerdictExtra] != 1 || v[destination.VerdictSame] != 49 {
		t.Errorf("audit: got %v, want 1 missing, 1 extra, 49 the same", v)
	}
}

func TestListsOfAnyLengthOfBodiesAreVerified(t *testing.T) {
	s := newSource(t)
	big := bytes.Repeat([]byte("0123456789abcdef"), 5<<20/16)
	s.put("/big", big)
	s.put("/empty", nil)
	s.list(0, "/big", "/empty")
	s.changes(0)
	m := newMirror(t, s)
	m.mustSync(destination.Baseline, 0, 2, 0, 0)
	m.wantFiles("/big", "/empty")
}

// What is not served for good ends a run, but is last in the next one: all else comes,
// and the cursor moves.
func TestWhatFailsForGoodIsInNobodysWay(t *testing.T) {
	s := newSource(t)
	paths := s.fill(60)
	s.list(0, paths...)
	s.changes(0)
	s.busy(paths[:30]...)
	m := newMirror(t, s)
	if rep, err := m.sync(); !errors.Is(err, destination.ErrOutage) || rep.Created != 0 {
		t.Fatalf("got %+v, %v; want an early end", rep, err)
	}
	rep, err := m.sync()
	if err != nil || rep.Mode != destination.Baseline || rep.Created != 30 || rep.Failed != 30 {
		t.Fatalf("got %+v, %v; want 30 brought and 30 failed", rep, err)
	}
	m.wantFiles(paths[30:]...)
	s.asked("/r/")
	s.put(paths[40], []byte("changed"))
	s.changes(0, s.change(2, resourcesync.Updated, paths[40]))
	if rep, err = m.sync(); err != nil || rep.Mode != destination.Incremental || rep.Updated != 1 || rep.Failed != 30 {
		t.Fatalf("got %+v, %v; want the change brought, and 30 failed", rep, err)
	}
	if n := s.asked("/r/"); n < 21 || n > 21+2*4 {
		t.Errorf("got %d requests; want one for the change and few more than 20 for what failed before", n)
	}
	for uri, reason := range m.due(rep.Set) {
		if !strings.Contains(reason, "502") {
			t.Errorf("%s is due because %q, want what the server answered", uri, reason)
		}
	}
	for _, p := range paths {
		s.answer(p, nil)
	}
	m.mustSync(destination.Incremental, 0, 30, 0, 0)
	m.wantFiles(paths...)
}

// due are the resources of a set that are due, and why.
func (m *aMirror) due(set string) map[string]string {
	m.t.Helper()
	why := map[string]string{}
	err := m.with(func(ctx context.Context, d *destination.Destination, _ *mirror.Mirror) error {
		for h, err := range d.Mirror.Due(ctx, set) {
			if err != nil {
				return err
			}
			why[h.URI] = h.Due
		}
		return nil
	})
	if err != nil || len(why) == 0 {
		m.t.Errorf("due: got %v, %v", why, err)
	}
	return why
}

// A Source that fails over many resources in a row has answered each time: the rest of
// them is brought.
func TestFailuresOfTheServerAreNoOutage(t *testing.T) {
	s := newSource(t)
	paths := s.fill(60)
	s.list(0, paths...)
	s.changes(0)
	for _, p := range paths[:30] {
		s.answer(p, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	}
	m := newMirror(t, s)
	if rep, err := m.sync(); err != nil || rep.Created != 30 || rep.Failed != 30 {
		t.Fatalf("got %+v, %v; want 30 brought and 30 failed", rep, err)
	}
	m.wantFiles(paths[30:]...)
}

// TestFirstBaselineGoesByDirectory, whatever the order of the list: that of the rows of a
// mirror.
func TestFirstBaselineGoesByDirectory(t *testing.T) {
	s := newSource(t)
	paths := []string{"/b/2", "/a/9", "/b/1", "/a/b/1", "/a/10", "/c", "/a", "/b/10"}
	for _, p := range paths {
		s.put(p, []byte(p))
	}
	s.list(0, paths...)
	s.offer("/list.xml", "")
	m := newMirror(t, s)
	var got []string
	err := m.with(func(ctx context.Context, d *destination.Destination, _ *mirror.Mirror) error {
		p, err := d.Plan(ctx)
		if err != nil {
			return err
		}
		defer p.Close()
		for a, err := range p.Sets[0].Actions() {
			if err != nil {
				return err
			}
			got = append(got, strings.TrimPrefix(a.Want.URI, s.srv.URL))
		}
		return nil
	})
	if want := []string{"/a", "/c", "/a/10", "/a/9", "/a/b/1", "/b/1", "/b/10", "/b/2"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
	m.mustSync(destination.Baseline, 0, 8, 0, 0)
}
