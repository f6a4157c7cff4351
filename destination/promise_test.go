package destination_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"instep/destination"
	"instep/guard"
	"instep/resourcesync"
)

// This file and its neighbours promise_*_test.go hold histories after which a run once ended
// with success although the mirror was not the Source: see docs/promise.md. Each shows what
// the runs have to say, and that the mirror is in step again when the Source and the caches
// before it are right.

// lacks is what keeps a run from success; "" if nothing does.
func lacks(rep *destination.SetReport, err error) string {
	switch {
	case err != nil:
		return err.Error()
	case rep.Failed > 0:
		return fmt.Sprintf("%d failed: %v", rep.Failed, rep.Failures)
	case rep.Withheld > 0:
		return fmt.Sprintf("%d withheld", rep.Withheld)
	case rep.Partial != nil:
		return rep.Partial.Error()
	case rep.RolledBack != "":
		return rep.RolledBack
	case rep.Gap != "":
		return rep.Gap
	case rep.Skipped[destination.SkipStale] > 0, rep.Skipped[destination.SkipDisputed] > 0:
		return fmt.Sprintf("skipped %v", rep.Skipped)
	}
	return ""
}

// mustSucceed is a run that has to end with success.
func (m *aMirror) mustSucceed() *destination.SetReport {
	m.t.Helper()
	rep, err := m.sync()
	if why := lacks(rep, err); why != "" {
		m.t.Fatalf("sync: %s; got %+v", why, rep)
	}
	return rep
}

// mustTell is a run that must not end with success.
func (m *aMirror) mustTell() *destination.SetReport {
	m.t.Helper()
	rep, err := m.sync()
	if err != nil {
		m.t.Fatalf("sync: %v", err)
	}
	if lacks(rep, err) == "" {
		m.t.Fatalf("the run ended with success: %+v", rep)
	}
	return rep
}

// recovers checks that three runs at most end with success, that the mirror is the Source
// then, and that the next run has nothing to do.
func (m *aMirror) recovers(paths ...string) {
	m.t.Helper()
	why := ""
	for range 3 {
		rep, err := m.sync()
		if why = lacks(rep, err); why != "" {
			continue
		}
		m.wantFiles(paths...)
		if rep := m.mustSucceed(); rep.Created+rep.Updated+rep.Deleted > 0 {
			m.t.Errorf("the run after: got %+v, want nothing to do", rep)
		}
		m.wantFiles(paths...)
		return
	}
	m.t.Fatalf("no success in three runs: %s", why)
}

// cache answers for path with a copy of what is there now, until the test ends that by
// fresh; a request past all caches gets what is there if the cache honours that.
func (s *aSource) cache(path string, honours bool) {
	stale := s.served(path)
	s.answer(path, func(w http.ResponseWriter, r *http.Request) {
		if honours && strings.Contains(r.Header.Get("Cache-Control"), "no-cache") {
			_, _ = w.Write(s.served(path))
			return
		}
		_, _ = w.Write(stale)
	})
}

// fresh ends the caches before these paths.
func (s *aSource) fresh(paths ...string) {
	for _, p := range paths {
		s.answer(p, nil)
	}
}

// without returns paths but for some.
func without(paths []string, some ...string) []string {
	return slices.DeleteFunc(slices.Clone(paths), func(p string) bool { return slices.Contains(some, p) })
}

