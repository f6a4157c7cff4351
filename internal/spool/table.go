package spool

import (
	"errors"
	"iter"
)

// Table stores the last record of each key. A Log must be able to store the type of the
// records. It is not safe for concurrent use.
type Table[T any] struct {
	log   *Log[T]
	index *Index
	dir   string
	key   func(T) string
}

// NewTable returns an empty table. The function key returns the key of a record. The first
// hold records and up to 65,536 keys are in memory, and the rest are in files in the
// directory dir (default os.TempDir).
func NewTable[T any](dir string, hold int, key func(T) string) *Table[T] {
	return &Table[T]{log: NewLog[T](dir).Hold(hold), index: NewIndex(dir, 0), dir: dir, key: key}
}

// Put adds a record. It replaces an earlier record with the same key.
func (t *Table[T]) Put(record T) error {
	p, err := t.log.AppendAt(record)
	if err != nil {
		return err
	}
	return t.index.Set(t.key(record), p)
}

// Get returns the record of a key. ok is false if the key has no record.
func (t *Table[T]) Get(k string) (record T, ok bool, err error) {
	p, ok, err := t.index.Get(k)
	if err != nil || !ok {
		return record, false, err
	}
	record, err = t.log.At(p)
	return record, err == nil, err
}

// Delete removes the record of a key.
func (t *Table[T]) Delete(k string) error { return t.index.Delete(k) }

// Len returns the number of records.
func (t *Table[T]) Len() int64 { return t.index.Len() }

// Sorted yields the records in ascending order of a text, and records with the same text in
// the order in which they were put. appendText appends the text of a record to a buffer. No
// text may be a prefix of another text. The table may change during the loop: Sorted yields
// the records that existed when the loop began.
func (t *Table[T]) Sorted(appendText func(b []byte, record T) []byte) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		order := newOrder(t.dir)
		defer func() { _ = order.close() }() // the error is ignored because the order is only read
		if err := t.arrange(order, appendText); err != nil {
			var zero T
			yield(zero, err)
			return
		}
		inOrder(order, t.log)(yield)
	}
}

// arrange adds the last record of each key to an order.
func (t *Table[T]) arrange(o *order, appendText func(b []byte, record T) []byte) (err error) {
	failed := t.log.each(func(p Place, record T) bool {
		var last Place
		var ok bool
		if last, ok, err = t.index.Get(t.key(record)); err != nil || !ok || last != p {
			return err == nil
		}
		err = o.add(appendText(o.key[:0], record), p)
		return err == nil
	})
	return errors.Join(failed, err)
}

// Close releases the memory and the files.
func (t *Table[T]) Close() error { return errors.Join(t.log.Close(), t.index.Close()) }
