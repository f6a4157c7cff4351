package destination_test

import (
	"testing"

	"instep/destination"
	"instep/resourcesync"
)

// An idle poll costs three requests behind an index too, in the first run after a
// baseline as well as later, and the next list is found when the one followed is closed.
func TestIdlePollBehindAnIndexAsksForNoIndex(t *testing.T) {
	s := newRotating(t, 10)
	s.change(resourcesync.Updated, 1)
	s.rotate()
	s.change(resourcesync.Updated, 2)
	s.rebase()
	s.publish()
	m := newMirror(t, s.aSource)
	m.mustSync(destination.Baseline, 0, 10, 0, 0)
	idle := func() {
		t.Helper()
		s.asked("/")
		m.mustSync(destination.Incremental, 0, 0, 0, 0)
		if got := s.asked("/"); got != 3 {
			t.Errorf("requests of an idle sync: got %d, want 3 (description, Capability List, open list)", got)
		}
	}
	idle()
	s.change(resourcesync.Updated, 4)
	s.publish()
	m.mustSync(destination.Incremental, 0, 0, 1, 0)
	idle()
	s.change(resourcesync.Updated, 5)
	s.rotate()
	s.change(resourcesync.Created, 0)
	s.publish()
	m.mustSync(destination.Incremental, 0, 1, 1, 0)
	m.wantFiles(s.paths...)
	idle()
}

// A Source that tells only in its index where lists end is asked for its index each
// time: its lists stay open for ever.
func TestListsThatAreClosedInTheIndexOnlyAreLeft(t *testing.T) {
	s := newRotating(t, 10)
	publish := func() {
		s.publish()
		for _, l := range s.lists {
			s.doc(l.path(), head(resourcesync.CapabilityChangeList, func(h *resourcesync.Header) { h.From = at(l.from) }), l.entries...)
		}
		s.offer("/list.xml", "/changes/index.xml")
	}
	publish()
	m := newMirror(t, s.aSource)
	m.mustSync(destination.Baseline, 0, 10, 0, 0)
	for i := range 3 {
		s.change(resourcesync.Updated, i)
		s.rotate()
		s.change(resourcesync.Updated, i+5)
		publish()
		m.mustSync(destination.Incremental, 0, 0, 2, 0)
		m.wantFiles(s.paths...)
	}
}
