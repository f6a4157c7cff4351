package destination_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"instep/destination"
	"instep/guard"
	"instep/resourcesync"
)

// rawChanges writes an open Change List that begins at moment from, of entries as a Source
// of ResourceSync 1.0 writes them.
func (s *aSource) rawChanges(from int, entries ...string) {
	s.raw("/changes.xml", fmt.Sprintf(`capability="changelist" from=%q`, at(from)), "", entries...)
}

// oldChange is an entry with a lastmod alone.
func (s *aSource) oldChange(n int, c resourcesync.Change, path string) string {
	lastmod := fmt.Sprintf("<lastmod>%s</lastmod>", at(n))
	if c == resourcesync.Deleted {
		return fmt.Sprintf(`<url><loc>%s</loc>%s<rs:md change="deleted"/></url>`, s.uri(path), lastmod)
	}
	return s.rawEntry(path, fmt.Sprintf("change=%q", c), lastmod)
}

// Entries that have a lastmod alone (1.0) are followed, whether the Resource List is younger
// than the beginning of the Change List or not, and in whatever order they come.
func TestPromise02LastmodAlone(t *testing.T) {
	type step struct {
		n    int
		c    resourcesync.Change
		path string
	}
	history := []step{
		{12, resourcesync.Updated, "/r/2"}, {13, resourcesync.Deleted, "/r/1"},
		{14, resourcesync.Created, "/r/new"}, {15, resourcesync.Deleted, "/r/4"},
	}
	forward := func([]step) {}
	for _, tt := range []struct {
		name  string
		list  int // moment of the Resource List
		from  int // of the Change List
		order func([]step)
	}{
		{"the Resource List is younger than from", 10, 0, forward},
		{"they begin together", 10, 10, forward},
		{"newest first", 10, 0, slices.Reverse[[]step]},
		{"newest first, from the same moment on", 10, 10, slices.Reverse[[]step]},
		{"in disorder", 10, 0, func(all []step) { all[0], all[1], all[2], all[3] = all[2], all[0], all[3], all[1] }},
		{"grouped by kind", 10, 0, func(all []step) { all[0], all[1], all[2] = all[2], all[0], all[1] }},
	} {
		for _, first := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, a first run %t", tt.name, first), func(t *testing.T) {
				s := newSource(t)
				paths := s.fill(20)
				s.list(tt.list, paths...)
				s.rawChanges(tt.from)
				m := newMirror(t, s)
				if !first {
					m.mustSucceed()
				}
				s.put("/r/2", []byte("changed"))
				s.put("/r/new", []byte("new"))
				s.remove("/r/1")
				s.remove("/r/4")
				all := slices.Clone(history)
				tt.order(all)
				write := func(more ...step) {
					var entries []string
					for _, x := range append(slices.Clone(all), more...) {
						entries = append(entries, s.oldChange(x.n, x.c, x.path))
					}
					s.rawChanges(tt.from, entries...)
				}
				write()
				m.mustSucceed()
				want := append(without(paths, "/r/1", "/r/4"), "/r/new")
				m.wantFiles(want...)
				m.recovers(want...)
				s.remove("/r/5")
				all = append(all, step{30, resourcesync.Deleted, "/r/5"})
				slices.SortFunc(all, func(a, b step) int { return a.n - b.n })
				tt.order(all)
				write()
				m.recovers(without(want, "/r/5")...)
			})
		}
	}
}

// A deletion whose time is that of its lastmod counts after a Resource List from before it,
// also where the Change List began before that list.
func TestPromise02DeletionAfterTheResourceList(t *testing.T) {
	for _, tt := range []struct {
		name   string
		before string // what the Change List says before
		held   bool   // the mirror holds what is deleted
	}{
		{"a first run", "", false},
		{"a first run, after an entry from before the list", "/r/3", false},
		{"a mirror that follows", "", true},
		{"a mirror that follows, whose list is written anew", "/r/3", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSource(t)
			paths := s.fill(20)
			s.list(10, paths...)
			var before []string
			if tt.before != "" {
				before = []string{s.oldChange(5, resourcesync.Updated, tt.before)}
			}
			s.rawChanges(0, before...)
			m := newMirror(t, s)
			if tt.held {
				m.mustSucceed()
				before = nil
			}
			s.remove("/r/1")
			s.rawChanges(0, append(before, s.oldChange(12, resourcesync.Deleted, "/r/1"))...)
			for range 2 {
				m.mustSucceed()
				m.wantFiles(without(paths, "/r/1")...)
			}
			s.put("/r/1", []byte("made again"))
			s.rawChanges(0, append(before, s.oldChange(12, resourcesync.Deleted, "/r/1"), s.oldChange(20, resourcesync.Created, "/r/1"))...)
			m.recovers(paths...)
		})
	}
}

