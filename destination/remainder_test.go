package destination_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"instep/destination"
	"instep/harvest"
	"instep/mirror"
	"instep/resourcesync"
)

// linked is an entry with links, among them one to title.
func linked(e resourcesync.Entry, title string) resourcesync.Entry {
	e.ChangeFreq = resourcesync.Monthly
	e.Encoding = "gzip"
	e.Links = append(e.Links, resourcesync.Link{Rel: resourcesync.RelDescribedBy, Href: "http://example.org/" + title, Type: "text/turtle"},
		resourcesync.Link{Rel: "collection", Href: "http://example.org/all", Attrs: []resourcesync.Attr{{Space: "http://example.org/ns", Name: "n", Value: "1"}}})
	e.Attrs = []resourcesync.Attr{{Space: "http://example.org/ns", Name: "title", Value: title}}
	e.Foreign = `<x:title xmlns:x="http://example.org/ns">` + title + `</x:title>`
	return e
}

// links are the hrefs of the first links of the resources in the mirror, by path; "" of one
// that is not whole.
func (m *aMirror) links() map[string]string {
	m.t.Helper()
	first := map[string]string{}
	err := m.with(func(ctx context.Context, d *destination.Destination, mm *mirror.Mirror) error {
		sets, err := mm.Sets(ctx)
		if err != nil {
			return err
		}
		for _, set := range sets {
			for h, err := range mm.Members(ctx, set) {
				if err != nil {
					return err
				}
				said, err := h.Remainder.Parse()
				if err != nil {
					return err
				}
				path := strings.TrimPrefix(h.URI, m.src.srv.URL)
				if first[path] = ""; len(said.Links) > 0 {
					title := strings.TrimPrefix(said.Links[0].Href, "http://example.org/")
					whole := linked(resourcesync.Entry{}, title)
					if want := whole.Remainder(); !harvest.NewRemainder(textOf(m.t, want)).Equal(h.Remainder) {
						m.t.Errorf("%s: got %+v, want %+v", path, said, want)
					}
					first[path] = title
				}
			}
		}
		return nil
	})
	if err != nil {
		m.t.Fatal(err)
	}
	return first
}