// The index is fresh, and a list that it calls closed is a copy from before that was done:
// its end is not taken for known.
func TestPromise01StaleClosedList(t *testing.T) {
	for _, tt := range []struct {
		name    string
		honours bool // the cache steps aside when it is asked to
		first   bool // the first run of a mirror meets the copy
		empty   bool // the copy has nothing of what is in the list
		more    int  // lists that were closed since
		bare    bool // the index does not say where its lists end
	}{
		{name: "a mirror that follows"},
		{name: "a copy that is empty", empty: true},
		{name: "a first run", first: true},
		{name: "with other lists closed since", more: 2},
		{name: "a first run, with other lists closed since", first: true, more: 2},
		{name: "an index without times", bare: true},
		{name: "an index without times, with other lists closed since", bare: true, more: 2},
		{name: "a first run by an index without times", bare: true, first: true},
		{name: "a cache that honours no-cache", honours: true},
		{name: "an index without times, a cache that honours no-cache", bare: true, honours: true},
		{name: "a first run, a cache that honours no-cache", honours: true, first: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newRotating(t, 20)
			s.bare = tt.bare
			m := newMirror(t, s.aSource)
			list := s.open().path()
			if !tt.empty {
				s.change(resourcesync.Updated, 1)
				s.publish()
			}
			if !tt.first {
				m.mustSucceed()
			}
			s.cache(list, tt.honours)
			s.change(resourcesync.Updated, 2)
			s.change(resourcesync.Deleted, 4)
			for i := range 1 + tt.more {
				s.rotate()
				s.change(resourcesync.Updated, 10+i)
			}
			s.publish()
			s.remove("/r/4")
			switch {
			case tt.honours:
				m.mustSucceed()
				m.wantFiles(s.paths...)
			case tt.first: // what the list still names is not as it says
				for range 2 {
					if rep := m.mustTell(); rep.Failed != 2 {
						t.Errorf("got %+v, want 2 failed", rep)
					}
				}
			default:
				for i := range 3 { // as long as the copy is all that there is
					m.mustSucceed()
					m.wantNote("may be an outdated copy")
					got := m.files()
					for _, p := range s.paths {
						if got[p] != string(s.served(p)) && p != "/r/2" {
							t.Errorf("%s: got %q, want what came after the copy", p, got[p])
						}
					}
					if got["/r/4"] == "" {
						t.Error("/r/4 is gone, although the copy does not tell that")
					}
					s.change(resourcesync.Updated, 11+i)
					s.publish()
				}
			}
			s.fresh(list)
			m.recovers(s.paths...)
		})
	}
}

// The Capability List itself names the lists: an old copy of the one that was closed is one
// that is still open.
func TestPromise01StaleClosedListOfTheCapabilityList(t *testing.T) {
	for _, first := range []bool{false, true} {
		t.Run(fmt.Sprintf("a first run %t", first), func(t *testing.T) {
			s := newRotating(t, 20)
			m := newMirror(t, s.aSource)
			list := s.open().path()
			s.change(resourcesync.Updated, 1)
			s.publish()
			if !first {
				m.mustSucceed()
			}
			s.cache(list, false)
			s.change(resourcesync.Updated, 2)
			s.change(resourcesync.Deleted, 4)
			s.rotate()
			s.change(resourcesync.Updated, 10)
			s.publish()
			s.offers("resourcelist", "/list.xml", "changelist", list, "changelist", s.open().path())
			s.remove("/r/4")
			for range 2 {
				rep, err := m.sync()
				if err != nil || first != (rep.Failed > 0) || m.files()["/r/11"] != string(s.served("/r/11")) {
					t.Fatalf("got %+v, %v; want what came after the copy", rep, err)
				}
			}
			s.fresh(list)
			m.recovers(s.paths...)
		})
	}
}

// Two lists that are kept side by side, each with changes of its own, are both followed.
func TestPromise01ListsSideBySide(t *testing.T) {
	s := newSource(t)
	paths := s.fill(20)
	s.list(0, paths...)
	m := newMirror(t, s)
	m.clock = func() time.Time { return m.now }
	s.offers("resourcelist", "/list.xml", "changelist", "/a.xml", "changelist", "/b.xml")
	var lists [2][]resourcesync.Entry
	write := func() {
		for i, path := range []string{"/a.xml", "/b.xml"} {
			s.doc(path, head(resourcesync.CapabilityChangeList, func(h *resourcesync.Header) { h.From = at(i) }), lists[i]...)
		}
	}
	write()
	m.mustSucceed()
	for n := range 8 {
		p := fmt.Sprintf("/r/%d", n)
		s.put(p, fmt.Appendf(nil, "changed %d", n))
		lists[n%2] = append(lists[n%2], s.change(2+n, resourcesync.Updated, p))
		gone := fmt.Sprintf("/r/%d", 10+n)
		s.remove(gone)
		paths = without(paths, gone)
		lists[(n/2)%2] = append(lists[(n/2)%2], s.change(2+n, resourcesync.Deleted, gone))
		write()
		m.now = m.now.Add(13 * time.Hour)
		m.set = func(d *destination.Destination) { d.MaxDelete, _ = guard.ParseLimit("100%") }
		m.mustSucceed()
		m.wantFiles(paths...)
	}
	for range 3 {
		m.now = m.now.Add(13 * time.Hour)
		s.asked("/r/")
		m.recovers(paths...)
		if n := s.asked("/r/"); n > 0 {
			t.Errorf("got %d requests for resources, want none", n)
		}
	}
}

