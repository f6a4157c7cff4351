package destination_test

import (
	"slices"
	"testing"

	"instep/destination"
	"instep/resourcesync"
)

// A closed list whose index cannot be used, and a list in an index whose next page cannot
// be used, are applied, and a note says what is missing.
func TestIndexAndPagesThatCannotBeRead(t *testing.T) {
	const cl = resourcesync.CapabilityChangeList
	type E = resourcesync.Entry
	index := func(s *aSource, path string, links []resourcesync.Link, entries ...E) {
		s.doc(path, head(cl, func(h *resourcesync.Header) { h.Root, h.From, h.Links = resourcesync.SitemapIndex, at(0), links }), entries...)
	}
	named := func(s *aSource, path string, from, until int) E {
		e := E{Loc: s.uri(path), Metadata: resourcesync.Metadata{From: at(from)}}
		if until >= 0 {
			e.Until = at(until)
		}
		return e
	}
	doc := func(s *aSource, path string, from, until int, links []resourcesync.Link, entries ...E) {
		s.doc(path, head(cl, func(h *resourcesync.Header) {
			h.From, h.Links = at(from), links
			if until >= 0 {
				h.Until = at(until)
			}
		}), entries...)
	}
	ln := func(s *aSource, rel, path string) resourcesync.Link {
		return resourcesync.Link{Rel: rel, Href: s.uri(path)}
	}
	closed := func(s *aSource, first bool, some []E) {
		if first {
			doc(s, "/1.xml", 0, -1, []resourcesync.Link{ln(s, "index", "/c.xml")})
			index(s, "/c.xml", nil, named(s, "/1.xml", 0, -1))
			return
		}
		doc(s, "/1.xml", 0, 3, []resourcesync.Link{ln(s, "index", "/c.xml")})
		doc(s, "/2.xml", 3, -1, []resourcesync.Link{ln(s, "index", "/c.xml")}, some...)
		index(s, "/c.xml", nil, named(s, "/1.xml", 0, 3), named(s, "/2.xml", 3, -1))
	}
	for name, tt := range map[string]struct {
		offer   string
		publish func(s *aSource, first bool, some []E)
		silent  int // nothing is missing: the number of requests of an idle run
	}{
		"closed list, index is gone": {offer: "/1.xml", publish: func(s *aSource, first bool, some []E) {
			closed(s, first, some)
			if !first {
				s.remove("/c.xml")
			}
		}},
		"closed list, index was never there": {offer: "/1.xml", publish: func(s *aSource, first bool, some []E) {
			closed(s, first, some)
			s.remove("/c.xml")
		}},
		"closed list, index is of another kind": {offer: "/1.xml", publish: func(s *aSource, first bool, some []E) {
			closed(s, first, some)
			s.doc("/c.xml", head(resourcesync.CapabilityResourceList, func(h *resourcesync.Header) { h.At = at(0) }))
		}},
		"closed list, index is no XML": {offer: "/1.xml", publish: func(s *aSource, first bool, some []E) {
			closed(s, first, some)
			if !first {
				s.put("/c.xml", []byte("<urlset"))
			}
		}},
		"closed list, index of another origin": {offer: "/1.xml", publish: func(s *aSource, first bool, some []E) {
			closed(s, first, some)
			if !first {
				doc(s, "/1.xml", 0, 3, []resourcesync.Link{{Rel: "index", Href: "http://other.example.org/c.xml"}})
			}
		}},
		"closed list, index is the capability list": {offer: "/1.xml", publish: func(s *aSource, first bool, some []E) {
			closed(s, first, some)
			if !first {
				doc(s, "/1.xml", 0, 3, []resourcesync.Link{ln(s, "index", "/caps.xml")})
			}
		}},
		"a page of a list in an index is gone": {offer: "/c.xml", publish: func(s *aSource, first bool, some []E) {
			doc(s, "/1.xml", 0, -1, []resourcesync.Link{ln(s, "next", "/1b.xml")}, s.change(1, resourcesync.Updated, "/r/9"))
			if first {
				doc(s, "/1b.xml", 0, -1, []resourcesync.Link{ln(s, "prev", "/1.xml")})
			} else {
				s.remove("/1b.xml")
			}
			index(s, "/c.xml", nil, named(s, "/1.xml", 0, -1))
		}},
		"a page of a list in an index is no XML": {offer: "/c.xml", publish: func(s *aSource, first bool, some []E) {
			doc(s, "/1.xml", 0, -1, []resourcesync.Link{ln(s, "next", "/1b.xml")}, s.change(1, resourcesync.Updated, "/r/9"))
			doc(s, "/1b.xml", 0, -1, []resourcesync.Link{ln(s, "prev", "/1.xml")}, some...)
			if !first {
				s.put("/1b.xml", []byte("<urlset"))
			}
			index(s, "/c.xml", nil, named(s, "/1.xml", 0, -1))
		}},
		"a new page of a list in an index is missing": {offer: "/c.xml", publish: func(s *aSource, first bool, some []E) {
			var links []resourcesync.Link
			if !first {
				links = []resourcesync.Link{ln(s, "next", "/1b.xml")}
			}
			doc(s, "/1.xml", 0, -1, links, s.change(1, resourcesync.Updated, "/r/9"))
			index(s, "/c.xml", nil, named(s, "/1.xml", 0, -1))
		}},
		"a new page of a list in an index": {silent: 5, offer: "/c.xml", publish: func(s *aSource, first bool, some []E) {
			var links []resourcesync.Link
			if !first {
				links = []resourcesync.Link{ln(s, "next", "/1b.xml")}
				doc(s, "/1b.xml", 0, -1, []resourcesync.Link{ln(s, "prev", "/1.xml")}, some...)
			}
			doc(s, "/1.xml", 0, -1, links, s.change(1, resourcesync.Updated, "/r/9"))
			index(s, "/c.xml", nil, named(s, "/1.xml", 0, -1))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSource(t)
			paths := s.fill(20)
			s.list(0, paths...)
			s.offers("resourcelist", "/list.xml", "changelist", tt.offer)
			tt.publish(s, true, nil)
			m := newMirror(t, s)
			if rep, err := m.sync(); err != nil || rep.Created != 20 {
				t.Fatal(rep, err)
			}
			s.put(paths[2], []byte("changed"))
			s.remove(paths[3])
			tt.publish(s, false, []E{s.change(5, resourcesync.Updated, paths[2]), s.change(6, resourcesync.Deleted, paths[3])})
			rep, err := m.sync()
			if why := lacks(rep, err); why != "" || rep.Mode != destination.Incremental || len(m.notes) == 0 && tt.silent == 0 {
				t.Errorf("got %s, %q, notes %q", rep.Mode, why, m.notes)
			}
			if tt.silent > 0 { // the page is there
				m.wantFiles(slices.Delete(slices.Clone(paths), 3, 4)...)
				s.asked("/")
				m.mustSucceed()
				if n := s.asked("/"); n != tt.silent {
					t.Errorf("requests of an idle run: got %d, want %d", n, tt.silent)
				}
			}
		})
	}
}
