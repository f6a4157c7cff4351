package destination_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"instep/destination"
	"instep/mirror"
	"instep/resourcesync"
)

// A list may name resources of any origin: those that are not the Source's are left
// alone and counted, each under the origin that would have to be allowed.
func TestCat_NAV_05(t *testing.T) {
	s := newSource(t)
	paths := s.fill(4)
	var foreign [2]*httptest.Server
	hits := 0
	for i := range foreign {
		foreign[i] = httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits++ }))
		t.Cleanup(foreign[i].Close)
	}
	entries := s.entries(paths...)
	for i := range 7 {
		e := entries[0]
		e.Loc = fmt.Sprintf("%s/f/%d", foreign[i%2].URL, i)
		entries = append(entries, e)
	}
	list := func(entries []resourcesync.Entry) {
		s.doc("/list.xml", head(resourcesync.CapabilityResourceList, func(h *resourcesync.Header) { h.At = at(0) }), entries...)
	}
	list(entries)
	created := entries[len(entries)-1]
	created.Loc, created.Change, created.Datetime = foreign[0].URL+"/later", resourcesync.Created, at(1)
	s.changes(0, created)
	m := newMirror(t, s)
	rep := m.mustSync(destination.Baseline, 0, 4, 0, 0)
	if got, want := rep.Skipped[destination.SkipOrigin], int64(8); got != want {
		t.Errorf("skipped: got %d, want %d", got, want)
	}
	want := map[string]int64{foreign[0].URL: 5, foreign[1].URL: 3}
	if got := rep.Origins; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("by origin: got %v, want %v", got, want)
	}
	if hits != 0 {
		t.Errorf("%d requests to other origins", hits)
	}
	m.wantFiles(paths...)
}

// goneBack is a mirror that has followed a Source up to five changes, and what the
// Source showed after two of them.
func goneBack(t *testing.T) (s *aSource, m *aMirror, before func()) {
	s, paths, m := inStep(t, 10)
	old := map[string][]byte{}
	entries := []resourcesync.Entry{}
	for i := range 5 {
		s.put(paths[i], fmt.Appendf(nil, "version %d of %s", i, paths[i]))
		entries = append(entries, s.change(i+1, resourcesync.Updated, paths[i]))
		s.changes(0, entries...)
		if i == 1 {
			for p, b := range s.bodies {
				old[p] = b
			}
		}
		m.mustSync(destination.Incremental, 0, 0, 1, 0)
	}
	m.wantFiles(paths...)
	return s, m, func() {
		for p, b := range old {
			s.put(p, b)
		}
	}
}

// A Source that shows what it showed earlier takes nothing back, and each run says so;
// what comes after it counts; who accepts it is brought in step with it.
func TestCat_NAV_06(t *testing.T) {
	s, m, restore := goneBack(t)
	held := m.files()
	restore()
	for range 2 {
		rep := m.mustSync(destination.Incremental, 2, 0, 0, 0)
		if !strings.Contains(rep.RolledBack, "had 5 entries") {
			t.Errorf("rolled back: got %q, want what was lost", rep.RolledBack)
		}
		if got := m.files(); fmt.Sprint(got) != fmt.Sprint(held) {
			t.Fatalf("the mirror went back:\n got %v\nwant %v", got, held)
		}
	}
	m.set = func(d *destination.Destination) { d.AcceptRollback = true }
	rep := m.mustSync(destination.Baseline, 7, 0, 3, 0)
	if rep.RolledBack != "" {
		t.Errorf("accepted, and still: %q", rep.RolledBack)
	}
	m.wantFiles("/r/0", "/r/1", "/r/2", "/r/3", "/r/4", "/r/5", "/r/6", "/r/7", "/r/8", "/r/9")
	m.set = nil
	rep = m.mustSync(destination.Incremental, 0, 0, 0, 0)
	if rep.RolledBack != "" {
		t.Errorf("after it was accepted: %q", rep.RolledBack)
	}
	s.put("/r/7", []byte("goes on"))
	s.changes(0, s.change(1, resourcesync.Updated, "/r/0"), s.change(2, resourcesync.Updated, "/r/1"), s.change(9, resourcesync.Updated, "/r/7"))
	m.mustSync(destination.Incremental, 0, 0, 1, 0)
	m.wantFiles("/r/0", "/r/1", "/r/2", "/r/3", "/r/4", "/r/5", "/r/6", "/r/7", "/r/8", "/r/9")
}

