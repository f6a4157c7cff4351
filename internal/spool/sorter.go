package spool

import (
	"encoding/binary"
	"errors"
	"iter"
)

// sortBudget is the memory in bytes for the texts by which an order sorts.
const sortBudget = 4 << 20

// order sorts records of a log by texts. It stores only the texts and the places of the
// records.
type order struct {
	keys *Keys
	n    uint64
	key  []byte // buffer for the text and the place of a record
}

func newOrder(dir string) *order { return &order{keys: NewKeys(dir, sortBudget)} }

// add adds a record to the order. The caller must have appended the text to o.key[:0],
// because a new buffer for each record would take half as much memory again for a million
// records.
func (o *order) add(text []byte, p Place) error {
	text = binary.BigEndian.AppendUint64(text, o.n)
	text = binary.BigEndian.AppendUint64(text, uint64(p.Offset))
	o.key = binary.BigEndian.AppendUint32(text, uint32(p.Length))
	o.n++
	return o.keys.Add(Key(o.key))
}

// placeSize is the number of bytes that add appends to the text of a record: a number and
// the place.
const placeSize = 20

func placeOf(k Key) Place {
	b := []byte(k[len(k)-placeSize:])
	return Place{int64(binary.BigEndian.Uint64(b[8:])), int32(binary.BigEndian.Uint32(b[16:]))}
}

func (o *order) close() error { return o.keys.Close() }

// inOrder yields the records of a log, sorted by the given order.
func inOrder[T any](o *order, log *Log[T]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for k, err := range o.keys.Sorted() {
			var record T
			if err == nil {
				record, err = log.At(placeOf(k))
			}
			if !yield(record, err) || err != nil {
				return
			}
		}
	}
}

// Sorter stores records and yields them sorted. It is not safe for concurrent use.
type Sorter[T any] struct {
	log   *Log[T]
	order *order
}

// NewSorter returns an empty Sorter. It holds 64 KiB of records and 4 MiB of their texts in
// memory, and the rest in files in the directory dir (default os.TempDir).
func NewSorter[T any](dir string) *Sorter[T] { return &Sorter[T]{NewLog[T](dir), newOrder(dir)} }

// Append adds a record with the text by which the record is sorted. No text may be a prefix
// of another text.
func (s *Sorter[T]) Append(text string, record T) error {
	p, err := s.log.AppendAt(record)
	if err != nil {
		return err
	}
	return s.order.add(append(s.order.key[:0], text...), p)
}

// All yields the records in ascending order of their texts, and records with the same text
// in the order in which they were appended. A loop over All may be repeated, but no record
// may be appended during a loop.
func (s *Sorter[T]) All() iter.Seq2[T, error] { return inOrder(s.order, s.log) }

// Close releases the memory and the files.
func (s *Sorter[T]) Close() error { return errors.Join(s.log.Close(), s.order.close()) }
