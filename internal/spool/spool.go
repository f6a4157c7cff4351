// Package spool stores long sequences in temporary files, so that no step of a
// publication or a synchronisation holds a whole set in memory. Keys is a set of keys
// that are read in sorted order. Log is a sequence of records that are read in the
// order in which they were added. Table stores the last record of each key, and uses an
// Index. File stores the bytes of a document that is read only when it is complete.
//
// Short sequences stay in memory and create no file. Where the system permits it, the
// name of a file is deleted when the file is created, so that the system deletes the
// file when the process ends.
package spool

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
)

type file interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
}

// scratch is a temporary file that is created by the first write.
type scratch struct {
	dir    string
	create func(dir string) (file, error)
	f      file
	size   int64
}

func newScratch(dir string) scratch {
	if dir == "" {
		dir = os.TempDir()
	}
	return scratch{dir: dir, create: createTemp}
}

func (s *scratch) write(p []byte) error {
	if err := s.open(); err != nil {
		return err
	}
	if _, err := s.f.WriteAt(p, s.size); err != nil {
		return s.fail("write", err)
	}
	s.size += int64(len(p))
	return nil
}

func (s *scratch) writeAt(p []byte, off int64) error {
	if _, err := s.f.WriteAt(p, off); err != nil {
		return s.fail("write", err)
	}
	return nil
}

func (s *scratch) extend(n int64) error {
	if err := s.open(); err != nil {
		return err
	}
	return s.writeAt([]byte{0}, n-1)
}

func (s *scratch) open() error {
	if s.f != nil {
		return nil
	}
	f, err := s.create(s.dir)
	if err != nil {
		return s.fail("create", err)
	}
	s.f = f
	return nil
}

// ReadAt implements io.ReaderAt.
func (s *scratch) ReadAt(p []byte, off int64) (int, error) {
	n, err := s.f.ReadAt(p, off)
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("read a temporary file in %q: %w", s.dir, err)
	}
	return n, err
}

func (s *scratch) section(off, n int64) io.Reader { return io.NewSectionReader(s, off, n) }

func (s *scratch) fail(doing string, err error) error {
	return fmt.Errorf("%s a temporary file in %q (if the disk is full, set TMPDIR to another directory): %w", doing, s.dir, err)
}

// close deletes the temporary file. A later write creates another one.
func (s *scratch) close() error {
	if s.f == nil {
		return nil
	}
	err := s.f.Close()
	s.f, s.size = nil, 0
	return err
}

// createTemp creates a file that is removed when the file is closed, or when the
// process ends.
func createTemp(dir string) (file, error) {
	f, err := os.CreateTemp(dir, "instep-spool-*")
	if err != nil {
		return nil, err
	}
	if runtime.GOOS == "windows" {
		return named{f}, nil
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// named is a temporary file on a system that cannot delete open files. Close deletes
// it.
type named struct{ *os.File }

func (n named) Close() error {
	return errors.Join(n.File.Close(), os.Remove(n.Name()))
}
