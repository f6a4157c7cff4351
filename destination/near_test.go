package destination_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"instep/destination"
	"instep/resourcesync"
)

// URIs that are only nearly equal are two resources everywhere: a deletion of one does not
// delete the other.
func TestNearURIs(t *testing.T) {
	for _, near := range []string{"/r/a%7Eb", "/r/a%c3%a4", "/r/x#f", "/r/x?", "/r/./x", "/r/X", "/r/x.", "/r/x/", "//r/x", "/r/x%2Fy", "HTTP:/r/x"} {
		t.Run(near, func(t *testing.T) {
			s := newSource(t)
			for _, path := range []string{"/r/a~b", "/r/a\u00e4", "/r/x", "/r/X", "/r/x.", "/r/x/", "//r/x", "/r/./x"} {
				s.put(path, []byte("body"))
			}
			one, two := s.entry("/r/x"), s.entry("/r/x")
			if path, upper := strings.CutPrefix(near, "HTTP:"); upper {
				two.Loc = "HTTP" + strings.TrimPrefix(s.uri(path), "http")
			} else {
				two.Loc = s.uri(near)
			}
			switch near {
			case "/r/a%7Eb":
				one.Loc = s.uri("/r/a~b")
			case "/r/a%c3%a4":
				one.Loc = s.uri("/r/a%C3%A4")
			case "/r/x%2Fy":
				s.put("/r/x/y", []byte("body"))
				one.Loc = s.uri("/r/x/y")
			}
			for _, gone := range []string{one.Loc, two.Loc} {
				s.doc("/list.xml", head(resourcesync.CapabilityResourceList, func(h *resourcesync.Header) { h.At = at(0) }), one, two)
				s.changes(0)
				m := newMirror(t, s)
				m.mustSync(destination.Baseline, 0, 2, 0, 0)
				e := resourcesync.Entry{Loc: gone}
				e.Change, e.Datetime = resourcesync.Deleted, at(5)
				s.changes(0, e)
				m.mustSync(destination.Incremental, 0, 0, 0, 1)
				if n := len(m.files()); n != 1 {
					t.Errorf("%s is deleted: got %d files, want 1", gone, n)
				}
			}
		})
	}
}

// Of several changes of one moment the last one counts, in one list and over several.
func TestChangesOfOneMoment(t *testing.T) {
	U, D, C := resourcesync.Updated, resourcesync.Deleted, resourcesync.Created
	for name, tt := range map[string]struct {
		kinds  []resourcesync.Change
		exists bool
	}{
		"updated, deleted": {[]resourcesync.Change{U, D}, false}, "deleted, created": {[]resourcesync.Change{D, C}, true}, "created, deleted": {[]resourcesync.Change{C, D}, false},
		"updated, updated": {[]resourcesync.Change{U, U}, true}, "deleted, created, deleted": {[]resourcesync.Change{D, C, D}, false}, "updated, deleted, created": {[]resourcesync.Change{U, D, C}, true},
	} {
		for _, how := range []string{"one list", "two lists", "two lists, reversed index", "two runs", "pages", "two runs, two lists", "offered", "dump"} {
			for _, undated := range []bool{false, true} {
				t.Run(fmt.Sprint(name, "/", how, " ", undated), func(t *testing.T) {
					s := newSource(t)
					paths := s.fill(10)
					s.list(0, paths...)
					s.changes(0)
					m := newMirror(t, s)
					m.mustSucceed()
					var es []resourcesync.Entry
					for i, k := range tt.kinds {
						s.put(paths[2], []byte(fmt.Sprint("version", strings.Repeat("x", i))))
						e := s.change(5, k, paths[2])
						if undated {
							e.Datetime = resourcesync.Datetime{}
						}
						es = append(es, e)
					}
					if !tt.exists {
						s.remove(paths[2])
					}
					cut := len(es) - 1
					l := func(path string, from, until int, links []resourcesync.Link, es ...resourcesync.Entry) {
						s.doc(path, head(resourcesync.CapabilityChangeList, func(h *resourcesync.Header) {
							h.From, h.Links = at(from), links
							if until > 0 {
								h.Until = at(until)
							}
						}), es...)
					}
					ix := func(es ...resourcesync.Entry) {
						s.doc("/c.xml", head(resourcesync.CapabilityChangeList, func(h *resourcesync.Header) { h.Root, h.From = resourcesync.SitemapIndex, at(0) }), es...)
						s.offers("resourcelist", "/list.xml", "changelist", "/c.xml")
					}
					n := func(path string, from, until int) resourcesync.Entry {
						e := resourcesync.Entry{Loc: s.uri(path)}
						if e.From = at(from); until > 0 {
							e.Until = at(until)
						}
						return e
					}
					switch how {
					case "one list":
						s.changes(0, es...)
					case "two lists":
						l("/1.xml", 0, 5, nil, es[:cut]...)
						l("/2.xml", 5, 0, nil, es[cut:]...)
						ix(n("/1.xml", 0, 5), n("/2.xml", 5, 0))
					case "two lists, reversed index":
						l("/1.xml", 0, 5, nil, es[:cut]...)
						l("/2.xml", 5, 0, nil, es[cut:]...)
						ix(n("/2.xml", 5, 0), n("/1.xml", 0, 5))
					case "two runs":
						s.changes(0, es[:cut]...)
						_, _ = m.sync()
						s.changes(0, es...)
					case "pages":
						l("/changes.xml", 0, 0, []resourcesync.Link{{Rel: "next", Href: s.uri("/p2.xml")}}, es[:cut]...)
						l("/p2.xml", 0, 0, []resourcesync.Link{{Rel: "prev", Href: s.uri("/changes.xml")}}, es[cut:]...)
					case "two runs, two lists":
						l("/1.xml", 0, 5, nil, es[:cut]...)
						ix(n("/1.xml", 0, 5))
						_, _ = m.sync()
						l("/2.xml", 5, 0, nil, es[cut:]...)
						ix(n("/1.xml", 0, 5), n("/2.xml", 5, 0))
					case "offered":
						l("/1.xml", 0, 5, nil, es[:cut]...)
						l("/2.xml", 5, 0, nil, es[cut:]...)
						s.offers("resourcelist", "/list.xml", "changelist", "/2.xml", "changelist", "/1.xml")
					case "dump":
						// only the last bytes are served, so earlier members are dropped
						s.offers("resourcelist", "/list.xml", "changedump", "/changedump.xml")
						if tt.exists && es[0].Change != D {
							return
						}
						s.put(paths[2], []byte(fmt.Sprint("version", strings.Repeat("x", cut))))
						s.changeDump(0, aPackage{path: "/d1", from: 0, until: 5, entries: es[:cut]}, aPackage{path: "/d2", from: 5, until: 5, entries: es[cut:]})
						if !tt.exists {
							s.remove(paths[2])
						}
					}
					m.mustSucceed()
					if tt.exists {
						m.wantFiles(paths...)
					} else {
						m.wantFiles(slices.Delete(slices.Clone(paths), 2, 3)...)
					}
				})
			}
		}
	}
}
