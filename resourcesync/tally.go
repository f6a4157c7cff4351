package resourcesync

import (
	"fmt"
	"iter"
	"slices"
)

// NoteTally collects the notes of a Decoder by kind, so that a document with the same
// deviation in each entry is reported once. Its memory does not grow with the document. The
// zero value is empty.
//
//	var tally NoteTally
//	dec := NewDecoder(r, WithNotes(tally.Take))
type NoteTally struct{ kinds []noteCount }

type noteCount struct {
	first Note
	n     int
}

// Take adds a note to the tally.
func (t *NoteTally) Take(n Note) {
	i := slices.IndexFunc(t.kinds, func(k noteCount) bool {
		return k.first.Quirk == n.Quirk && k.first.Rule == n.Rule && k.first.Legal == n.Legal
	})
	if i < 0 {
		i = len(t.kinds)
		t.kinds = append(t.kinds, noteCount{first: n})
	}
	t.kinds[i].n++
}

// All yields the first note of each kind and the number of notes of that kind, in the
// order of the first notes.
func (t *NoteTally) All() iter.Seq2[Note, int] {
	return func(yield func(Note, int) bool) {
		for _, k := range t.kinds {
			if !yield(k.first, k.n) {
				return
			}
		}
	}
}

// Repeated returns a message for a note that occurred the given number of times. If it
// occurred more than once, the message says how often it was repeated.
func (n Note) Repeated(times int) string {
	if times < 2 {
		return n.Msg
	}
	return fmt.Sprintf("%s (and %d more like it)", n.Msg, times-1)
}
