package destination_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"instep/destination"
	"instep/resourcesync"
)

// A Resource List or a Change List that is older than what was applied deletes nothing,
// replaces nothing and brings nothing back.
func TestPromise03OlderDocumentsTakeNothingBack(t *testing.T) {
	for _, tt := range []struct {
		name  string
		stale func(s *aSource, old map[string][]byte)
	}{
		{"the Resource List, and no Change List", func(s *aSource, old map[string][]byte) {
			s.offer("/list.xml", "")
			s.answer("/list.xml", serving(old["/list.xml"]))
		}},
		{"the Resource List, and a Change List that begins later", func(s *aSource, old map[string][]byte) {
			s.answer("/list.xml", serving(old["/list.xml"]))
			s.changes(60)
		}},
		{"both", func(s *aSource, old map[string][]byte) {
			s.answer("/list.xml", serving(old["/list.xml"]))
			s.answer("/changes.xml", serving(old["/changes.xml"]))
		}},
		{"the Resource List, and a Change List at another place that ends earlier", func(s *aSource, old map[string][]byte) {
			s.answer("/list.xml", serving(old["/list.xml"]))
			s.answer("/older.xml", serving(old["/changes.xml"]))
			s.offer("/list.xml", "/older.xml")
		}},
		{"a Change List at another place that ends earlier", func(s *aSource, old map[string][]byte) {
			s.answer("/older.xml", serving(old["/changes.xml"]))
			s.offer("/list.xml", "/older.xml")
		}},
		{"the Resource Dump", func(s *aSource, old map[string][]byte) {
			s.offers("resourcedump", "/dump.xml")
		}},
	} {
		for _, again := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, a baseline each time %t", tt.name, again), func(t *testing.T) {
				s := newSource(t)
				paths := s.fill(20)
				s.list(5, paths...)
				s.dump(5, aPackage{path: "/d/1", entries: s.entries(paths...)})
				early := []resourcesync.Entry{s.change(6, resourcesync.Deleted, "/r/1"), s.change(7, resourcesync.Updated, "/r/2")}
				s.changes(0, early...)
				old := map[string][]byte{"/list.xml": s.served("/list.xml"), "/changes.xml": s.served("/changes.xml")}
				s.put("/r/1", []byte("made again"))
				s.put("/r/3", []byte("replaced"))
				s.put("/r/new", []byte("new"))
				s.remove("/r/4")
				paths = append(without(paths, "/r/4"), "/r/new")
				late := append(early, s.change(20, resourcesync.Created, "/r/1"), s.change(21, resourcesync.Updated, "/r/3"),
					s.change(22, resourcesync.Created, "/r/new"), s.change(23, resourcesync.Deleted, "/r/4"))
				s.list(25, paths...)
				s.changes(0, late...)
				m := newMirror(t, s)
				m.mustSucceed()
				m.wantFiles(paths...)
				right := s.served("/changes.xml")

				s.put("/r/4", []byte("left behind"))
				tt.stale(s, old)
				if again {
					m.set = func(d *destination.Destination) { d.BaselineEvery = 1 }
				}
				for range 2 {
					rep, err := m.sync()
					if err != nil || rep.Deleted+rep.Withheld+rep.Updated > 0 || rep.Created > 0 {
						t.Fatalf("got %+v, %v; want nothing taken back", rep, err)
					}
					m.wantFiles(paths...)
				}
				m.set = nil
				s.remove("/r/4")
				s.fresh("/list.xml", "/changes.xml")
				s.put("/changes.xml", right)
				s.offer("/list.xml", "/changes.xml")
				m.recovers(paths...)
				s.put("/r/5", []byte("goes on"))
				s.changes(0, append(late, s.change(30, resourcesync.Updated, "/r/5"))...)
				m.recovers(paths...)
			})
		}
	}
}

