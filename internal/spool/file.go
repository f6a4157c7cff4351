package spool

import (
	"errors"
	"fmt"
	"io"
	"slices"
)

// fileMemory is the number of bytes that a File may hold in memory. A File with more
// bytes is stored completely on disk.
const fileMemory = 1 << 20

// ErrLimit means that a write would have made a File longer than its limit.
var ErrLimit = errors.New("too many bytes")

// File stores bytes that are written once and can be read many times. Only one
// goroutine may write. After the last write any number of goroutines may read at the
// same time.
type File struct {
	scratch scratch
	recent  []byte // all bytes of the File, as long as they are in memory
	size    int64
	limit   int64
	closed  bool
}

// NewFile returns an empty File for at most limit bytes, or for any number of bytes if
// limit is 0. A File of more than 1 MiB is stored in the directory dir (default
// os.TempDir).
func NewFile(dir string, limit int64) *File {
	return &File{scratch: newScratch(dir), limit: limit}
}

// Grow reserves memory for n more bytes, unless the File would have to be stored on
// disk. Calling it is optional, since Write reserves memory too.
func (f *File) Grow(n int64) {
	if room := int64(fileMemory - len(f.recent)); n > 0 && n <= room && f.scratch.f == nil {
		f.recent = slices.Grow(f.recent, int(n))
	}
}

// Write appends p to the File. If the File would become longer than its limit, Write
// appends nothing and returns an error that wraps ErrLimit.
func (f *File) Write(p []byte) (int, error) {
	if f.closed {
		return 0, errClosed
	}
	if f.limit > 0 && int64(len(p)) > f.limit-f.size {
		return 0, fmt.Errorf("%w: expected at most %d", ErrLimit, f.limit)
	}
	if err := f.append(p); err != nil {
		return 0, err
	}
	f.size += int64(len(p))
	return len(p), nil
}

func (f *File) append(p []byte) error {
	if f.scratch.f != nil {
		return f.scratch.write(p)
	}
	if len(f.recent)+len(p) <= fileMemory {
		f.recent = append(f.recent, p...)
		return nil
	}
	if err := f.scratch.write(f.recent); err != nil {
		return errors.Join(err, f.scratch.close())
	}
	if err := f.scratch.write(p); err != nil {
		return errors.Join(err, f.scratch.close())
	}
	f.recent = nil
	return nil
}

// Len returns the number of bytes that were written.
func (f *File) Len() int64 { return f.size }

// ReadAt implements io.ReaderAt.
func (f *File) ReadAt(p []byte, off int64) (int, error) {
	switch {
	case f.closed:
		return 0, errClosed
	case off < 0:
		return 0, fmt.Errorf("read at %d: the offset is negative", off)
	case off >= f.size:
		return 0, io.EOF
	case f.scratch.f == nil:
		n := copy(p, f.recent[off:])
		if n < len(p) {
			return n, io.EOF
		}
		return n, nil
	}
	n, err := f.scratch.ReadAt(p[:min(int64(len(p)), f.size-off)], off)
	if err == nil && n < len(p) {
		err = io.EOF
	}
	return n, err
}

// Reader returns a reader of the whole File, from its first byte.
func (f *File) Reader() *io.SectionReader { return io.NewSectionReader(f, 0, f.size) }

// Close releases the memory of the File and deletes its temporary file.
func (f *File) Close() error {
	f.closed = true
	f.recent = nil
	return f.scratch.close()
}
