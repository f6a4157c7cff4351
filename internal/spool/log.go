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

// logMemory is the number of bytes of encoded records that a Log holds in memory. When
// there are more, they are written to a file.
const logMemory = 64 << 10

// Log is a sequence of records that are written once and read in order any number of times.
// Records are stored as CBOR (RFC 8949), so T may consist of numbers, strings, slices,
// arrays, pointers, structs with exported fields only, and types that marshal themselves as
// bytes or text. Several goroutines may read a Log at once, as long as none writes.
type Log[T any] struct {
	scratch scratch
	first   []T          // the first records, which stay in memory and are not encoded
	hold    int          // the number of records that Hold keeps in memory
	recent  bytes.Buffer // encoded records that have not been written to the file yet
	wrong   error        // the reason why a Log cannot store values of type T; nil if it can
	added   int64
	closed  bool
}

// Options of the CBOR encoding: strings can have bytes that are not UTF-8, and times
// keep their nanoseconds.
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
		panic(err) // cannot happen: the options are constant
	}
	return v
}

// NewLog returns an empty log. The records of a log of more than 64 KiB are stored in a
// file in the directory dir (default os.TempDir).
func NewLog[T any](dir string) *Log[T] {
	return &Log[T]{scratch: newScratch(dir), wrong: lossless(reflect.TypeFor[T](), map[reflect.Type]bool{})}
}

// Hold makes the log keep its first n records in memory without encoding them, so that a
// short log is fast. It must be called before the first Append.
func (l *Log[T]) Hold(n int) *Log[T] {
	l.hold = n
	return l
}

// Place is the position of a record in a Log.
type Place struct {
	Offset int64 // the offset of the record in bytes, or the index of a record that Hold keeps in memory
	Length int32 // the length of the record in bytes; 0 for a record that Hold keeps in memory
}

// Append adds a record at the end of the log.
func (l *Log[T]) Append(record T) error {
	_, err := l.AppendAt(record)
	return err
}

// AppendAt adds a record at the end of the log and returns its position, with which At
// can read it.
func (l *Log[T]) AppendAt(record T) (p Place, err error) {
	switch {
	case l.closed:
		return p, errClosed
	case l.wrong != nil:
		return p, l.wrong
	case len(l.first) < l.hold:
		l.first = append(l.first, record)
		l.added++
		return Place{Offset: int64(len(l.first) - 1)}, nil
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

// At returns the record at a position that AppendAt returned. It reads the file at most
// once. At may be called between calls of AppendAt.
func (l *Log[T]) At(p Place) (record T, err error) {
	if l.closed {
		return record, errClosed
	}
	if p.Length == 0 {
		return l.first[p.Offset], nil
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

// Len returns the number of records.
func (l *Log[T]) Len() int64 { return l.added }

// All yields the records in the order in which they were appended. A loop over All may be
// repeated, but no record may be appended during a loop.
func (l *Log[T]) All() iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		if err := l.visit(func(_ Place, record T) bool { return yield(record, nil) }); err != nil {
			var zero T
			yield(zero, err)
		}
	}
}

// visit calls take with every record and its position, in order, until take returns
// false.
func (l *Log[T]) visit(take func(Place, T) bool) error {
	if l.closed {
		return errClosed
	}
	for i, record := range l.first {
		if !take(Place{Offset: int64(i)}, record) {
			return nil
		}
	}
	var all io.Reader = bytes.NewReader(l.recent.Bytes())
	if l.scratch.f != nil {
		all = io.MultiReader(l.scratch.section(0, l.scratch.size), all)
	}
	records := decode.NewDecoder(bufio.NewReaderSize(all, int(min(logMemory, l.scratch.size+int64(l.recent.Len())+1))))
	for range l.added - int64(len(l.first)) {
		var record T
		p := Place{Offset: int64(records.NumBytesRead())}
		if err := records.Decode(&record); err != nil {
			return fmt.Errorf("read back a %T: %w", record, err)
		}
		p.Length = int32(int64(records.NumBytesRead()) - p.Offset)
		if !take(p, record) {
			return nil
		}
	}
	return nil
}

// Close releases the memory of the log and deletes its temporary file.
func (l *Log[T]) Close() error {
	l.closed = true
	l.first, l.recent = nil, bytes.Buffer{}
	return l.scratch.close()
}