// Likewise where what is held was told of by lists alone: it is as of the newest of them,
// however long ago the first one named it.
func TestPromise03OlderThanTheNewestList(t *testing.T) {
	for _, tt := range []struct {
		name  string
		stale func(s *aSource, list []byte) // shows the state in which /r/1 was away and /r/2 another
	}{
		{"a Resource List", func(s *aSource, list []byte) { s.put("/list.xml", list) }},
		{"a Resource List and an empty Change List", func(s *aSource, list []byte) {
			s.put("/list.xml", list)
			s.changes(5)
			s.offer("/list.xml", "/changes.xml")
		}},
		{"a Change List that ends earlier", func(s *aSource, _ []byte) {
			s.changes(3, s.change(4, resourcesync.Deleted, "/r/1"), s.change(5, resourcesync.Updated, "/r/2"))
			s.offer("/list.xml", "/changes.xml")
		}},
		{"one that begins with the first list", func(s *aSource, _ []byte) {
			s.changes(0, s.change(4, resourcesync.Deleted, "/r/1"), s.change(5, resourcesync.Updated, "/r/2"))
			s.offer("/list.xml", "/changes.xml")
		}},
		{"a Resource List, and a Change List that ends earlier", func(s *aSource, list []byte) {
			s.put("/list.xml", list)
			s.changes(3, s.change(4, resourcesync.Deleted, "/r/1"), s.change(5, resourcesync.Updated, "/r/2"))
			s.offer("/list.xml", "/changes.xml")
		}},
		{"a Change Dump that ends earlier", func(s *aSource, _ []byte) {
			s.changeDump(3, aPackage{path: "/c/1", from: 3, until: 6, entries: []resourcesync.Entry{
				s.change(4, resourcesync.Deleted, "/r/1"), s.change(5, resourcesync.Updated, "/r/2"),
			}})
			s.offers("resourcelist", "/list.xml", "changedump", "/changedump.xml")
		}},
		{"a Resource Dump", func(s *aSource, _ []byte) {
			var paths []string
			for i := range 18 {
				paths = append(paths, fmt.Sprintf("/r/%d", i+2))
			}
			s.dump(5, aPackage{path: "/d/1", entries: s.entries(append(paths, "/r/0")...)})
			s.offers("resourcedump", "/dump.xml")
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSource(t)
			s.offer("/list.xml", "")
			paths := s.fill(20)
			s.list(0, paths...)
			m := newMirror(t, s)
			m.mustSucceed()
			held, gone := s.served("/r/2"), s.served("/r/1")
			s.list(10, paths...)
			list := s.served("/list.xml")
			m.mustSucceed()

			s.put("/r/2", []byte("of between")) // as caches have it
			s.remove("/r/1")
			s.list(5, without(paths, "/r/1")...)
			old := s.served("/list.xml")
			s.put("/list.xml", list)
			tt.stale(s, old)
			for range 2 {
				rep, err := m.sync()
				if err != nil || rep.Deleted+rep.Withheld+rep.Updated+rep.Failed > 0 {
					t.Fatalf("got %+v, %v; want nothing taken back", rep, err)
				}
				if got := m.files(); got["/r/1"] != string(gone) || got["/r/2"] != string(held) {
					t.Fatalf("got %q and %q", got["/r/1"], got["/r/2"])
				}
			}
			s.put("/r/1", gone)
			s.put("/r/2", held)
			s.put("/list.xml", list)
			s.offer("/list.xml", "")
			m.recovers(paths...)
			s.list(30, paths[1:]...)
			m.recovers(paths[1:]...)
		})
	}
}