// The lastmod of a deletion may be that of the version that is gone: its position tells, or
// the resource itself.
func TestPromise02LastmodOfTheVersionThatIsGone(t *testing.T) {
	for _, tt := range []struct {
		name string
		n    int // lastmod of the deletion
		from int
	}{{"from before the Change List", 1, 5}, {"from before the Resource List", 8, 5}, {"from after it", 12, 5}} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSource(t)
			paths := s.fill(20)
			s.list(10, paths...)
			s.rawChanges(tt.from)
			m := newMirror(t, s)
			m.mustSucceed()
			s.remove("/r/1")
			s.rawChanges(tt.from, s.oldChange(tt.n, resourcesync.Deleted, "/r/1"))
			m.mustSucceed()
			m.wantFiles(without(paths, "/r/1")...)
			m.recovers(without(paths, "/r/1")...)
			s.put("/r/1", []byte("made again"))
			s.rawChanges(tt.from, s.oldChange(tt.n, resourcesync.Deleted, "/r/1"), s.oldChange(20, resourcesync.Created, "/r/1"))
			m.recovers(paths...)
		})
	}
}

// A list names a version that is gone before its bytes come, and the lastmod of the deletion is that of
// this version: it is not of before the list.
func TestPromise02LastmodOfAVersionThatNeverCame(t *testing.T) {
	s := newSource(t)
	paths := s.fill(20)
	s.list(2, paths...)
	s.rawChanges(0)
	m := newMirror(t, s)
	m.mustSucceed()
	s.put("/r/1", []byte("another version"))
	e := s.entry("/r/1")
	e.LastMod = at(8)
	s.doc("/list.xml", head(resourcesync.CapabilityResourceList, func(h *resourcesync.Header) { h.At = at(10) }), append(s.entries(without(paths, "/r/1")...), e)...)
	s.remove("/changes.xml") // so the mirror has no position in it
	s.remove("/r/1")
	if rep, err := m.sync(); err != nil || rep.Failed != 1 {
		t.Fatalf("%+v, %v, want one resource that failed", rep, err)
	}
	s.rawChanges(6, s.oldChange(8, resourcesync.Deleted, "/r/1"))
	m.mustSucceed()
	m.recovers(without(paths, "/r/1")...)
}

// plain is a change that gives neither a digest nor a length.
func (s *aSource) plain(n int, c resourcesync.Change, path string) resourcesync.Entry {
	return resourcesync.Entry{Loc: s.uri(path), LastMod: at(n), Metadata: resourcesync.Metadata{Change: c, Datetime: at(n)}}
}

