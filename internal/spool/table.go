package spool

import (
	"errors"
	"iter"
)

// Table stores the last record that was added for each key. The type of the records
// must be one that a Log can store. A Table is not safe for concurrent use.
type Table[T any] struct {
	log   *Log[T]
	index *Index
	dir   string
	key   func(T) string
}

// NewTable returns an empty Table. The function key returns the key of a record. The
// first inMemory records and up to 65,536 keys are in memory. The rest is stored in
// files in the directory dir (default os.TempDir).
func NewTable[T any](dir string, inMemory int, key func(T) string) *Table[T] {
	return &Table[T]{log: NewLog[T](dir).Hold(inMemory), index: NewIndex(dir, 0), dir: dir, key: key}
}

// Put adds a record. An earlier record with the same key is replaced.
func (t *Table[T]) Put(record T) error {
	p, err := t.log.AppendAt(record)
	if err != nil {
		return err
	}
	return t.index.Set(t.key(record), p)
}

// Get returns the record with the given key, or ok=false if there is none.
func (t *Table[T]) Get(k string) (record T, ok bool, err error) {
	p, ok, err := t.index.Get(k)
	if err != nil || !ok {
		return record, false, err
	}
	record, err = t.log.At(p)
	return record, err == nil, err
}

// Delete removes the record with the given key.
func (t *Table[T]) Delete(k string) error { return t.index.Delete(k) }

// Len returns the number of records.
func (t *Table[T]) Len() int64 { return t.index.Len() }

// Sorted yields the records in ascending order of their texts, which appendText appends
// to a buffer. No text may be the beginning of a different text. Records with equal
// texts are in the order in which they were put. The Table may be changed during the
// loop: Sorted yields the records that were there when the loop began.
func (t *Table[T]) Sorted(appendText func(b []byte, record T) []byte) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		order := newOrder(t.dir)
		defer func() { _ = order.close() }() // the error is ignored: the results are complete even if a temporary file remains
		if err := t.arrange(order, appendText); err != nil {
			var zero T
			yield(zero, err)
			return
		}
		inOrder(order, t.log)(yield)
	}
}

// arrange adds the last record of each key to o, with the text by which it is sorted.
func (t *Table[T]) arrange(o *order, appendText func(b []byte, record T) []byte) (err error) {
	failed := t.log.visit(func(p Place, record T) bool {
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

// Close releases the memory of the Table and deletes its temporary files.
func (t *Table[T]) Close() error { return errors.Join(t.log.Close(), t.index.Close()) }