// Who accepts the older state gets it, whether lists or changes tell of it.
func TestPromise03AcceptedRollback(t *testing.T) {
	for _, tt := range []struct {
		name  string
		stale func(s *aSource)
	}{
		{"a Resource List", func(s *aSource) {
			s.list(5, "/r/0", "/r/2", "/r/3", "/r/4", "/r/5")
			s.offer("/list.xml", "")
		}},
		{"a Resource List and changes of other moments", func(s *aSource) {
			s.list(0, "/r/0", "/r/1", "/r/2", "/r/3", "/r/4", "/r/5")
			s.changes(0, s.change(4, resourcesync.Deleted, "/r/1"), s.change(5, resourcesync.Updated, "/r/2"), s.change(6, resourcesync.Updated, "/r/3"))
		}},
		{"a Resource Dump", func(s *aSource) {
			s.dump(5, aPackage{path: "/d/1", entries: s.entries("/r/0", "/r/2", "/r/3", "/r/4", "/r/5")})
			s.offers("resourcedump", "/dump.xml")
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSource(t)
			paths := s.fill(6)
			s.list(0, paths...)
			s.changes(0)
			m := newMirror(t, s)
			anyNumberOfDeletions(t, m)
			all := m.set
			m.mustSucceed()
			s.put("/r/2", []byte("newer"))
			s.changes(0, s.change(7, resourcesync.Updated, "/r/2"), s.change(8, resourcesync.Updated, "/r/4"))
			m.mustSucceed()
			s.list(10, paths...)
			s.changes(10)
			m.mustSucceed()
			s.put("/r/2", []byte("older"))
			s.put("/r/3", []byte("older as well"))
			gone := s.served("/r/1")
			tt.stale(s)
			s.remove("/r/1")
			if rep, err := m.sync(); err != nil || rep.Updated+rep.Deleted > 0 {
				t.Fatalf("got %+v, %v; want nothing taken back", rep, err)
			}
			m.set = func(d *destination.Destination) { all(d); d.AcceptRollback = true }
			m.mustSucceed()
			m.wantFiles(without(paths, "/r/1")...)
			m.set = all
			m.recovers(without(paths, "/r/1")...)
			s.put("/r/1", gone)
			s.list(20, paths...)
			s.changes(20)
			s.offer("/list.xml", "/changes.xml")
			m.recovers(paths...)
		})
	}
}

// A deletion that was followed stays applied when a baseline meets a Resource List and a
// Change List from before it, while a cache still has the resource.
func TestPromise05FollowedDeletionStays(t *testing.T) {
	for _, tt := range []struct {
		name     string
		baseline func(s *aSource, m *aMirror)
		changes  func(s *aSource)
	}{
		{"the choice of resources changed", func(_ *aSource, m *aMirror) { m.set = func(d *destination.Destination) { d.Exclude = nil } }, nil},
		{"the last baseline is long ago", func(_ *aSource, m *aMirror) {
			m.set = func(d *destination.Destination) { d.BaselineEvery = 1 }
		}, nil},
		{"a gap", func(*aSource, *aMirror) {}, func(s *aSource) { s.changes(60) }},
		{"no Change List", func(*aSource, *aMirror) {}, func(s *aSource) { s.offer("/list.xml", "") }},
		{"a Resource Dump alone", func(*aSource, *aMirror) {}, func(s *aSource) { s.offers("resourcedump", "/dump.xml") }},
		{"a Change Dump that is as old", func(*aSource, *aMirror) {}, func(s *aSource) {
			s.changeDumpOf(0)
			s.offers("resourcelist", "/list.xml", "changedump", "/changedump.xml")
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSource(t)
			paths := s.fill(20)
			s.list(0, paths...)
			s.dump(0, aPackage{path: "/d/1", entries: s.entries(paths...)})
			s.changes(0)
			m := newMirror(t, s)
			m.set = func(d *destination.Destination) { d.Exclude = []string{"r/9"} }
			if tt.changes != nil {
				m.set = nil
			}
			m.mustSucceed()
			list, changes := s.served("/list.xml"), s.served("/changes.xml")
			s.put("/r/2", []byte("changed"))
			all := []resourcesync.Entry{s.change(5, resourcesync.Deleted, "/r/1"), s.change(6, resourcesync.Updated, "/r/2")}
			s.changes(0, all...)
			now := s.served("/changes.xml")
			m.mustSucceed()
			if m.files()["/r/1"] != "" {
				t.Fatal("the deletion was not followed")
			}

			s.answer("/list.xml", serving(list))
			s.answer("/changes.xml", serving(changes))
			if tt.changes != nil {
				s.fresh("/changes.xml")
				tt.changes(s)
			}
			tt.baseline(s, m)
			for range 2 {
				if _, err := m.sync(); err != nil {
					t.Fatal(err)
				}
				if got := m.files(); got["/r/1"] != "" || got["/r/2"] != "changed" {
					t.Fatalf("an older word took back what was followed: %q, %q", got["/r/1"], got["/r/2"])
				}
			}
			m.set = nil
			s.remove("/r/1")
			s.fresh("/list.xml", "/changes.xml")
			s.offer("/list.xml", "/changes.xml")
			s.put("/changes.xml", now)
			m.recovers(without(paths, "/r/1")...)

			// What is made again comes.
			s.put("/r/1", []byte("made again"))
			s.changes(0, append(all, s.change(9, resourcesync.Created, "/r/1"))...)
			m.recovers(paths...)
		})
	}
}

