package destination_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"instep/destination"
	"instep/mirror"
	"instep/resourcesync"
)

// years is a moment that is still to come.
const years = 20 * 365 * 24 * 60

// besideDump is a mirror in step with a Source that offers a Change List and a Change Dump, both
// of which tell of nothing yet.
func besideDump(t *testing.T) (s *aSource, paths []string, m *aMirror) {
	t.Helper()
	s = newSource(t)
	paths = s.fill(10)
	s.list(0, paths...)
	s.changes(0)
	s.changeDump(0)
	s.offers("resourcelist", "/list.xml", "changelist", "/changes.xml", "changedump", "/changedump.xml")
	m = newMirror(t, s)
	m.mustSucceed()
	return s, paths, m
}

// The Change Lists no longer reach back, and the Change Dump, which does, ends before they
// do: the run goes on with the lists where they join, and else says as of when the mirror is.
func TestPromiseChangeDumpThatEndsBeforeTheChangeLists(t *testing.T) {
	for _, tt := range []struct {
		name  string
		from  int // of the Change List
		joins bool
	}{{"they overlap", 10, true}, {"one begins where the other ends", 12, true}, {"there is a gap", 14, false}} {
		t.Run(tt.name, func(t *testing.T) {
			s, paths, m := besideDump(t)
			s.put("/r/1", []byte("in the dump"))
			s.changeDump(0, aPackage{path: "/c/1", from: 0, until: 12, entries: []resourcesync.Entry{s.change(5, resourcesync.Updated, "/r/1")}})
			s.put("/r/2", []byte("in the list"))
			s.changes(tt.from, s.change(20, resourcesync.Updated, "/r/2"))
			if tt.joins {
				m.mustSucceed()
				m.recovers(paths...)
				return
			}
			s.put("/r/3", []byte("in neither"))
			for range 2 {
				if rep := m.mustTell(); rep.Gap == "" {
					t.Errorf("got %+v, want the gap", rep)
				}
			}
			s.list(30, paths...)
			m.recovers(paths...)
		})
	}
}

// A resource that the newest list lacks does not come back by an older change, and is not
// asked for ever.
func TestPromiseOlderChangeOfWhatTheListLacks(t *testing.T) {
	s, paths, m := inStep(t, 20)
	kept := without(paths, "/r/1")
	s.remove("/r/1")
	s.list(20, kept...)
	s.offer("/list.xml", "")
	m.mustSucceed()
	m.wantFiles(kept...)
	old := s.entry("/r/2")
	old.Loc = s.uri("/r/1")
	old.Change, old.Datetime = resourcesync.Updated, at(8)
	s.changes(0, old) // a copy from before
	s.offer("/list.xml", "/changes.xml")
	m.mustSucceed()
	m.wantFiles(kept...)
	s.put("/r/1", []byte("made again"))
	s.changes(0, old, s.change(21, resourcesync.Created, "/r/1"))
	m.recovers(paths...)
}

// A clock went back while a list was closed, so the next one is dated before it: the closed
// one is not read as if it came after it.
func TestPromiseClosedListDatedAfterTheOpenOne(t *testing.T) {
	s := newRotating(t, 10)
	s.lists = []*aList{{from: 60}}
	s.list(60, s.paths...)
	s.publish()
	m := newMirror(t, s.aSource)
	m.mustSucceed()
	tell := func(l *aList, n int, text string) {
		s.put("/r/1", []byte(text))
		l.entries = append(l.entries, s.aSource.change(n, resourcesync.Updated, "/r/1"))
	}
	tell(s.open(), 61, "first")
	s.open().until = 70
	s.lists = append(s.lists, &aList{from: 10})
	tell(s.open(), 11, "second")
	s.publish()
	m.mustSucceed()
	m.wantFiles(s.paths...)
	tell(s.open(), years, "third")
	s.publish()
	m.recovers(s.paths...)
}