// A Source that writes until in its index only is not asked for more than it has: after a
// day without another word its lists are believed to be whole.
func TestPromise01ListsThatNeverSayThatTheyAreClosed(t *testing.T) {
	s := newRotating(t, 20)
	publish := func() {
		s.publish()
		for _, l := range s.lists {
			s.doc(l.path(), head(resourcesync.CapabilityChangeList, func(h *resourcesync.Header) { h.From = at(l.from) }), l.entries...)
		}
		s.offer("/list.xml", "/changes/index.xml")
	}
	publish()
	m := newMirror(t, s.aSource)
	m.clock = func() time.Time { return m.now }
	m.mustSucceed()
	s.change(resourcesync.Updated, 1)
	closed := s.open().path()
	s.rotate()
	s.change(resourcesync.Updated, 2)
	publish()
	m.mustSucceed()
	m.wantFiles(s.paths...)
	for range 3 { // as long as it may be a copy, it is read again
		m.now = m.now.Add(7 * time.Hour)
		s.asked("/changes/")
		m.mustSucceed()
		m.wantNote("may be an outdated copy")
		if n := s.asked(closed); n == 0 {
			t.Error("the list was left before a day had passed")
		}
	}
	m.now = m.now.Add(7 * time.Hour)
	m.mustSucceed()
	m.wantNote("nothing was added to it for a day")
	m.mustSucceed()
	s.asked("/changes/")
	m.mustSucceed()
	if n := s.asked(closed); n > 0 {
		t.Errorf("the list was read %d times after it was believed, want none", n)
	}
	s.change(resourcesync.Deleted, 5)
	publish()
	m.recovers(s.paths...)
}

// A list that is later than its until, by its Last-Modified, is whole.
func TestPromise01ListWrittenAfterItWasClosed(t *testing.T) {
	s := newRotating(t, 10)
	m := newMirror(t, s.aSource)
	m.mustSucceed()
	s.change(resourcesync.Updated, 1)
	l := s.open()
	s.rotate()
	s.change(resourcesync.Updated, 2)
	s.publish()
	s.doc(l.path(), head(resourcesync.CapabilityChangeList, func(h *resourcesync.Header) { h.From = at(l.from) }), l.entries...)
	s.answer(l.path(), func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Last-Modified", at(l.until+1).Time().Format(http.TimeFormat))
		_, _ = w.Write(s.served(l.path()))
	})
	m.mustSucceed()
	m.wantFiles(s.paths...)
	for _, note := range m.notes {
		if strings.Contains(note, "an outdated copy") {
			t.Errorf("told: %s", note)
		}
	}
	s.asked("/changes/")
	m.recovers(s.paths...)
}