// A Source that went back and goes on from there is followed; what it lost stays until a
// newer Resource List tells of it.
func TestCat_NAV_06_goes_on(t *testing.T) {
	s, m, restore := goneBack(t)
	restore()
	m.mustSync(destination.Incremental, 2, 0, 0, 0)
	s.put("/r/9", []byte("new"))
	s.changes(0, s.change(1, resourcesync.Updated, "/r/0"), s.change(2, resourcesync.Updated, "/r/1"), s.change(8, resourcesync.Updated, "/r/9"))
	if rep := m.mustSync(destination.Incremental, 2, 0, 1, 0); rep.RolledBack != "" {
		t.Errorf("rolled back: got %q of a Source that is past it", rep.RolledBack)
	}
	s.list(20, "/r/0", "/r/1", "/r/2", "/r/3", "/r/4", "/r/5", "/r/6", "/r/7", "/r/8", "/r/9")
	s.changes(20)
	m.mustSync(destination.Baseline, 7, 0, 3, 0)
	m.wantFiles("/r/0", "/r/1", "/r/2", "/r/3", "/r/4", "/r/5", "/r/6", "/r/7", "/r/8", "/r/9")
}

// An older Resource List than one read before is told too, where there are no changes to
// follow; an accepted one deletes and replaces.
func TestCat_NAV_06_lists(t *testing.T) {
	s := newSource(t)
	s.offer("/list.xml", "")
	paths := s.fill(10)
	s.list(0, paths[:9]...)
	first := slices.Clone(s.bodies["/list.xml"])
	m := newMirror(t, s)
	m.mustSync(destination.Baseline, 0, 9, 0, 0)
	body := s.bodies[paths[3]]
	s.put(paths[3], []byte("new"))
	s.list(5, paths...)
	m.mustSync(destination.Baseline, 8, 1, 1, 0)
	s.put("/list.xml", first)
	s.put(paths[3], body)
	for range 2 {
		if rep := m.mustSync(destination.Baseline, 10, 0, 0, 0); !strings.Contains(rep.RolledBack, "was read before") {
			t.Errorf("rolled back: got %q", rep.RolledBack)
		}
	}
	m.set = func(d *destination.Destination) { d.AcceptRollback = true }
	m.mustSync(destination.Baseline, 8, 0, 1, 1)
	m.wantFiles(paths[:9]...)
	m.set = nil
	if rep := m.mustSync(destination.Baseline, 9, 0, 0, 0); rep.RolledBack != "" {
		t.Errorf("after it was accepted: %q", rep.RolledBack)
	}
}

// A Source may write dumps more often than lists: a Resource List that is older than a dump that
// was read before is no evidence beside a dump that is not. If both are older, the Source went back.
func TestCat_NAV_06_a_newer_dump(t *testing.T) {
	for _, prefer := range []destination.Prefer{"", destination.PreferDump} {
		t.Run(string(prefer), func(t *testing.T) {
			s := newSource(t)
			paths := s.fill(4)
			dump := func(n int, paths ...string) { s.dump(n, aPackage{path: "/d/1", entries: s.entries(paths...)}) }
			s.offers("resourcelist", "/list.xml")
			s.list(0, paths[:3]...)
			m := newMirror(t, s)
			m.set = func(d *destination.Destination) { d.Prefer = prefer }
			m.mustSync(destination.Baseline, 0, 3, 0, 0)
			s.offers("resourcedump", "/dump.xml")
			dump(5, paths...)
			m.mustSync(destination.Baseline, 3, 1, 0, 0)
			s.offers("resourcelist", "/list.xml", "resourcedump", "/dump.xml")
			if rep := m.mustSync(destination.Baseline, 4, 0, 0, 0); rep.RolledBack != "" {
				t.Errorf("the dump of before is there, and still: %q", rep.RolledBack)
			}
			dump(6, paths[1:]...)
			if rep := m.mustSync(destination.Baseline, 3, 0, 0, 1); rep.RolledBack != "" {
				t.Errorf("a newer dump is there, and still: %q", rep.RolledBack)
			}
			m.wantFiles(paths[1:]...)
			dump(2, paths...)
			if rep := m.mustSync(destination.Baseline, 3, 0, 0, 0); !strings.Contains(rep.RolledBack, "was read before") {
				t.Errorf("list and dump are older: got %q", rep.RolledBack)
			}
			m.wantFiles(paths[1:]...)
		})
	}
}

