package destination_test

import (
	"bytes"
	"context"
	"encoding/xml"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"instep/destination"
	"instep/guard"
	"instep/mirror"
	"instep/resourcesync"
)

// quirks has every quirk noted from now on recorded.
func (m *aMirror) quirks() *[]resourcesync.Quirk {
	var met []resourcesync.Quirk
	before := m.set
	m.set = func(d *destination.Destination) {
		if before != nil {
			before(d)
		}
		met = nil
		tell := d.Observe
		d.Observe = func(e destination.Event) {
			tell(e)
			if e.Quirk != 0 {
				met = append(met, e.Quirk)
			}
		}
	}
	return &met
}

func wantQuirk(t *testing.T, met *[]resourcesync.Quirk, want resourcesync.Quirk) {
	t.Helper()
	if !slices.Contains(*met, want) {
		t.Errorf("quirks told: got %v, want %d", *met, want)
	}
}

// raw writes a urlset as Sources do that no Encoder of ours would imitate.
func (s *aSource) raw(path, md, links string, entries ...string) {
	s.put(path, []byte(`<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/"><rs:md `+md+`/>`+
		`<rs:ln rel="up" href="`+s.uri("/caps.xml")+`"/>`+links+strings.Join(entries, "\n")+`</urlset>`))
}

// rawEntry is the entry of the bytes at path with further attributes and elements.
func (s *aSource) rawEntry(path, attrs, elements string) string {
	e := s.entry(path)
	var loc bytes.Buffer
	if err := xml.EscapeText(&loc, []byte(s.srv.URL+path)); err != nil {
		s.t.Fatal(err)
	}
	return fmt.Sprintf(`<url><loc>%s</loc>%s<rs:md hash=%q length="%d" %s/></url>`, &loc, elements, e.Digests, e.Length.Int64(), attrs)
}

func (s *aSource) rawEntries(paths ...string) []string {
	var entries []string
	for _, p := range paths {
		entries = append(entries, s.rawEntry(p, "", ""))
	}
	return entries
}

// listAt writes a Resource List, or a page of one, of moment n with the links given
// and these resources.
func (s *aSource) listAt(n int, path, links string, paths ...string) {
	s.raw(path, `capability="resourcelist" at="`+at(n).String()+`"`, links, s.rawEntries(paths...)...)
}

func (s *aSource) next(path string) string { return `<rs:ln rel="next" href="` + s.uri(path) + `"/>` }
func (s *aSource) prev(path string) string { return `<rs:ln rel="prev" href="` + s.uri(path) + `"/>` }

// mustBePartial checks that a run is partial and deletes nothing.
func (m *aMirror) mustBePartial() {
	m.t.Helper()
	rep, err := m.sync()
	if err != nil || rep.Partial == nil || rep.Deleted != 0 {
		m.t.Fatalf("got %+v, %v; want a partial run that deletes nothing", rep, err)
	}
}

func TestQuirk_05(t *testing.T) {
	s := newSource(t)
	s.offer("/list.xml", "")
	p := s.fill(30)
	nested := func(path string) string {
		return `<url><loc>` + s.uri(path) + `</loc><rs:md capability="resourcelist"/></url>`
	}
	publish := func(n int, last []string) {
		md := `capability="resourcelist" at="` + at(n).String() + `"`
		entries := append(s.rawEntries(p[0]), nested("/1.xml"), nested("/2.xml"), nested("/list.xml"), nested("/1.xml"))
		s.raw("/list.xml", md, "", entries...)
		s.listAt(n, "/1.xml", "", p[1:15]...)
		s.raw("/2.xml", md, "", append(s.rawEntries(p[15:20]...), nested("/3.xml"))...)
		s.listAt(n, "/3.xml", "", last...)
	}
	publish(0, p[20:])
	m := newMirror(t, s)
	met := m.quirks()
	m.mustSync(destination.Baseline, 0, 30, 0, 0)
	wantQuirk(t, met, resourcesync.QuirkNested)
	publish(1, p[20:29])
	m.mustSync(destination.Baseline, 29, 0, 0, 1)
	s.answer("/3.xml", http.NotFound)
	m.mustBePartial()
	m.wantFiles(p[:29]...)
	t.Run("without end", func(t *testing.T) {
		for i := range 9 {
			s.raw(fmt.Sprintf("/deep%d.xml", i), `capability="resourcelist" at="`+at(0).String()+`"`, "", nested(fmt.Sprintf("/deep%d.xml", i+1)))
		}
		s.raw("/list.xml", `capability="resourcelist" at="`+at(0).String()+`"`, "", nested("/deep0.xml"))
		s.asked("/deep")
		m.mustBePartial()
		if got := s.asked("/deep"); got != 4 {
			t.Errorf("lists read: got %d, want 4", got)
		}
	})
	t.Run("Change Lists", func(t *testing.T) {
		s.offer("/one.xml", "/changes.xml")
		s.listAt(0, "/one.xml", "", p[:29]...)
		s.raw("/changes.xml", `capability="changelist" from="`+at(0).String()+`"`, "", `<url><loc>`+s.uri("/c1.xml")+`</loc><rs:md capability="changelist"/></url>`)
		m.mustSync(destination.Baseline, 29, 0, 0, 0)
		wantQuirk(t, met, resourcesync.QuirkNested)
	})
}

