package destination_test

import (
	"fmt"
	"testing"

	"instep/resourcesync"
)

// Two Change Lists overlap, and the later one has a change without a time that may have
// happened before or after one of the earlier list. If a deletion depends on it, the resource
// itself tells (the order of evidence, 4).
func TestPromiseChangeWithoutATimeInAnOverlappingList(t *testing.T) {
	for _, tt := range []struct {
		name          string
		first, second resourcesync.Change
		exists        bool
	}{
		{"updated, and deleted at an unknown time", resourcesync.Updated, resourcesync.Deleted, false},
		{"deleted at an unknown time, and updated", resourcesync.Updated, resourcesync.Deleted, true},
		{"deleted, and created at an unknown time", resourcesync.Deleted, resourcesync.Created, true},
		{"created at an unknown time, and deleted", resourcesync.Deleted, resourcesync.Created, false},
	} {
		for _, follow := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, a mirror that follows %t", tt.name, follow), func(t *testing.T) {
				s := newSource(t)
				paths := s.fill(20)
				s.list(0, paths...)
				s.put("/r/1", []byte("another version"))
				timed, loose := s.change(12, tt.first, "/r/1"), s.change(12, tt.second, "/r/1")
				loose.Datetime, loose.LastMod = resourcesync.Datetime{}, resourcesync.Datetime{}
				write := func(from int, overlapping ...resourcesync.Entry) {
					s.doc("/a.xml", head(resourcesync.CapabilityChangeList, func(h *resourcesync.Header) { h.From, h.Until = at(from), at(20) }), timed)
					s.doc("/b.xml", head(resourcesync.CapabilityChangeList, func(h *resourcesync.Header) { h.From = at(10 + from) }), overlapping...)
				}
				s.offers("resourcelist", "/list.xml", "changelist", "/a.xml", "changelist", "/b.xml")
				write(0)
				want := without(paths, "/r/1")
				if tt.first != resourcesync.Deleted {
					want = paths
				} else {
					s.remove("/r/1")
				}
				m := newMirror(t, s)
				if follow {
					m.mustSucceed()
					m.wantFiles(want...)
				}
				want = without(paths, "/r/1")
				if s.remove("/r/1"); tt.exists {
					s.put("/r/1", []byte("another version"))
					want = paths
				}
				write(-1, loose) // both are written anew, so all of them is read
				m.mustSucceed()
				m.wantFiles(want...)
				m.recovers(want...)
				s.list(30, want...)
				m.recovers(want...)
			})
		}
	}
}
