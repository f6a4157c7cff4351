package spool

import "sync"

// Sparse is a temporary file of which bytes are written and read anywhere. What was
// never written takes no space and reads as zeros or io.EOF, so who uses it remembers
// what was. It is safe for concurrent use.
type Sparse struct {
	mu      sync.Mutex // guards scratch.f while the file is made or closed
	scratch scratch
	closed  bool
}

// NewSparse returns an empty Sparse; at the first write it makes a file in dir (default
// os.TempDir).
func NewSparse(dir string) *Sparse { return &Sparse{scratch: newScratch(dir)} }

// WriteAt implements io.WriterAt.
func (s *Sparse) WriteAt(p []byte, off int64) (int, error) {
	f, err := s.file()
	if err != nil {
		return 0, err
	}
	n, err := f.WriteAt(p, off)
	if err != nil {
		err = s.scratch.fail("write", err)
	}
	return n, err
}

// ReadAt implements io.ReaderAt.
func (s *Sparse) ReadAt(p []byte, off int64) (int, error) {
	f, err := s.file()
	if err != nil {
		return 0, err
	}
	n, err := f.ReadAt(p, off)
	return n, s.scratch.unread(err)
}

// file returns the file, made if there is none yet.
func (s *Sparse) file() (file, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	err := s.scratch.open()
	return s.scratch.f, err
}

// Close gives the file back.
func (s *Sparse) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return s.scratch.close()
}
