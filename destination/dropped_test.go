package destination_test

import (
	"fmt"
	"slices"
	"testing"

	"instep/destination"
	"instep/resourcesync"
)

// Changes that only an unusual document names are applied, or the run does not end with
// success.
func TestChangesThatAnUnusualDocumentNames(t *testing.T) {
	index := func(s *aSource, path string, c resourcesync.Capability, links []resourcesync.Link, entries ...resourcesync.Entry) {
		s.doc(path, head(c, func(h *resourcesync.Header) { h.Root, h.From, h.Links = resourcesync.SitemapIndex, at(0), links }), entries...)
	}
	named := func(s *aSource, path string, from, until int) resourcesync.Entry {
		e := resourcesync.Entry{Loc: s.uri(path), Metadata: resourcesync.Metadata{From: at(from)}}
		if until >= 0 {
			e.Until = at(until)
		}
		return e
	}
	nested := func(s *aSource, path string, c resourcesync.Capability) resourcesync.Entry {
		return resourcesync.Entry{Loc: s.uri(path), Metadata: resourcesync.Metadata{Capability: c}}
	}
	doc := func(s *aSource, path string, c resourcesync.Capability, from, until int, links []resourcesync.Link, entries ...resourcesync.Entry) {
		if slices.ContainsFunc(entries, func(e resourcesync.Entry) bool { return e.Capability != "" }) {
			var raw []string
			for _, e := range entries {
				md := fmt.Sprintf("capability=%q", e.Capability)
				if e.Change != "" {
					md = fmt.Sprintf("change=%q datetime=%q", e.Change, e.Datetime)
				}
				raw = append(raw, fmt.Sprintf("<url><loc>%s</loc><rs:md %s/></url>", e.Loc, md))
			}
			ln := ""
			for _, l := range links {
				ln += fmt.Sprintf("<rs:ln rel=%q href=%q/>", l.Rel, l.Href)
			}
			s.raw(path, fmt.Sprintf("capability=%q from=%q", c, at(from)), ln, raw...)
			return
		}
		s.doc(path, head(c, func(h *resourcesync.Header) {
			h.From, h.Links = at(from), links
			if until >= 0 {
				h.Until = at(until)
			}
		}), entries...)
	}
	const cl, cd = resourcesync.CapabilityChangeList, resourcesync.CapabilityChangeDump
	ln := func(s *aSource, rel, path string) resourcesync.Link {
		return resourcesync.Link{Rel: rel, Href: s.uri(path)}
	}
	type E = resourcesync.Entry
	for name, tt := range map[string]struct {
		offers  []string
		publish func(s *aSource, first bool, some []E)
	}{
		"a plain list": {[]string{"changelist", "/c.xml"}, func(s *aSource, _ bool, some []E) {
			doc(s, "/c.xml", cl, 0, -1, nil, some...)
		}},
		"a list that names lists and changes": {[]string{"changelist", "/c.xml"}, func(s *aSource, _ bool, some []E) {
			doc(s, "/1.xml", cl, 0, -1, nil)
			doc(s, "/c.xml", cl, 0, -1, nil, append(some, nested(s, "/1.xml", cl))...)
		}},
		"a list that names lists and changes, lists first": {[]string{"changelist", "/c.xml"}, func(s *aSource, _ bool, some []E) {
			doc(s, "/1.xml", cl, 0, -1, nil)
			doc(s, "/c.xml", cl, 0, -1, nil, append([]E{nested(s, "/1.xml", cl)}, some...)...)
		}},
		"a list that names itself and changes": {[]string{"changelist", "/c.xml"}, func(s *aSource, _ bool, some []E) {
			doc(s, "/c.xml", cl, 0, -1, nil, append([]E{nested(s, "/c.xml", cl)}, some...)...)
		}},
		"a list that names a change dump": {[]string{"changelist", "/c.xml"}, func(s *aSource, _ bool, some []E) {
			doc(s, "/1.xml", cd, 0, -1, nil, some...)
			doc(s, "/c.xml", cl, 0, -1, nil, nested(s, "/1.xml", cd))
		}},
		"an index and nested": {[]string{"changelist", "/c.xml"}, func(s *aSource, _ bool, some []E) {
			doc(s, "/2.xml", cl, 0, -1, nil, some...)
			doc(s, "/1.xml", cl, 0, -1, nil, nested(s, "/2.xml", cl))
			index(s, "/c.xml", cl, nil, named(s, "/1.xml", 0, -1))
		}},
		"an index in an index": {[]string{"changelist", "/c.xml"}, func(s *aSource, _ bool, some []E) {
			doc(s, "/2.xml", cl, 0, -1, nil, some...)
			doc(s, "/3.xml", cl, 0, -1, nil)
			index(s, "/1.xml", cl, nil, named(s, "/2.xml", 0, -1))
			index(s, "/c.xml", cl, nil, named(s, "/1.xml", 0, -1), named(s, "/3.xml", 0, -1))
		}},
		"an index in an index, after a list": {[]string{"changelist", "/c.xml"}, func(s *aSource, _ bool, some []E) {
			doc(s, "/2.xml", cl, 0, -1, nil, some...)
			doc(s, "/3.xml", cl, 0, -1, nil)
			index(s, "/1.xml", cl, nil, named(s, "/2.xml", 0, -1))
			index(s, "/c.xml", cl, nil, named(s, "/3.xml", 0, -1), named(s, "/1.xml", 0, -1))
		}},
		"one of two lists of one period is unusable": {[]string{"changelist", "/c.xml"}, func(s *aSource, first bool, some []E) {
			doc(s, "/1.xml", cl, 0, -1, nil)
			if !first {
				s.remove("/1.xml")
			}
			doc(s, "/2.xml", cl, 0, -1, nil)
			index(s, "/c.xml", cl, nil, named(s, "/1.xml", 0, -1), named(s, "/2.xml", 0, -1))
		}},
		"two offered lists of one period, one unusable": {[]string{"changelist", "/1.xml", "changelist", "/2.xml"}, func(s *aSource, first bool, some []E) {
			doc(s, "/1.xml", cl, 0, -1, nil)
			if !first {
				s.remove("/1.xml")
			}
			doc(s, "/2.xml", cl, 0, -1, nil)
		}},
		"an index that names a resource list among lists": {[]string{"changelist", "/c.xml"}, func(s *aSource, _ bool, some []E) {
			doc(s, "/2.xml", cl, 0, -1, nil)
			s.doc("/1.xml", head(resourcesync.CapabilityResourceList, func(h *resourcesync.Header) { h.At = at(7) }))
			index(s, "/c.xml", cl, nil, named(s, "/1.xml", 0, -1), named(s, "/2.xml", 0, -1))
		}},
		"an index that names a change dump among lists": {[]string{"changelist", "/c.xml"}, func(s *aSource, _ bool, some []E) {
			doc(s, "/2.xml", cl, 0, -1, nil)
			doc(s, "/1.xml", cd, 0, -1, nil, some...)
			index(s, "/c.xml", cl, nil, named(s, "/1.xml", 0, -1), named(s, "/2.xml", 0, -1))
		}},
		"one URI twice with other periods": {[]string{"changelist", "/c.xml"}, func(s *aSource, _ bool, some []E) {
			doc(s, "/1.xml", cl, 3, -1, nil, some...)
			doc(s, "/2.xml", cl, 2, 3, nil)
			index(s, "/c.xml", cl, nil, named(s, "/1.xml", 0, 2), named(s, "/2.xml", 2, 3), named(s, "/1.xml", 3, -1))
		}},
		"one URI twice with other periods, changes applied between": {[]string{"changelist", "/c.xml"}, func(s *aSource, first bool, some []E) {
			if first {
				doc(s, "/1.xml", cl, 0, -1, nil, s.change(1, resourcesync.Updated, "/r/9"))
				index(s, "/c.xml", cl, nil, named(s, "/1.xml", 0, -1))
				return
			}
			doc(s, "/1.xml", cl, 3, -1, nil, some...)
			doc(s, "/2.xml", cl, 1, 3, nil, s.change(3, resourcesync.Updated, "/r/8"))
			index(s, "/c.xml", cl, nil, named(s, "/1.xml", 0, 1), named(s, "/2.xml", 1, 3), named(s, "/1.xml", 3, -1))
		}},
		"the next page of a list of an index": {[]string{"changelist", "/c.xml"}, func(s *aSource, _ bool, some []E) {
			doc(s, "/1.xml", cl, 0, -1, []resourcesync.Link{ln(s, "next", "/2.xml")})
			doc(s, "/2.xml", cl, 0, -1, []resourcesync.Link{ln(s, "prev", "/1.xml")}, some...)
			index(s, "/c.xml", cl, nil, named(s, "/1.xml", 0, -1))
		}},
		"the next page of an index": {[]string{"changelist", "/c.xml"}, func(s *aSource, _ bool, some []E) {
			doc(s, "/1.xml", cl, 0, 2, nil)
			doc(s, "/2.xml", cl, 2, -1, nil, some...)
			index(s, "/c.xml", cl, []resourcesync.Link{ln(s, "next", "/c2.xml")}, named(s, "/1.xml", 0, 2))
			index(s, "/c2.xml", cl, []resourcesync.Link{ln(s, "prev", "/c.xml")}, named(s, "/2.xml", 2, -1))
		}},
		"the next page of an index that a list names": {[]string{"changelist", "/1.xml"}, func(s *aSource, _ bool, some []E) {
			doc(s, "/1.xml", cl, 0, 2, []resourcesync.Link{ln(s, "index", "/c.xml")})
			doc(s, "/2.xml", cl, 2, -1, nil, some...)
			index(s, "/c.xml", cl, []resourcesync.Link{ln(s, "next", "/c2.xml")}, named(s, "/1.xml", 0, 2))
			index(s, "/c2.xml", cl, []resourcesync.Link{ln(s, "prev", "/c.xml")}, named(s, "/2.xml", 2, -1))
		}},
		"a next page that is an index": {[]string{"changelist", "/c.xml"}, func(s *aSource, _ bool, some []E) {
			doc(s, "/c.xml", cl, 0, -1, []resourcesync.Link{ln(s, "next", "/c2.xml")}, s.change(1, resourcesync.Updated, "/r/9"))
			doc(s, "/2.xml", cl, 0, -1, nil, some...)
			index(s, "/c2.xml", cl, []resourcesync.Link{ln(s, "prev", "/c.xml")}, named(s, "/2.xml", 0, -1))
		}},
		"a next page that names lists": {[]string{"changelist", "/c.xml"}, func(s *aSource, _ bool, some []E) {
			doc(s, "/c.xml", cl, 0, -1, []resourcesync.Link{ln(s, "next", "/c2.xml")}, s.change(1, resourcesync.Updated, "/r/9"))
			doc(s, "/2.xml", cl, 0, -1, nil, some...)
			doc(s, "/c2.xml", cl, 0, -1, []resourcesync.Link{ln(s, "prev", "/c.xml")}, nested(s, "/2.xml", cl))
		}},
		"a next page of another capability": {[]string{"changelist", "/c.xml"}, func(s *aSource, _ bool, some []E) {
			doc(s, "/c.xml", cl, 0, -1, []resourcesync.Link{ln(s, "next", "/c2.xml")})
			doc(s, "/c2.xml", cd, 0, -1, nil, some...)
		}},
		"a list whose index does not name it": {[]string{"changelist", "/1.xml"}, func(s *aSource, _ bool, some []E) {
			doc(s, "/1.xml", cl, 0, 7, []resourcesync.Link{ln(s, "index", "/c.xml")}, some...)
			doc(s, "/2.xml", cl, 0, -1, nil)
			index(s, "/c.xml", cl, nil, named(s, "/2.xml", 0, -1))
		}},
		"a dump that lists changes": {[]string{"changedump", "/d.xml"}, func(s *aSource, _ bool, some []E) {
			doc(s, "/d.xml", cd, 0, -1, nil, some...)
		}},
		"a dump that lists changes and packages": {[]string{"changedump", "/d.xml"}, func(s *aSource, first bool, some []E) {
			entries := []E{s.change(1, resourcesync.Updated, "/r/9")}
			if !first {
				entries = append(entries, s.changePackage(aPackage{path: "/d/1", from: 1, until: 7, entries: some}))
			}
			doc(s, "/d.xml", cd, 0, -1, nil, entries...)
		}},
		"a dump that lists packages and changes": {[]string{"changedump", "/d.xml"}, func(s *aSource, _ bool, some []E) {
			entries := []E{s.changePackage(aPackage{path: "/d/1", from: 0, until: 1, entries: []E{s.change(1, resourcesync.Updated, "/r/9")}})}
			doc(s, "/d.xml", cd, 0, -1, nil, append(entries, some...)...)
		}},
		"a dump that lists dumps and changes": {[]string{"changedump", "/d.xml"}, func(s *aSource, _ bool, some []E) {
			doc(s, "/1.xml", cd, 0, -1, nil)
			doc(s, "/d.xml", cd, 0, -1, nil, append([]E{nested(s, "/1.xml", cd)}, some...)...)
		}},
		"a dump that lists changes and dumps": {[]string{"changedump", "/d.xml"}, func(s *aSource, _ bool, some []E) {
			doc(s, "/1.xml", cd, 0, -1, nil, some...)
			doc(s, "/d.xml", cd, 0, -1, nil, s.change(1, resourcesync.Updated, "/r/9"), nested(s, "/1.xml", cd))
		}},
		"a dump with a nested index": {[]string{"changedump", "/d.xml"}, func(s *aSource, _ bool, some []E) {
			doc(s, "/2.xml", cd, 0, -1, nil, some...)
			index(s, "/1.xml", cd, nil, named(s, "/2.xml", 0, -1))
			doc(s, "/d.xml", cd, 0, -1, nil, nested(s, "/1.xml", cd))
		}},
		"an index that names a change list": {[]string{"changedump", "/d.xml"}, func(s *aSource, _ bool, some []E) {
			doc(s, "/1.xml", cl, 0, -1, nil, some...)
			doc(s, "/2.xml", cd, 0, -1, nil)
			index(s, "/d.xml", cd, nil, named(s, "/1.xml", 0, -1), named(s, "/2.xml", 0, -1))
		}},
		"an index that names a package": {[]string{"changedump", "/d.xml"}, func(s *aSource, _ bool, some []E) {
			s.changePackage(aPackage{path: "/1", from: 0, until: 7, entries: some})
			index(s, "/d.xml", cd, nil, named(s, "/1.zip", 0, -1))
		}},
		"a package at once, the same": {[]string{"changedump", "/1.zip"}, func(s *aSource, _ bool, some []E) {
			s.changePackage(aPackage{path: "/1", from: 0, until: 7, entries: some})
		}},
		"a dump with next page": {[]string{"changedump", "/d.xml"}, func(s *aSource, _ bool, some []E) {
			doc(s, "/d.xml", cd, 0, -1, []resourcesync.Link{ln(s, "next", "/d2.xml")}, s.changePackage(aPackage{path: "/d/0", from: 0, until: 1, entries: []E{s.change(1, resourcesync.Updated, "/r/9")}}))
			doc(s, "/d2.xml", cd, 0, -1, []resourcesync.Link{ln(s, "prev", "/d.xml")}, s.changePackage(aPackage{path: "/d/1", from: 1, until: 7, entries: some}))
		}},
		"a dump of changes with next page": {[]string{"changedump", "/d.xml"}, func(s *aSource, _ bool, some []E) {
			doc(s, "/d.xml", cd, 0, -1, []resourcesync.Link{ln(s, "next", "/d2.xml")}, s.change(1, resourcesync.Updated, "/r/9"))
			doc(s, "/d2.xml", cd, 0, -1, []resourcesync.Link{ln(s, "prev", "/d.xml")}, some...)
		}},
		"an index of dumps with next page": {[]string{"changedump", "/d.xml"}, func(s *aSource, _ bool, some []E) {
			doc(s, "/1.xml", cd, 0, 2, nil, s.changePackage(aPackage{path: "/d/0", from: 0, until: 1, entries: []E{s.change(1, resourcesync.Updated, "/r/9")}}))
			doc(s, "/2.xml", cd, 2, -1, nil, s.changePackage(aPackage{path: "/d/1", from: 1, until: 7, entries: some}))
			index(s, "/d.xml", cd, []resourcesync.Link{ln(s, "next", "/d2.xml")}, named(s, "/1.xml", 0, 2))
			index(s, "/d2.xml", cd, []resourcesync.Link{ln(s, "prev", "/d.xml")}, named(s, "/2.xml", 2, -1))
		}},
		"a package whose manifest is of another kind": {[]string{"changedump", "/d.xml"}, func(s *aSource, first bool, some []E) {
			e := s.pack(aPackage{path: "/d/1", entries: some, bare: true}, head(resourcesync.CapabilityResourceDumpManifest, func(h *resourcesync.Header) { h.At = at(7) }))
			e.From, e.Until = at(0), at(7)
			doc(s, "/d.xml", cd, 0, -1, nil, e)
		}},
		"a package of the moment of the cursor": {[]string{"changedump", "/d.xml"}, func(s *aSource, first bool, some []E) {
			entries := []E{s.changePackage(aPackage{path: "/d/0", from: 0, until: 6, entries: []E{s.change(6, resourcesync.Updated, "/r/9")}})}
			if !first {
				for i := range some {
					some[i].Datetime = at(6)
				}
				entries = append(entries, s.changePackage(aPackage{path: "/d/1", from: 6, until: 6, entries: some}))
			}
			doc(s, "/d.xml", cd, 0, -1, nil, entries...)
		}},
		"one package URI twice": {[]string{"changedump", "/d.xml"}, func(s *aSource, first bool, some []E) {
			e := s.changePackage(aPackage{path: "/d/0", from: 0, until: 1, entries: []E{s.change(1, resourcesync.Updated, "/r/9")}})
			if first {
				doc(s, "/d.xml", cd, 0, -1, nil, e)
				return
			}
			e2 := s.changePackage(aPackage{path: "/d/0", from: 1, until: 7, entries: some})
			doc(s, "/d.xml", cd, 0, -1, nil, e, e2)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSource(t)
			paths := s.fill(40)
			s.list(0, paths...)
			s.offers(append([]string{"resourcelist", "/list.xml"}, tt.offers...)...)
			tt.publish(s, true, nil)
			m := newMirror(t, s)
			if rep, err := m.sync(); err != nil || rep.Created != 40 {
				t.Fatal(rep, err)
			}
			s.put(paths[2], []byte("changed"))
			s.remove(paths[3])
			tt.publish(s, false, []resourcesync.Entry{s.change(5, resourcesync.Updated, paths[2]), s.change(6, resourcesync.Deleted, paths[3])})
			if rep, err := m.sync(); lacks(rep, err) == "" {
				m.wantFiles(slices.Delete(slices.Clone(paths), 3, 4)...)
			}
		})
	}
}

