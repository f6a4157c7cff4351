package destination_test

import (
	"fmt"
	"net/http"
	"testing"
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