// Two updates within one second, of which nothing but their time is told: the bytes of the
// second come as well.
func TestPromise04TwoUpdatesInOneSecond(t *testing.T) {
	const moment = 10
	for _, tt := range []struct {
		name  string
		clock int // of the Source when the first bytes are sent, in minutes; -1: it does not say
		write func(s *aSource, first, second resourcesync.Entry)
	}{
		{"the second entry follows", moment, func(s *aSource, first, second resourcesync.Entry) { s.changes(0, first, second) }},
		{"the list is written anew with the second alone", moment, func(s *aSource, _, second resourcesync.Entry) {
			s.changes(0, s.change(1, resourcesync.Updated, "/r/2"), second)
		}},
		{"likewise, and the Source tells no time", -1, func(s *aSource, _, second resourcesync.Entry) {
			s.changes(0, s.change(1, resourcesync.Updated, "/r/2"), second)
		}},
		{"a Resource List tells the rest", moment, func(s *aSource, _, second resourcesync.Entry) {
			second.Change, second.Datetime = "", resourcesync.Datetime{}
			s.listOf("/list.xml", 60, append(s.entries("/r/0", "/r/2", "/r/3"), second)...)
			s.changes(60)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, paths, m := inStep(t, 4)
			s.setClock(tt.clock)
			if tt.clock < 0 {
				s.timeless(append(slices.Clone(paths), "/list.xml", "/changes.xml", "/caps.xml", "/.well-known/resourcesync")...)
			}
			s.put("/r/1", []byte("first"))
			first := s.plain(moment, resourcesync.Updated, "/r/1")
			s.changes(0, first)
			m.mustSucceed()
			m.wantFiles(paths...)
			s.put("/r/1", []byte("other"))
			tt.write(s, first, s.plain(moment, resourcesync.Updated, "/r/1"))
			if tt.clock >= 0 {
				s.setClock(120)
			}
			m.mustSucceed()
			m.wantFiles(paths...)
			m.recovers(paths...)
			if tt.clock < 0 {
				return
			}
			s.asked("/r/")
			m.mustSucceed()
			if n := s.asked("/r/1"); n > 0 {
				t.Errorf("got %d requests for what came long after its change, want none", n)
			}
		})
	}
}

// What came long after a change of its second is not fetched for the second of them.
func TestPromise04BytesThatCameLaterAreBoth(t *testing.T) {
	s, paths, m := inStep(t, 4)
	s.setClock(70)
	s.put("/r/1", []byte("both"))
	e := s.plain(10, resourcesync.Updated, "/r/1")
	s.changes(0, e)
	m.mustSucceed()
	s.changes(0, e, e)
	s.asked("/r/")
	m.recovers(paths...)
	if n := s.asked("/r/1"); n > 0 {
		t.Errorf("got %d requests, want none", n)
	}
}

// loose is an update without length and digest, as attrs tell its time.
func (s *aSource) loose(path, attrs string) string {
	return fmt.Sprintf(`<url><loc>%s</loc><rs:md change="updated"%s/></url>`, s.uri(path), attrs)
}

// Of an update nothing but a date is told, or not even that: bytes that came before the list that
// names it was sent, or ended, may be of the version before, although the two updates look alike.
func TestPromise04UpdatesOfUnknownTime(t *testing.T) {
	for name, attrs := range map[string]string{
		"no time": "",
		"a date":  fmt.Sprintf(" datetime=%q", t0.Format(time.DateOnly)),
	} {
		for _, tt := range []struct {
			name  string
			came  int  // when the bytes of the first update were sent
			until int  // the end of the list that names the second one; 0: it is open
			asks  bool // the bytes of the second one are requested
			anew  bool // the list is written anew, with the second one alone
		}{
			{"it follows", 20, 0, true, false},
			{"it follows, and the list ended since", 20, 30, true, false},
			{"the list is written anew", 20, 0, true, true},
			{"the list is written anew, and ended since", 20, 30, true, true},
			{"the list is written anew, and had ended before the bytes came", 35, 30, false, true},
		} {
			t.Run(name+", "+tt.name, func(t *testing.T) {
				s, paths, m := inStep(t, 4)
				write := func(until int, entries ...string) {
					ends := ""
					if until > 0 {
						ends = fmt.Sprintf(" until=%q", at(until))
					}
					s.raw("/changes.xml", fmt.Sprintf(`capability="changelist" from=%q%s`, at(0), ends), "", entries...)
				}
				up := s.loose("/r/1", attrs)
				s.setClock(tt.came)
				s.put("/r/1", []byte("first"))
				write(0, s.oldChange(10, resourcesync.Updated, "/r/3"), up)
				m.mustSucceed()
				m.wantFiles(paths...)
				if tt.asks {
					s.put("/r/1", []byte("other"))
				}
				s.setClock(40)
				known := []string{s.oldChange(10, resourcesync.Updated, "/r/3"), up}
				if tt.anew {
					known = []string{s.oldChange(9, resourcesync.Updated, "/r/2"), s.oldChange(10, resourcesync.Updated, "/r/3")}
				}
				write(tt.until, append(known, up)...)
				s.asked("/r/")
				m.mustSucceed()
				m.wantFiles(paths...)
				if n := s.asked("/r/1"); (n > 0) != tt.asks {
					t.Errorf("got %d requests, want some: %t", n, tt.asks)
				}
				m.recovers(paths...)
			})
		}
	}
}

