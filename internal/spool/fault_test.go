package spool

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var errDisk = errors.New("no space left on the disk")

// faulty is a temporary file of which some calls fail.
type faulty struct {
	file
	failWrite, failRead func() bool
}

func (f faulty) WriteAt(p []byte, off int64) (int, error) {
	if f.failWrite() {
		n, err := f.file.WriteAt(p[:len(p)/2], off) // as a disk that fills up does
		return n, errors.Join(err, errDisk)
	}
	return f.file.WriteAt(p, off)
}

func (f faulty) ReadAt(p []byte, off int64) (int, error) {
	if f.failRead() {
		return 0, errDisk
	}
	return f.file.ReadAt(p, off)
}

func never() bool { return false }

// nth is true at its nth call only.
func nth(n int) func() bool {
	return func() bool {
		n--
		return n == 0
	}
}

func faultyScratch(dir string, failWrite, failRead func() bool) scratch {
	s := newScratch(dir)
	s.create = func(dir string) (file, error) {
		f, err := createTemp(dir)
		return faulty{f, failWrite, failRead}, err
	}
	return s
}

// spool is one of the three kinds: add puts in the nth of things, all reads
// everything and counts the things that are right.
type spool struct {
	add   func(n int) error
	all   func() (int, error)
	close func() error
}

func spools(dir string, failWrite, failRead func() bool) map[string]spool {
	keys := NewKeys(dir, 600)
	keys.scratch = faultyScratch(dir, failWrite, failRead)
	log := NewLog[[]byte](dir)
	log.scratch = faultyScratch(dir, failWrite, failRead)
	body := NewFile(dir, 0)
	body.scratch = faultyScratch(dir, failWrite, failRead)
	piece := make([]byte, 50_000)
	return map[string]spool{
		"keys": {
			func(n int) error { return keys.Add(keyOf(n)) },
			func() (int, error) {
				all, err := gather(keys.Sorted())
				return len(all), err
			},
			keys.Close,
		},
		"log": {
			func(int) error { return log.Append(piece) },
			func() (int, error) {
				n := 0
				for r, err := range log.All() {
					if err != nil {
						return n, err
					}
					if slices.Equal(r, piece) {
						n++
					}
				}
				return n, nil
			},
			log.Close,
		},
		"file": {
			func(int) error {
				_, err := body.Write(piece)
				return err
			},
			func() (int, error) {
				p := make([]byte, body.Len())
				if len(p) == 0 {
					return 0, nil
				}
				n, err := body.ReadAt(p, 0)
				return n / len(piece), err
			},
			body.Close,
		},
	}
}

// TestAFailedWriteLosesOnlyWhatItReports: what was added before and after an error
// is there, what was reported is not.
func TestAFailedWriteLosesOnlyWhatItReports(t *testing.T) {
	const things = 60
	for fail := 1; fail <= 4; fail++ {
		for _, name := range []string{"keys", "log", "file"} {
			dir := t.TempDir()
			s := spools(dir, nth(fail), never)[name]
			added, failed := 0, 0
			for n := range things {
				err := s.add(n)
				if err == nil {
					added++
					continue
				}
				failed++
				if !errors.Is(err, errDisk) || !strings.Contains(err.Error(), dir) {
					t.Errorf("%s: got %v, want the disk's error with the directory", name, err)
				}
			}
			if got, err := s.all(); got != added || err != nil {
				t.Errorf("%s, write %d fails: got %d things, %v, want %d", name, fail, got, err, added)
			}
			if failed != 1 {
				t.Errorf("%s, write %d fails: %d errors, want 1", name, fail, failed)
			}
			if err := s.close(); err != nil {
				t.Errorf("%s: close: %v", name, err)
			}
		}
	}
}

func TestAFailedReadIsReported(t *testing.T) {
	for _, name := range []string{"keys", "log", "file"} {
		dir := t.TempDir()
		s := spools(dir, never, nth(1))[name]
		for n := range 60 {
			if err := s.add(n); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.all(); !errors.Is(err, errDisk) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: got %v, want the disk's error with the directory", name, err)
		}
		if got, err := s.all(); got != 60 || err != nil {
			t.Errorf("%s, read again: got %d things, %v, want 60", name, got, err)
		}
		if err := s.close(); err != nil {
			t.Errorf("%s: close: %v", name, err)
		}
	}
}

func TestSpoolsNameADirectoryThatIsNotThere(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	f := NewFile(missing, 0)
	defer f.Close()
	_, err := f.Write(make([]byte, fileMemory+1))
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), missing) {
		t.Errorf("got %v, want an error that names %q", err, missing)
	}
}

func TestSmallSpoolsMakeNoFileAndLargeOnesLeaveNone(t *testing.T) {
	dir := t.TempDir()
	files := 0
	count := func(dir string) (file, error) {
		files++
		return createTemp(dir)
	}
	keys, log, body := NewKeys(dir, 600), NewLog[int](dir), NewFile(dir, 0)
	keys.scratch.create, log.scratch.create, body.scratch.create = count, count, count
	add := func(n int) {
		for i := range n {
			err := errors.Join(keys.Add(keyOf(i)), log.Append(i))
			if _, wrote := body.Write(make([]byte, 100)); err != nil || wrote != nil {
				t.Fatal(err, wrote)
			}
		}
	}
	add(10)
	if files != 0 {
		t.Errorf("small: %d files, want none", files)
	}
	add(40_000)
	if files != 3 {
		t.Errorf("large: %d files, want 3", files)
	}
	if err := errors.Join(keys.Close(), log.Close(), body.Close()); err != nil {
		t.Error(err)
	}
	left, err := os.ReadDir(dir)
	if len(left) > 0 || err != nil {
		t.Errorf("after Close: %v, %v, want nothing left", left, err)
	}
}

func TestClosedSpoolsRefuse(t *testing.T) {
	for name, s := range spools(t.TempDir(), never, never) {
		if err := errors.Join(s.add(1), s.close(), s.close()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if s.add(2) == nil {
			t.Errorf("%s: adding after Close: no error", name)
		}
		if _, err := s.all(); name != "file" && err == nil {
			t.Errorf("%s: reading after Close: no error", name)
		}
	}
}
