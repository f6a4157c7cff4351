package destination_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"instep/resourcesync"
)

// A list without at is of its from at the latest. Change Lists that begin later do not tell what
// happened between the two.
func TestSilentListAndAGapAfterIt(t *testing.T) {
	s := newSource(t)
	paths := s.fill(20)
	s.raw("/list.xml", fmt.Sprintf(`capability="resourcelist" from=%q`, at(0)), "", s.rawEntries(paths...)...)
	s.put("/r/new", []byte("created at 5, told by nobody"))
	s.changes(10)
	m := newMirror(t, s)
	m.mustTell()
}

// Likewise of a set that is followed without Change Lists until they begin.
func TestSilentListBeforeChangeListsBegin(t *testing.T) {
	s := newSource(t)
	paths := s.fill(20)
	s.offer("/list.xml", "")
	s.raw("/list.xml", fmt.Sprintf(`capability="resourcelist" from=%q`, at(0)), "", s.rawEntries(paths...)...)
	m := newMirror(t, s)
	m.mustSucceed()
	s.put("/r/new", []byte("created at 5, told by nobody"))
	s.offer("/list.xml", "/changes.xml")
	s.changes(10)
	m.mustTell()
}

// The position stands in a copy of a closed list, the end of which was never read. When only its
// successor is offered, what that end told is unknown.
func TestSilentListBesideACopyOfAChangeList(t *testing.T) {
	for _, noAt := range []bool{false, true} {
		t.Run(fmt.Sprint("no at ", noAt), func(t *testing.T) {
			s := newRotating(t, 20)
			list := func() {
				md := `capability="resourcelist" at="` + at(0).String() + `"`
				if noAt {
					md = `capability="resourcelist" from="` + at(0).String() + `"`
				}
				s.raw("/list.xml", md, "", s.rawEntries(s.paths...)...)
			}
			list()
			s.change(resourcesync.Updated, 1)
			s.publish()
			m := newMirror(t, s.aSource)
			m.mustSucceed()
			first := s.open().path()
			s.cache(first, false) // a copy of the open list
			s.put("/r/lost", []byte("new"))
			s.now++
			s.open().entries = append(s.open().entries, s.aSource.change(s.now, resourcesync.Created, "/r/lost"))
			s.rotate()
			s.publish()
			rep, err := m.sync()
			t.Logf("with the copy: %s gap %q %v", rep.Mode, rep.Gap, m.notes)
			if err != nil {
				t.Fatal(err)
			}
			s.answer(first, http.NotFound) // the first list is offered no more
			s.lists = s.lists[1:]
			s.publish()
			s.offer("/list.xml", s.open().path())
			rep = m.mustTell()
			t.Logf("then: %s %q", rep.Mode, rep.Gap)
		})
	}
}

// A list without at names what a closed Change List deleted before: it may have been created again.
func TestSilentListThatNamesWhatWasDeleted(t *testing.T) {
	s := newSource(t)
	paths := s.fill(20)
	s.raw("/list.xml", fmt.Sprintf(`capability="resourcelist" from=%q`, at(30)), "", s.rawEntries(paths...)...)
	h := head(resourcesync.CapabilityChangeList, func(h *resourcesync.Header) { h.From, h.Until = at(0), at(20) })
	s.doc("/changes.xml", h, s.change(5, resourcesync.Deleted, "/r/1"))
	m := newMirror(t, s)
	rep := m.mustSucceed()
	t.Log(rep.Mode, rep.Gap, m.notes)
	m.wantFiles(paths...)
}

// A cache still has the Change List of before, and the list without at names what it does not tell of
// yet. The list is no older for that.
func TestSilentListBesideACopyOfTheChangesBefore(t *testing.T) {
	s := newSource(t)
	paths := s.fill(20)
	list := func(from int) {
		s.raw("/list.xml", fmt.Sprintf(`capability="resourcelist" from=%q`, at(from)), "", s.rawEntries(paths...)...)
	}
	list(0)
	s.put("/r/1", []byte("second"))
	s.changes(0, s.change(5, resourcesync.Updated, "/r/1"))
	m := newMirror(t, s)
	m.mustSucceed()
	s.put("/r/1", []byte("third"))
	list(30)
	m.mustSucceed()
	if got := m.files()["/r/1"]; got != "third" {
		t.Errorf("got %q, want what the list names", got)
	}
}