// What a filter left out, and what could not be judged when the filter changed, stays known
// as left out until it has come.
func TestPromise07LeftOutUntilItHasCome(t *testing.T) {
	exclude := func(d *destination.Destination) { d.Exclude = []string{"r/1"} }
	include := func(d *destination.Destination) { d.Include = []string{"r/0", "r/[2-9]"} }
	another := func(d *destination.Destination) { d.Exclude = []string{"r/3"} }
	for _, tt := range []struct {
		name    string
		filter  func(d *destination.Destination)
		next    func(d *destination.Destination) // the next choice; nil: all
		changed bool                             // what was left out changed meanwhile
		over    func(s *aSource, paths []string)
	}{
		{"exclude, a newer list", exclude, nil, false, func(s *aSource, paths []string) { s.list(20, paths...) }},
		{"include, a newer list", include, nil, false, func(s *aSource, paths []string) { s.list(20, paths...) }},
		{"exclude, all Change Lists", exclude, nil, true, func(s *aSource, _ []string) {
			s.offers("resourcelist", "/list.xml", "changelist", "/changes.xml", "changelist", "/open.xml")
		}},
		{"include, all Change Lists", include, nil, true, func(s *aSource, _ []string) {
			s.offers("resourcelist", "/list.xml", "changelist", "/changes.xml", "changelist", "/open.xml")
		}},
		{"another is excluded, a newer list", exclude, another, false, func(s *aSource, paths []string) { s.list(20, paths...) }},
		{"another is excluded, all Change Lists", exclude, another, true, func(s *aSource, _ []string) {
			s.offers("resourcelist", "/list.xml", "changelist", "/changes.xml", "changelist", "/open.xml")
		}},
		{"it was deleted", exclude, nil, false, func(s *aSource, _ []string) {
			s.remove("/r/1")
			s.list(20, "/r/0", "/r/2", "/r/3", "/r/4", "/r/5")
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSource(t)
			paths := s.fill(6)
			s.list(0, paths...)
			s.changes(0)
			m := newMirror(t, s)
			m.set = tt.filter
			m.mustSucceed()
			m.wantFiles(without(paths, "/r/1")...)
			s.put("/r/2", []byte("changed"))
			entries := []resourcesync.Entry{s.change(5, resourcesync.Updated, "/r/2")}
			if tt.changed {
				s.put("/r/1", []byte("changed while it was left out"))
				entries = append(entries, s.change(6, resourcesync.Updated, "/r/1"))
			}
			s.doc("/changes.xml", head(resourcesync.CapabilityChangeList, func(h *resourcesync.Header) { h.From, h.Until = at(0), at(10) }), entries...)
			s.doc("/open.xml", head(resourcesync.CapabilityChangeList, func(h *resourcesync.Header) { h.From = at(10) }))
			s.offers("resourcelist", "/list.xml", "changelist", "/changes.xml", "changelist", "/open.xml")
			m.mustSucceed()

			s.offer("/list.xml", "/open.xml") // what happened between the two is told no more
			m.set = tt.next
			for range 3 {
				m.mustTell()
				if got := m.files()["/r/1"]; got != "" {
					t.Fatalf("/r/1: got %q on the word of a list from before", got)
				}
			}
			tt.over(s, paths)
			if s.served("/r/1") == nil {
				paths = without(paths, "/r/1")
			}
			m.recovers(paths...)
			m.set = nil
			m.recovers(paths...)
		})
	}
}

