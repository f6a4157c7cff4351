package destination_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"instep/destination"
	"instep/guard"
	"instep/resourcesync"
)

// aList is a Change List of a rotating Source; until is 0 while it is open.
type aList struct {
	from, until int
	entries     []resourcesync.Entry
}

func (l *aList) path() string { return fmt.Sprintf("/changes/%d.xml", l.from) }

// rotating is a Source whose Change Lists are closed now and then, with an index of
// them from the second on (1.1 §12.2).
type rotating struct {
	*aSource
	now   int
	lists []*aList // the last is open
	paths []string // of the resources that exist
	made  int
	bare  bool // the index says nothing of its lists but their URIs
}

func newRotating(t *testing.T, n int) *rotating {
	s := &rotating{aSource: newSource(t), lists: []*aList{{}}}
	s.paths, s.made = s.fill(n), n
	s.rebase()
	s.publish()
	return s
}

func (s *rotating) open() *aList { return s.lists[len(s.lists)-1] }

// change records one change; every third or so has the datetime of the one before.
func (s *rotating) change(c resourcesync.Change, which int) {
	if which%3 != 0 || len(s.open().entries) == 0 {
		s.now++
	}
	var path string
	switch {
	case c == resourcesync.Created || len(s.paths) < 3:
		c, path = resourcesync.Created, fmt.Sprintf("/r/%d", s.made)
		s.made++
		s.paths = append(s.paths, path)
	case c == resourcesync.Deleted:
		which %= len(s.paths)
		path = s.paths[which]
		s.paths = slices.Delete(s.paths, which, which+1)
	default:
		path = s.paths[which%len(s.paths)]
	}
	if c != resourcesync.Deleted {
		s.put(path, fmt.Appendf(nil, "%s at %d, %d", path, s.now, len(s.open().entries)))
	}
	s.open().entries = append(s.open().entries, s.aSource.change(s.now, c, path))
}

// rotate closes the open list.
func (s *rotating) rotate() {
	s.now++
	s.open().until = s.now
	s.lists = append(s.lists, &aList{from: s.now})
}

// rebase writes a new Resource List.
func (s *rotating) rebase() { s.list(s.now, s.paths...) }

// publish writes the Change Lists, their index, and the Capability List that names the
// one or the other.
func (s *rotating) publish() {
	index := resourcesync.Link{Rel: "index", Href: s.uri("/changes/index.xml")}
	up := resourcesync.Link{Rel: "up", Href: s.uri("/caps.xml")}
	var parts []resourcesync.Entry
	for _, l := range s.lists {
		h := head(resourcesync.CapabilityChangeList, func(h *resourcesync.Header) { h.From, h.Links = at(l.from), []resourcesync.Link{up, index} })
		e := resourcesync.Entry{Loc: s.uri(l.path()), Metadata: resourcesync.Metadata{From: at(l.from)}}
		if l.until > 0 {
			h.Until, e.Until = at(l.until), at(l.until)
		}
		if s.bare {
			e.Metadata = resourcesync.Metadata{}
		}
		s.doc(l.path(), h, l.entries...)
		parts = append(parts, e)
	}
	s.doc("/changes/index.xml", head(resourcesync.CapabilityChangeList, func(h *resourcesync.Header) {
		h.Root, h.From, h.Links = resourcesync.SitemapIndex, at(s.lists[0].from), []resourcesync.Link{up}
	}), parts...)
	if len(s.lists) == 1 {
		s.offer("/list.xml", s.lists[0].path())
	} else {
		s.offer("/list.xml", "/changes/index.xml")
	}
}

// A list that the mirror has followed is closed and others come: nothing is missed and
// nothing is read that is known.
func TestClosedListIsReadToItsEndAndThenItsSuccessors(t *testing.T) {
	for name, bare := range map[string]bool{"index with times": false, "index without times": true} {
		t.Run(name, func(t *testing.T) {
			s := newRotating(t, 20)
			s.bare = bare
			m := newMirror(t, s.aSource)
			m.mustSync(destination.Baseline, 0, 20, 0, 0)
			s.change(resourcesync.Updated, 1)
			s.publish()
			m.mustSync(destination.Incremental, 0, 0, 1, 0)

			s.change(resourcesync.Updated, 2)
			s.rotate()
			s.change(resourcesync.Deleted, 4)
			s.rotate()
			s.change(resourcesync.Created, 0)
			s.change(resourcesync.Updated, 2)
			s.publish()
			m.mustSync(destination.Incremental, 0, 1, 1, 1)
			m.wantFiles(s.paths...)

			s.rotate() // the new open list has no entries
			s.publish()
			m.mustSync(destination.Incremental, 0, 0, 0, 0)
			s.asked("/")
			m.mustSync(destination.Incremental, 0, 0, 0, 0)
			if !bare {
				if got := s.asked("/"); got != 3 {
					t.Errorf("requests of an idle sync: got %d, want 3 (description, Capability List, open list)", got)
				}
			}
			if v := m.audit(); v[destination.VerdictSame] != 20 || len(v) != 1 {
				t.Errorf("audit: got %v, want 20 the same", v)
			}
		})
	}
}

