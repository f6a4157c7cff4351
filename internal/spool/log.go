package spool

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"reflect"

	"github.com/fxamacker/cbor/v2"
)

var errClosed = errors.New("the spool is closed")

// logMemory is how many bytes of a log stay in memory; with more it makes a
// file, and writes it in pieces of that size.
const logMemory = 64 << 10

// Log is a sequence of records that is written once and read in order, any number of times.
// Records are stored as CBOR (RFC 8949): T consists of numbers, strings, slices, arrays,
// pointers and structs with exported fields only, and of types that marshal themselves as
// bytes or text. Several goroutines may read it at once, while none writes.
type Log[T any] struct {
	scratch scratch
	recent  bytes.Buffer // not yet in the file
	wrong   error        // why T can't be kept
	added   int64
	closed  bool
}

// Strings need not be UTF-8, and times keep their nanoseconds.
var (
	encode = must(cbor.EncOptions{
		Time: cbor.TimeRFC3339Nano, TextMarshaler: cbor.TextMarshalerTextString, NilContainers: cbor.NilContainerAsNull,
	}.EncMode())
	decode = must(cbor.DecOptions{
		UTF8: cbor.UTF8DecodeInvalid, TextUnmarshaler: cbor.TextUnmarshalerTextString, MaxArrayElements: 1<<31 - 1, MaxMapPairs: 1<<31 - 1,
	}.DecMode())
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err) // the options are constant
	}
	return v
}

// NewLog returns an empty log; beyond 64 KiB its records are in dir (default os.TempDir).
func NewLog[T any](dir string) *Log[T] {
	return &Log[T]{scratch: newScratch(dir), wrong: lossless(reflect.TypeFor[T](), map[reflect.Type]bool{})}
}

// Place is where a record of a Log is.
type Place struct {
	Offset int64
	Length int32
}

// Append adds a record.
func (l *Log[T]) Append(record T) error {
	_, err := l.AppendAt(record)
	return err
}

// AppendAt adds a record, and returns its place for At.
func (l *Log[T]) AppendAt(record T) (p Place, err error) {
	switch {
	case l.closed:
		return p, errClosed
	case l.wrong != nil:
		return p, l.wrong
	}
	before := l.recent.Len()
	if err := encode.NewEncoder(&l.recent).Encode(&record); err != nil {
		l.recent.Truncate(before)
		return p, err
	}
	p = Place{l.scratch.size + int64(before), int32(l.recent.Len() - before)}
	if l.recent.Len() >= logMemory {
		if err := l.scratch.write(l.recent.Bytes()); err != nil {
			l.recent.Truncate(before)
			return p, err
		}
		l.recent.Reset()
	}
	l.added++
	return p, nil
}

// At returns the record at a place that AppendAt returned. It may be called between calls
// of AppendAt, and reads the file at most once.
func (l *Log[T]) At(p Place) (record T, err error) {
	if l.closed {
		return record, errClosed
	}
	text := make([]byte, p.Length)
	if p.Offset < l.scratch.size {
		_, err = io.ReadFull(l.scratch.section(p.Offset, int64(p.Length)), text)
	} else {
		copy(text, l.recent.Bytes()[p.Offset-l.scratch.size:])
	}
	if err == nil {
		err = decode.Unmarshal(text, &record)
	}
	if err != nil {
		err = fmt.Errorf("read back a %T: %w", record, err)
	}
	return record, err
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
		var all io.Reader = bytes.NewReader(l.recent.Bytes())
		if l.scratch.f != nil {
			all = io.MultiReader(l.scratch.section(0, l.scratch.size), all)
		}
		records := decode.NewDecoder(bufio.NewReaderSize(all, int(min(logMemory, l.scratch.size+int64(l.recent.Len())+1))))
		for range l.added {
			var record T
			if err := records.Decode(&record); err != nil {
				yield(zero, fmt.Errorf("read back a %T: %w", record, err))
				return
			}
			if !yield(record, nil) {
				return
			}
		}
	}
}

// Close gives memory and file back.
func (l *Log[T]) Close() error {
	l.closed = true
	l.recent = bytes.Buffer{}
	return l.scratch.close()
}