// Where a dump has no digests and a Resource List of the same moment has, the list decides
// what the bytes are.
func TestPromise09DumpWithoutDigests(t *testing.T) {
	for _, tt := range []struct {
		name  string
		weak  bool // md5 alone, which is right of the wrong bytes
		equal bool // wrong bytes of the right length
		set   func(*destination.Destination)
	}{
		{name: "no digests"},
		{name: "no digests, the same length", equal: true},
		{name: "no digests, the dump is asked for", set: func(d *destination.Destination) { d.Prefer = destination.PreferDump }},
		{name: "md5 only", weak: true, equal: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, paths := dumped(t, 40)
			right := s.served("/r/3")
			wrong := []byte("wrong")
			if tt.equal {
				wrong = bytes.Repeat([]byte("w"), len(right))
			}
			s.put("/r/3", wrong)
			entries := s.entries(paths...)
			for i := range entries {
				entries[i].Digests = entries[i].Digests[:1]
				if !tt.weak {
					entries[i].Digests = nil
				}
				if !tt.equal {
					entries[i].Length = resourcesync.Length{}
				}
			}
			s.dump(0, aPackage{path: "/d/1", entries: entries})
			s.put("/r/3", right)
			m := newMirror(t, s)
			m.set = tt.set
			m.mustSucceed()
			m.wantFiles(paths...)
			m.set = nil
			m.recovers(paths...)
		})
	}
}

// A list that names less than another of its moment did deletes nothing by itself.
func TestPromise11FewerOfOneMoment(t *testing.T) {
	for _, tt := range []struct {
		name  string
		offer func(s *aSource, paths []string) // lists all of them at moment 0
		less  func(s *aSource, paths []string) // and fewer, of the same moment
	}{
		{"a list", func(s *aSource, p []string) { s.list(0, p...) }, func(s *aSource, p []string) { s.list(0, p...) }},
		{"a list and an empty Change List", func(s *aSource, p []string) {
			s.list(0, p...)
			s.changes(0)
			s.offer("/list.xml", "/changes.xml")
		}, func(s *aSource, p []string) {
			s.list(0, p...)
			s.offer("/list.xml", "")
		}},
		{"an index that lacks a part", func(s *aSource, p []string) {
			s.listOf("/1.xml", 0, s.entries(p[2:]...)...)
			s.listOf("/2.xml", 0, s.entries(p[:2]...)...)
			s.doc("/list.xml", head(resourcesync.CapabilityResourceList, func(h *resourcesync.Header) { h.At, h.Root = at(0), resourcesync.SitemapIndex }),
				resourcesync.Entry{Loc: s.uri("/1.xml")}, resourcesync.Entry{Loc: s.uri("/2.xml")})
		}, func(s *aSource, p []string) {
			s.doc("/list.xml", head(resourcesync.CapabilityResourceList, func(h *resourcesync.Header) { h.At, h.Root = at(0), resourcesync.SitemapIndex }),
				resourcesync.Entry{Loc: s.uri("/1.xml")})
		}},
		{"a page that leads to no other", func(s *aSource, p []string) {
			s.listAt(0, "/list.xml", s.next("/2.xml"), p[2:]...)
			s.listAt(0, "/2.xml", s.prev("/list.xml"), p[:2]...)
		}, func(s *aSource, p []string) { s.listAt(0, "/list.xml", "", p...) }},
		{"one of two lists", func(s *aSource, p []string) {
			s.offerLists("/1.xml", "/2.xml")
			s.listOf("/1.xml", 0, s.entries(p[2:]...)...)
			s.listOf("/2.xml", 0, s.entries(p[:2]...)...)
		}, func(s *aSource, p []string) { s.offerLists("/1.xml") }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSource(t)
			s.offer("/list.xml", "")
			paths := s.fill(40)
			tt.offer(s, paths)
			m := newMirror(t, s)
			m.mustSucceed()
			caps := s.served("/caps.xml")
			tt.less(s, paths[2:])
			for range 2 {
				if rep := m.mustTell(); rep.Withheld != 2 || rep.Deleted != 0 {
					t.Fatalf("got %+v, want 2 deletions withheld", rep)
				}
				m.wantFiles(paths...)
			}
			less := s.served("/caps.xml")
			s.put("/caps.xml", caps)
			tt.offer(s, paths)
			m.recovers(paths...)

			// It is so: somebody approves.
			s.put("/caps.xml", less)
			tt.less(s, paths[2:])
			rep := m.mustTell()
			m.approve(rep.Hash)
			m.recovers(paths[2:]...)
		})
	}
	t.Run("what is listed otherwise is fetched", func(t *testing.T) {
		s := newSource(t)
		s.offer("/list.xml", "")
		paths := s.fill(40)
		s.list(0, paths...)
		m := newMirror(t, s)
		m.mustSucceed()
		s.put("/r/3", []byte("changed"))
		s.list(0, paths[2:]...)
		if rep := m.mustTell(); rep.Updated != 1 || rep.Withheld != 2 {
			t.Fatalf("got %+v, want one updated and 2 deletions withheld", rep)
		}
		m.wantFiles(paths...)
		s.list(1, paths[2:]...)
		m.recovers(paths[2:]...)
	})
}