// Resource Lists and Change Lists in pages without an index, as Pinakes (ResourceSyncPlugin.php) and
// Heratio write them.
func TestQuirk_06(t *testing.T) {
	s := newSource(t)
	s.offer("/list.xml", "")
	p := s.fill(30)
	pages := func(n int, last ...string) {
		s.listAt(n, "/list.xml", s.next("/list2.xml"), p[:10]...)
		s.listAt(n, "/list2.xml", s.prev("/list.xml")+s.next("/list3.xml"), p[10:20]...)
		s.listAt(n, "/list3.xml", s.prev("/list2.xml"), last...)
	}
	pages(0, p[20:]...)
	m := newMirror(t, s)
	met := m.quirks()
	m.mustSync(destination.Baseline, 0, 30, 0, 0)
	pages(1, p[20:29]...)
	m.mustSync(destination.Baseline, 29, 0, 0, 1)
	pages(2, p[20:]...)
	m.mustSync(destination.Baseline, 29, 1, 0, 0)

	for name, damage := range map[string]func(){
		"a page that is missing":          func() { s.answer("/list2.xml", http.NotFound) },
		"a page that is cut":              func() { s.put("/list3.xml", s.bodies["/list3.xml"][:300]) },
		"a page of another capability":    func() { s.put("/list3.xml", s.bodies["/caps.xml"]) },
		"a page elsewhere":                func() { s.listAt(3, "/list.xml", `<rs:ln rel="next" href="http://example.com/2"/>`, p[:10]...) },
		"pages in a circle":               func() { s.listAt(3, "/list3.xml", s.next("/list.xml")) },
		"a page that leads to itself":     func() { s.listAt(3, "/list3.xml", s.next("/list3.xml")) },
		"a page in the middle is offered": func() { s.offer("/list2.xml", "") },
	} {
		t.Run(name, func(t *testing.T) {
			m.t = t
			s.offer("/list.xml", "")
			s.answer("/list2.xml", nil)
			pages(3)
			damage()
			m.mustBePartial()
			wantQuirk(t, met, resourcesync.QuirkPages)
			m.wantFiles(p...)
		})
	}
	t.Run("pages of several moments", func(t *testing.T) {
		m.t = t
		s.offer("/list.xml", "")
		s.answer("/list2.xml", nil)
		s.put("/r/1", []byte("changed"))
		pages(4, p[20:25]...)
		s.listAt(5, "/list2.xml", s.next("/list3.xml"), p[10:20]...)
		m.mustSync(destination.Baseline, 24, 0, 1, 0)
		wantQuirk(t, met, resourcesync.QuirkPages)
		m.wantFiles(p...)
	})
	t.Run("every page is offered", func(t *testing.T) {
		m.t = t
		pages(6, p[20:]...)
		s.offerLists("/list2.xml", "/list.xml", "/list3.xml")
		m.mustSync(destination.Baseline, 30, 0, 0, 0)
	})
	t.Run("pages of a Change List", func(t *testing.T) {
		m.t = t
		s.offer("/list.xml", "/changes.xml")
		deleted := func(n int, path string) string {
			s.remove(path)
			return s.rawEntry(path, `change="deleted" datetime="`+at(n).String()+`"`, "")
		}
		md := `capability="changelist" from="` + at(0).String() + `"`
		s.raw("/changes.xml", md, s.next("/changes2.xml"), deleted(7, "/r/1"))
		s.raw("/changes2.xml", md, s.prev("/changes.xml")+s.next("/changes3.xml"), deleted(8, "/r/2"))
		s.raw("/changes3.xml", md, s.prev("/changes2.xml"))
		m.mustSync(destination.Incremental, 0, 0, 0, 2)
		wantQuirk(t, met, resourcesync.QuirkPages)
		s.raw("/changes3.xml", md, s.prev("/changes2.xml"), deleted(9, "/r/3"))
		m.mustSync(destination.Incremental, 0, 0, 0, 1)
		s.raw("/changes3.xml", md, s.prev("/changes2.xml")+s.next("/changes2.xml"), deleted(10, "/r/4"))
		if rep := m.mustSync(destination.Baseline, 27, 0, 0, 0); !strings.Contains(rep.Gap, "no end") {
			t.Errorf("pages in a circle: got gap %q", rep.Gap)
		}
		s.offer("/list.xml", "/changes2.xml")
		if rep := m.mustSync(destination.Baseline, 27, 0, 0, 0); !strings.Contains(rep.Gap, "is not the first page of its Change List") {
			t.Errorf("a page that is not the first: got gap %q", rep.Gap)
		}
	})
}

// offerLists writes a Capability List with several Resource Lists.
func (s *aSource) offerLists(lists ...string) {
	var entries []string
	for _, l := range lists {
		entries = append(entries, `<url><loc>`+s.uri(l)+`</loc><rs:md capability="resourcelist"/></url>`)
	}
	s.raw("/caps.xml", `capability="capabilitylist"`, `<rs:ln rel="up" href="`+s.uri("/.well-known/resourcesync")+`"/>`, entries...)
}

// Documents are what their bytes are, whatever they are served as.
func TestQuirk_13(t *testing.T) {
	for _, contentType := range []string{"text/html; charset=utf-8", "application/xml", "text/xml", "application/octet-stream", ""} {
		s := newSource(t)
		p := s.fill(3)
		s.list(0, p...)
		s.changes(0)
		for _, doc := range []string{"/list.xml", "/changes.xml", "/caps.xml", "/.well-known/resourcesync"} {
			s.answer(doc, func(w http.ResponseWriter, _ *http.Request) {
				w.Header()["Content-Type"] = slices.DeleteFunc([]string{contentType}, func(t string) bool { return t == "" })
				_, _ = w.Write(s.bodies[doc])
			})
		}
		m := newMirror(t, s)
		m.mustSync(destination.Baseline, 0, 3, 0, 0)
	}
}