func textOf(t *testing.T, r resourcesync.Remainder) string {
	t.Helper()
	text, err := r.Text()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func (m *aMirror) wantLinks(want map[string]string) {
	m.t.Helper()
	if got := m.links(); fmt.Sprint(got) != fmt.Sprint(want) {
		m.t.Fatalf("links: got %v, want %v", got, want)
	}
}

// A baseline and changes bring links and attributes. If only these differ no bytes are
// fetched; if nothing differs nothing is written.
func TestRemainderFollowsTheSource(t *testing.T) {
	s := newSource(t)
	p := s.fill(3)
	list := func(n int, titles ...string) {
		h := head(resourcesync.CapabilityResourceList, func(h *resourcesync.Header) { h.At = at(n) })
		entries := s.entries(p...)
		for i, title := range titles {
			if title != "" {
				entries[i] = linked(entries[i], title)
			}
		}
		s.doc("/list.xml", h, entries...)
	}
	list(0, "a", "b")
	s.changes(0)
	m := newMirror(t, s)
	m.mustSync(destination.Baseline, 0, 3, 0, 0)
	m.wantLinks(map[string]string{p[0]: "a", p[1]: "b", p[2]: ""})

	s.asked("/r/")
	s.changes(0, linked(s.change(1, resourcesync.Updated, p[0]), "a2"), s.change(2, resourcesync.Updated, p[1]), linked(s.change(3, resourcesync.Updated, p[2]), "c"))
	m.mustSync(destination.Incremental, 3, 0, 0, 0)
	m.wantLinks(map[string]string{p[0]: "a2", p[1]: "", p[2]: "c"})
	runs := m.runs()
	m.mustSync(destination.Incremental, 0, 0, 0, 0)
	if again := m.runs(); again != runs {
		t.Errorf("an idle run has written something: %d runs, want %d", again, runs)
	}

	s.offer("/list.xml", "")
	for range 2 { // the second one has nothing to do
		list(10, "a2", "b3")
		m.mustSync(destination.Baseline, 3, 0, 0, 0)
		m.wantLinks(map[string]string{p[0]: "a2", p[1]: "b3", p[2]: ""})
	}
	if n := s.asked("/r/"); n != 0 {
		t.Errorf("%d resources were asked for, want none: their bytes are as they were", n)
	}
	s.put(p[1], []byte("other bytes"))
	list(20, "a2", "b4")
	m.mustSync(destination.Baseline, 2, 0, 1, 0)
	m.wantLinks(map[string]string{p[0]: "a2", p[1]: "b4", p[2]: ""})
}

// runs is how many runs have changed the mirror.
func (m *aMirror) runs() (n int) {
	m.t.Helper()
	err := m.with(func(ctx context.Context, _ *destination.Destination, mm *mirror.Mirror) error {
		for _, err := range mm.Runs(ctx) {
			if err != nil {
				return err
			}
			n++
		}
		return nil
	})
	if err != nil {
		m.t.Fatal(err)
	}
	return n
}

// A resource that failed keeps its remainder for the run that brings it.
func TestRemainderOfADueResource(t *testing.T) {
	s := newSource(t)
	p := s.fill(2)
	s.doc("/list.xml", head(resourcesync.CapabilityResourceList, func(h *resourcesync.Header) { h.At = at(0) }), linked(s.entry(p[0]), "a"), linked(s.entry(p[1]), "b"))
	s.changes(0)
	s.put(p[1], nil)
	m := newMirror(t, s)
	if rep, err := m.sync(); err != nil || rep.Failed != 1 {
		t.Fatalf("got %+v, %v; want one failure", rep, err)
	}
	s.fill(2)
	m.mustSync(destination.Incremental, 0, 1, 0, 0)
	m.wantLinks(map[string]string{p[0]: "a", p[1]: "b"})
}

// If two documents name a resource the remainder is that of the later one.
func TestRemainderInSeveralDocuments(t *testing.T) {
	s := newSource(t)
	p := s.fill(3)
	caps := head(resourcesync.CapabilityCapabilityList, nil)
	list := func(path string) resourcesync.Entry {
		return resourcesync.Entry{Loc: s.uri(path), Metadata: resourcesync.Metadata{Capability: resourcesync.CapabilityResourceList}}
	}
	s.doc("/caps.xml", caps, list("/1.xml"), list("/2.xml"))
	s.listOf("/1.xml", 1, linked(s.entry(p[0]), "a"), linked(s.entry(p[1]), "new"))
	s.listOf("/2.xml", 0, linked(s.entry(p[1]), "old"), linked(s.entry(p[2]), "c"))
	m := newMirror(t, s)
	if _, err := m.sync(); err != nil {
		t.Fatal(err)
	}
	m.wantLinks(map[string]string{p[0]: "a", p[1]: "new", p[2]: "c"})
}

// The manifests of dumps carry remainders as lists do.
func TestRemainderInDumps(t *testing.T) {
	s := newSource(t)
	p := s.fill(3)
	s.offers("resourcedump", "/dump.xml", "changedump", "/changedump.xml")
	s.dump(0, aPackage{path: "/d/1", entries: []resourcesync.Entry{linked(s.entry(p[0]), "a"), linked(s.entry(p[1]), "b"), s.entry(p[2])}})
	s.changeDump(0, aPackage{path: "/c/0", from: 0, until: 1, entries: []resourcesync.Entry{linked(s.change(1, resourcesync.Updated, p[1]), "b2")}})
	m := newMirror(t, s)
	m.mustSync(destination.Baseline, 0, 3, 0, 0)
	m.wantLinks(map[string]string{p[0]: "a", p[1]: "b2", p[2]: ""})
	s.put(p[2], []byte("other bytes"))
	s.changeDump(0, aPackage{path: "/c/0", from: 0, until: 1, entries: []resourcesync.Entry{linked(s.change(1, resourcesync.Updated, p[1]), "b2")}},
		aPackage{path: "/c/1", from: 1, until: 3, entries: []resourcesync.Entry{s.change(2, resourcesync.Updated, p[0]), linked(s.change(3, resourcesync.Updated, p[2]), "c")}})
	m.mustSync(destination.Incremental, 1, 0, 1, 0)
	m.wantLinks(map[string]string{p[0]: "", p[1]: "b2", p[2]: "c"})
}

// A remainder of more than 16 KiB is dropped, with one note when it would be written.
func TestTooLongRemainderIsLeftOut(t *testing.T) {
	s := newSource(t)
	p := s.fill(3)
	long := func(e resourcesync.Entry) resourcesync.Entry {
		return linked(e, strings.Repeat("x", resourcesync.MaxRemainder/2))
	}
	s.doc("/list.xml", head(resourcesync.CapabilityResourceList, func(h *resourcesync.Header) { h.At = at(0) }),
		linked(s.entry(p[0]), "a"), long(s.entry(p[1])), long(s.entry(p[2])))
	s.changes(0)
	m := newMirror(t, s)
	m.mustSync(destination.Baseline, 0, 3, 0, 0)
	m.wantLinks(map[string]string{p[0]: "a", p[1]: "", p[2]: ""})
	m.mustSync(destination.Incremental, 0, 0, 0, 0)
	if len(m.notes) > 0 {
		t.Errorf("an idle run tells %q", m.notes)
	}
	s.changes(0, long(s.change(1, resourcesync.Updated, p[0])))
	m.mustSync(destination.Incremental, 1, 0, 0, 0)
	if !slices.ContainsFunc(m.notes, func(n string) bool {
		return strings.Contains(n, "of 1 resource are left out, those of "+s.uri(p[0]))
	}) {
		t.Errorf("notes: got %q, want that one remainder is left out", m.notes)
	}
	m.wantLinks(map[string]string{p[0]: "", p[1]: "", p[2]: ""})
}

// Changes yields remainders that outlive the iteration.
func TestChangesTellTheRemainder(t *testing.T) {
	s := newSource(t)
	p := s.fill(2)
	s.doc("/list.xml", head(resourcesync.CapabilityResourceList, func(h *resourcesync.Header) { h.At = at(0) }), linked(s.entry(p[0]), "a"), s.entry(p[1]))
	s.changes(0, linked(s.change(1, resourcesync.Updated, p[1]), "b"))
	m := newMirror(t, s)
	for name, since := range map[string]time.Time{"everything": {}, "since": t0} {
		var told []destination.Change
		err := m.with(func(ctx context.Context, d *destination.Destination, _ *mirror.Mirror) error {
			for c, err := range d.Changes(ctx, s.uri("/"), since) {
				if err != nil {
					return err
				}
				told = append(told, c)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, c := range told {
			said, err := c.Remainder.Parse()
			if err != nil || len(said.Links) != 2 || said.Encoding != "gzip" {
				t.Fatalf("%s: %s: got %+v, %v", name, c.URI, said, err)
			}
			got[strings.TrimPrefix(c.URI, s.srv.URL)] = said.Links[0].Href
		}
		if got[p[1]] != "http://example.org/b" || since.IsZero() && got[p[0]] != "http://example.org/a" {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

// Changes read before a baseline that cannot be made still have their remainders.
func TestRemainderAfterABaselineThatCannotBeMade(t *testing.T) {
	s := newSource(t)
	p := s.fill(2)
	s.list(0, p...)
	s.changes(0, s.change(5, resourcesync.Updated, p[0]))
	s.clock = t0.Add(time.Hour)
	m := newMirror(t, s)
	m.mustSync(destination.Baseline, 0, 2, 0, 0)
	s.changes(3, linked(s.change(6, resourcesync.Updated, p[1]), strings.Repeat("b", 200)))
	s.mu.Lock()
	s.clock = t0.Add(2 * time.Hour)
	s.mu.Unlock()
	m.set = func(d *destination.Destination) { d.BaselineEvery = time.Minute }
	m.mustSync(destination.Incremental, 1, 0, 0, 0)
	m.wantNote("but no baseline can be made")
	m.wantLinks(map[string]string{p[0]: "", p[1]: strings.Repeat("b", 200)})
}