// What was created at the moment of a list need not be in it: a list tells what was before
// its moment.
func TestPromise11CreatedAtTheMomentOfTheList(t *testing.T) {
	for _, dump := range []bool{false, true} {
		t.Run(fmt.Sprintf("a dump %t", dump), func(t *testing.T) {
			s, paths, m := inStep(t, 20)
			s.put("/r/new", []byte("new"))
			s.changes(0, s.change(10, resourcesync.Created, "/r/new"))
			m.mustSucceed()
			want := append(slices.Clone(paths), "/r/new")
			if s.offer("/list.xml", ""); dump {
				s.offers("resourcedump", "/dump.xml")
			}
			write := func(n int, paths []string) {
				s.list(n, paths...)
				s.dump(n, aPackage{path: "/d/1", entries: s.entries(paths...)})
			}
			write(10, paths)
			for range 2 {
				m.mustSucceed()
				m.wantFiles(want...)
			}
			if v := m.audit(); v[destination.VerdictExtra] > 0 {
				t.Errorf("audit: got %v, want nothing that is not at the Source", v)
			}
			write(11, paths)
			m.recovers(paths...)
		})
	}
}

// Nor does a manifest that names less than the Resource List of its moment.
func TestPromise11ShortManifest(t *testing.T) {
	for name, prefer := range map[string]destination.Prefer{"the cheaper way": "", "the dump is asked for": destination.PreferDump} {
		t.Run(name, func(t *testing.T) {
			s, paths := dumped(t, 40)
			s.offers("resourcelist", "/list.xml", "resourcedump", "/dump.xml")
			m := newMirror(t, s)
			m.set = func(d *destination.Destination) { d.Prefer = prefer }
			m.mustSucceed()
			for i := range 30 {
				s.put(paths[i], fmt.Appendf(nil, "changed %d", i))
			}
			s.list(1, paths...)
			s.dump(1, aPackage{path: "/d/1", entries: s.entries(paths[:38]...)})
			rep := m.mustSucceed()
			if rep.Deleted != 0 {
				t.Errorf("got %+v, want no deletion", rep)
			}
			m.wantFiles(paths...)
			s.dump(1, aPackage{path: "/d/1", entries: s.entries(paths...)})
			m.recovers(paths...)
		})
	}
}

