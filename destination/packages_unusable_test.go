package destination_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"instep/destination"
	"instep/resourcesync"
)

// unusable are ways in which packages cannot be used: DSpace, with its own settings, refuses its
// only one with 400 (ResourceSyncServlet.java:91).
var unusable = []struct {
	name, origin string // "": that of the Source
	answer       http.HandlerFunc
}{
	{"of a foreign origin", "http://packages.example.com", nil},
	{"no packages, without parts", "", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, strings.Repeat("no package", 10_000)) }},
	{"no packages, in parts", "", func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(strings.Repeat("no package", 10_000)))
	}},
	{"refused", "", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "", http.StatusBadRequest) }},
	{"not there", "", http.NotFound},
}

// packageEach names a package for each of n resources, as WEKO does.
func (s *aSource) packageEach(n int, origin string, answer http.HandlerFunc) (all []resourcesync.Entry) {
	if origin == "" {
		origin = s.srv.URL
	}
	for i := range n {
		path := fmt.Sprintf("/d/%d.zip", i)
		s.answer(path, answer)
		all = append(all, resourcesync.Entry{Loc: origin + path, Metadata: resourcesync.Metadata{Type: "application/zip"}})
	}
	return all
}

// A dump of known moment that names a package for each record, as WEKO does: if one of them cannot be
// used, as that of DSpace, the others are not asked for, and nothing is said of each. The next run asks for none.
func TestResourceDumpWhosePackagesCannotBeUsed(t *testing.T) {
	for _, tt := range unusable {
		t.Run(tt.name, func(t *testing.T) {
			s := newSource(t)
			paths := s.fill(100)
			s.list(0, paths...)
			s.changes(0)
			s.doc("/dump.xml", head(resourcesync.CapabilityResourceDump, func(h *resourcesync.Header) { h.At = at(0) }), s.packageEach(len(paths), tt.origin, tt.answer)...)
			s.offers("resourcelist", "/list.xml", "resourcedump", "/dump.xml", "changelist", "/changes.xml")
			m := newMirror(t, s)
			for run, most := range []int{3, 0} { // of one package: its end, more of its end, its start
				m.notes = nil
				m.mustSucceed()
				if n := s.asked("/d/"); n > most || len(m.notes) > 2 {
					t.Errorf("run %d: %d requests for packages, want at most %d; told %q", run, n, most, m.notes)
				}
			}
			m.wantFiles(paths...)
		})
	}
}

// Where nothing but the dump says what there is each package is tried, and the first are told of.
func TestResourceDumpAloneWhosePackagesCannotBeUsed(t *testing.T) {
	for _, tt := range unusable {
		t.Run(tt.name, func(t *testing.T) {
			s := newSource(t)
			s.doc("/dump.xml", head(resourcesync.CapabilityResourceDump, func(h *resourcesync.Header) { h.At = at(0) }), s.packageEach(100, tt.origin, tt.answer)...)
			s.offers("resourcedump", "/dump.xml")
			m := newMirror(t, s)
			rep, err := m.sync()
			if err != nil || rep.Partial == nil || len(m.notes) > 25 {
				t.Errorf("got %+v, %v, told %q", rep, err, m.notes)
			}
			m.wantFiles()
		})
	}
}

// Likewise of a Change Dump that names a package for some changes each, beside a Change List.
func TestChangeDumpWhosePackagesCannotBeUsed(t *testing.T) {
	for _, tt := range unusable {
		t.Run(tt.name, func(t *testing.T) {
			s := newSource(t)
			paths := s.fill(100)
			s.list(0, paths...)
			s.changes(0)
			s.offers("resourcelist", "/list.xml", "changelist", "/changes.xml", "changedump", "/changedump.xml")
			dump := s.packageEach(20, tt.origin, tt.answer)
			for i := range dump {
				dump[i].From, dump[i].Until = at(i), at(i+1)
			}
			s.changeDumpOf(0, dump...)
			m := newMirror(t, s)
			m.mustSucceed()
			s.asked("/d/")
			var changes []resourcesync.Entry
			for i, path := range paths {
				s.put(path, []byte("changed"))
				changes = append(changes, s.change(1+i/10, resourcesync.Updated, path))
			}
			s.changes(0, changes...)
			m.notes = nil
			if rep := m.mustSucceed(); rep.Mode != destination.Incremental || rep.Updated != 100 {
				t.Errorf("got %+v", rep)
			}
			about := slices.DeleteFunc(slices.Clone(m.notes), func(note string) bool { return !strings.Contains(note, "/d/") })
			if n := s.asked("/d/"); n > 9 || len(about) > 3 {
				t.Errorf("%d requests for packages; told %q", n, about)
			}
			m.wantFiles(paths...)
		})
	}
}