// All Resource Lists that a Capability List names are one set.
func TestQuirk_19(t *testing.T) {
	s := newSource(t)
	p := s.fill(20)
	s.offerLists("/1.xml", "/2.xml")
	s.listAt(0, "/1.xml", "", p[:10]...)
	s.listAt(0, "/2.xml", "", p[10:]...)
	m := newMirror(t, s)
	m.mustSync(destination.Baseline, 0, 20, 0, 0)
	s.listAt(1, "/2.xml", "", p[11:]...)
	s.listAt(1, "/1.xml", "", p[:10]...)
	m.mustSync(destination.Baseline, 19, 0, 0, 1)
	m.wantFiles(append(slices.Clone(p[:10]), p[11:]...)...)
}

// Something else that is said to be a Resource List is the trouble of its entry only.
func TestQuirk_23(t *testing.T) {
	s := newSource(t)
	p := s.fill(20)
	s.offerLists("/oai", "/list.xml")
	s.put("/oai", []byte(`<OAI-PMH xmlns="http://www.openarchives.org/OAI/2.0/"><Identify/></OAI-PMH>`))
	s.list(0, p...)
	m := newMirror(t, s)
	met := m.quirks()
	rep, err := m.sync()
	if err != nil || rep.Created != 20 || rep.Partial == nil {
		t.Fatalf("got %+v, %v; want 20 created and the rest unknown", rep, err)
	}
	wantQuirk(t, met, resourcesync.QuirkOtherDocument)
	s.list(1, p[1:]...)
	m.mustBePartial()
	m.wantFiles(p...)
	s.offerLists("/oai", "/oai?2")
	if rep, err := m.sync(); err == nil {
		t.Errorf("nothing but other documents: got %+v, want an error", rep)
	}
}

// Without its moment a list is no reason to delete, and it is read in each run: no Change List
// is known to lead on from it.
func TestQuirk_28(t *testing.T) {
	s := newSource(t)
	p := s.fill(20)
	m := newMirror(t, s)
	met := m.quirks()
	s.raw("/list.xml", `capability="resourcelist" from="`+at(0).String()+`"`, "", s.rawEntries(p...)...)
	s.changes(0)
	m.mustSync(destination.Baseline, 0, 20, 0, 0)
	wantQuirk(t, met, resourcesync.QuirkMoment)
	s.raw("/list.xml", `capability="resourcelist"`, "", s.rawEntries(p[1:]...)...)
	m.mustSync(destination.Baseline, 19, 0, 0, 0)
	s.changes(1)
	if rep := m.mustSync(destination.Baseline, 19, 0, 0, 0); rep.Gap == "" {
		t.Error("the changes between two Change Lists are unknown: got no gap")
	}
	s.remove(p[0])
	s.list(5, p[1:]...)
	m.mustSync(destination.Baseline, 19, 0, 0, 1)
	s.raw("/changes.xml", `capability="changelist" at="`+at(0).String()+`"`, "", s.rawEntry(p[1], `change="deleted" datetime="`+at(6).String()+`"`, ""))
	s.remove(p[1])
	if rep := m.mustSync(destination.Baseline, 18, 0, 0, 1); !strings.Contains(rep.Why, `has no "from" attribute`) {
		t.Errorf("why: got %q", rep.Why)
	}
	m.wantFiles(p[2:]...)
}

// The latest moment that a list without at can be of is told, and where it comes from: from, as DSpace
// writes it, else Last-Modified, else the Date, as of WEKO's lists, which are made for each answer. It names
// the state that is here, so the second run is no first one.
func TestQuirk_28_latest(t *testing.T) {
	for _, tt := range []struct{ name, md, modified, want string }{
		{"DSpace", ` from="` + at(3).String() + `"`, "", "2026-03-01T12:03:00Z (its from)"},
		{"a file", "", "Sun, 01 Mar 2026 12:04:00 GMT", "2026-03-01T12:04:00Z (its Last-Modified)"},
		{"WEKO", "", "", "2026-03-01T12:30:00Z (the time it was sent)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSource(t)
			p := s.fill(20)
			s.offer("/list.xml", "/changes.xml")
			s.raw("/list.xml", `capability="resourcelist"`+tt.md, "", s.rawEntries(p...)...)
			body := s.served("/list.xml")
			s.answer("/list.xml", func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Date", "Sun, 01 Mar 2026 12:30:00 GMT")
				if tt.modified != "" {
					w.Header().Set("Last-Modified", tt.modified)
				}
				_, _ = w.Write(body)
			})
			s.changes(0)
			m := newMirror(t, s)
			m.mustSync(destination.Baseline, 0, 20, 0, 0)
			m.wantNote(`has no "at" attribute, so its time is unknown, at the latest ` + tt.want)
			if rep := m.mustSync(destination.Baseline, 20, 0, 0, 0); !strings.Contains(rep.Why, "is read in each run") {
				t.Errorf("second run: got %q", rep.Why)
			}
		})
	}
}