// Caches have a list without at and the changes of before, when a resource was deleted that is there
// again. Nothing tells of which moment the list is that named it: its URI is asked.
func TestSilentListBesideOlderCopies(t *testing.T) {
	s := newSource(t)
	paths := s.fill(20)
	list := func(from int, paths ...string) {
		s.raw("/list.xml", fmt.Sprintf(`capability="resourcelist" from=%q`, at(from)), "", s.rawEntries(paths...)...)
	}
	list(30, paths...)
	s.changes(0)
	m := newMirror(t, s)
	m.mustSucceed()
	list(7, without(paths, "/r/1")...)
	s.changes(0, s.change(5, resourcesync.Deleted, "/r/1"))
	if _, err := m.sync(); err != nil {
		t.Fatal(err)
	}
	m.wantFiles(paths...)
}

// The Change List is a copy from before what was applied, and the list without at is not: what it names
// counts, whatever that copy says of the same resource.
func TestSilentListBesideAnOldChangeList(t *testing.T) {
	for _, old := range []resourcesync.Change{resourcesync.Deleted, resourcesync.Updated} {
		for _, digests := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s digests %t", old, digests), func(t *testing.T) {
				s := newSource(t)
				paths := s.fill(20)
				list := func(from int) {
					entries := s.rawEntries(paths...)
					if !digests {
						entries[1] = fmt.Sprintf("<url><loc>%s</loc><lastmod>%s</lastmod></url>", s.uri("/r/1"), at(from-1))
					}
					s.raw("/list.xml", fmt.Sprintf(`capability="resourcelist" from=%q`, at(from)), "", entries...)
				}
				change := s.change
				if !digests {
					change = s.plain
				}
				list(0)
				first := change(5, old, "/r/1")
				s.put("/r/1", []byte("second"))
				s.changes(0, first, change(10, resourcesync.Updated, "/r/1"))
				m := newMirror(t, s)
				m.mustSucceed()
				m.wantFiles(paths...)
				s.put("/r/1", []byte("third"))
				list(30)
				s.changes(0, first)
				m.mustSucceed()
				m.wantFiles(paths...)
			})
		}
	}
}

// Caches have the lists without at and the Change List of before, when a resource was deleted that is
// there again. The runs that read what named it since moved no cursor: the list was in parts, or one
// of these was not there.
func TestSilentPartsBesideOlderCopies(t *testing.T) {
	for _, tt := range []struct {
		name    string
		missing bool // the last part, when the resource is named
		first   bool // that is the first run
	}{{"a mirror that follows", false, false}, {"a first run", false, true}, {"a part is missing", true, false}, {"a part is missing in the first run", true, true}} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSource(t)
			paths := s.fill(20)
			list := func(n int) {
				parts := ""
				for i, some := range [][]string{paths[:10], paths[10:]} {
					path := fmt.Sprintf("/part-%d.xml", i)
					s.raw(path, fmt.Sprintf(`capability="resourcelist" from=%q`, at(n)), "", s.rawEntries(some...)...)
					parts += "<sitemap><loc>" + s.uri(path) + "</loc></sitemap>"
				}
				s.put("/list.xml", []byte(`<sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/"><rs:md capability="resourcelist" from="`+at(n).String()+`"/><rs:ln rel="up" href="`+s.uri("/caps.xml")+`"/>`+parts+`</sitemapindex>`))
			}
			s.offer("/list.xml", "/changes.xml")
			s.changes(0)
			m := newMirror(t, s)
			if !tt.first {
				list(0)
				m.mustSucceed()
			}
			list(30)
			if tt.missing {
				s.answer("/part-1.xml", http.NotFound)
			}
			if _, err := m.sync(); err != nil {
				t.Fatal(err)
			}
			s.fresh("/part-1.xml")
			before := m.files()
			list(0)
			s.changes(0, s.change(5, resourcesync.Deleted, "/r/1"))
			if _, err := m.sync(); err != nil {
				t.Fatal(err)
			}
			for path := range before {
				if m.files()[path] == "" {
					t.Errorf("%s is gone: a list of 30 named it, and a change of 5 tells that it was deleted", path)
				}
			}
			s.changes(0, s.change(5, resourcesync.Deleted, "/r/1"), s.change(10, resourcesync.Created, "/r/1"))
			list(40)
			m.recovers(paths...)
		})
	}
}

