package spool

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"reflect"
)

var errClosed = errors.New("the spool is closed")

// logMemory is how many bytes of a log stay in memory; with more it makes a
// file, and writes it in pieces of that size.
const logMemory = 64 << 10

// Log is a sequence of records that is written once and read in order, any
// number of times. T is made of numbers, strings, slices, arrays, pointers and
// structs with exported fields only, and of types that marshal themselves as
// bytes or text. Several may read it at once, as long as nobody else uses it.
type Log[T any] struct {
	scratch scratch
	recent  []byte // not yet in the file
	record  []byte // the last one, for its space
	codec   *codec
	wrong   error // why T can't be kept
	added   int64
	closed  bool
}

// NewLog returns an empty log; beyond 64 KiB its records are in dir (default os.TempDir).
func NewLog[T any](dir string) *Log[T] {
	l := &Log[T]{scratch: newScratch(dir)}
	l.codec, l.wrong = codecs{}.of(reflect.TypeFor[T]())
	return l
}

// Append adds a record.
func (l *Log[T]) Append(record T) error {
	switch {
	case l.closed:
		return errClosed
	case l.wrong != nil:
		return l.wrong
	}
	b, err := l.codec.encode(l.record[:0], reflect.ValueOf(&record).Elem())
	if err != nil {
		return err
	}
	l.record = b
	before := len(l.recent)
	l.recent = append(binary.AppendUvarint(l.recent, uint64(len(b))), b...)
	if len(l.recent) >= logMemory {
		if err := l.scratch.write(l.recent); err != nil {
			l.recent = l.recent[:before]
			return err
		}
		l.recent = l.recent[:0]
	}
	l.added++
	return nil
}

// Len is the number of records.
func (l *Log[T]) Len() int64 { return l.added }

// All yields the records in the order of Append. It can be ranged over any number
// of times, but not while records are appended.
func (l *Log[T]) All() iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var zero T
		if l.closed {
			yield(zero, errClosed)
			return
		}
		var all io.Reader = bytes.NewReader(l.recent)
		if l.scratch.f != nil {
			all = io.MultiReader(l.scratch.section(0, l.scratch.size), all)
		}
		r := bufio.NewReaderSize(all, int(min(logMemory, l.scratch.size+int64(len(l.recent))+1)))
		var space []byte
		for range l.added {
			var record T
			var err error
			if space, err = l.read(r, space, &record); err != nil {
				yield(zero, fmt.Errorf("read back a %T: %w", record, err))
				return
			}
			if !yield(record, nil) {
				return
			}
		}
	}
}

// read reads one record by way of space, which it returns grown.
func (l *Log[T]) read(r *bufio.Reader, space []byte, record *T) ([]byte, error) {
	n, err := binary.ReadUvarint(r)
	if err != nil {
		return space, err
	}
	if n > uint64(l.scratch.size)+uint64(len(l.recent)) {
		return space, errSpoiled
	}
	if uint64(cap(space)) < n {
		space = make([]byte, n)
	}
	space = space[:n]
	if _, err := io.ReadFull(r, space); err != nil {
		return space, err
	}
	in := input{space}
	if err := l.codec.decode(&in, reflect.ValueOf(record).Elem()); err != nil {
		return space, err
	}
	if len(in.b) > 0 {
		return space, errSpoiled
	}
	return space, nil
}

// Close gives memory and file back.
func (l *Log[T]) Close() error {
	l.closed = true
	l.recent, l.record = nil, nil
	return l.scratch.close()
}