// Whatever a Source shows of its past, in any order, a mirror never holds an older state
// than it held before.
func TestCat_NAV_06_never_back(t *testing.T) {
	draws := rapid.SliceOfN(rapid.IntRange(0, 999), 16, 16)
	for seed := range 30 { // each is a mirror with four runs
		draw := draws.Example(seed)
		next := func(n int) int {
			d := draw[0] % n
			draw = draw[1:]
			return d
		}
		s, paths, m := inStep(t, 3)
		history := []map[string][]byte{maps.Clone(s.bodies)}
		var entries []resourcesync.Entry
		for i := range 2 + next(4) {
			path := paths[next(len(paths))]
			s.put(path, fmt.Appendf(nil, "%04d", i+1))
			entries = append(entries, s.change(i+1, resourcesync.Updated, path))
			s.changes(0, entries...)
			if next(2) == 0 {
				s.list(i+1, paths...)
			}
			history = append(history, maps.Clone(s.bodies))
		}
		version := map[string]int{}
		for range 3 {
			shown := next(len(history))
			for path, b := range history[shown] {
				s.put(path, b)
			}
			if _, err := m.sync(); err != nil {
				t.Fatal(err)
			}
			for path, text := range m.files() {
				n := 0
				_, _ = fmt.Sscanf(text, "%04d", &n)
				if n < version[path] {
					t.Fatalf("seed %d: %s has version %d after %d, as the Source shows state %d of %d", seed, path, n, version[path], shown, len(history))
				}
				version[path] = n
			}
		}
	}
}

// describe writes a Source Description that names these Capability Lists.
func (s *aSource) describe(caps ...string) {
	var entries []resourcesync.Entry
	for _, c := range caps {
		entries = append(entries, resourcesync.Entry{Loc: s.uri(c), Metadata: resourcesync.Metadata{Capability: resourcesync.CapabilityCapabilityList}})
	}
	s.doc("/.well-known/resourcesync", head(resourcesync.CapabilityDescription, nil), entries...)
}