// Pages that are made as they are asked for, as Pinakes (ResourceSyncPlugin.php) and Heratio do: a resource that went from the second page to the first
// between the two is in neither, and no change ever tells of it.
func TestPagesMadeAsTheyAreAskedFor(t *testing.T) {
	s := newSource(t)
	paths := s.fill(20)
	now := time.Now().UTC().Truncate(time.Second)
	page := func(path string, at time.Time, links string, paths ...string) {
		s.raw(path, `capability="resourcelist" at="`+at.Format(time.RFC3339)+`"`, links, s.rawEntries(paths...)...)
		body := s.served(path)
		s.answer(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Date", at.Format(http.TimeFormat))
			_, _ = w.Write(body)
		})
	}
	page("/list.xml", now.Add(-10*time.Second), s.next("/list2.xml"), paths[:10]...)
	left := append(append([]string{}, paths[:2]...), paths[3:]...)
	page("/list2.xml", now.Add(-5*time.Second), "", left[10:]...) // paths[10] is on the first page by now
	open := func(entries ...string) {
		s.raw("/changes.xml", `capability="changelist" from="`+now.Add(-time.Hour).Format(time.RFC3339)+`"`, "", entries...)
	}
	open(s.rawEntry("/r/2", `change="deleted" datetime="`+now.Add(-7*time.Second).Format(time.RFC3339)+`"`, ""))
	s.remove("/r/2")
	m := newMirror(t, s)
	rep, err := m.sync()
	t.Logf("%s %v %v %v", rep.Mode, rep.Gap, err, m.notes)
	page("/list.xml", now, s.next("/list2.xml"), left[:10]...)
	page("/list2.xml", now, "", left[10:]...)
	m.recovers(left...)
}

// The page that named a resource was dated hours ahead, so that the deletion seems to come before it.
// No page names the resource any more, and none is of a moment that is known: the URI tells.
func TestPagesDatedAheadOfADeletion(t *testing.T) {
	s := newSource(t)
	paths := s.fill(20)
	page := func(path string, at resourcesync.Datetime, links string, paths ...string) {
		s.raw(path, `capability="resourcelist" at="`+at.String()+`"`, links, s.rawEntries(paths...)...)
	}
	page("/list.xml", at(0), s.next("/list2.xml"), paths[:10]...)
	page("/list2.xml", at(500), "", paths[10:]...)
	changes := func(entries ...string) {
		s.raw("/changes.xml", fmt.Sprintf(`capability="changelist" from=%q`, at(0)), "", entries...)
	}
	changes()
	m := newMirror(t, s)
	m.mustSucceed()
	s.remove("/r/12")
	left := append(append([]string{}, paths[:12]...), paths[13:]...)
	page("/list.xml", at(400), s.next("/list2.xml"), left[:10]...)
	page("/list2.xml", at(900), "", left[10:]...)
	changes(s.rawEntry("/r/12", fmt.Sprintf(`change="deleted" datetime=%q`, at(300)), ""))
	m.recovers(left...)
}

