// Package sourcetest tests implementations of source.Journal with RunJournal.
package sourcetest

import (
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"instep/source"
)

// RunJournal tests the contract of source.Journal. open creates an empty journal. It
// returns a function that opens the journal again, as a new process would. RunJournal
// calls this function only when it no longer uses the journal that was opened before.
func RunJournal(t *testing.T, open func(t *testing.T) (again func() source.Journal)) {
	for name, test := range map[string]func(*suite){
		"nothing published":    (*suite).nothing,
		"ids ascend":           (*suite).ids,
		"committed, then done": (*suite).lastPublication,
		"documents":            (*suite).documents,
		"retired documents":    (*suite).retired,
		"items":                (*suite).items,
		"sets":                 (*suite).sets,
		"done twice":           (*suite).twice,
	} {
		t.Run(name, func(t *testing.T) {
			s := &suite{t: t, open: open(t)}
			s.Journal = s.open()
			test(s)
		})
	}
}

// suite is a journal that is tested. It is opened again after each change, since a
// change must be durable when its method returns.
type suite struct {
	source.Journal
	t    *testing.T
	open func() source.Journal
}

func made(id int64) time.Time {
	return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).Add(time.Duration(id) * time.Hour)
}

func (s *suite) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
	s.Journal = s.open()
}

func (s *suite) begin(set string) source.Publication {
	s.t.Helper()
	id, err := s.Begin(s.t.Context(), set)
	s.must(err)
	return source.Publication{ID: id, Set: set, Made: made(id)}
}

// publish commits a publication that the function fill completes, and calls Done for it.
func (s *suite) publish(set string, fill func(*source.Publication)) source.Publication {
	s.t.Helper()
	p := s.begin(set)
	fill(&p)
	s.must(s.Commit(s.t.Context(), p))
	s.must(s.Done(s.t.Context(), p))
	return p
}

func collect[T any](s *suite, seq iter.Seq2[T, error]) []T {
	s.t.Helper()
	var all []T
	for v, err := range seq {
		if err != nil {
			s.t.Fatal(err)
		}
		all = append(all, v)
	}
	return all
}

func document(key string, length int64) source.Document {
	return source.Document{Key: key, Length: length, SHA256: source.Sum{byte(length)}, Immutable: length%2 == 0}
}

// wantDocument compares the length recorded for the document at a key with the expected
// one. -1 means that no document is recorded.
func (s *suite) wantDocument(key string, length int64) {
	s.t.Helper()
	d, ok, err := s.Document(s.t.Context(), key)
	if err != nil {
		s.t.Fatal(err)
	}
	if want := document(key, length); ok != (length >= 0) || ok && (d.Key != want.Key || d.Length != want.Length || d.SHA256 != want.SHA256 || d.Immutable != want.Immutable) {
		s.t.Errorf("document %q: got %+v, ours %t; want %+v", key, d, ok, want)
	}
}

func (s *suite) wantExpired(before time.Time, p int64, want ...string) {
	s.t.Helper()
	got := collect(s, s.Expired(s.t.Context(), before, p))
	slices.Sort(got)
	if !slices.Equal(got, want) {
		s.t.Errorf("retired before %v by publications before %d: got %q, want %q", before, p, got, want)
	}
}

func (s *suite) wantLast(set string, id int64, done bool) {
	s.t.Helper()
	p, d, err := s.Last(s.t.Context(), set)
	if err != nil || p.ID != id || d != done {
		s.t.Errorf("last publication of %q: got %d, done %t, %v; want %d, done %t", set, p.ID, d, err, id, done)
	}
}

func (s *suite) wantSets(want ...string) {
	s.t.Helper()
	if got, err := s.Sets(s.t.Context()); err != nil || !slices.Equal(got, want) {
		s.t.Errorf("sets: got %q, %v; want %q", got, err, want)
	}
}

func (s *suite) wantItems(set string, kind source.ItemKind, from int64, want ...int64) {
	s.t.Helper()
	var got []int64
	for _, it := range collect(s, s.Items(s.t.Context(), set, kind, from)) {
		if it.Kind != kind || it.Key != fmt.Sprint(kind, it.Number) {
			s.t.Errorf("item %d: got kind %q and key %q", it.Number, it.Kind, it.Key)
		}
		got = append(got, it.Number)
	}
	if !slices.Equal(got, want) {
		s.t.Errorf("numbers of %s of set %q from %d: got %d, want %d", kind, set, from, got, want)
	}
}

func item(kind source.ItemKind, n int64) source.Item {
	return source.Item{Kind: kind, Number: n, Key: fmt.Sprint(kind, n), At: made(n)}
}

func (s *suite) nothing() {
	s.wantLast("", 0, false)
	s.wantLast("maps", 0, false)
	s.wantSets()
	s.wantDocument("resourcesync/description.xml", -1)
	s.wantItems("", source.ItemChangeList, 0)
	s.wantExpired(made(1000), 1000)
	s.must(s.Forget(s.t.Context(), "resourcesync/description.xml"))
}

func (s *suite) ids() {
	last := int64(0)
	for _, set := range []string{"", "maps", "", "prints"} {
		p := s.begin(set)
		if p.ID <= last {
			s.t.Errorf("publication %d was begun after publication %d, expected a greater id", p.ID, last)
		}
		last = p.ID
	}
	s.wantLast("", 0, false)
}