// A set that is not offered any more is told of in each run and loses nothing, until
// somebody has approved to forget it; if it comes back it is followed as before.
func TestCat_NAV_08(t *testing.T) {
	s := newSource(t)
	paths := s.fill(4)
	s.list(0, paths[:2]...)
	s.changes(0)
	up := func(h *resourcesync.Header) {
		h.Links = []resourcesync.Link{{Rel: "up", Href: s.uri("/.well-known/resourcesync")}}
	}
	s.doc("/prints/caps.xml", head(resourcesync.CapabilityCapabilityList, up),
		resourcesync.Entry{Loc: s.uri("/prints/list.xml"), Metadata: resourcesync.Metadata{Capability: resourcesync.CapabilityResourceList}})
	s.doc("/prints/list.xml", head(resourcesync.CapabilityResourceList, func(h *resourcesync.Header) { h.At = at(0) }), s.entries(paths[2:]...)...)
	s.describe("/caps.xml", "/prints/caps.xml")
	m := newMirror(t, s)
	run := func(hook func(*mirror.Mirror, *destination.Report)) {
		t.Helper()
		err := m.with(func(ctx context.Context, d *destination.Destination, mm *mirror.Mirror) error {
			plan, err := d.Plan(ctx)
			if err != nil {
				return err
			}
			defer plan.Close()
			if err := mm.Bind(ctx, plan.Source, plan.Origin); err != nil {
				return err
			}
			rep, err := d.Apply(ctx, plan)
			if err != nil {
				return err
			}
			hook(mm, rep)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		m.wantFiles(paths...)
	}
	none := func(_ *mirror.Mirror, rep *destination.Report) {
		t.Helper()
		if len(rep.Orphans) != 0 {
			t.Errorf("orphans: got %v, want none", rep.Orphans)
		}
	}
	run(none)
	s.describe("/caps.xml")
	one := func(forget bool) func(*mirror.Mirror, *destination.Report) {
		return func(mm *mirror.Mirror, rep *destination.Report) {
			t.Helper()
			if len(rep.Orphans) != 1 || rep.Orphans[0].Set != s.uri("/prints/caps.xml") || rep.Orphans[0].Members != 2 || rep.Orphans[0].Forget != forget {
				t.Fatalf("orphans: got %+v, want the set of prints with 2 resources, forgotten %v", rep.Orphans, forget)
			}
			if !forget {
				if _, _, err := mm.Approve(t.Context(), "x"+rep.Orphans[0].Hash[1:]); err == nil {
					t.Error("another hash was approved")
				}
			}
		}
	}
	run(one(false))
	run(func(mm *mirror.Mirror, rep *destination.Report) {
		one(false)(mm, rep)
		if _, _, err := mm.Approve(t.Context(), rep.Orphans[0].Hash); err != nil {
			t.Fatal(err)
		}
	})
	run(one(true))
	m.now = m.now.AddDate(0, 0, 2) // the approval has ended, the set stays forgotten
	run(none)
	s.describe("/caps.xml", "/prints/caps.xml")
	run(none)
	s.describe("/caps.xml")
	run(one(false))

	m.set = func(d *destination.Destination) { d.Source = s.uri("/caps.xml") } // nobody asked for all sets
	run(none)
}

// A set whose Capability List offers no list any more loses nothing and is told apart
// from one that never had any.
func TestCat_NAV_08_capability(t *testing.T) {
	s, paths, m := inStep(t, 3)
	s.doc("/caps.xml", head(resourcesync.CapabilityCapabilityList, func(h *resourcesync.Header) {
		h.Links = []resourcesync.Link{{Rel: "up", Href: s.uri("/.well-known/resourcesync")}}
	}))
	rep, err := m.sync()
	if err != nil || !errors.Is(rep.Partial, destination.ErrWithdrawn) {
		t.Errorf("got %v, %v; want the set withdrawn", rep.Partial, err)
	}
	m.wantFiles(paths...)
	if _, err := newMirror(t, s).sync(); errors.Is(err, destination.ErrWithdrawn) {
		t.Errorf("got %v for a mirror that never held it", err)
	}
}

// An index that names more parts than a run reads, each of them new: the run ends at its
// bound, what it read counts, and nothing is deleted for not being in it.
func TestCat_NAV_02(t *testing.T) {
	const bound = 10_000
	s, paths, m := inStep(t, 3)
	h := head(resourcesync.CapabilityResourceList, func(h *resourcesync.Header) {
		h.Root, h.At = resourcesync.SitemapIndex, at(5)
	})
	parts := make([]resourcesync.Entry, bound+2000)
	for i := range parts {
		parts[i].Loc = s.uri(fmt.Sprintf("/part/%d", i))
	}
	s.doc("/list.xml", h, parts...)
	s.doc("/any.xml", head(resourcesync.CapabilityResourceList, func(h *resourcesync.Header) { h.At = at(5) }), s.entry(paths[0]))
	for i := range parts {
		s.answer(fmt.Sprintf("/part/%d", i), func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(s.bodies["/any.xml"]) })
	}
	s.offer("/list.xml", "")
	s.asked("/")
	rep, err := m.sync()
	if err != nil || rep.Partial == nil || !strings.Contains(rep.Partial.Error(), "has more than 10000 parts") || rep.Deleted != 0 {
		t.Errorf("got %+v, %v; want it partial at the bound", rep, err)
	}
	if got := s.asked("/part/"); got >= bound {
		t.Errorf("%d parts were asked for, want fewer than %d", got, bound)
	}
	m.wantFiles(paths...)
}

// An older Change List is no place from which to go on: what comes into it later was
// seen long ago, whatever its position says.
func TestCat_NAV_06_position(t *testing.T) {
	s, paths, m := inStep(t, 3)
	var entries []resourcesync.Entry
	shown := [][]resourcesync.Entry{nil}
	for i, path := range []string{paths[0], paths[1], paths[0]} {
		s.put(path, fmt.Appendf(nil, "version %d", i+1))
		entries = append(entries, s.change(i+1, resourcesync.Updated, path))
		shown = append(shown, slices.Clone(entries))
	}
	newest := s.bodies[paths[0]]
	s.changes(0, shown[3]...)
	m.mustSync(destination.Incremental, 0, 0, 2, 0)
	s.put(paths[0], []byte("version 1"))
	for _, state := range []int{0, 2, 1, 2} {
		s.changes(0, shown[state]...)
		if _, err := m.sync(); err != nil {
			t.Fatal(err)
		}
		if got := m.files()[paths[0]]; got != string(newest) {
			t.Fatalf("with %d of 3 changes shown: got %q, want %q", state, got, newest)
		}
	}
}
