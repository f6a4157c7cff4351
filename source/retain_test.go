package source

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// shop is a set that publishes items, without documents: what retention is about.
type shop struct {
	r    retention
	o    offered
	next int64
}

func newShop(archive *Archive) *shop {
	s := &shop{o: offered{}, r: retention{now: testStart, keep: 24 * time.Hour, generations: 2, keepChanges: 5 * 24 * time.Hour, archive: archive}}
	s.list()
	s.open()
	return s
}

func (s *shop) number() int64 { s.next++; return s.next }

func (s *shop) list() {
	s.o[ItemResourceList] = append(s.o[ItemResourceList], s.generation(ItemResourceList))
}
func (s *shop) dump() {
	s.o[ItemResourceDump] = append(s.o[ItemResourceDump], s.generation(ItemResourceDump))
}

func (s *shop) generation(kind ItemKind) Item {
	return Item{Kind: kind, Number: s.number(), At: s.r.now, Since: s.r.now, Bytes: 10, Current: true}
}

func (s *shop) open() {
	n := s.number()
	for _, kind := range changeKinds {
		s.o[kind] = append(s.o[kind], Item{Kind: kind, Number: n, From: s.r.now, Bytes: 1, Current: true})
	}
}

// rotate closes the open Change List now and opens another.
func (s *shop) rotate() {
	for _, of := range [][]Item{s.o[ItemChangeList], s.o[ItemChangeDump]} {
		it := &of[len(of)-1]
		it.Until, it.Since = s.r.now, s.r.now
		if s.r.archive != nil {
			it.Archive = nextPlace(of)
		}
	}
	s.open()
}

func (s *shop) pass(d time.Duration) { s.r.now = s.r.now.Add(d) }

// sound returns what is wrong with what is offered.
func (s *shop) sound() error {
	for _, of := range [][]Item{s.o[ItemResourceList], s.o[ItemResourceDump]} {
		for i, it := range of {
			if it.Current != (i == len(of)-1) {
				return fmt.Errorf("%s %d of %d: current is %t", it.Kind, i, len(of), it.Current)
			}
			if err := s.covers(it.At); err != nil {
				return fmt.Errorf("%s at %s: %w", it.Kind, it.At, err)
			}
		}
	}
	for _, of := range [][]Item{s.o[ItemChangeList], s.o[ItemChangeDump]} {
		for i := 1; i < len(of); i++ {
			a, b := of[i-1], of[i]
			if a.Current && !b.Current || a.Archive > 0 && b.Archive > 0 && b.Archive != a.Archive+1 {
				return fmt.Errorf("%s %d is no longer what it was, and %d still is", b.Kind, b.Number, a.Number)
			}
		}
	}
	return nil
}

// covers: index and archive together have every change since at.
func (s *shop) covers(at time.Time) error {
	i := slices.IndexFunc(s.o[ItemChangeList], func(it Item) bool { return it.Until.IsZero() || it.Until.After(at) })
	if from := s.o[ItemChangeList][i].From; from.After(at) {
		return fmt.Errorf("changes since %s only", from)
	}
	for ; i < len(s.o[ItemChangeList]); i++ {
		it := s.o[ItemChangeList][i]
		if !it.Current && it.Archive <= 0 {
			return fmt.Errorf("list %d is nowhere", it.Number)
		}
		if i > 0 && !s.o[ItemChangeList][i-1].Until.Equal(it.From) {
			return fmt.Errorf("a gap before list %d", it.Number)
		}
	}
	return nil
}

// TestNobodyWhoBeganWithWhatIsOfferedMissesAChange: whatever is published when, and
// whatever the policy is and becomes.
func TestNobodyWhoBeganWithWhatIsOfferedMissesAChange(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := newShop(drawArchive(rt))
		s.r.keepChanges = time.Duration(rapid.IntRange(1, 100).Draw(rt, "keep changes")) * time.Hour
		for range rapid.IntRange(1, 60).Draw(rt, "publications") {
			s.pass(time.Duration(rapid.IntRange(0, 20).Draw(rt, "hours")) * time.Hour)
			if rapid.IntRange(0, 20).Draw(rt, "new policy") == 0 {
				s.r.archive = drawArchive(rt)
			}
			for _, does := range []struct {
				name string
				do   func()
			}{{"rotate", s.rotate}, {"list", s.list}, {"dump", s.dump}} {
				if rapid.Bool().Draw(rt, does.name) {
					does.do()
				}
			}
			if err := s.r.retain(s.o); err != nil {
				rt.Fatal(err)
			}
			if err := s.sound(); err != nil {
				rt.Fatal(err)
			}
			s.bounded(rt)
		}
	})
}

// bounded: the archives of generations keep to the policy.
func (s *shop) bounded(rt *rapid.T) {
	for _, of := range [][]Item{s.o[ItemResourceList], s.o[ItemResourceDump]} {
		archived := inArchive(of)
		switch a := s.r.archive; {
		case len(archived) == 0:
		case a == nil:
			rt.Fatalf("%d are archived, want none", len(archived))
		case a.Count > 0 && len(archived) > a.Count:
			rt.Fatalf("%d are archived, want at most %d", len(archived), a.Count)
		case a.Age > 0 && s.r.now.Sub(archived[0].At) > a.Age:
			rt.Fatalf("one of %s is archived, want none older than %s", archived[0].At, a.Age)
		}
	}
}