// Change Lists are offered, and none reaches back to the Resource List: the mirror is as of
// that, and what happened since is unknown.
func TestPromise10GapAfterTheList(t *testing.T) {
	for _, tt := range []struct {
		name string
		gap  func(*aSource)
		over func(*aSource) // ends the gap; nil: a new Resource List does
	}{
		{name: "the Change List begins later", gap: func(s *aSource) { s.changes(60) }, over: func(s *aSource) { s.list(61, "/r/0", "/r/1", "/r/2", "/r/3") }},
		{name: "it begins later and has entries",
			gap:  func(s *aSource) { s.changes(60, s.change(61, resourcesync.Updated, "/r/1")) },
			over: func(s *aSource) { s.list(62, "/r/0", "/r/1", "/r/2", "/r/3") }},
		{name: "the Change List is not there", gap: func(s *aSource) { s.answer("/changes.xml", http.NotFound) }},
		{name: "the Change List cannot be used", gap: func(s *aSource) { s.answer("/changes.xml", serving([]byte("nothing"))) }},
		{name: "one of several is not there", gap: func(s *aSource) {
			s.offers("resourcelist", "/list.xml", "changelist", "/changes.xml", "changelist", "/older.xml")
			s.changes(60)
		}, over: func(s *aSource) {
			s.offer("/list.xml", "/changes.xml")
			s.list(61, "/r/0", "/r/1", "/r/2", "/r/3")
		}},
		{name: "the Change Dump begins later", gap: func(s *aSource) {
			s.offers("resourcelist", "/list.xml", "changedump", "/changedump.xml")
			s.changeDump(60, aPackage{path: "/c/1", from: 60, until: 61, entries: []resourcesync.Entry{s.change(60, resourcesync.Updated, "/r/1")}})
		}, over: func(s *aSource) { s.list(62, "/r/0", "/r/1", "/r/2", "/r/3") }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSource(t)
			paths := s.fill(4)
			s.list(0, paths...)
			s.changes(0)
			tt.gap(s)
			m := newMirror(t, s)
			for range 2 { // it is not forgotten
				rep, err := m.sync()
				if err != nil || rep.Failed > 0 || !strings.Contains(rep.Gap, "changes since are unknown") {
					t.Fatalf("got %+v, %v; want a baseline, and the gap", rep, err)
				}
				m.wantFiles(paths...)
			}
			m.set = func(d *destination.Destination) { d.AcceptGap = true }
			m.mustSucceed()
			m.set = nil
			m.mustTell() // whoever accepts it for good says so each time
			if tt.over == nil {
				s.fresh("/changes.xml")
			} else {
				tt.over(s)
			}
			m.recovers(paths...)
		})
	}
}

// A mirror that follows meets a gap, and makes a baseline by a list from before it.
func TestPromise10GapWhileFollowing(t *testing.T) {
	s, paths, m := inStep(t, 10)
	s.put("/r/1", []byte("changed"))
	s.changes(0, s.change(1, resourcesync.Updated, "/r/1"))
	m.mustSucceed()
	s.put("/r/2", []byte("changed where nobody sees it"))
	s.changes(60)
	if rep := m.mustTell(); !strings.Contains(rep.Gap, "changes since are unknown") {
		t.Errorf("got %+v, want the gap", rep)
	}
	s.list(61, paths...)
	m.recovers(paths...)
}

// A baseline that is due for its age, and would end in a gap, is not made where the Change
// List tells everything.
func TestPromise10BaselineThatWouldEndInAGap(t *testing.T) {
	s := newSource(t)
	s.setClock(0)
	paths := s.fill(10)
	s.list(0, paths...)
	s.changes(0)
	m := newMirror(t, s)
	m.mustSucceed()
	s.put("/r/1", []byte("changed"))
	s.changes(0, s.change(5*day, resourcesync.Updated, "/r/1"))
	s.setClock(5 * day)
	m.mustSucceed()
	s.setClock(40 * day)
	s.put("/r/2", []byte("changed"))
	s.changes(4*day, s.change(5*day, resourcesync.Updated, "/r/1"), s.change(39*day, resourcesync.Updated, "/r/2"))
	for range 2 {
		m.mustSucceed()
		m.wantNote("but no baseline can be made: as of")
		m.wantFiles(paths...)
	}
	s.list(40*day, paths[1:]...)
	if rep := m.mustSucceed(); rep.Mode != destination.Baseline {
		t.Errorf("got %+v, want a baseline", rep)
	}
	m.recovers(paths[1:]...)
}

// A Source that offers no Change List at all has no gap.
func TestPromise10NoChangeListIsNoGap(t *testing.T) {
	s := newSource(t)
	s.offer("/list.xml", "")
	paths := s.fill(4)
	s.list(0, paths...)
	newMirror(t, s).recovers(paths...)
}
