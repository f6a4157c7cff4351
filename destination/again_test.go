package destination_test

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"instep/resourcesync"
)

// busy lets resources be answered with 502 instead of what they are.
func (s *aSource) busy(paths ...string) {
	for _, p := range paths {
		s.answer(p, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	}
}

// What failed before may be in packages by now: those come, whatever requests were in vain.
func TestPackagesComeBesideRequestsInVain(t *testing.T) {
	s := newSource(t)
	paths := s.fill(150)
	var packages []aPackage
	var listed []string
	for i := range 5 {
		packages = append(packages, aPackage{path: fmt.Sprintf("/d/%d", i), entries: s.entries(paths[i*30 : i*30+30]...)})
		listed = append(listed, paths[i*30:i*30+25]...)
	}
	s.dump(0, packages...)
	s.list(0, listed...)
	s.offers("resourcelist", "/list.xml")
	for _, p := range paths {
		s.answer(p, http.NotFound)
	}
	m := newMirror(t, s)
	if rep, err := m.sync(); err != nil || rep.Failed != int64(len(listed)) {
		t.Fatalf("got %+v, %v; want all to fail", rep, err)
	}
	s.offers("resourcedump", "/dump.xml")
	s.remove("/d/0.zip")
	s.busy(paths...)
	if rep, err := m.sync(); err != nil || rep.Created != 120 || rep.Failed != 30 {
		t.Fatalf("got %+v, %v; want 120 brought by packages and 30 failed", rep, err)
	}
	m.wantFiles(paths[30:]...)
}

// Those that are never served are in front at times, not each time: whoever failed beside
// them is asked for in one of the next runs.
func TestNobodyWaitsForeverBehindRequestsInVain(t *testing.T) {
	s := newSource(t)
	paths := s.fill(60)
	s.list(0, paths...)
	s.changes(0)
	for _, p := range paths {
		s.answer(p, http.NotFound)
	}
	m := newMirror(t, s)
	if rep, err := m.sync(); err != nil || rep.Failed != 60 {
		t.Fatalf("got %+v, %v; want all to fail", rep, err)
	}
	slices.SortFunc(paths, func(p, q string) int {
		return cmp.Compare(resourcesync.KeyOf(s.uri(p)), resourcesync.KeyOf(s.uri(q)))
	})
	s.busy(paths[:30]...)
	for _, p := range paths[30:] {
		s.answer(p, nil)
	}
	var created int64
	for runs := 0; created < 30 && runs < 20; runs++ {
		rep, err := m.sync()
		if err != nil {
			t.Fatal(err)
		}
		created += rep.Created
	}
	if created != 30 {
		t.Errorf("20 runs have brought %d resources, want the 30 that are served", created)
	}
}