// Some Sources close a list at the moment of its last change: position beats time.
func TestChangeAtTheMomentAtWhichItsListClosedIsNotMissed(t *testing.T) {
	s := newRotating(t, 10)
	m := newMirror(t, s.aSource)
	m.mustSync(destination.Baseline, 0, 10, 0, 0)
	s.change(resourcesync.Updated, 1)
	s.publish()
	m.mustSync(destination.Incremental, 0, 0, 1, 0)
	s.change(resourcesync.Updated, 3) // at the same moment
	s.rotate()
	s.lists[0].until, s.lists[1].from = 1, 1
	s.publish()
	m.mustSync(destination.Incremental, 0, 0, 1, 0)
	m.wantFiles(s.paths...)
}

// However a Source rotates, drops lists and makes new ones, a mirror ends in step; as
// long as the list it stands in is offered it needs no baseline, and a gap is told.
func TestCat_CHG_02(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := newRotating(t, 6)
		s.bare = rapid.IntRange(0, 4).Draw(rt, "bare") == 0
		m := newMirror(t, s.aSource)
		limit, err := guard.ParseLimit("100%")
		if err != nil {
			rt.Fatal(err)
		}
		m.set = func(d *destination.Destination) { d.MaxDelete = limit }
		m.mustSync(destination.Baseline, 0, 6, 0, 0)
		synced := *s.open()
		listed := 0 // when the Resource List was made
		for range rapid.IntRange(3, 12).Draw(rt, "steps") {
			switch rapid.IntRange(0, 5).Draw(rt, "step") {
			case 0, 1:
				c := rapid.SampledFrom([]resourcesync.Change{resourcesync.Created, resourcesync.Updated, resourcesync.Deleted}).Draw(rt, "change")
				s.change(c, rapid.IntRange(0, 100).Draw(rt, "which"))
			case 2:
				s.rotate()
			case 3:
				s.now++
				s.rebase()
				listed = s.now
			case 4: // lists that no reader of the Resource List needs go
				for len(s.lists) > 1 && s.lists[0].until <= listed {
					s.remove(s.lists[0].path()) // what was published last may call it open
					s.lists = s.lists[1:]
				}
			case 5:
				s.wantInStep(rt, m, synced.from)
				synced = *s.open()
			}
		}
		s.wantInStep(rt, m, synced.from)
		if v := m.audit(); v[destination.VerdictSame] != int64(len(s.paths)) || len(v) > 1 {
			rt.Errorf("audit: got %v, want %d the same", v, len(s.paths))
		}
	})
}

// wantInStep synchronises a mirror that stood in the list that begins at from.
func (s *rotating) wantInStep(t *rapid.T, m *aMirror, from int) {
	s.publish()
	s.asked("/")
	rep, err := m.sync()
	if err != nil || rep.Failed > 0 || rep.Partial != nil {
		t.Fatalf("sync: got %+v, %v", rep, err)
	}
	offered := slices.ContainsFunc(s.lists, func(l *aList) bool { return l.from == from })
	switch {
	case offered != (rep.Mode == destination.Incremental):
		t.Fatalf("the list that begins at %d is offered: %t; got a %s: %s", from, offered, rep.Mode, rep.Why)
	case !offered && !strings.Contains(rep.Why, "gap"):
		t.Fatalf("why: got %q, want the gap named", rep.Why)
	}
	if !s.bare {
		for _, l := range s.lists {
			if n := s.asked(l.path()); l.until > 0 && l.until <= from && n > 0 {
				t.Errorf("the list of [%d, %d) was fetched %d times by a mirror in that of %d", l.from, l.until, n, from)
			}
		}
	}
	m.wantFiles(s.paths...)
}