// Where the moment of the Resource List is unknown, what a Change List says was deleted goes,
// and nothing else does: DSpace, whose deletions have no time either, and WEKO.
func TestQuirk_28_deletions(t *testing.T) {
	for name, list := range map[string]struct{ md, change string }{
		"DSpace": {`capability="changelist" from="` + at(0).String() + `" until="` + at(20).String() + `"`, `change="deleted"`},
		"WEKO":   {`capability="changelist"`, `at="` + at(10).String() + `" change="deleted"`},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSource(t)
			p := s.fill(20)
			m := newMirror(t, s)
			s.raw("/list.xml", `capability="resourcelist" from="`+at(0).String()+`"`, "", s.rawEntries(p...)...)
			s.raw("/changes.xml", list.md, "")
			m.mustSync(destination.Baseline, 0, 20, 0, 0)
			s.remove(p[3])
			s.raw("/changes.xml", list.md, "", s.rawEntry(p[3], list.change, ""))
			m.mustSync(destination.Baseline, 19, 0, 0, 1) // the list is the one from before
			left := append(slices.Clone(p[:3]), p[4:]...)
			m.wantFiles(left...)
			s.raw("/list.xml", `capability="resourcelist" from="`+at(30).String()+`"`, "", s.rawEntries(left[1:]...)...)
			m.mustSync(destination.Baseline, 18, 0, 0, 0) // one is absent, which no change tells
			m.wantFiles(left...)
			if got := m.audit(); got[destination.VerdictExtra] != 0 {
				t.Errorf("audit: got %v, want nothing extra, as absence is no evidence", got)
			}
			s.raw("/list.xml", `capability="resourcelist" from="`+at(30).String()+`"`, "", s.rawEntries(without(left[1:], p[5])...)...)
			s.raw("/changes.xml", list.md, "", s.rawEntry(p[3], list.change, ""), s.rawEntry(p[5], list.change, ""))
			if got := m.audit(); got[destination.VerdictExtra] != 1 {
				t.Errorf("audit: got %v, want what was deleted extra", got)
			}
			m.mustSync(destination.Baseline, 17, 0, 0, 1)
		})
	}
}

// Where the moment of the Resource List is unknown and only the newest Change List is offered, each
// begins where the one before ended. If one was missed, what it deleted is unknown: DSpace.
func TestQuirk_28_each_list_apart(t *testing.T) {
	s := newSource(t)
	p := s.fill(20)
	m := newMirror(t, s)
	lists := func(n int, deleted ...string) {
		var said []string
		for _, path := range deleted {
			s.remove(path)
			said = append(said, s.rawEntry(path, `change="deleted"`, ""))
		}
		path := fmt.Sprintf("/changes-%d.xml", n)
		s.raw(path, fmt.Sprintf(`capability="changelist" from=%q until=%q`, at(n-10), at(n)), "", said...)
		s.offer("/list.xml", path)
	}
	s.raw("/list.xml", `capability="resourcelist" from="`+at(0).String()+`"`, "", s.rawEntries(p...)...)
	lists(10)
	m.mustSync(destination.Baseline, 0, 20, 0, 0)
	for n, path := range p[:3] {
		lists(20+10*n, path)
		s.put(p[10], []byte(path))
		s.raw("/list.xml", fmt.Sprintf(`capability="resourcelist" from=%q`, at(20+10*n)), "", s.rawEntries(p[n+1:]...)...)
		if rep := m.mustSync(destination.Baseline, int64(19-n-1), 0, 1, 1); rep.Gap != "" {
			t.Errorf("gap: got %q, want none", rep.Gap)
		}
	}
	lists(60, p[4]) // and another one told of p[3]
	s.raw("/list.xml", fmt.Sprintf(`capability="resourcelist" from=%q`, at(60)), "", s.rawEntries(p[5:]...)...)
	for _, deleted := range []int64{1, 0} {
		if rep := m.mustSync(destination.Baseline, 15, 0, 0, deleted); !strings.Contains(rep.Gap, "begins at "+at(50).String()) {
			t.Errorf("gap: got %q, want one before the Change List", rep.Gap)
		}
		m.wantFiles(append([]string{p[3]}, p[5:]...)...)
	}
}

// A deletion that is told counts beside lists of no known moment only if it is later than
// what is held.
func TestQuirk_28_earlier_deletion(t *testing.T) {
	s := newSource(t)
	p := s.fill(20)
	m := newMirror(t, s)
	s.raw("/list.xml", `capability="resourcelist"`, "", s.rawEntries(p...)...)
	s.changes(0, s.change(5, resourcesync.Deleted, p[3]), s.change(6, resourcesync.Created, p[3]))
	m.mustSync(destination.Baseline, 0, 20, 0, 0)
	s.raw("/list.xml", `capability="resourcelist"`, "", s.rawEntries(append(slices.Clone(p[:3]), p[4:]...)...)...)
	s.changes(0, s.change(5, resourcesync.Deleted, p[3])) // a copy from before
	m.mustSync(destination.Baseline, 19, 0, 0, 0)
	m.wantFiles(p...)
}

// A change dated by its day may have happened after a list of that day.
func TestQuirk_30_changes(t *testing.T) {
	for _, first := range []bool{true, false} {
		t.Run(fmt.Sprintf("a first run %t", first), func(t *testing.T) {
			s := newSource(t)
			p := s.fill(20)
			s.list(10, p...)
			s.rawChanges(0)
			m := newMirror(t, s)
			day := at(0).String()[:len("2026-03-01")]
			var said []string
			if !first {
				m.mustSucceed()
				s.put(p[2], []byte("changed"))
				said = append(said, s.rawEntry(p[2], `change="updated" datetime="`+day+`"`, ""))
			}
			s.remove(p[3])
			s.rawChanges(0, append(said, s.rawEntry(p[3], `change="deleted" datetime="`+day+`"`, ""))...)
			m.recovers(without(p, p[3])...)
		})
	}
}