// A Change List that says nothing of its time, in an index that tells it, before which a cache stands
// that dates its answers anew (as nginx does): its end was not read.
func TestCopyOfAListWithoutTimes(t *testing.T) {
	for _, from := range []string{fmt.Sprintf("from=%q", at(0)), ""} {
		t.Run(from, func(t *testing.T) {
			s := newSource(t)
			paths := s.fill(20)
			s.list(0, paths...)
			entry := func(n int, c, path string) string {
				return s.rawEntry(path, fmt.Sprintf("change=%q datetime=%q", c, at(n)), "")
			}
			index := func(lists ...string) {
				s.put("/changes.xml", []byte(`<sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/"><rs:md capability="changelist" from="`+at(0).String()+`"/><rs:ln rel="up" href="`+s.uri("/caps.xml")+`"/>`+
					fmt.Sprint(lists)+`</sitemapindex>`))
			}
			part := func(path, md string) string {
				return "<sitemap><loc>" + s.uri(path) + "</loc><rs:md " + md + "/></sitemap>"
			}
			md := `capability="changelist" ` + from
			s.raw("/c1.xml", md, "", entry(2, "updated", "/r/1"))
			index(part("/c1.xml", fmt.Sprintf("from=%q", at(0))))
			m := newMirror(t, s)
			m.mustSucceed()
			s.cache("/c1.xml", false)
			s.put("/r/new", []byte("new"))
			s.raw("/c1.xml", md, "", entry(2, "updated", "/r/1"), entry(5, "created", "/r/new"))
			s.raw("/c2.xml", md, "", entry(12, "updated", "/r/3"))
			index(part("/c1.xml", fmt.Sprintf("from=%q until=%q", at(0), at(10))), part("/c2.xml", fmt.Sprintf("from=%q", at(10))))
			rep, err := m.sync()
			t.Log(rep.Mode, rep.Why, err, lacks(rep, err), m.notes)
			s.fresh("/c1.xml")
			m.recovers(append(paths, "/r/new")...)
		})
	}
}

// A first run cannot read the Change Lists. Its list was sent long after it was made: what the closed
// Change Lists tell has to be applied all the same once they are back.
func TestSilentListWhileChangeListsFail(t *testing.T) {
	for _, busy := range []bool{false, true} {
		t.Run(fmt.Sprint("busy ", busy), func(t *testing.T) {
			s := newRotating(t, 20)
			s.raw("/list.xml", `capability="resourcelist"`, "", s.rawEntries(s.paths...)...)
			s.change(resourcesync.Created, 1)
			s.rotate()
			s.change(resourcesync.Updated, 2)
			s.publish()
			if busy {
				s.answer("/changes/index.xml", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
			}
			m := newMirror(t, s.aSource)
			rep, err := m.sync()
			t.Log(rep.Mode, rep.Gap, err)
			s.answer("/changes/index.xml", nil)
			rep, err = m.sync()
			t.Log(rep.Mode, rep.Why, rep.Gap, err)
			m.recovers(s.paths...)
		})
	}
}

// The Source begins to offer Change Lists after a run without them: likewise.
func TestSilentListBeforeChangeListsCome(t *testing.T) {
	s := newRotating(t, 20)
	s.raw("/list.xml", `capability="resourcelist"`, "", s.rawEntries(s.paths...)...)
	s.offer("/list.xml", "")
	s.change(resourcesync.Created, 1)
	s.rotate()
	s.change(resourcesync.Updated, 2)
	m := newMirror(t, s.aSource)
	m.mustTellNothing()
	s.publish()
	rep, err := m.sync()
	t.Log(rep.Mode, rep.Why, rep.Gap, err)
	m.recovers(s.paths...)
}

func (m *aMirror) mustTellNothing() {
	rep, err := m.sync()
	m.t.Log(rep.Mode, rep.Failed, rep.Gap, err)
}

// A Change List that keeps the newest changes under a from that never moves has lost some since the
// Resource List: that is told until there is a newer one.
func TestChangeListThatKeepsTheNewestUnderOneFrom(t *testing.T) {
	s := newSource(t)
	p := s.fill(200)
	s.list(0, p...)
	var all []resourcesync.Entry
	change := func(n int) {
		path := fmt.Sprintf("/r/%d", n)
		s.remove(path)
		p = without(p, path)
		all = append(all, s.change(n, resourcesync.Deleted, path))
		s.changes(0, all[max(0, len(all)-3):]...)
	}
	s.changes(0)
	m := newMirror(t, s)
	m.mustSucceed()
	change(1)
	m.mustSucceed()
	for n := range 6 {
		change(2 + n)
	}
	for range 2 {
		m.mustTell()
	}
	s.list(60, p...)
	m.recovers(p...)
}