// A poll of a Source with very many closed lists asks for none of them.
func TestCat_CHG_06(t *testing.T) {
	s := newRotating(t, 5)
	for range 9_999 {
		s.now++
		s.open().until = s.now
		s.lists = append(s.lists, &aList{from: s.now})
	}
	s.rebase()
	s.lists[3].entries = []resourcesync.Entry{s.aSource.change(3, resourcesync.Deleted, "/r/1")} // undone before the list
	s.publish()
	m := newMirror(t, s.aSource)
	m.set = func(d *destination.Destination) { d.Source = s.uri("/caps.xml") }
	m.mustSync(destination.Baseline, 0, 5, 0, 0)
	s.asked("/")
	m.mustSync(destination.Incremental, 0, 0, 0, 0)
	if got := s.asked("/"); got > 3 {
		t.Errorf("requests of an idle sync: got %d, want at most 3 (Capability List, index, open list)", got)
	}
	s.change(resourcesync.Updated, 1)
	s.publish()
	m.mustSync(destination.Incremental, 0, 0, 1, 0)
	m.wantFiles(s.paths...)
}

// Several lists in the Capability List are one sequence, also while some that came
// earlier are still open.
func TestSeveralChangeListsWithoutAnIndex(t *testing.T) {
	s := newRotating(t, 10)
	m := newMirror(t, s.aSource)
	m.mustSync(destination.Baseline, 0, 10, 0, 0)
	offer := func() {
		s.publish()
		up := head(resourcesync.CapabilityCapabilityList, nil)
		up.Links = []resourcesync.Link{{Rel: "up", Href: s.uri("/.well-known/resourcesync")}}
		entries := []resourcesync.Entry{{Loc: s.uri("/list.xml"), Metadata: resourcesync.Metadata{Capability: resourcesync.CapabilityResourceList}}}
		for _, l := range slices.Backward(s.lists) {
			entries = append(entries, resourcesync.Entry{Loc: s.uri(l.path()), Metadata: resourcesync.Metadata{Capability: resourcesync.CapabilityChangeList}})
		}
		s.doc("/caps.xml", up, entries...)
	}
	s.change(resourcesync.Updated, 1)
	s.rotate()
	s.change(resourcesync.Deleted, 4)
	offer()
	m.mustSync(destination.Incremental, 0, 0, 1, 1)
	s.lists[0].until = 0 // never closed: what it says may change at any time
	s.put("/r/8", []byte("again"))
	s.lists[0].entries = append(s.lists[0].entries, s.aSource.change(1, resourcesync.Updated, "/r/8"))
	offer()
	if rep := m.mustSync(destination.Incremental, 1, 0, 1, 0); !strings.Contains(rep.Why, "since") {
		t.Errorf("why: got %q, want all lists read again", rep.Why)
	}
	m.wantFiles(s.paths...)
	s.rebase()
	s.answer(s.lists[0].path(), http.NotFound)
	m.mustSync(destination.Baseline, 9, 0, 0, 0)
}

// A Source may name only its open list, which names the index: that leads back to a
// mirror that stood in another list.
func TestListThatDoesNotReachBackLeadsToItsIndex(t *testing.T) {
	s := newRotating(t, 10)
	m := newMirror(t, s.aSource)
	m.mustSync(destination.Baseline, 0, 10, 0, 0)
	s.change(resourcesync.Updated, 1)
	s.rotate()
	s.change(resourcesync.Updated, 2)
	s.publish()
	s.offer("/list.xml", s.open().path())
	m.mustSync(destination.Incremental, 0, 0, 2, 0)
	m.mustSync(destination.Incremental, 0, 0, 0, 0)

	s.change(resourcesync.Updated, 4)
	named := s.open().path()
	s.rotate()
	s.change(resourcesync.Updated, 5)
	s.publish()
	s.offer("/list.xml", named) // as a copy of the Capability List that is kept for a while still says
	m.mustSync(destination.Incremental, 0, 0, 2, 0)
	m.wantFiles(s.paths...)
	t.Run("an index that is lost", func(t *testing.T) {
		m.t = t
		s.change(resourcesync.Updated, 7)
		s.publish()
		s.offer("/list.xml", s.lists[1].path())
		s.answer("/changes/index.xml", http.NotFound)
		m.mustSync(destination.Baseline, 10, 0, 0, 0) // the list that is named tells of nothing later
		s.answer("/changes/index.xml", nil)
		m.mustSync(destination.Incremental, 0, 0, 1, 0)
		m.wantFiles(s.paths...)
	})
}

