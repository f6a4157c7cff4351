package destination_test

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"instep/destination"
	"instep/guard"
	"instep/resourcesync"
)

// setClock sets the Source's clock to n minutes after t0.
func (s *aSource) setClock(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock = at(n).Time()
}

const day = 24 * 60 // minutes

// A Change List that is gone is a gap, not the end of all runs.
func TestChangeListThatIsGoneIsAGap(t *testing.T) {
	s, paths, m := inStep(t, 20)
	s.remove("/changes.xml")
	s.put("/r/3", []byte("changed"))
	s.list(5, paths[:19]...)
	rep := m.mustSync(destination.Baseline, 18, 0, 1, 1)
	if want := "cannot be used"; !bytes.Contains([]byte(rep.Why), []byte(want)) {
		t.Errorf("why: got %q, want %q in it", rep.Why, want)
	}
	m.wantFiles(paths[:19]...)
	s.changes(5, s.change(6, resourcesync.Deleted, paths[18]))
	m.mustSync(destination.Incremental, 0, 0, 0, 1)
}

// A list older than what is here cannot tell what was deleted since.
func TestStaleListBringsNothingBack(t *testing.T) {
	s, paths, m := inStep(t, 20)
	s.put("/r/lost", []byte("lost"))
	s.list(0, append(slices.Clone(paths), "/r/lost")...)
	stale := s.served("/list.xml")
	s.changes(0, s.change(5, resourcesync.Deleted, "/r/1"), s.change(6, resourcesync.Deleted, "/r/2"))
	m.mustSync(destination.Incremental, 0, 0, 0, 2)
	s.put("/list.xml", stale)
	s.put("/r/new", []byte("new"))
	s.changes(60, s.change(61, resourcesync.Created, "/r/new"), s.change(62, resourcesync.Created, "/r/2"))
	rep := m.mustSync(destination.Baseline, 18, 2, 0, 0)
	if rep.Skipped[destination.SkipStale] != 1 {
		t.Errorf("skipped: got %v, want 1 that only the old list names", rep.Skipped)
	}
	m.wantFiles(slices.Concat(paths[:1], paths[2:], []string{"/r/new"})...)
}

// A Source that never tells a deletion loses what is gone by the baseline that is made
// now and then.
func TestBaselineIsMadeNowAndThen(t *testing.T) {
	s := newSource(t)
	s.setClock(0)
	paths := s.fill(20)
	s.list(0, paths...)
	s.changes(0)
	m := newMirror(t, s)
	m.mustSync(destination.Baseline, 0, 20, 0, 0)
	s.list(29*day, paths[1:]...)
	s.setClock(29 * day)
	m.mustSync(destination.Incremental, 0, 0, 0, 0)
	s.setClock(31 * day)
	list := s.served("/list.xml")
	s.remove("/list.xml")
	m.mustSync(destination.Incremental, 0, 0, 0, 0)
	m.wantNote("but no baseline can be made")
	s.put("/list.xml", list)
	m.mustSync(destination.Baseline, 19, 0, 0, 1)
	m.wantFiles(paths[1:]...)
	m.mustSync(destination.Incremental, 0, 0, 0, 0)
	s.setClock(300 * day)
	m.set = func(d *destination.Destination) { d.BaselineEvery = -1 }
	m.mustSync(destination.Incremental, 0, 0, 0, 0)
}

// aHistory is a Source with a few resources that change in any way, and lists that a
// test writes as it likes.
type aHistory struct {
	*aSource
	exist   map[string]bool
	from    int // where the Change List begins
	entries []resourcesync.Entry
	n       int // changes so far
}

func newHistory(t *testing.T) *aHistory {
	s := &aHistory{aSource: newSource(t), exist: map[string]bool{}}
	for _, p := range s.fill(6) {
		s.exist[p] = true
	}
	return s
}

func (s *aHistory) paths() []string { return slices.Sorted(maps.Keys(s.exist)) }