// A Change List that cannot be had, now or at all, does not keep the resources from coming,
// and never goes unsaid: the simulator of resync fails until something has changed.
func TestChangeListThatFailsBesideABaseline(t *testing.T) {
	for name, answer := range map[string]int{"it fails": http.StatusInternalServerError, "it is busy": http.StatusServiceUnavailable, "it is not there": http.StatusNotFound} {
		for moment, md := range map[string]string{"known": ` at="` + at(0).String() + `"`, "unknown": ""} {
			t.Run(name+", the moment is "+moment, func(t *testing.T) {
				s := newSource(t)
				p := s.fill(20)
				m := newMirror(t, s)
				s.raw("/list.xml", `capability="resourcelist"`+md, "", s.rawEntries(p...)...)
				s.answer("/changes.xml", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(answer) })
				if rep := m.mustSync(destination.Baseline, 0, 20, 0, 0); !strings.Contains(rep.Gap, "changes since are unknown: ") || !strings.Contains(rep.Gap, "/changes.xml") {
					t.Errorf("gap: got %q, want the Change List named", rep.Gap)
				}
				m.wantFiles(p...)
				err := m.with(func(ctx context.Context, d *destination.Destination, _ *mirror.Mirror) error {
					_, err := d.Audit(ctx)
					return err
				})
				if (err != nil) != (answer != http.StatusNotFound) {
					t.Errorf("audit: got %v, want it to fail while the changes cannot be had", err)
				}
				s.answer("/changes.xml", nil)
				gone := s.change(6, resourcesync.Deleted, p[0])
				s.remove(p[0])
				s.changes(0, gone)
				if rep := m.mustSucceed(); rep.Gap != "" || rep.Deleted != 1 {
					t.Errorf("when it is back: got %+v", rep)
				}
			})
		}
	}
}

// A Source without moments that has a package for each record, as WEKO has: none of them can
// be of use, so neither they nor their manifests are asked for, an idle run costs no more than the
// documents, and each note is told once.
func TestQuirk_28_packages(t *testing.T) {
	const records, documents = 100, 8
	s := newSource(t)
	s.offers("resourcelist", "/list.xml", "resourcedump", "/dump.xml", "changelist", "/changes.xml", "changedump", "/changedump.xml")
	var list, dump, changes, changeDump []string
	for i, path := range s.fill(records) {
		about := "<lastmod>" + at(i).String() + "</lastmod>"
		list = append(list, "<url><loc>"+s.uri(path)+"</loc>"+about+"</url>")
		dump = append(dump, "<url><loc>"+s.uri(path+".zip")+"</loc>"+about+`<rs:ln rel="contents" href="`+s.uri(path+".manifest")+`" type="application/xml"/></url>`)
		changes = append(changes, "<url><loc>"+s.uri(path)+"</loc>"+about+`<rs:md at="`+at(i).String()+`" change="created"/></url>`)
		changeDump = append(changeDump, "<url><loc>"+s.uri(path+".change.zip")+"</loc>"+about+`<rs:md from="`+at(i).String()+`" type="application/zip"/></url>`)
	}
	part := func(path, capability string) string {
		return "<url><loc>" + s.uri(path) + `</loc><rs:md capability="` + capability + `" from="` + at(-10).String() + `" until="` + at(records).String() + `"/></url>`
	}
	s.raw("/list.xml", `capability="resourcelist"`, "", list...)
	s.raw("/dump.xml", `capability="resourcedump"`, "", dump...)
	s.raw("/changes.xml", `capability="changelist"`, "", part("/changes/1.xml", "changelist"))
	s.raw("/changes/1.xml", `capability="changelist"`, "", changes...)
	s.raw("/changedump.xml", `capability="changedump"`, "", part("/changedump/1.xml", "changedump"))
	s.raw("/changedump/1.xml", `capability="changedump"`, "", changeDump...)
	m := newMirror(t, s)
	for run, most := range []int{records + documents + 2, documents, documents} {
		if rep := m.mustSucceed(); rep.Gap != "" {
			t.Errorf("run %d: gap %q", run, rep.Gap)
		}
		if n := s.asked("/"); n > most {
			t.Errorf("run %d: got %d requests, want at most %d", run, n, most)
		}
		slices.Sort(m.notes)
		if n := len(m.notes); n == 0 || len(slices.Compact(m.notes)) < n {
			t.Errorf("run %d: got notes %q, want some, each once", run, m.notes)
		}
		m.notes = nil
	}
}

// A Change Dump that names resources and no packages is the Change List that it is:
// py-resourcesync writes such ones, without a moment of its own and without times of
// deletions.
func TestChangeDumpThatIsAChangeList(t *testing.T) {
	s := newSource(t)
	p := s.fill(20)
	s.list(0, p...)
	s.offers("resourcelist", "/list.xml", "changedump", "/changedump.xml")
	s.raw("/changedump.xml", `capability="changedump" completed="`+at(2).String()+`"`, "")
	m := newMirror(t, s)
	m.mustSync(destination.Baseline, 0, 20, 0, 0)
	s.put(p[1], []byte("another"))
	s.put("/r/new", []byte("new"))
	s.remove(p[2])
	s.raw("/changedump.xml", `capability="changedump" completed="`+at(9).String()+`"`, "",
		s.rawEntry("/r/new", `change="created"`, "<lastmod>"+at(5).String()+"</lastmod>"),
		s.rawEntry(p[1], `change="updated"`, "<lastmod>"+at(6).String()+"</lastmod>"),
		s.rawEntry(p[2], `change="deleted"`, ""))
	if rep := m.mustSync(destination.Baseline, 18, 1, 1, 1); rep.Gap != "" {
		t.Errorf("gap: got %q", rep.Gap)
	}
	m.wantFiles(append([]string{p[0], p[1], "/r/new"}, p[3:]...)...)
}

