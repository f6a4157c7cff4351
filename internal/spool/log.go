package spool

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
)

var errClosed = errors.New("the spool is closed")

// logMemory is how many bytes of a log stay in memory; with more it makes a
// file, and writes it in pieces of that size.
const logMemory = 64 << 10

// Log is a sequence of records that is written once and read in order, any
// number of times. Records are kept as JSON, so T must survive a round trip
// through encoding/json. It is not safe for concurrent use.
type Log[T any] struct {
	scratch scratch
	recent  bytes.Buffer
	encode  *json.Encoder
	added   int64
	closed  bool
}

// NewLog returns an empty log; beyond 64 KiB its records are in dir (default os.TempDir).
func NewLog[T any](dir string) *Log[T] {
	l := &Log[T]{scratch: newScratch(dir)}
	l.encode = json.NewEncoder(&l.recent)
	l.encode.SetEscapeHTML(false)
	return l
}

// Append adds a record.
func (l *Log[T]) Append(record T) error {
	if l.closed {
		return errClosed
	}
	before := l.recent.Len()
	if err := l.encode.Encode(record); err != nil {
		l.recent.Truncate(before)
		return fmt.Errorf("keep a %T for later: %w", record, err)
	}
	if invalidUTF8(l.recent.Bytes()[before:]) {
		l.recent.Truncate(before)
		return fmt.Errorf("keep a %T for later: a string in it is not UTF-8", record)
	}
	if l.recent.Len() >= logMemory {
		if err := l.scratch.write(l.recent.Bytes()); err != nil {
			l.recent.Truncate(before)
			return err
		}
		l.recent.Reset()
	}
	l.added++
	return nil
}

// invalidUTF8 reports whether encoding/json replaced bytes that are not UTF-8: it
// escapes the replacement it puts in, and only that.
func invalidUTF8(encoded []byte) bool {
	mark := []byte(`\ufffd`)
	for {
		i := bytes.Index(encoded, mark)
		if i < 0 {
			return false
		}
		backslashes := len(encoded[:i]) - len(bytes.TrimRight(encoded[:i], `\`))
		if backslashes%2 == 0 {
			return true
		}
		encoded = encoded[i+len(mark):]
	}
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
		var r io.Reader = bytes.NewReader(l.recent.Bytes())
		if l.scratch.f != nil {
			r = io.MultiReader(l.scratch.section(0, l.scratch.size), r)
		}
		d := json.NewDecoder(bufio.NewReaderSize(r, logMemory))
		for range l.added {
			var record T
			if err := d.Decode(&record); err != nil {
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