// change makes one change of a resource, recorded at moment n.
func (s *aHistory) change(n, which int, delete bool) {
	s.n++
	p, c := fmt.Sprintf("/r/%d", which), resourcesync.Updated
	switch {
	case delete && s.exist[p]:
		c = resourcesync.Deleted
		s.exist[p] = false
		s.remove(p)
	case !s.exist[p]:
		c = resourcesync.Created
		fallthrough
	default:
		s.put(p, fmt.Appendf(nil, "change %d of %s", s.n, p))
		s.exist[p] = true
	}
	if !s.exist[p] {
		maps.DeleteFunc(s.exist, func(_ string, is bool) bool { return !is })
	}
	s.entries = append(s.entries, s.aSource.change(n, c, p))
}

// publish writes the Change List as it is now. What an entry says of bytes that have
// changed again since is still what it was.
func (s *aHistory) publish() { s.changes(s.from, s.entries...) }

// publishRaw is publish of changes that are dated as they may be, which the Encoder
// would refuse.
func (s *aHistory) publishRaw() {
	var entries []string
	for _, e := range s.entries {
		attrs := fmt.Sprintf(`change=%q datetime=%q`, e.Change, e.Datetime)
		if e.Change != resourcesync.Deleted {
			attrs += fmt.Sprintf(` hash=%q length="%d"`, e.Digests, e.Length.Int64())
		}
		entries = append(entries, fmt.Sprintf(`<url><loc>%s</loc><rs:md %s/></url>`, e.Loc, attrs))
	}
	s.raw("/changes.xml", fmt.Sprintf(`capability="changelist" from=%q`, at(s.from)), "", entries...)
}

// converges checks that some runs bring the mirror in step, and that the next has
// nothing to do.
func (s *aHistory) converges(t *rapid.T, m *aMirror, runs int) {
	t.Helper()
	for range runs {
		if rep, err := m.sync(); err != nil {
			t.Fatalf("sync: %v, %v", rep, err)
		}
	}
	s.inStep(t, m)
	rep, err := m.sync()
	if err != nil || rep.Created+rep.Updated+rep.Deleted+rep.Failed > 0 {
		t.Errorf("the run after: got %+v, %v, want nothing to do", rep, err)
	}
}

// inStep checks that the mirror holds what the Source has.
func (s *aHistory) inStep(t *rapid.T, m *aMirror) {
	t.Helper()
	want := map[string]string{}
	for p := range s.exist {
		want[p] = string(s.served(p))
	}
	if diff := cmp.Diff(want, m.files()); diff != "" {
		t.Fatalf("mirror (- Source, + mirror):\n%s", diff)
	}
}

func anyNumberOfDeletions(t *testing.T, m *aMirror) {
	limit, err := guard.ParseLimit("100%")
	if err != nil {
		t.Fatal(err)
	}
	m.set = func(d *destination.Destination) { d.MaxDelete = limit }
}

// Changes of one moment, or of none, come in the order of the document, each once.
func TestCat_CHG_01(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := newHistory(t)
		s.list(0, s.paths()...)
		s.publish()
		m := newMirror(t, s.aSource)
		anyNumberOfDeletions(t, m)
		m.mustSync(destination.Baseline, 0, 6, 0, 0)
		dated := rapid.Bool().Draw(rt, "dated")
		for range rapid.IntRange(1, 3).Draw(rt, "runs") {
			touched := map[int]bool{}
			for range rapid.IntRange(0, 8).Draw(rt, "changes") {
				which := rapid.IntRange(0, 7).Draw(rt, "which")
				s.change(5, which, rapid.Bool().Draw(rt, "delete"))
				if !dated {
					s.entries[len(s.entries)-1].Datetime = resourcesync.Datetime{}
				}
				touched[which] = true
			}
			s.publish()
			s.asked("/r/")
			rep, err := m.sync()
			if err != nil || rep.Failed > 0 || rep.Mode != destination.Incremental {
				rt.Fatalf("sync: got %+v, %v, want an increment without failures", rep, err)
			}
			if n := s.asked("/r/"); n > len(touched) {
				rt.Errorf("requests for %d changed resources: got %d", len(touched), n)
			}
			s.inStep(rt, m)
		}
		s.converges(rt, m, 0)
	})
}

