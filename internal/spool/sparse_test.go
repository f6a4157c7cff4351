package spool

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
)

func TestSparseGivesBackWhatWasWrittenAnywhere(t *testing.T) {
	dir := t.TempDir()
	s := NewSparse(dir)
	want := make([]byte, 1<<20)
	for i := range want {
		want[i] = byte(i * 31)
	}
	var writers sync.WaitGroup
	const piece = 1 << 14
	for _, i := range rand.Perm(len(want) / piece) {
		writers.Go(func() {
			off := i * piece
			if _, err := s.WriteAt(want[off:off+piece], int64(off)+1<<40); err != nil {
				t.Error(err)
			}
		})
	}
	writers.Wait()
	got := make([]byte, len(want))
	if _, err := s.ReadAt(got, 1<<40); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("got other bytes, %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.WriteAt([]byte("x"), 0); !errors.Is(err, errClosed) {
		t.Errorf("after Close: got %v, want %v", err, errClosed)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left in the directory: got %v, %v", left, err)
	}
}

func TestSparseNamesTheDirectoryThatHasNoRoom(t *testing.T) {
	s := NewSparse("/does/not/exist")
	if _, err := s.WriteAt([]byte("x"), 0); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want %v", err, os.ErrNotExist)
	}
}