// One URI in two documents, with other digests in each: once the bytes are those of one of
// them, no run fetches them again.
func TestPromise12OneURIInTwoDocuments(t *testing.T) {
	for _, tt := range []struct {
		name  string
		paths []string // of the lists, in the order in which they are named
		index bool
		later int // the moment of the second list
	}{
		{name: "two lists", paths: []string{"/1.xml", "/2.xml"}},
		{name: "two lists, the wrong one last", paths: []string{"/2.xml", "/1.xml"}},
		{name: "two parts of an index", paths: []string{"/1.xml", "/2.xml"}, index: true},
		{name: "two parts of an index, the wrong one last", paths: []string{"/2.xml", "/1.xml"}, index: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSource(t)
			paths := s.fill(6)
			s.listOf("/1.xml", 0, s.entries(paths[:4]...)...)
			s.put("/r/3", []byte("as it is now"))
			s.listOf("/2.xml", 0, s.entries(paths[3:]...)...)
			s.offerLists(tt.paths...)
			if tt.index {
				s.offer("/list.xml", "")
				s.doc("/list.xml", head(resourcesync.CapabilityResourceList, func(h *resourcesync.Header) { h.At, h.Root = at(0), resourcesync.SitemapIndex }),
					resourcesync.Entry{Loc: s.uri(tt.paths[0])}, resourcesync.Entry{Loc: s.uri(tt.paths[1])})
			}
			m := newMirror(t, s)
			for range 2 { // the word of one of them may be tried in vain
				if _, err := m.sync(); err != nil {
					t.Fatal(err)
				}
			}
			s.asked("/r/")
			for range 2 {
				m.mustSucceed()
				m.wantFiles(paths...)
			}
			if n := s.asked("/r/"); n > 0 {
				t.Errorf("got %d requests for resources, want none", n)
			}
			if got := m.audit(); got[destination.VerdictSame] != int64(len(paths)) || len(got) != 1 {
				t.Errorf("audit: got %v, want each resource the same, and once", got)
			}
			s.put("/r/3", []byte("another"))
			s.listOf("/1.xml", 1, s.entries(paths[:4]...)...)
			s.listOf("/2.xml", 1, s.entries(paths[3:]...)...)
			if tt.index {
				s.doc("/list.xml", head(resourcesync.CapabilityResourceList, func(h *resourcesync.Header) { h.At, h.Root = at(1), resourcesync.SitemapIndex }),
					resourcesync.Entry{Loc: s.uri(tt.paths[0])}, resourcesync.Entry{Loc: s.uri(tt.paths[1])})
			}
			m.recovers(paths...)
		})
	}
	t.Run("the later list counts", func(t *testing.T) {
		s := newSource(t)
		paths := s.fill(6)
		s.listOf("/1.xml", 0, s.entries(paths[:4]...)...)
		s.put("/r/3", []byte("as it is now"))
		s.listOf("/2.xml", 1, s.entries(paths[3:]...)...)
		s.offerLists("/1.xml", "/2.xml")
		m := newMirror(t, s)
		m.mustSucceed()
		s.asked("/r/")
		m.recovers(paths...)
		if n := s.asked("/r/"); n > 0 {
			t.Errorf("got %d requests for resources, want none", n)
		}
	})
}

// What a run left here on request goes by the next list, or by the same one with consent: that
// it named fewer than another one of its moment cannot be told apart from this.
func TestPromise11DeletionsThatWereLeftOut(t *testing.T) {
	s := newSource(t)
	p := s.fill(20)
	s.offer("/list.xml", "")
	s.list(0, p...)
	m := newMirror(t, s)
	m.mustSync(destination.Baseline, 0, 20, 0, 0)
	s.list(5, p[1:]...)
	m.set = func(d *destination.Destination) { d.KeepDeleted = true }
	m.mustSync(destination.Baseline, 20, 0, 0, 0)
	m.set = nil
	if rep, err := m.sync(); err != nil || rep.Withheld != 1 || rep.Deleted > 0 {
		t.Errorf("by the same list: got %+v, %v, want the deletion withheld", rep, err)
	}
	s.list(6, p[1:]...)
	m.mustSync(destination.Baseline, 19, 0, 0, 1)
	m.wantFiles(p[1:]...)
}

// Another package stands where the dump names one by its digest, and lacks resources. It deletes
// none, though its server gives parts and nothing would have to be transferred whole.
func TestPromise11AnotherPackageThanTheDumpNames(t *testing.T) {
	s := newSource(t)
	paths := s.fill(40)
	for i, p := range paths {
		s.put(p, noise(uint64(i), 50_000))
	}
	s.dump(0, aPackage{path: "/d/1", entries: s.entries(paths...)})
	s.offers("resourcedump", "/dump.xml")
	m := newMirror(t, s)
	m.mustSucceed()
	dump := func(paths []string) []byte {
		s.dump(1, aPackage{path: "/d/1", bare: true, entries: s.entries(paths...)})
		return s.served("/d/1.zip")
	}
	short, whole := dump(paths[:37]), dump(paths)
	e := s.entry("/d/1.zip")
	e.Length, e.Type = resourcesync.Length{}, "application/zip"
	s.doc("/dump.xml", head(resourcesync.CapabilityResourceDump, func(h *resourcesync.Header) { h.At = at(1) }), e)
	s.put("/d/1.zip", short)
	s.ranges("/d/1.zip", `"1"`)
	if rep, err := m.sync(); lacks(rep, err) == "" {
		t.Errorf("the run ended with success: %+v", rep)
	}
	m.wantFiles(paths...)
	s.put("/d/1.zip", whole)
	s.ranges("/d/1.zip", `"2"`)
	m.recovers(paths...)
}