// The last state of a resource counts, however often and at whatever moments it was
// created, updated and deleted before, and applying it again changes nothing.
func TestCat_DEL_04(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := newHistory(t)
		s.list(0, s.paths()...)
		s.publish()
		m := newMirror(t, s.aSource)
		anyNumberOfDeletions(t, m)
		m.mustSync(destination.Baseline, 0, 6, 0, 0)
		now := 1
		for range rapid.IntRange(1, 4).Draw(rt, "runs") {
			for range rapid.IntRange(1, 10).Draw(rt, "changes") {
				now += rapid.SampledFrom([]int{0, 0, 1}).Draw(rt, "minutes")
				s.change(now, rapid.IntRange(0, 2).Draw(rt, "which"), rapid.Bool().Draw(rt, "delete"))
			}
			if rapid.IntRange(0, 3).Draw(rt, "repeated") == 0 && len(s.entries) > 0 {
				s.entries = append(s.entries, s.entries[len(s.entries)-1])
			}
			s.publish()
			if rapid.Bool().Draw(rt, "sync") {
				s.converges(rt, m, 1)
			}
		}
		s.converges(rt, m, 1)
	})
}

// A Change List that is written anew, reordered, shortened or cut never leaves a mirror
// out of step for longer than until it is whole again.
func TestCat_CHG_03(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := newHistory(t)
		s.list(0, s.paths()...)
		s.publish()
		m := newMirror(t, s.aSource)
		anyNumberOfDeletions(t, m)
		m.mustSync(destination.Baseline, 0, 6, 0, 0)
		now, applied := 1, 0
		for range rapid.IntRange(1, 5).Draw(rt, "steps") {
			for range rapid.IntRange(0, 4).Draw(rt, "changes") {
				now++
				s.change(now, rapid.IntRange(0, 7).Draw(rt, "which"), rapid.Bool().Draw(rt, "delete"))
			}
			s.publish()
			if rapid.Bool().Draw(rt, "sync") {
				s.converges(rt, m, 1)
				applied = len(s.entries)
			}
			switch rapid.IntRange(0, 3).Draw(rt, "damage") {
			case 0: // newest first
				backwards := slices.Clone(s.entries)
				slices.Reverse(backwards)
				s.changes(s.from, backwards...)
				s.converges(rt, m, 1)
			case 1: // only the last are kept, and the list is new
				if applied == 0 {
					continue // by its from the list tells everything: nobody could know better
				}
				s.entries = s.entries[len(s.entries)-min(len(s.entries), 2):]
				now++
				s.list(now, s.paths()...)
				s.publish()
				s.converges(rt, m, 1)
			case 2: // cut
				whole := s.served("/changes.xml")
				s.put("/changes.xml", whole[:rapid.IntRange(0, len(whole)-2).Draw(rt, "cut")])
				before := m.files()
				rep, err := m.sync()
				if err == nil && rep.Deleted > 0 {
					rt.Errorf("a cut list deleted: %+v, of %v", rep, before)
				}
				if err == nil && rep.Mode == destination.Baseline {
					applied = 0 // what the list had before is forgotten
				}
				s.put("/changes.xml", whole)
			}
		}
		s.publish()
		s.converges(rt, m, 2)
	})
}

// What changes while a Resource List is being made is in the list or not, and in the
// Change List in any case: changes count from the at of the list, never from completed.
func TestCat_CHG_04(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := newHistory(t)
		s.publish()
		begin := rapid.IntRange(0, 3).Draw(rt, "before")
		for i := range begin {
			s.change(1+i, rapid.IntRange(0, 7).Draw(rt, "which"), rapid.Bool().Draw(rt, "delete"))
		}
		// The list names each resource as it was at some moment between at and completed.
		seen := map[string]resourcesync.Entry{}
		look := func(p string) {
			delete(seen, p)
			if s.exist[p] {
				seen[p] = s.entry(p)
			}
		}
		all := []string{"/r/0", "/r/1", "/r/2", "/r/3", "/r/4", "/r/5", "/r/6", "/r/7"}
		for _, p := range all {
			look(p)
		}
		for i := range rapid.IntRange(0, 6).Draw(rt, "meanwhile") {
			s.change(10+i, rapid.IntRange(0, 7).Draw(rt, "which"), rapid.Bool().Draw(rt, "delete"))
			look(rapid.SampledFrom(all).Draw(rt, "looked at"))
		}
		s.doc("/list.xml", head(resourcesync.CapabilityResourceList, func(h *resourcesync.Header) { h.At, h.Completed = at(9), at(20) }),
			slices.Collect(maps.Values(seen))...)
		s.publish()
		m := newMirror(t, s.aSource)
		anyNumberOfDeletions(t, m)
		s.converges(rt, m, 1)
		s.change(30, rapid.IntRange(0, 7).Draw(rt, "which"), rapid.Bool().Draw(rt, "delete"))
		s.publish()
		s.converges(rt, m, 1)
	})
}

