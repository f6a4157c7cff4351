package resourcesync

import (
	"fmt"
	"iter"
)

// NoteTally collects the notes of a Decoder by kind, so that a document with the same
// deviation in each entry is reported once. Its memory does not grow with the document. The
// zero value is empty.
//
//	var tally NoteTally
//	dec := NewDecoder(r, WithNotes(tally.Take))
type NoteTally struct {
	kinds []noteCount
	index map[noteKind]int
}

// noteKind identifies notes of the same kind: same quirk and rule, of which there are
// few.
type noteKind struct {
	quirk Quirk
	rule  string
	legal bool
}

type noteCount struct {
	first Note
	n     int
}

// Take adds a note.
func (t *NoteTally) Take(n Note) {
	kind := noteKind{n.Quirk, n.Rule, n.Legal}
	i, known := t.index[kind]
	if !known {
		if t.index == nil {
			t.index = map[noteKind]int{}
		}
		i = len(t.kinds)
		t.index[kind] = i
		t.kinds = append(t.kinds, noteCount{first: n})
	}
	t.kinds[i].n++
}

// All yields the first note of each kind and the number of notes of that kind, in the
// order of their first occurrence.
func (t *NoteTally) All() iter.Seq2[Note, int] {
	return func(yield func(Note, int) bool) {
		for _, k := range t.kinds {
			if !yield(k.first, k.n) {
				return
			}
		}
	}
}

// Repeated returns the message of a note that occurred the given number of times.
func (n Note) Repeated(times int) string {
	if times < 2 {
		return n.Msg
	}
	return fmt.Sprintf("%s (and %d more like it)", n.Msg, times-1)
}