func (s *suite) lastPublication() {
	p := s.begin("maps")
	p.ListKeys, p.ListAt, p.ListThrough, p.Resources = []string{"a", "b"}, made(7), 9, 12
	s.must(s.Commit(s.t.Context(), p))
	s.wantLast("maps", p.ID, false)
	s.wantLast("", 0, false)
	s.must(s.Done(s.t.Context(), p))
	s.wantLast("maps", p.ID, true)
	got, _, err := s.Last(s.t.Context(), "maps")
	if err != nil || got.Set != "maps" || !got.ListAt.Equal(p.ListAt) || !got.Made.Equal(p.Made) || !slices.Equal(got.ListKeys, p.ListKeys) || got.ListThrough != 9 || got.Resources != 12 {
		s.t.Errorf("got %+v, %v; want %+v", got, err, p)
	}
	next := s.begin("maps")
	s.must(s.Commit(s.t.Context(), next))
	s.wantLast("maps", next.ID, false)
}

func (s *suite) documents() {
	p := s.begin("")
	p.Documents = []source.Document{document("a.xml", 1), document("dir/b.xml", 2)}
	s.must(s.Commit(s.t.Context(), p))
	s.wantDocument("a.xml", -1) // Done has not recorded the document yet
	s.must(s.Done(s.t.Context(), p))
	s.wantDocument("a.xml", 1)
	s.wantDocument("dir/b.xml", 2)
	s.publish("maps", func(p *source.Publication) { p.Documents = []source.Document{document("a.xml", 4)} })
	s.wantDocument("a.xml", 4)
	s.must(s.Forget(s.t.Context(), "a.xml"))
	s.wantDocument("a.xml", -1)
	s.wantDocument("dir/b.xml", 2)
}

func (s *suite) retired() {
	first := s.publish("", func(p *source.Publication) {
		p.Documents = []source.Document{document("a.xml", 1), document("b.xml", 2), document("c.xml", 3)}
	})
	s.wantExpired(made(1000), 1000)
	second := s.publish("", func(p *source.Publication) {
		p.Retired, p.Documents = []string{"a.xml", "b.xml", "never.xml"}, []source.Document{document("d.xml", 4)}
	})
	s.wantDocument("a.xml", 1) // a retired document stays recorded until it is removed
	s.wantExpired(made(1000), 1000, "a.xml", "b.xml")
	s.wantExpired(second.Made, 1000)
	s.wantExpired(made(1000), first.ID)
	s.publish("", func(p *source.Publication) { // b.xml is written and linked again
		p.Retired, p.Documents = []string{"a.xml"}, []source.Document{document("b.xml", 6)}
	})
	s.wantExpired(second.Made.Add(time.Second), 1000, "a.xml") // a.xml was retired twice, and the time of the first retirement counts
	s.must(s.Forget(s.t.Context(), "a.xml"))
	s.wantExpired(made(1000), 1000)
}

func (s *suite) items() {
	s.publish("", func(p *source.Publication) {
		p.Items = []source.Item{item(source.ItemChangeList, 100), item(source.ItemChangeList, 20), item(source.ItemResourceList, 3)}
	})
	s.publish("maps", func(p *source.Publication) { p.Items = []source.Item{item(source.ItemChangeList, 7)} })
	s.wantItems("", source.ItemChangeList, 0, 20, 100)
	s.wantItems("", source.ItemChangeList, 21, 100)
	s.wantItems("", source.ItemChangeList, 101)
	s.wantItems("", source.ItemResourceList, 3, 3)
	s.wantItems("maps", source.ItemChangeList, 0, 7)
	s.publish("", func(p *source.Publication) {
		closed := item(source.ItemChangeList, 100)
		closed.Entries = 42
		p.Items, p.Dropped = []source.Item{closed}, []source.ItemID{{Kind: source.ItemChangeList, Number: 20}, {Kind: source.ItemPackage, Number: 1}}
	})
	s.wantItems("", source.ItemChangeList, 0, 100)
	if got := collect(s, s.Items(s.t.Context(), "", source.ItemChangeList, 0)); got[0].Entries != 42 || !got[0].At.Equal(made(100)) {
		s.t.Errorf("got %+v", got[0])
	}
}

func (s *suite) sets() {
	p := s.begin("prints")
	s.must(s.Commit(s.t.Context(), p))
	s.wantSets()
	s.publish("maps", func(*source.Publication) {})
	s.publish("", func(*source.Publication) {})
	s.wantSets("", "maps")
	s.must(s.Done(s.t.Context(), p))
	s.wantSets("", "maps", "prints")
	next := s.begin("maps")
	s.must(s.Commit(s.t.Context(), next))
	s.wantSets("", "maps", "prints") // the set is listed, because an earlier publication of it is done
}

// twice calls Done twice, as Recover does after an interruption.
func (s *suite) twice() {
	s.publish("", func(p *source.Publication) {
		p.Documents = []source.Document{document("a.xml", 1)}
		p.Items = []source.Item{item(source.ItemChangeList, 1)}
	})
	p := s.publish("", func(p *source.Publication) {
		p.Documents, p.Retired = []source.Document{document("b.xml", 2)}, []string{"a.xml"}
		p.Items, p.Dropped = []source.Item{item(source.ItemChangeList, 2)}, []source.ItemID{{Kind: source.ItemChangeList, Number: 1}}
	})
	s.must(s.Done(s.t.Context(), p))
	s.wantLast("", p.ID, true)
	s.wantDocument("b.xml", 2)
	s.wantExpired(p.Made.Add(time.Second), p.ID, "a.xml")
	s.wantItems("", source.ItemChangeList, 0, 2)
}