// What stands between a mirror and the present cannot be read: a baseline, which says
// why; but not because a server is busy.
func TestPartOfAChangeListIndexThatIsLostIsAGap(t *testing.T) {
	damage := map[string]func(s *rotating, path string){
		"missing":          func(s *rotating, path string) { s.answer(path, http.NotFound) },
		"cut":              func(s *rotating, path string) { s.put(path, s.bodies[path][:300]) },
		"another document": func(s *rotating, path string) { s.put(path, s.bodies["/list.xml"]) },
		"an index":         func(s *rotating, path string) { s.put(path, s.bodies["/changes/index.xml"]) },
		"begins later": func(s *rotating, path string) {
			s.lists[1].from++
			s.publish()
			s.put(path, s.bodies[s.lists[1].path()])
		},
		"not named":             func(s *rotating, _ string) { s.lists = slices.Delete(s.lists, 1, 2); s.publish() },
		"no from, and it is so": func(s *rotating, path string) { s.bare = true; s.publish(); s.answer(path, http.NotFound) },
	}
	for name, do := range damage {
		t.Run(name, func(t *testing.T) {
			s := newRotating(t, 10)
			m := newMirror(t, s.aSource)
			m.mustSync(destination.Baseline, 0, 10, 0, 0)
			s.rotate()
			s.change(resourcesync.Updated, 1)
			s.rotate()
			s.change(resourcesync.Updated, 2)
			s.rebase()
			s.publish()
			path := s.lists[1].path()
			if name != "begins later" {
				s.answer(path, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
				if rep, err := m.sync(); err == nil {
					t.Errorf("a busy server: got %+v, want an error", rep)
				}
				s.answer(path, nil)
			}
			do(s, path)
			rep := m.mustSync(destination.Baseline, 8, 0, 2, 0)
			if !strings.Contains(rep.Why, "Change List") {
				t.Errorf("why: got %q, want the list named", rep.Why)
			}
			m.wantFiles(s.paths...)
		})
	}
}

// A plan that would have to keep too much reads some of the lists, and the next one goes on
// after them: in the same run, or after a few of them in the next one.
func TestMoreChangesThanARunReads(t *testing.T) {
	for _, c := range []struct {
		mode       destination.Mode
		most, more int
	}{
		{destination.Baseline, 3, 0}, {destination.Incremental, 3, 0}, {destination.Baseline, 1, 1}, {destination.Incremental, 1, 1},
	} {
		mode := c.mode
		t.Run(fmt.Sprint(mode, c.most), func(t *testing.T) {
			s := newRotating(t, 20)
			m := newMirror(t, s.aSource)
			m.set = func(d *destination.Destination) { d.MaxChanges = c.most }
			if mode == destination.Incremental {
				m.mustSync(destination.Baseline, 0, 20, 0, 0)
			}
			for i := range 10 {
				s.change(resourcesync.Updated, 2*i+1)
				if i%2 == 1 {
					s.rotate()
				}
			}
			s.publish()
			more := 0
			for {
				rep, err := m.sync()
				if err != nil || rep.Mode != mode && more == 0 || rep.Failed > 0 && rep.Partial == nil {
					t.Fatalf("got %+v, %v", rep, err)
				}
				if rep.Partial == nil {
					break
				}
				if more++; more > 5 {
					t.Fatalf("after %d runs there is still more: %v", more, rep.Partial)
				}
			}
			if more != c.more {
				t.Errorf("runs that left something: got %d, want %d", more, c.more)
			}
			m.wantFiles(s.paths...)
			m.mustSync(destination.Incremental, 0, 0, 0, 0)
		})
	}
}

// An index that names more lists than a run reads is told before any of them is read.
func TestIndexOfMoreChangeListsThanARunReads(t *testing.T) {
	s := newRotating(t, 3)
	m := newMirror(t, s.aSource)
	m.mustSync(destination.Baseline, 0, 3, 0, 0)
	var parts []resourcesync.Entry
	for i := range 10_001 {
		parts = append(parts, resourcesync.Entry{Loc: s.uri(fmt.Sprintf("%s?%d", s.open().path(), i))})
	}
	s.doc("/changes/index.xml", head(resourcesync.CapabilityChangeList, func(h *resourcesync.Header) {
		h.Root, h.From, h.Links = resourcesync.SitemapIndex, at(0), []resourcesync.Link{{Rel: "up", Href: s.uri("/caps.xml")}}
	}), parts...)
	s.offer("/list.xml", "/changes/index.xml")
	s.asked("/")
	if _, err := m.sync(); err != nil {
		t.Errorf("sync: %v", err)
	}
	if got := s.asked(s.open().path()); got > 0 {
		t.Errorf("requests of Change Lists: got %d, want none", got)
	}
	m.wantFiles(s.paths...)
}
