package spool

import (
	"encoding/binary"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func keyOf(n int) (k Key) {
	binary.BigEndian.PutUint64(k[:], uint64(n))
	return k
}

func TestKeysAreTheSortedSetOfWhatWasAdded(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		s := NewKeys(dir, rapid.IntRange(1, 7).Draw(t, "budget"))
		defer s.Close()
		model := map[Key]bool{}
		for round := range rapid.IntRange(1, 3).Draw(t, "rounds") {
			for _, n := range rapid.SliceOfN(rapid.IntRange(0, 40), 0, 60).Draw(t, "added") {
				if err := s.Add(keyOf(n)); err != nil {
					t.Fatal(err)
				}
				model[keyOf(n)] = true
			}
			var want []Key
			for k := range model {
				want = append(want, k)
			}
			slices.SortFunc(want, compareKeys)
			for range 2 {
				var got []Key
				for k, err := range s.Sorted() {
					if err != nil {
						t.Fatal(err)
					}
					got = append(got, k)
				}
				if !slices.Equal(got, want) {
					t.Fatalf("round %d: got %x, want %x", round, got, want)
				}
			}
		}
	})
}

// scattered is a key that looks like a hash of n.
func scattered(n int) (k Key) {
	binary.BigEndian.PutUint64(k[:], uint64(n)*0x9E3779B97F4A7C15)
	binary.BigEndian.PutUint64(k[8:], uint64(n))
	return k
}