func drawArchive(rt *rapid.T) *Archive {
	if rapid.IntRange(0, 2).Draw(rt, "no archive") == 0 {
		return nil
	}
	hours := rapid.IntRange(0, 200)
	return &Archive{
		Every: time.Duration(hours.Draw(rt, "every")) * time.Hour, Age: time.Duration(hours.Draw(rt, "age")) * time.Hour,
		Count: rapid.IntRange(0, 5).Draw(rt, "count"), Bytes: int64(rapid.IntRange(0, 100).Draw(rt, "bytes")),
	}
}

// places reports where items are: c current, a archived, - still readable.
func places(of []Item) string {
	s := ""
	for _, it := range of {
		p := ""
		if it.Current {
			p = "c"
		}
		if it.Archive > 0 {
			p += fmt.Sprint("a", it.Archive)
		}
		if p == "" {
			p = "-"
		}
		s += p + " "
	}
	return s
}

// TestRetentionByPolicy: a set that rotates and publishes a Resource List and a
// Resource Dump each day, for twenty days.
func TestRetentionByPolicy(t *testing.T) {
	day := 24 * time.Hour
	for name, c := range map[string]struct {
		archive              *Archive
		lists, dumps, change string
	}{
		"without archive": {nil, "- c ", "- c ", "c c c c c c "},
		"archive of all": {
			&Archive{},
			"a1 a2 a3 a4 a5 a6 a7 a8 a9 a10 a11 a12 a13 a14 a15 a16 a17 a18 a19 a20 c ",
			"a1 a2 a3 a4 a5 a6 a7 a8 a9 a10 a11 a12 a13 a14 a15 a16 a17 a18 a19 c ",
			"a1 a2 a3 a4 a5 a6 a7 a8 a9 a10 a11 a12 a13 a14 a15 ca16 ca17 ca18 ca19 ca20 c ",
		},
		"each week":   {&Archive{Every: 7 * day}, "a1 a2 a3 - c ", "a1 a2 a3 - c ", "a1 a2 a3 a4 a5 a6 a7 a8 a9 a10 a11 a12 a13 a14 a15 ca16 ca17 ca18 ca19 ca20 c "},
		"two of each": {&Archive{Count: 2}, "- a19 a20 c ", "- a18 a19 c ", "c c ca18 ca19 ca20 c "},
		"three days":  {&Archive{Age: 3 * day}, "- a18 a19 a20 c ", "- a17 a18 a19 c ", "c ca17 ca18 ca19 ca20 c "},
		"no room":     {&Archive{Bytes: 1}, "- c ", "- c ", "c c c c ca20 c "},
		"little room": {&Archive{Bytes: 50}, "- a19 a20 c ", "- a18 a19 c ", "c ca17 ca18 ca19 ca20 c "},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShop(c.archive)
			for range 20 {
				s.pass(day)
				s.rotate()
				s.list()
				s.dump()
				if err := s.r.retain(s.o); err != nil {
					t.Fatal(err)
				}
			}
			got := []string{places(s.o[ItemResourceList]), places(s.o[ItemResourceDump]), places(s.o[ItemChangeList])}
			if diff := cmp.Diff([]string{c.lists, c.dumps, c.change}, got); diff != "" {
				t.Errorf("lists, dumps, changes (-want +got):\n%s", diff)
			}
		})
	}
}

// TestChangeListsStayWhileTheyAreNeeded: without a newer Resource List none leaves.
func TestChangeListsStayWhileTheyAreNeeded(t *testing.T) {
	s := newShop(nil)
	s.r.maxIndex = 30
	for range 29 {
		s.pass(24 * time.Hour)
		s.rotate()
		if err := s.r.retain(s.o); err != nil {
			t.Fatal(err)
		}
	}
	if got := len(s.o[ItemChangeList]); got != 30 {
		t.Errorf("got %d Change Lists, want all 30", got)
	}
	s.rotate()
	if err := s.r.retain(s.o); !errors.Is(err, ErrIndexFull) {
		t.Errorf("more than an index takes: got %v, want ErrIndexFull", err)
	}
	s.r.maxIndex = 0
	s.list()
	s.list()
	if err := s.r.retain(s.o); err != nil || len(s.o[ItemChangeList]) != 31 {
		t.Errorf("with Resource Lists that are newer: got %d Change Lists, %v, want 31 for those who began before", len(s.o[ItemChangeList]), err)
	}
	s.pass(25 * time.Hour)
	if err := s.r.retain(s.o); err != nil || len(s.o[ItemChangeList]) > 6 {
		t.Errorf("a day later: got %d Change Lists, %v", len(s.o[ItemChangeList]), err)
	}
}

// TestRoomIsNotMadeTwice: Change Lists that stay for a day, for those who saw the
// Resource List before them in its archive, cost no other list its place meanwhile.
func TestRoomIsNotMadeTwice(t *testing.T) {
	s := newShop(&Archive{Bytes: 1000})
	s.r.keepChanges = time.Hour
	for hour := range 60 {
		s.pass(time.Hour)
		for _, of := range [][]Item{s.o[ItemChangeList], s.o[ItemChangeDump]} {
			of[len(of)-1].Bytes = 25
		}
		s.rotate()
		s.list()
		if err := s.r.retain(s.o); err != nil {
			t.Fatal(err)
		}
		if got := len(inArchive(s.o[ItemResourceList])); got < min(hour, 15) {
			t.Fatalf("after %d hours the archive has %d lists, want room for 1,000 bytes of them and of changes", hour+1, got)
		}
	}
}