// A closed list whose index link leads to a list is read without an index.
func TestIndexLinkThatLeadsToAList(t *testing.T) {
	for _, to := range []string{"/c.xml", "/c2.xml"} {
		t.Run(to, func(t *testing.T) {
			s := newSource(t)
			paths := s.fill(40)
			publish := func(until int, changes ...resourcesync.Entry) {
				for _, path := range []string{"/c2.xml", "/c.xml"} {
					s.doc(path, head(resourcesync.CapabilityChangeList, func(h *resourcesync.Header) {
						h.From, h.Until, h.Links = at(0), at(until), []resourcesync.Link{{Rel: "index", Href: s.uri(to)}}
					}), changes...)
				}
			}
			s.list(0, paths...)
			publish(1, s.change(1, resourcesync.Updated, paths[9]))
			s.offers("resourcelist", "/list.xml", "changelist", "/c.xml")
			m := newMirror(t, s)
			m.mustSync(destination.Baseline, 0, 40, 0, 0)
			s.put(paths[2], []byte("changed"))
			publish(6, s.change(1, resourcesync.Updated, paths[9]), s.change(5, resourcesync.Updated, paths[2]))
			m.mustSync(destination.Incremental, 0, 0, 1, 0)
			m.wantFiles(paths...)
		})
	}
}

// Change Dumps that link to each other as pages are read once each.
func TestChainedChangeDumpsAreReadOnce(t *testing.T) {
	s := newSource(t)
	paths := s.fill(40)
	s.list(0, paths...)
	offers := []string{"resourcelist", "/list.xml"}
	for i := range 4 {
		path := fmt.Sprintf("/dump/%d.xml", i)
		offers = append(offers, "changedump", path)
		s.doc(path, head(resourcesync.CapabilityChangeDump, func(h *resourcesync.Header) {
			h.From, h.Until = at(i), at(i+1)
			if i < 3 {
				h.Links = []resourcesync.Link{{Rel: "next", Href: s.uri(fmt.Sprintf("/dump/%d.xml", i+1))}}
			}
		}), s.changePackage(aPackage{path: fmt.Sprintf("/d/%d", i), from: i, until: i + 1, entries: []resourcesync.Entry{s.change(i+1, resourcesync.Updated, paths[i])}}))
	}
	s.offers(offers...)
	m := newMirror(t, s)
	m.mustSucceed()
	s.asked("/dump/")
	m.mustSucceed()
	if n := s.asked("/dump/"); n > 4 {
		t.Errorf("requests for 4 Change Dumps: %d", n)
	}
}