// A Resource List that tells changes is maybe not one of everything: what it calls deleted is
// no resource, and nothing is deleted for not being in it.
func TestResourceListThatTellsChanges(t *testing.T) {
	s := newSource(t)
	p := s.fill(20)
	s.raw("/list.xml", `capability="resourcelist" at="`+at(0).String()+`"`, "", append(s.rawEntries(p...), s.rawEntry("/r/gone", `change="deleted"`, ""))...)
	s.changes(0)
	m := newMirror(t, s)
	m.mustSync(destination.Baseline, 0, 20, 0, 0)
	s.raw("/list.xml", `capability="resourcelist" at="`+at(5).String()+`"`, "", s.rawEntry(p[0], `change="updated"`, ""))
	m.mustSucceed()
	m.wantFiles(p...)
}

// The time of a change is its datetime, or else at or lastmod, or else that of what
// stands before it; the lastmod of what is gone is not.
func TestQuirk_29(t *testing.T) {
	lastmod := func(n int) string { return "<lastmod>" + at(n).String() + "</lastmod>" }
	for name, change := range map[string]func(s *aSource, n int, c resourcesync.Change, path string) string{
		"lastmod": func(s *aSource, n int, c resourcesync.Change, path string) string {
			return s.rawEntry(path, fmt.Sprintf("change=%q", c), lastmod(n))
		},
		"at": func(s *aSource, n int, c resourcesync.Change, path string) string {
			return s.rawEntry(path, fmt.Sprintf("change=%q at=%q", c, at(n)), lastmod(-1000))
		},
		"neither": func(s *aSource, _ int, c resourcesync.Change, path string) string {
			return s.rawEntry(path, fmt.Sprintf("change=%q", c), "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSource(t)
			p := s.fill(20)
			s.list(0, p...)
			s.changes(0)
			m := newMirror(t, s)
			met := m.quirks()
			m.mustSync(destination.Baseline, 0, 20, 0, 0)
			s.put("/r/1", []byte("again"))
			changes := []string{change(s, 1, resourcesync.Updated, "/r/1"), change(s, 2, resourcesync.Deleted, "/r/2"), change(s, 3, resourcesync.Deleted, "/r/3")}
			s.raw("/changes.xml", `capability="changelist" from="`+at(0).String()+`"`, "", changes...)
			m.mustSync(destination.Incremental, 0, 0, 1, 2)
			wantQuirk(t, met, resourcesync.QuirkChangeTime)
			changes = append(changes, change(s, 4, resourcesync.Created, "/r/2"))
			s.raw("/changes.xml", `capability="changelist" from="`+at(0).String()+`"`, "", changes...)
			m.mustSync(destination.Incremental, 0, 1, 0, 0)
			m.wantFiles(append(slices.Clone(p[:3]), p[4:]...)...)
		})
	}
	t.Run("in order of at", func(t *testing.T) {
		s, p, m := inStep(t, 20)
		s.raw("/changes.xml", `capability="changelist" from="`+at(0).String()+`"`, "",
			s.rawEntry("/r/1", fmt.Sprintf(`change="created" at=%q`, at(3)), ""), s.rawEntry("/r/1", fmt.Sprintf(`change="deleted" at=%q`, at(2)), ""))
		m.mustSync(destination.Incremental, 1, 0, 0, 0)
		m.wantFiles(p...)
	})
}

// A file that is moved or copied keeps its time, and Change Lists that tell a change by the lastmod
// of the file tell it as older than the Resource List: it is no old change. From resync-build (resync
// 2.0.1), which tells no from, and from py-resourcesync, which does.
func TestQuirk_29_old_bytes(t *testing.T) {
	for name, list := range map[string]struct {
		md   string
		mode destination.Mode
		same int64
		idle int64               // the same in a run without changes
		told destination.Verdict // of the file while it is not held
	}{
		"resync-build":    {`capability="changelist"`, destination.Baseline, 20, 21, destination.VerdictUnverifiable},
		"py-resourcesync": {`capability="changelist" from="` + at(0).String() + `"`, destination.Incremental, 0, 0, destination.VerdictMissing},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSource(t)
			p := s.fill(20)
			s.list(0, p...)
			s.raw("/changes.xml", list.md, "")
			m := newMirror(t, s)
			m.mustSync(destination.Baseline, 0, 20, 0, 0)
			s.put("/moved", []byte("years old"))
			moved := s.rawEntry("/moved", `change="created"`, "<lastmod>"+at(-100000).String()+"</lastmod>")
			s.raw("/changes.xml", list.md, "", moved)
			if got := m.audit(); got[list.told] != 1 {
				t.Errorf("audit: got %v, want one %s", got, list.told)
			}
			m.mustSync(list.mode, list.same, 1, 0, 0)
			m.wantFiles(append(slices.Clone(p), "/moved")...)
			s.asked("/moved")
			m.mustSync(list.mode, list.idle, 0, 0, 0)
			if n := s.asked("/moved"); n != 0 {
				t.Errorf("a run without changes asks %d times for the file", n)
			}
			if got := m.audit(); got[destination.VerdictSame] != 21 || len(got) != 1 {
				t.Errorf("audit: got %v, want all the same", got)
			}
			s.remove("/moved")
			s.raw("/changes.xml", list.md, "", moved, s.rawEntry("/moved", `change="deleted"`, ""))
			m.mustSync(list.mode, list.same, 0, 0, 1)
			m.wantFiles(p...)
		})
	}
}