// timeless has paths answered without a Date.
func (s *aSource) timeless(paths ...string) {
	for _, p := range paths {
		s.answer(p, func(w http.ResponseWriter, r *http.Request) {
			w.Header()["Date"] = nil
			s.mu.Lock()
			body, ok := s.bodies[p]
			s.mu.Unlock()
			if !ok {
				http.NotFound(w, r)
				return
			}
			_, _ = w.Write(body)
		})
	}
}

// A deletion that is dated before what is held, and stands after what was applied, is not
// passed over: the resource itself tells.
func TestPromise06DeletionDatedEarlier(t *testing.T) {
	for _, tt := range []struct {
		name   string
		when   int // the deletion
		answer string
		gone   bool
		told   bool // the run has to say that it cannot tell
	}{
		{name: "it is gone", when: 8, gone: true},
		{name: "it is there, as held", when: 8, answer: "changed"},
		{name: "it is there, with other bytes", when: 8, answer: "another", told: true},
		{name: "it is of the same moment and gone", when: 10, gone: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, paths, m := inStep(t, 20)
			s.put("/r/1", []byte("changed"))
			up := s.change(10, resourcesync.Updated, "/r/1")
			s.changes(0, up)
			m.mustSucceed()
			down := s.change(tt.when, resourcesync.Deleted, "/r/1")
			s.changes(0, up, down)
			want := paths
			if s.put("/r/1", []byte(tt.answer)); tt.gone {
				s.remove("/r/1")
				want = without(paths, "/r/1")
			}
			if tt.told {
				for range 2 {
					if rep := m.mustTell(); rep.Skipped[destination.SkipDisputed] != 1 || rep.Deleted != 0 {
						t.Fatalf("got %+v, want 1 disputed", rep)
					}
					if got := m.files()["/r/1"]; got != "changed" {
						t.Fatalf("got %q, want what was held", got)
					}
				}
				s.changes(0, up, down, s.change(11, resourcesync.Created, "/r/1"))
				m.recovers(paths...)
				return
			}
			m.mustSucceed()
			m.wantFiles(want...)
			m.recovers(want...)
			s.put("/r/1", []byte("made again"))
			s.changes(0, up, down, s.change(20, resourcesync.Created, "/r/1"))
			m.recovers(paths...)
		})
	}
}

// A deletion whose date was moved to that of the server, as it was of a time to come, is
// applied as well.
func TestPromise06DeletionAfterAChangeOfTheFuture(t *testing.T) {
	s, paths, m := inStep(t, 20)
	s.setClock(10)
	s.put("/r/1", []byte("of the future"))
	up := s.change(1, resourcesync.Updated, "/r/1")
	up.Datetime = resourcesync.DatetimeOf(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC))
	s.changes(0, up)
	m.mustSucceed()
	s.remove("/r/1")
	s.changes(0, up, s.change(9, resourcesync.Deleted, "/r/1"))
	m.recovers(without(paths, "/r/1")...)
}

