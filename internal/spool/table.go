package spool

import (
	"errors"
	"iter"
)

// Table keeps the last record of each key, which a Log of such records can hold. It is not safe for
// concurrent use.
type Table[T any] struct {
	log   *Log[T]
	index *Index
	dir   string
	key   func(T) string
}

// NewTable returns an empty table of records with a key. Up to hold records are in memory as they
// are; the others, and more than 65,536 keys, are in dir (default os.TempDir).
func NewTable[T any](dir string, hold int, key func(T) string) *Table[T] {
	return &Table[T]{log: NewLog[T](dir).Hold(hold), index: NewIndex(dir, 0), dir: dir, key: key}
}

// Put adds a record, in place of an earlier one of its key.
func (t *Table[T]) Put(record T) error {
	p, err := t.log.AppendAt(record)
	if err != nil {
		return err
	}
	return t.index.Set(t.key(record), p)
}

// Get returns the record of a key; ok is false if there is none.
func (t *Table[T]) Get(k string) (record T, ok bool, err error) {
	p, ok, err := t.index.Get(k)
	if err != nil || !ok {
		return record, false, err
	}
	record, err = t.log.At(p)
	return record, err == nil, err
}

// Delete takes out the record of a key.
func (t *Table[T]) Delete(k string) error { return t.index.Delete(k) }

// Len is the number of records.
func (t *Table[T]) Len() int64 { return t.index.Len() }

// Sorted yields the records in ascending order of the text that by appends, which is the beginning of
// no other, and those of the same text in the order of Put. The table may change meanwhile: these are the records of the moment
// when the first is asked for.
func (t *Table[T]) Sorted(by func(b []byte, record T) []byte) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		order := newOrder(t.dir)
		defer func() { _ = order.close() }() // it was only read
		if err := t.arrange(order, by); err != nil {
			var zero T
			yield(zero, err)
			return
		}
		inOrder(order, t.log)(yield)
	}
}

// arrange adds the text of each record to order.
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

// Close gives memory and files back.
func (t *Table[T]) Close() error { return errors.Join(t.log.Close(), t.index.Close()) }