// Clocks that say local time is UTC, that are wrong or go back lose no change: what follows in a list what was applied is later.
func TestQuirk_32(t *testing.T) {
	for name, offset := range map[string]int{"ahead": 14 * 60, "behind": -12 * 60} {
		t.Run(name, func(t *testing.T) {
			s := newSource(t)
			p := s.fill(20)
			s.list(offset, p...)
			s.changes(offset)
			m := newMirror(t, s)
			m.mustSync(destination.Baseline, 0, 20, 0, 0)
			s.put("/r/1", []byte("again"))
			s.changes(offset, s.change(offset+1, resourcesync.Updated, "/r/1"), s.change(offset+2, resourcesync.Deleted, "/r/2"))
			m.mustSync(destination.Incremental, 0, 0, 1, 1)
			m.wantFiles(append(slices.Clone(p[:2]), p[3:]...)...)
		})
	}
	t.Run("the hour that comes twice", func(t *testing.T) {
		s := newSource(t)
		p := s.fill(20)
		s.list(0, p...)
		s.changes(0)
		m := newMirror(t, s)
		met := m.quirks()
		m.mustSync(destination.Baseline, 0, 20, 0, 0)
		s.put("/r/1", []byte("before the clock went back"))
		entries := []resourcesync.Entry{s.change(50, resourcesync.Updated, "/r/1")}
		s.changes(0, entries...)
		m.mustSync(destination.Incremental, 0, 0, 1, 0)
		s.put("/r/1", []byte("after the clock went back"))
		entries = append(entries, s.change(10, resourcesync.Updated, "/r/1"), s.change(20, resourcesync.Deleted, "/r/2"))
		s.changes(0, entries...)
		m.mustSync(destination.Incremental, 0, 0, 1, 1)
		wantQuirk(t, met, resourcesync.QuirkClock)
		m.mustSync(destination.Incremental, 0, 0, 0, 0)
		m.wantFiles(append(slices.Clone(p[:2]), p[3:]...)...)
	})
}

// A lastmod that is always now is no change where there is a hash.
func TestQuirk_33(t *testing.T) {
	s := newSource(t)
	s.offer("/list.xml", "")
	p := s.fill(10)
	write := func(n int) {
		var entries []string
		for _, path := range p {
			entries = append(entries, s.rawEntry(path, "", "<lastmod>"+at(n).String()+"</lastmod>"))
		}
		s.raw("/list.xml", `capability="resourcelist" at="`+at(n).String()+`"`, "", entries...)
	}
	write(0)
	m := newMirror(t, s)
	m.mustSync(destination.Baseline, 0, 10, 0, 0)
	write(1)
	s.asked("/")
	m.mustSync(destination.Baseline, 10, 0, 0, 0)
	if got := s.asked("/r/"); got != 0 {
		t.Errorf("resources asked for: got %d, want none", got)
	}
}

// However a Change List is ordered, the last change of each resource counts.
func TestQuirk_34(t *testing.T) {
	for name, order := range map[string]func([]resourcesync.Entry) []resourcesync.Entry{
		"newest first": func(e []resourcesync.Entry) []resourcesync.Entry { slices.Reverse(e); return e },
		"deletes last": func(e []resourcesync.Entry) []resourcesync.Entry {
			slices.SortStableFunc(e, func(a, b resourcesync.Entry) int { return deleted(a) - deleted(b) })
			return e
		},
		"deletes first": func(e []resourcesync.Entry) []resourcesync.Entry {
			slices.SortStableFunc(e, func(a, b resourcesync.Entry) int { return deleted(b) - deleted(a) })
			return e
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSource(t)
			p := s.fill(20)
			s.list(0, p...)
			s.changes(0)
			m := newMirror(t, s)
			met := m.quirks()
			m.mustSync(destination.Baseline, 0, 20, 0, 0)
			s.put("/r/1", []byte("again"))
			s.remove("/r/2") // where nothing but itself shows how the list is ordered, it is asked for
			entries := []resourcesync.Entry{
				s.change(1, resourcesync.Deleted, "/r/1"), s.change(2, resourcesync.Created, "/r/1"),
				s.change(3, resourcesync.Created, "/r/2"), s.change(4, resourcesync.Deleted, "/r/2"),
			}
			s.changes(0, order(slices.Clone(entries))...)
			m.mustSync(destination.Incremental, 0, 0, 1, 1)
			s.put("/r/2", s.body("/r/1"))
			wantQuirk(t, met, resourcesync.QuirkOrder)
			m.mustSync(destination.Incremental, 0, 0, 0, 0)
			entries = append(entries, s.change(5, resourcesync.Deleted, "/r/3"), s.change(6, resourcesync.Created, "/r/2"))
			s.changes(0, order(slices.Clone(entries))...)
			rep, err := m.sync()
			if err != nil || rep.Mode != destination.Incremental || rep.Created != 1 || rep.Deleted != 1 || rep.Updated != 0 {
				t.Fatalf("got %+v, %v; want one created and one deleted", rep, err)
			}
			m.wantFiles(append(slices.Clone(p[:3]), p[4:]...)...)
		})
	}
}