// A new list and a change of unknown time tell of one resource, and the change stands in a
// document that ends before what was applied: the list counts all the same.
func TestPromiseNewListBesideAnOldChangeList(t *testing.T) {
	s, paths, m := inStep(t, 10)
	s.put("/r/1", []byte("dated by a clock that was ahead"))
	s.changes(0, s.change(60, resourcesync.Updated, "/r/1"))
	m.mustSucceed()
	s.put("/r/1", []byte("dated in years to come"))
	s.put("/r/new", []byte("new"))
	all := append(paths, "/r/new")
	s.listOf("/list.xml", 10_000, s.entries(all...)...)
	s.doc("/changes/2.xml", head(resourcesync.CapabilityChangeList, func(h *resourcesync.Header) { h.From = at(20) }),
		s.change(30, resourcesync.Updated, "/r/2"), s.change(years, resourcesync.Updated, "/r/1"), s.change(years, resourcesync.Created, "/r/new"))
	s.offer("/list.xml", "/changes/2.xml")
	rep := m.mustSucceed()
	if rep.Mode != destination.Baseline {
		t.Errorf("mode: got %s, want a baseline", rep.Mode)
	}
	m.recovers(all...)
}

// A package has the bytes of an update of unknown time, without length or digest, and arrives long
// after it was made; a Change List from before its arrival, which is read later, has another such
// update: the bytes of the package may be of the version before that.
func TestPromisePackageOfAnUpdateOfUnknownTime(t *testing.T) {
	s, paths, m := besideDump(t)
	loose := resourcesync.Entry{Loc: s.uri("/r/1"), Metadata: resourcesync.Metadata{Change: resourcesync.Updated}}
	known := s.change(10, resourcesync.Updated, "/r/3")
	s.put("/r/1", []byte("in the package"))
	s.changeDump(0, aPackage{path: "/c/1", from: 0, until: 12, entries: []resourcesync.Entry{known, loose}})
	s.offers("resourcelist", "/list.xml", "changedump", "/changedump.xml")
	s.put("/r/1", []byte("afterwards"))
	m.now = at(60).Time()
	s.setClock(60)
	if got := ways(m.mustSucceed()); got != "dump=1" {
		t.Fatalf("ways: got %q, want dump=1", got)
	}
	s.doc("/changes.xml", head(resourcesync.CapabilityChangeList, func(h *resourcesync.Header) { h.From, h.Until = at(0), at(30) }), known, loose, loose)
	s.offers("resourcelist", "/list.xml", "changelist", "/changes.xml")
	m.now = at(70).Time()
	s.setClock(70)
	m.recovers(paths...)
}

// Of the Change Dumps that an index names the first is a copy from before, which lacks its last
// package: what the others tell does not join it. Where it is whole and says until when it tells
// everything, no package needs to end there.
func TestPromiseChangeDumpsOfAnIndexThatDoNotJoin(t *testing.T) {
	for name, whole := range map[string]bool{"a copy from before": false, "whole": true} {
		t.Run(name, func(t *testing.T) {
			s, paths, m := besideDump(t)
			s.put("/r/1", []byte("in the first package"))
			first := []resourcesync.Entry{s.changePackage(aPackage{path: "/c/1", from: 0, until: 10, entries: []resourcesync.Entry{s.change(5, resourcesync.Updated, "/r/1")}})}
			var until resourcesync.Datetime
			s.put("/r/2", []byte("in the second"))
			if whole {
				first = append(first, s.changePackage(aPackage{path: "/c/2", from: 10, until: 15, entries: []resourcesync.Entry{s.change(15, resourcesync.Updated, "/r/2")}}))
				until = at(20)
			}
			s.put("/r/3", []byte("in the next dump"))
			next := s.changePackage(aPackage{path: "/c/3", from: 20, until: 25, entries: []resourcesync.Entry{s.change(25, resourcesync.Updated, "/r/3")}})
			dump := func(path string, from int, until resourcesync.Datetime, packages ...resourcesync.Entry) resourcesync.Entry {
				s.doc(path, head(resourcesync.CapabilityChangeDump, func(h *resourcesync.Header) {
					h.From, h.Until = at(from), until
					h.Links = append(h.Links, resourcesync.Link{Rel: "up", Href: s.uri("/caps.xml")}, resourcesync.Link{Rel: "index", Href: s.uri("/changedump.xml")})
				}), packages...)
				return resourcesync.Entry{Loc: s.uri(path), Metadata: resourcesync.Metadata{Capability: resourcesync.CapabilityChangeDump, From: at(from), Until: until}}
			}
			a, b := dump("/d/1.xml", 0, until, first...), dump("/d/2.xml", 20, resourcesync.Datetime{}, next)
			a.Until = at(20)
			s.doc("/changedump.xml", head(resourcesync.CapabilityChangeDump, func(h *resourcesync.Header) { h.Root, h.From = resourcesync.SitemapIndex, at(0) }), a, b)
			s.changes(24)
			if whole {
				m.mustSucceed()
				m.recovers(paths...)
			} else if rep := m.mustTell(); rep.Gap == "" {
				t.Errorf("got %+v, want the gap", rep)
			}
			s.changes(40)
			s.list(40, paths...)
			m.recovers(paths...)
		})
	}
}

