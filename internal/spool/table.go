package spool

import (
	"errors"
	"iter"
)

// Table stores the last record of each key. The records must be of a type that a Log
// can store. It is not safe for concurrent use.
type Table[T any] struct {
	log   *Log[T]
	index *Index
	dir   string
	key   func(T) string
}

// NewTable returns an empty table of records with a key. Up to hold records are in
// memory unencoded; further records, and keys beyond 65,536, are in files in dir
// (default os.TempDir).
func NewTable[T any](dir string, hold int, key func(T) string) *Table[T] {
	return &Table[T]{log: NewLog[T](dir).Hold(hold), index: NewIndex(dir, 0), dir: dir, key: key}
}

// Put adds a record and replaces an earlier one with the same key.
func (t *Table[T]) Put(record T) error {
	p, err := t.log.AppendAt(record)
	if err != nil {
		return err
	}
	return t.index.Set(t.key(record), p)
}

// Get returns the record for a key; ok is false if there is none.
func (t *Table[T]) Get(k string) (record T, ok bool, err error) {
	p, ok, err := t.index.Get(k)
	if err != nil || !ok {
		return record, false, err
	}
	record, err = t.log.At(p)
	return record, err == nil, err
}

// Delete removes the record for a key.
func (t *Table[T]) Delete(k string) error { return t.index.Delete(k) }

// Len returns the number of records.
func (t *Table[T]) Len() int64 { return t.index.Len() }

// Sorted yields the records in ascending order of the text that by appends; records
// with the same text stay in the order of Put. No text may be a prefix of another. The
// table may change during the loop, which yields the records that existed when it
// began.
func (t *Table[T]) Sorted(by func(b []byte, record T) []byte) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		order := newOrder(t.dir)
		defer func() { _ = order.close() }() // opened only for reading
		if err := t.arrange(order, by); err != nil {
			var zero T
			yield(zero, err)
			return
		}
		inOrder(order, t.log)(yield)
	}
}

// arrange adds the texts of all records to an order.
func (t *Table[T]) arrange(o *order, by func(b []byte, record T) []byte) (err error) {
	failed := t.log.each(func(p Place, record T) bool {
		var last Place
		var ok bool
		if last, ok, err = t.index.Get(t.key(record)); err != nil || !ok || last != p {
			return err == nil
		}
		err = o.add(by(o.key[:0], record), p)
		return err == nil
	})
	return errors.Join(failed, err)
}

// Close releases the memory and the files.
func (t *Table[T]) Close() error { return errors.Join(t.log.Close(), t.index.Close()) }