func deleted(e resourcesync.Entry) int {
	if e.Change == resourcesync.Deleted {
		return 1
	}
	return 0
}

// A Change List that keeps only the newest changes has a gap as soon as it no longer
// reaches back, whatever its from says.
func TestQuirk_35(t *testing.T) {
	for name, newestFirst := range map[string]bool{"in order": false, "newest first": true} {
		t.Run(name, func(t *testing.T) {
			s := newSource(t)
			p := s.fill(20)
			var all []resourcesync.Entry
			keep := func(n int) {
				kept := slices.Clone(all[max(0, len(all)-n):])
				if newestFirst {
					slices.Reverse(kept)
				}
				s.changes(0, kept...)
			}
			s.list(0, p...)
			keep(3)
			m := newMirror(t, s)
			m.set = func(d *destination.Destination) { d.MaxDelete, _ = guard.ParseLimit("50%") }
			m.mustSync(destination.Baseline, 0, 20, 0, 0)
			all = append(all, s.change(1, resourcesync.Deleted, "/r/1"), s.change(2, resourcesync.Deleted, "/r/2"))
			keep(3)
			m.mustSync(destination.Incremental, 0, 0, 0, 2)
			all = append(all, s.change(3, resourcesync.Deleted, "/r/3"), s.change(4, resourcesync.Deleted, "/r/4"))
			keep(3) // one that is known is among them
			m.mustSync(destination.Incremental, 0, 0, 0, 2)
			for i := range 4 {
				all = append(all, s.change(5+i, resourcesync.Deleted, p[5+i]))
			}
			keep(3)
			s.list(9, append(slices.Clone(p[:1]), p[9:]...)...)
			if rep := m.mustSync(destination.Baseline, 12, 0, 0, 4); !strings.Contains(rep.Why, "gap") {
				t.Errorf("why: got %q, want the gap named", rep.Why)
			}
			m.wantFiles(append(slices.Clone(p[:1]), p[9:]...)...)
		})
	}
}

// A list older than the one before takes nothing back, and the cursor does not move.
func TestQuirk_36(t *testing.T) {
	s := newSource(t)
	s.offer("/list.xml", "")
	p := s.fill(20)
	s.list(0, p[:10]...)
	stale := s.bodies["/list.xml"]
	m := newMirror(t, s)
	met := m.quirks()
	m.mustSync(destination.Baseline, 0, 10, 0, 0)
	s.put("/r/1", []byte("again"))
	s.list(10, p...)
	m.mustSync(destination.Baseline, 9, 10, 1, 0)
	s.put("/list.xml", stale)
	m.mustSync(destination.Baseline, 20, 0, 0, 0)
	wantQuirk(t, met, resourcesync.QuirkStale)
	m.wantFiles(p...)
	s.offer("/list.xml", "/changes.xml")
	s.changes(10, s.change(11, resourcesync.Deleted, "/r/2"))
	m.mustSync(destination.Incremental, 0, 0, 0, 1)
}

// A deletion counts whatever the lastmod of the version that is gone.
func TestQuirk_37(t *testing.T) {
	s := newSource(t)
	p := s.fill(20)
	s.list(10, p...)
	s.changes(10)
	m := newMirror(t, s)
	m.mustSync(destination.Baseline, 0, 20, 0, 0)
	old := "<lastmod>" + at(-5000).String() + "</lastmod>"
	s.raw("/changes.xml", `capability="changelist" from="`+at(10).String()+`"`, "",
		s.rawEntry("/r/1", `change="deleted"`, old), s.rawEntry("/r/2", `change="deleted" datetime="`+at(12).String()+`"`, old))
	m.mustSync(destination.Incremental, 0, 0, 0, 2)
	m.wantFiles(append(slices.Clone(p[:1]), p[3:]...)...)
}

// A deletion that fits nothing is told, once; one of what came and went since the last
// run fits.
func TestQuirk_38(t *testing.T) {
	s := newSource(t)
	p := s.fill(20)
	s.list(0, p...)
	s.changes(0)
	m := newMirror(t, s)
	met := m.quirks()
	m.mustSync(destination.Baseline, 0, 20, 0, 0)
	brief := []resourcesync.Entry{s.change(1, resourcesync.Created, "/brief"), s.change(2, resourcesync.Deleted, "/brief")}
	s.changes(0, brief...)
	m.mustSync(destination.Incremental, 0, 0, 0, 0)
	if len(*met) > 0 {
		t.Errorf("quirks told: got %v, want none", *met)
	}
	s.changes(0, append(brief, s.change(3, resourcesync.Deleted, "/handle/1"), s.change(3, resourcesync.Deleted, "/handle/2"))...)
	m.mustSync(destination.Incremental, 0, 0, 0, 0)
	wantQuirk(t, met, resourcesync.QuirkUnknownDelete)
	if !slices.ContainsFunc(m.notes, func(n string) bool {
		return strings.Contains(n, "2 deletions") && strings.Contains(n, s.uri("/handle/1"))
	}) {
		t.Errorf("notes: got %q", m.notes)
	}
	m.mustSync(destination.Incremental, 0, 0, 0, 0)
	if len(*met) > 0 {
		t.Errorf("quirks told again: got %v", *met)
	}
	m.wantFiles(p...)
}