// A change of unknown time is applied, and a list from a cache lacks the resource, of a moment
// before its bytes came: the list may be older than the change.
func TestPromiseListOlderThanTheBytesThatCame(t *testing.T) {
	for name, gone := range map[string]bool{"it exists": false, "it does not": true} {
		t.Run(name, func(t *testing.T) {
			s, paths, m := inStep(t, 10)
			s.put("/r/new", []byte("new"))
			all := append(slices.Clone(paths), "/r/new")
			s.setClock(40)
			s.changes(0, s.change(10, resourcesync.Updated, "/r/1"), s.change(years, resourcesync.Created, "/r/new"))
			m.mustSucceed()
			s.list(20, paths...)
			s.changes(30)
			if gone {
				s.remove("/r/new")
				all = paths
			}
			m.mustTell()
			m.wantFiles(all...)
			s.setClock(100)
			s.list(90, all...)
			s.changes(90)
			m.recovers(all...)
		})
	}
}

// A list dated in years to come is followed by one of the right time. What that one confirms
// or brings is as of its moment: an older change of unknown time does not undo it.
func TestPromiseListDatedInYearsToCome(t *testing.T) {
	s, paths, m := inStep(t, 10)
	s.put("/r/2", []byte("a version before"))
	older := s.change(years+1, resourcesync.Updated, "/r/2")
	s.put("/r/2", []byte("the version of the list"))
	s.list(years+2, paths...)
	s.offers("resourcelist", "/list.xml")
	m.mustSucceed()
	s.put("/r/1", []byte("after it"))
	s.list(60, paths...)
	s.changes(60)
	s.offers("resourcelist", "/list.xml", "changelist", "/changes.xml")
	m.recovers(paths...)
	if err := m.with(func(ctx context.Context, _ *destination.Destination, here *mirror.Mirror) error {
		held, err := here.Lookup(ctx, s.uri("/caps.xml"), []string{s.uri("/r/1"), s.uri("/r/2")})
		for i := range held {
			if got := held[i].Changed; !got.Equal(at(60).Time()) {
				t.Errorf("%s is held as of %s, want the moment of the list", held[i].URI, got)
			}
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	s.changes(0, older)
	m.recovers(paths...)
}

// Between two copies of the list of one moment another one is read, dated in years to come by a
// clock by which the Source sends it, too. What the second copy lacks is withheld all the same.
func TestPromiseFewerOfTheMomentBeforeOneToCome(t *testing.T) {
	s, paths, m := inStep(t, 10)
	s.offers("resourcelist", "/list.xml")
	s.setClock(11)
	s.list(10, paths...)
	m.mustSucceed()
	s.setClock(years)
	s.list(years, paths...)
	m.mustSucceed()
	s.setClock(12)
	s.list(10, paths[1:]...)
	if rep := m.mustTell(); rep.Withheld != 1 {
		t.Errorf("got %+v, want one deletion withheld", rep)
	}
	m.wantFiles(paths...)
	s.list(20, paths...)
	m.recovers(paths...)
}

// A change is dated long before a list that lacks its resource, though it stands at the end of
// the Change List. The URI does not answer: it is gone, as the list says.
func TestPromiseLateChangeOfWhatTheListLacks(t *testing.T) {
	s, paths, m := inStep(t, 10)
	when := func(n int, path string) string {
		return s.rawEntry(path, fmt.Sprintf(`change="updated" datetime=%q`, at(n)), "")
	}
	told := when(35, "/r/1")
	s.list(30, paths...)
	s.rawChanges(30, told)
	m.mustSucceed()
	s.put("/r/new", []byte("for a moment"))
	late := when(-years/20, "/r/new")
	s.remove("/r/new")
	s.rawChanges(30, told, late)
	m.recovers(paths...)
}