// A change of the future says that a resource exists, which is not held and is answered with
// 404. That is the end of it if the newest list does not name the resource either, in a baseline
// and in an increment alike.
func TestPromise06NotFoundAfterAChangeOfTheFuture(t *testing.T) {
	for _, tt := range []struct {
		name     string
		listed   bool // the newest list names it
		follow   bool // the mirror is none that is new
		disputed int64
	}{
		{name: "the list does not name it"},
		{name: "the list does not name it, a mirror that follows", follow: true},
		{name: "the list names it", listed: true, disputed: 1},
		{name: "the list names it, a mirror that follows an older one", listed: true, follow: true, disputed: 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, paths, m := inStep(t, 20)
			if !tt.follow {
				m = newMirror(t, s)
			}
			s.put("/r/x", []byte("listed"))
			named := paths
			if tt.listed {
				named = append(slices.Clone(paths), "/r/x")
			}
			s.list(10, named...)
			s.put("/r/x", []byte("of the future"))
			up := s.change(1, resourcesync.Updated, "/r/x")
			up.Datetime = resourcesync.DatetimeOf(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC))
			s.remove("/r/x")
			s.changes(5, up)
			for n := range 2 {
				if rep, err := m.sync(); err != nil || rep.Skipped[destination.SkipDisputed] != tt.disputed {
					t.Fatalf("got %+v, %v, want %d disputed", rep, err, tt.disputed)
				}
				s.put("/r/3", fmt.Append(nil, n))
				s.changes(6+n, up, s.change(11+n, resourcesync.Updated, "/r/3")) // another list, so all of it is read
			}
			if tt.disputed > 0 {
				s.list(20, paths...)
			}
			m.recovers(paths...)
			s.put("/r/x", []byte("of the future"))
			s.changes(8, up, s.change(21, resourcesync.Updated, "/r/3"))
			m.recovers(append(slices.Clone(paths), "/r/x")...)
		})
	}
}

// A resource that a newer list names is not taken for gone because the list before did not name
// it: the answer 404 contradicts every document.
func TestPromise06NotFoundButListedSince(t *testing.T) {
	s := newSource(t)
	s.setClock(0)
	paths := s.fill(20)
	s.list(0, paths...)
	s.changes(-5)
	m := newMirror(t, s)
	m.mustSucceed()
	s.put("/r/x", []byte("listed"))
	s.list(40*day, append(slices.Clone(paths), "/r/x")...)
	s.put("/r/x", []byte("of the future"))
	up := s.change(1, resourcesync.Updated, "/r/x")
	up.Datetime = resourcesync.DatetimeOf(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC))
	s.changes(-6, up)
	s.remove("/r/x")
	s.setClock(40 * day)
	for range 2 {
		if rep := m.mustTell(); rep.Mode != destination.Baseline || rep.Skipped[destination.SkipDisputed] != 1 {
			t.Errorf("got %+v, want a baseline, and 1 disputed", rep)
		}
	}
	s.put("/r/x", []byte("of the future"))
	m.recovers(append(slices.Clone(paths), "/r/x")...)
}

// A fresh mirror that meets a deletion before an earlier creation asks for the resource.
func TestPromise06DeletedBeforeItWasCreated(t *testing.T) {
	for _, tt := range []struct {
		name   string
		exists bool
		listed bool // the Resource List has an earlier version
		follow bool // the mirror is none that is new
	}{
		{"it exists", true, false, false},
		{"it does not", false, false, false},
		{"it is listed and exists", true, true, false},
		{"it is listed and does not exist", false, true, false},
		{"it exists, a mirror that follows", true, false, true},
		{"it does not, a mirror that follows", false, false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSource(t)
			paths := s.fill(20)
			if tt.listed {
				s.put("/r/x", []byte("before"))
				s.list(0, append(slices.Clone(paths), "/r/x")...)
			} else {
				s.list(0, paths...)
			}
			s.changes(0)
			m := newMirror(t, s)
			if tt.follow {
				m.mustSucceed()
			}
			s.put("/r/x", []byte("created"))
			s.changes(0, s.change(5*day, resourcesync.Deleted, "/r/x"), s.change(2*day, resourcesync.Created, "/r/x"))
			want := append(slices.Clone(paths), "/r/x")
			if !tt.exists {
				s.remove("/r/x")
				want = paths
			}
			m.mustSucceed()
			m.wantFiles(want...)
			m.recovers(want...)
			s.list(6*day, want...)
			s.changes(6 * day)
			m.recovers(want...)
		})
	}
}

