package destination_test

import (
	"fmt"
	"slices"
	"testing"

	"instep/resourcesync"
)

// Single documents of Sources in which one thing is not as it should be: by the fuzz of cmd/instep.

// A Resource Dump that names no package, beside a Resource List of the same moment: the list tells
// whether there is nothing.
func TestResourceDumpWithoutPackages(t *testing.T) {
	s := newSource(t)
	paths := s.fill(20)
	s.list(0, paths...)
	s.dump(0)
	s.offers("resourcelist", "/list.xml", "resourcedump", "/dump.xml")
	m := newMirror(t, s)
	m.mustSucceed()
	m.wantFiles(paths...)
}

// CORE: a Change List whose entries are archives, without a kind of change. Nothing of it can be
// used, so what changed since the list is unknown.
func TestChangeListOfWhichNothingCanBeUsed(t *testing.T) {
	s, paths, m := inStep(t, 20)
	s.raw("/changes.xml", `capability="changelist" from="`+at(0).String()+`"`, "",
		fmt.Sprintf("<url><loc>%s</loc><lastmod>%s</lastmod></url>", s.uri("/changes/1.tar.xz"), at(5)))
	m.mustTell()
	m.wantFiles(paths...)
}

// py-resourcesync: two changes by lastmod, one of which is of 1970, and a deletion without a time.
// Two times are no sign that the list has the newest first.
func TestTwoTimesAreNoOrder(t *testing.T) {
	s, paths, m := inStep(t, 20)
	s.put("/r/1", []byte("again"))
	lastmod := func(text string) string { return "<lastmod>" + text + "</lastmod>" }
	s.raw("/changes.xml", `capability="changelist"`, "",
		s.rawEntry("/r/1", `change="updated"`, lastmod(at(5).String())),
		s.rawEntry("/r/2", `change="updated"`, lastmod("1970-01-01T00:00:00Z")),
		s.rawEntry("/r/3", `change="deleted"`, ""))
	s.remove("/r/3")
	m.mustSucceed()
	m.wantFiles(without(paths, "/r/3")...)
}

// Pinakes: the pages of the list are of two moments, so that the set is compared anew in each run.
// It is missed all the same if the Source no longer offers it.
func TestCat_NAV_08_shifting(t *testing.T) {
	s := newSource(t)
	paths := s.fill(20)
	s.listAt(0, "/list.xml", s.next("/list2.xml"), paths[:10]...)
	s.listAt(1, "/list2.xml", s.prev("/list.xml"), paths[10:]...)
	s.offer("/list.xml", "")
	m := newMirror(t, s)
	m.mustSucceed()
	s.doc("/other/caps.xml", head(resourcesync.CapabilityCapabilityList, func(h *resourcesync.Header) {
		h.Links = []resourcesync.Link{{Rel: "up", Href: s.uri("/.well-known/resourcesync")}}
	}), resourcesync.Entry{Loc: s.uri("/list.xml"), Metadata: resourcesync.Metadata{Capability: resourcesync.CapabilityResourceList}})
	s.describe("/other/caps.xml")
	rep := m.mustSyncSets()
	if len(rep.Orphans) != 1 || rep.Orphans[0].Members != 20 {
		t.Errorf("orphans: got %+v, want the set of before", rep.Orphans)
	}
}

// resync-build: a file of an old time came by a change, which an old Change List still tells of when a
// newer Resource List lacks it.
func TestListNewerThanAChangeOfOldBytes(t *testing.T) {
	s, paths, m := inStep(t, 20)
	s.put("/moved", []byte("years old"))
	s.raw("/changes.xml", `capability="changelist"`, "", s.rawEntry("/moved", `change="created"`, "<lastmod>"+at(-100000).String()+"</lastmod>"))
	m.mustSucceed()
	m.wantFiles(append(slices.Clone(paths), "/moved")...)
	s.remove("/moved")
	s.list(10, paths...)
	for range 2 {
		m.mustSucceed()
		m.wantFiles(paths...)
	}
}
