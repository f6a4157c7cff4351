package destination_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"instep/destination"
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

// A deletion whose only time is its lastmod, and a creation after it without any: position
// decides in a list that is in order, the newest last or first.
func TestPromiseCreatedAfterADeletionByLastmod(t *testing.T) {
	for _, backward := range []bool{false, true} {
		for _, gone := range []bool{false, true} {
			t.Run(fmt.Sprintf("newest first %t, gone %t", backward, gone), func(t *testing.T) {
				s := newSource(t)
				paths := s.fill(20)
				s.list(0, paths...)
				deleted := s.oldChange(12, resourcesync.Deleted, "/r/1")
				s.put("/r/1", []byte("made again"))
				loose := s.rawEntry("/r/1", `change="created"`, "")
				want := paths
				if gone {
					loose = s.rawEntry("/r/1", `change="deleted"`, "")
					deleted = s.oldChange(12, resourcesync.Created, "/r/1")
					s.remove("/r/1")
					want = without(paths, "/r/1")
				}
				entries := []string{s.oldChange(5, resourcesync.Updated, "/r/2"), s.oldChange(11, resourcesync.Updated, "/r/3"), s.oldChange(11, resourcesync.Updated, "/r/4"), deleted, loose}
				if backward {
					slices.Reverse(entries)
				}
				s.rawChanges(0, entries...)
				m := newMirror(t, s)
				m.mustSucceed()
				m.wantFiles(want...)
				m.recovers(want...)
			})
		}
	}
}

// A list that names a member which the run leaves out is no evidence of the bytes held: when
// everything is asked for, an older dump and the changes since bring the later version.
func TestPromiseMemberLeftOutWhileItChanged(t *testing.T) {
	s, paths, m := inStep(t, 20)
	exclude := func(globs ...string) { m.set = func(d *destination.Destination) { d.Exclude = globs } }
	pack := aPackage{path: "/d/1", entries: s.entries(without(paths, "/r/1")...)}
	s.put("/r/1", []byte("changed"))
	up := s.change(6, resourcesync.Updated, "/r/1")
	s.changes(0, up)
	exclude("/r/1")
	m.mustSucceed()
	s.list(10, paths...)
	exclude("/r/1", "/r/2")
	m.mustSucceed()
	s.dump(0, pack)
	s.offers("resourcedump", "/dump.xml", "changelist", "/changes.xml")
	s.changes(0, up, s.change(11, resourcesync.Updated, "/r/4"))
	exclude()
	m.mustSucceed()
	m.wantFiles(paths...)
	m.recovers(paths...)
}

// An update of unknown time of a resource that the run leaves out is not in a copy of the documents
// from before it: the next run, which asks for everything, must not end with success.
func TestPromiseUpdateOfUnknownTimeLeftOut(t *testing.T) {
	s, paths, m := inStep(t, 4)
	m.set = func(d *destination.Destination) { d.Exclude = []string{"/r/1"} }
	s.put("/r/1", []byte("other"))
	s.setClock(10)
	s.rawChanges(0, s.loose("/r/1", ""))
	m.mustSucceed()
	m.set = nil
	s.changes(0)
	if rep := m.mustTell(); !strings.Contains(rep.Gap, "left out may have changed since") {
		t.Errorf("got %q", rep.Gap)
	}
	m.mustTell()
	s.rawChanges(0, s.loose("/r/1", ""))
	m.recovers(paths...)
}

// To accept an older state of the Source is to accept it for what earlier runs left out, too.
func TestPromiseRollbackAfterAnUpdateOfUnknownTimeLeftOut(t *testing.T) {
	s, paths, m := inStep(t, 4)
	m.set = func(d *destination.Destination) { d.Exclude = []string{"/r/1"} }
	body := s.body("/r/1")
	s.put("/r/1", []byte("other"))
	s.setClock(10)
	s.rawChanges(0, s.loose("/r/1", ""))
	m.mustSucceed()
	s.put("/r/1", body)
	s.changes(0)
	m.set = func(d *destination.Destination) { d.AcceptRollback = true }
	m.mustSucceed()
	m.set = nil
	m.mustSucceed()
	m.wantFiles(paths...)
}

// Several versions of a resource are listed without a time, in a list that is in no order. The last
// entry describes what the mirror has; each of the others may be the present version.
func TestPromiseSeveralVersionsWithoutATime(t *testing.T) {
	for _, second := range []bool{false, true} {
		t.Run(fmt.Sprintf("the second is the present one: %t", second), func(t *testing.T) {
			s, paths, m := inStep(t, 4)
			loose := func() string { return s.rawEntry("/r/1", `change="updated"`, "") }
			timed := func(n int, path string) string {
				return s.rawEntry(path, fmt.Sprintf(`change="updated" datetime=%q`, at(n)), "")
			}
			last := loose()
			s.put("/r/1", []byte("first"))
			first := loose()
			s.put("/r/1", []byte("the second"))
			middle := loose()
			if !second {
				s.put("/r/1", []byte("first"))
			}
			s.setClock(10)
			s.rawChanges(0, timed(7, "/r/2"), first, timed(5, "/r/3"), middle, timed(6, "/r/2"), last)
			if second { // a request for the URI finds out
				m.mustSucceed()
				m.wantFiles(paths...)
				return
			}
			if rep := m.mustTell(); rep.Skipped[destination.SkipDisputed] != 1 {
				t.Errorf("got %v", rep.Skipped)
			}
			s.list(11, paths...)
			s.changes(11)
			m.recovers(paths...)
		})
	}
}