// The same in the package of a Change Dump, which has the bytes even if the resource is gone.
func TestPromise06DeletedBeforeItWasCreatedInAPackage(t *testing.T) {
	for _, exists := range []bool{true, false} {
		for _, follow := range []bool{true, false} {
			t.Run(fmt.Sprintf("it exists %t, a mirror that follows %t", exists, follow), func(t *testing.T) {
				s := newSource(t)
				paths := s.fill(20)
				s.list(0, paths...)
				s.offers("resourcelist", "/list.xml", "changedump", "/changedump.xml")
				s.changeDumpOf(0)
				m := newMirror(t, s)
				if follow {
					m.mustSucceed()
				}
				s.put("/r/x", []byte("created"))
				s.changeDump(0, aPackage{path: "/c/1", from: 0, until: 6 * day, entries: []resourcesync.Entry{
					s.change(5*day, resourcesync.Deleted, "/r/x"), s.change(2*day, resourcesync.Created, "/r/x"),
				}})
				want := append(slices.Clone(paths), "/r/x")
				if !exists {
					s.remove("/r/x")
					want = paths
				}
				m.mustSucceed()
				m.wantFiles(want...)
				m.recovers(want...)
			})
		}
	}
}

// Where neither the server nor the list tells what time it is, an entry of the year 9999
// does not keep later changes from being followed.
func TestPromise08EntryOfTheYear9999(t *testing.T) {
	for _, c := range []resourcesync.Change{resourcesync.Updated, resourcesync.Deleted} {
		for _, first := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, a first run %t", c, first), func(t *testing.T) {
				s := newSource(t)
				s.timeless("/list.xml", "/changes.xml", "/caps.xml", "/.well-known/resourcesync")
				paths := s.fill(20)
				s.timeless(paths...)
				s.list(0, paths...)
				s.changes(0)
				m := newMirror(t, s)
				if !first {
					m.mustSucceed()
				}
				want := slices.Clone(paths)
				if s.put("/r/1", []byte("of the future")); c == resourcesync.Deleted {
					s.remove("/r/1")
					want = without(want, "/r/1")
				}
				future := s.change(1, c, "/r/1")
				future.Datetime = resourcesync.DatetimeOf(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC))
				s.changes(0, future)
				m.mustSucceed()
				m.wantFiles(want...)

				s.put("/r/2", []byte("of the present"))
				s.changes(0, future, s.change(10, resourcesync.Updated, "/r/2"))
				m.mustSucceed()
				m.wantFiles(want...)
				s.put("/r/2", []byte("and again"))
				s.changes(5, s.change(20, resourcesync.Updated, "/r/2"))
				m.recovers(want...)
				s.put("/r/1", []byte("of the present"))
				s.remove("/r/3")
				want = without(paths, "/r/3")
				s.list(30, want...)
				s.changes(30)
				m.recovers(want...)
				s.put("/r/1", []byte("goes on"))
				s.changes(30, s.change(31, resourcesync.Updated, "/r/1"))
				m.recovers(want...)
			})
		}
	}
}

// Deletions without a time are followed also in a Change List written anew, that begins
// before the latest change that is here.
func TestPromise06DeletionsWithoutATimeInAListWrittenAnew(t *testing.T) {
	s := newSource(t)
	paths := s.fill(20)
	s.list(10, paths...)
	s.put("/r/2", []byte("changed"))
	s.rawChanges(10, s.oldChange(15, resourcesync.Updated, "/r/2"))
	m := newMirror(t, s)
	m.mustSucceed()
	s.remove("/r/1")
	s.rawChanges(12, s.rawEntry("/r/1", `change="deleted"`, ""))
	m.recovers(without(paths, "/r/1")...)
}

// The mirror waits in a copy of a closed list, whose end was never read, and has applied the
// list after it. Then that first list is written anew, with more of its entries and in another
// order: those after the cursor are news, although they are older than the latest change.
func TestPromiseOfWhatTheCursorWaitsFor(t *testing.T) {
	s := newRotating(t, 20)
	s.change(resourcesync.Updated, 1)
	s.publish()
	m := newMirror(t, s.aSource)
	m.mustSucceed()
	first := s.open().path()
	s.cache(first, false)
	s.now++
	s.change(resourcesync.Deleted, 4) // that copy does not have it
	whole := s.open().entries
	s.rotate()
	s.change(resourcesync.Updated, 7)
	s.publish()
	m.mustSucceed()
	s.fresh(first)
	up := resourcesync.Link{Rel: "up", Href: s.uri("/caps.xml")}
	slices.Reverse(whole)
	s.doc(first, head(resourcesync.CapabilityChangeList, func(h *resourcesync.Header) { h.From, h.Links = at(0), []resourcesync.Link{up} }), whole...)
	s.offer("/list.xml", first)
	m.mustSucceed()
	m.wantFiles(s.paths...)
}

