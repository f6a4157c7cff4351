package spool

import (
	"encoding/binary"
	"errors"
	"iter"
)

// sortBudget is the memory, in bytes, for the texts by which records are sorted.
const sortBudget = 4 << 20

// An order sorts the records of a log by the texts that are added with them. It stores
// the texts and the positions of the records, not the records themselves.
type order struct {
	keys *Keys
	n    uint64
	key  []byte // a buffer for the text of a record and its position
}

func newOrder(dir string) *order { return &order{keys: NewKeys(dir, sortBudget)} }

// add adds a record that is at the given position of the log and is sorted by the given
// text. The caller writes the text into the buffer in the field key, because a new
// buffer for each record would increase the memory for sorting by half.
func (o *order) add(text []byte, p Place) error {
	text = binary.BigEndian.AppendUint64(text, o.n)
	text = binary.BigEndian.AppendUint64(text, uint64(p.Offset))
	o.key = binary.BigEndian.AppendUint32(text, uint32(p.Length))
	o.n++
	return o.keys.Add(Key(o.key))
}

// placeSize is the number of bytes that add appends to the text of a record: a serial
// number and the position of the record.
const placeSize = 20

func placeOf(k Key) Place {
	b := []byte(k[len(k)-placeSize:])
	return Place{int64(binary.BigEndian.Uint64(b[8:])), int32(binary.BigEndian.Uint32(b[16:]))}
}

func (o *order) close() error { return o.keys.Close() }

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

// Sorter collects records and yields them in sorted order. It is not safe for
// concurrent use.
type Sorter[T any] struct {
	log   *Log[T]
	order *order
}

// NewSorter returns an empty Sorter. It holds 64 KiB of records, and 4 MiB of the texts
// by which they are sorted, in memory. The rest is stored in files in the directory dir
// (default os.TempDir).
func NewSorter[T any](dir string) *Sorter[T] { return &Sorter[T]{NewLog[T](dir), newOrder(dir)} }

// Append adds a record with the text by which it is sorted. The text must not be a
// prefix of another record's text, unless both texts are equal.
func (s *Sorter[T]) Append(text string, record T) error {
	p, err := s.log.AppendAt(record)
	if err != nil {
		return err
	}
	return s.order.add(append(s.order.key[:0], text...), p)
}

// All yields the records in ascending order of the texts that were passed with them.
// Records with equal texts stay in the order in which they were appended. A loop over All
// may be repeated, but no record may be appended during a loop.
func (s *Sorter[T]) All() iter.Seq2[T, error] { return inOrder(s.order, s.log) }

// Close releases the memory of the Sorter and deletes its temporary files.
func (s *Sorter[T]) Close() error { return errors.Join(s.log.Close(), s.order.close()) }
