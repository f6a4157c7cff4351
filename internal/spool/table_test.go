package spool

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// note is a record of a Table.
type note struct {
	Name string
	Rank int
	Text string
}

func (n note) key() string { return n.Name }

// ranked sorts notes by a digit.
func ranked(b []byte, n note) []byte { return append(b, byte('0'+n.Rank)) }

// A Table is what a map and a slice are, wherever its records and places lie.
func TestTableKeepsTheLastRecordOfEachKey(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		s := NewTable(dir, rapid.IntRange(0, 30).Draw(t, "hold"), note.key)
		s.index.limit = rapid.IntRange(1, 30).Draw(t, "keys in memory")
		defer s.Close()
		var model []note // in the order of Put
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			name := fmt.Sprint(rapid.IntRange(0, 90).Draw(t, "name"))
			before := slices.IndexFunc(model, func(n note) bool { return n.Name == name })
			got, ok, err := s.Get(name)
			if err != nil || ok != (before >= 0) || ok && got != model[before] {
				t.Fatalf("%q: got %v, %t, %v, want that of %v", name, got, ok, err, model)
			}
			if before >= 0 {
				model = slices.Delete(model, before, before+1)
			}
			if rapid.IntRange(0, 5).Draw(t, "delete") == 0 {
				err = s.Delete(name)
			} else {
				n := note{name, rapid.IntRange(0, 9).Draw(t, "rank"), strings.Repeat("x", rapid.IntRange(0, 100).Draw(t, "length"))}
				model = append(model, n)
				err = s.Put(n)
			}
			if err != nil || s.Len() != int64(len(model)) {
				t.Fatalf("got %d records, %v, want %d", s.Len(), err, len(model))
			}
		}
		slices.SortStableFunc(model, func(a, b note) int { return a.Rank - b.Rank })
		for range 2 {
			var got []note
			for n, err := range s.Sorted(ranked) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, n)
			}
			if !slices.Equal(got, model) {
				t.Fatal(cmp.Diff(got, model))
			}
		}
	})
}

// An Index of many keys makes its file larger as they come, and finds all of them.
func TestIndexOfManyKeys(t *testing.T) {
	const n = 20_000
	x := NewIndex(t.TempDir(), 100)
	defer x.Close()
	for i := range n {
		if err := errors.Join(x.Set(fmt.Sprint(i), Place{int64(i), 1}), x.Set(fmt.Sprint(i/2), Place{int64(i / 2), 2})); err != nil {
			t.Fatal(err)
		}
	}
	for i := 0; i < n; i += 3 {
		if err := x.Delete(fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range n + 100 {
		p, ok, err := x.Get(fmt.Sprint(i))
		want := Place{int64(i), 1}
		if i < n/2 {
			want.Length = 2
		}
		if there := i < n && i%3 != 0; err != nil || ok != there || ok && p != want {
			t.Fatalf("%d: got %v, %t, %v, want %v, %t", i, p, ok, err, want, there)
		}
	}
	if got, want := x.Len(), int64(n-(n+2)/3); got != want {
		t.Errorf("got %d keys, want %d", got, want)
	}
}

// Where the disk fails Put says so, and what was there is there.
func TestTableOnADiskThatFails(t *testing.T) {
	for fail := 1; fail <= 120; fail++ {
		dir := t.TempDir()
		s := NewTable(dir, 0, note.key)
		s.index.limit = 5
		s.index.scratch = faultyScratch(dir, nth(fail), never)
		failed := 0
		for i := range 30 {
			if err := s.Put(note{Name: fmt.Sprint(i)}); err != nil {
				failed++
				if !errors.Is(err, errDisk) || !strings.Contains(err.Error(), dir) {
					t.Errorf("write %d fails: got %v, want the disk's error with the directory", fail, err)
				}
				if err = s.Put(note{Name: fmt.Sprint(i)}); err != nil {
					t.Errorf("write %d fails: once more: %v", fail, err)
				}
			}
		}
		n := 0
		for _, err := range s.Sorted(ranked) {
			if n++; err != nil {
				t.Fatal(err)
			}
		}
		if n != 30 || failed > 1 {
			t.Errorf("write %d fails: %d errors and %d records, want at most 1 and 30", fail, failed, n)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if left, err := os.ReadDir(dir); len(left) > 0 || err != nil {
			t.Errorf("after Close: %v, %v, want nothing left", left, err)
		}
	}
}

func TestTableOnADiskThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	s := NewTable(dir, 0, note.key)
	s.index.limit = 5
	broken := false
	s.index.scratch = faultyScratch(dir, never, func() bool { return broken })
	for i := range 30 {
		if err := s.Put(note{Name: fmt.Sprint(i)}); err != nil {
			t.Fatal(err)
		}
	}
	broken = true
	_, _, err := s.Get("7")
	for what, err := range map[string]error{"Get": err, "Put": s.Put(note{Name: "7"}), "Delete": s.Delete("7")} {
		if !errors.Is(err, errDisk) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: got %v, want the disk's error with the directory", what, err)
		}
	}
	for _, err = range s.Sorted(ranked) {
		break
	}
	if !errors.Is(err, errDisk) {
		t.Errorf("Sorted: got %v, want the disk's error", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, _, err := s.Get("7"); !errors.Is(err, errClosed) {
		t.Errorf("after Close: got %v, want %v", err, errClosed)
	}
}

// A Sorter yields every record once, by its text and then in the order of Append, as often as it
// is asked.
func TestSorterYieldsByText(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		s := NewSorter[note](dir)
		s.order.keys.budget = rapid.IntRange(1, 2000).Draw(t, "bytes in memory")
		defer s.Close()
		var model []note
		for i, name := range rapid.SliceOf(rapid.StringMatching(`[a-c/]{0,6}`)).Draw(t, "texts") {
			n := note{Name: name, Rank: i, Text: strings.Repeat("x", i)}
			if err := s.Append(name+"\x00", n); err != nil {
				t.Fatal(err)
			}
			model = append(model, n)
		}
		slices.SortStableFunc(model, func(a, b note) int { return strings.Compare(a.Name, b.Name) })
		for range 2 {
			var got []note
			for n, err := range s.All() {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, n)
			}
			if diff := cmp.Diff(model, got); diff != "" {
				t.Fatal(diff)
			}
		}
	})
}