// A resource was created and deleted before the first run, in two lists. The index does not tell
// that the first one ended, so it is read again beside the position in the second: what it tells
// of the resource is over.
func TestPromiseOfWhatWasCreatedAndDeletedBefore(t *testing.T) {
	s := newRotating(t, 20)
	s.change(resourcesync.Created, 1)
	gone := s.paths[len(s.paths)-1]
	s.rotate()
	s.remove(gone)
	s.paths = s.paths[:len(s.paths)-1]
	s.open().entries = append(s.open().entries, s.aSource.change(s.now, resourcesync.Deleted, gone))
	s.publish()
	var parts []resourcesync.Entry
	for _, l := range s.lists {
		parts = append(parts, resourcesync.Entry{Loc: s.uri(l.path()), Metadata: resourcesync.Metadata{From: at(l.from)}})
	}
	s.doc("/changes/index.xml", head(resourcesync.CapabilityChangeList, func(h *resourcesync.Header) { h.Root, h.From = resourcesync.SitemapIndex, at(0) }), parts...)
	m := newMirror(t, s.aSource)
	for range 2 {
		m.mustSucceed()
		m.wantFiles(s.paths...)
	}
}

// A run applies that a resource was deleted and created again, and its cursor stays, as a guard holds other
// deletions. Then a cache has a copy that ends with that deletion, which has no time: it stands after the
// position, and is older than what is held all the same.
func TestPromiseDeletionAfterAPositionThatStayed(t *testing.T) {
	gone := []string{"/r/10", "/r/11", "/r/12", "/r/13", "/r/14"}
	for name, created := range map[string]func(*aSource) string{
		"by datetime": func(s *aSource) string {
			return s.rawEntry("/r/1", fmt.Sprintf(`change="created" datetime=%q`, at(12)), "")
		},
		"by lastmod":     func(s *aSource) string { return s.oldChange(12, resourcesync.Created, "/r/1") },
		"without a time": func(s *aSource) string { return s.rawEntry("/r/1", `change="created"`, "") },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSource(t)
			paths := s.fill(20)
			s.list(0, paths...)
			s.put("/r/2", []byte("changed"))
			all := []string{s.oldChange(5, resourcesync.Updated, "/r/2")}
			s.setClock(6)
			s.rawChanges(0, all...)
			m := newMirror(t, s)
			m.mustSucceed()
			s.put("/r/1", []byte("created again"))
			all = append(all, s.rawEntry("/r/1", `change="deleted"`, ""))
			copied := slices.Clone(all)
			all = append(all, created(s))
			for i, path := range gone {
				s.remove(path)
				all = append(all, s.oldChange(13+i, resourcesync.Deleted, path))
			}
			s.setClock(20)
			s.rawChanges(0, all...)
			m.set = func(d *destination.Destination) { d.MaxDelete, _ = guard.ParseLimit("1") }
			if rep := m.mustTell(); rep.Withheld != int64(len(gone)) {
				t.Fatalf("got %+v, want %d withheld", rep, len(gone))
			}
			s.setClock(10)
			s.rawChanges(0, copied...)
			if rep, err := m.sync(); err != nil || rep.Deleted > 0 {
				t.Errorf("got %+v, %v; want nothing deleted", rep, err)
			}
			if got := m.files()["/r/1"]; got != "created again" {
				t.Errorf("got %q, want what was created later", got)
			}
			s.setClock(20)
			s.rawChanges(0, all...)
			m.set = func(d *destination.Destination) { d.MaxDelete, _ = guard.ParseLimit("100%") }
			m.recovers(without(paths, gone...)...)
		})
	}
}