// A clock that jumps by years, forth and back, loses nothing for good: once it is right
// again and a new list is made, the mirror is in step.
func TestCat_CHG_05(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := newHistory(t)
		now, wrong := 0, 0
		set := func() { s.setClock(now + wrong) }
		set()
		s.list(0, s.paths()...)
		s.publish()
		m := newMirror(t, s.aSource)
		anyNumberOfDeletions(t, m)
		m.mustSync(destination.Baseline, 0, 6, 0, 0)
		for range rapid.IntRange(1, 6).Draw(rt, "steps") {
			now += 60
			switch rapid.IntRange(0, 4).Draw(rt, "step") {
			case 0:
				wrong = rapid.IntRange(-10, 10).Draw(rt, "years") * 365 * day
			case 1:
				wrong = 0
			case 2:
				s.list(now+wrong, s.paths()...)
			default:
				s.change(now+wrong, rapid.IntRange(0, 7).Draw(rt, "which"), rapid.Bool().Draw(rt, "delete"))
			}
			set()
			s.publishRaw()
			if rapid.Bool().Draw(rt, "sync") {
				if rep, err := m.sync(); err != nil {
					rt.Fatalf("sync: %v, %v", rep, err)
				}
			}
		}
		now, wrong = now+2*day, 0
		set()
		s.list(now, s.paths()...)
		s.from, s.entries = now, nil
		s.publish()
		s.converges(rt, m, 2)
		now += 60
		set()
		s.change(now, 1, false)
		s.publish()
		s.converges(rt, m, 1)
	})
}

// A change dated after its list was sent does not put the cursor where nothing ever
// comes after it.
func TestChangeOfTheFarFutureIsOfNow(t *testing.T) {
	s := newSource(t)
	s.setClock(0)
	paths := s.fill(20)
	s.list(0, paths...)
	s.changes(0)
	m := newMirror(t, s)
	m.mustSync(destination.Baseline, 0, 20, 0, 0)
	s.put("/r/1", []byte("of the future"))
	future := s.change(1, resourcesync.Updated, "/r/1")
	future.Datetime = resourcesync.DatetimeOf(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC))
	s.setClock(10)
	s.changes(0, future)
	m.mustSync(destination.Incremental, 0, 0, 1, 0)
	m.wantNote("dated after its list ended or was sent")
	s.setClock(20)
	s.put("/r/1", []byte("of the present"))
	s.list(15, paths[:19]...)
	s.changes(15, s.change(16, resourcesync.Deleted, "/r/2"))
	m.mustSync(destination.Baseline, 17, 0, 1, 2)
	m.wantFiles(slices.Concat(paths[:2], paths[3:19])...)
}

// Where a clock went back, what was created and deleted since then stays deleted: the
// order is that of the document.
func TestWhatCameAndWentUnderAWrongClockStaysAway(t *testing.T) {
	s, paths, m := inStep(t, 20)
	s.put("/r/1", []byte("changed"))
	first := s.change(5, resourcesync.Updated, "/r/1")
	s.changes(0, first)
	m.mustSync(destination.Incremental, 0, 0, 1, 0)
	s.put("/r/brief", []byte("not for long"))
	came := s.change(3, resourcesync.Created, "/r/brief")
	s.remove("/r/brief")
	s.changes(0, first, came, s.change(4, resourcesync.Deleted, "/r/brief"))
	m.mustSync(destination.Incremental, 0, 0, 0, 0)
	m.wantFiles(paths...)
}
