package spool

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestFileGivesBackWhatWasWritten(t *testing.T) {
	dir := t.TempDir()
	for _, size := range []int{0, 1, fileMemory - 1, fileMemory, fileMemory + 1, 3*fileMemory + 7} {
		want := make([]byte, size)
		for i := range want {
			want[i] = byte(i * i >> 8)
		}
		f := NewFile(dir, int64(size))
		for part := want; len(part) > 0; {
			n, err := f.Write(part[:min(len(part), 300_001)])
			if err != nil {
				t.Fatal(err)
			}
			part = part[n:]
		}
		if f.Len() != int64(size) {
			t.Errorf("Len: got %d, want %d", f.Len(), size)
		}
		for range 2 {
			if got, err := io.ReadAll(f.Reader()); !bytes.Equal(got, want) || err != nil {
				t.Errorf("%d bytes written: got %d, %v", size, len(got), err)
			}
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		if _, err := f.ReadAt(make([]byte, 1), 0); err == nil {
			t.Error("ReadAt after Close: no error")
		}
		if _, err := f.Write([]byte{1}); err == nil {
			t.Error("Write after Close: no error")
		}
	}
}

// Whatever was said of the length, what was written comes back; a right word spares the copies
// that appending makes.
func TestFileGrow(t *testing.T) {
	want := bytes.Repeat([]byte("0123456789abcdef"), fileMemory/32)
	for _, hint := range []int64{-1, 0, 1, int64(len(want)), fileMemory, fileMemory + 1, 1 << 62} {
		f := NewFile(t.TempDir(), 0)
		for range 3 { // the third goes to the file
			f.Grow(hint)
			if _, err := f.Write(want); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := io.ReadAll(f.Reader()); !bytes.Equal(got, bytes.Repeat(want, 3)) || err != nil {
			t.Errorf("hint %d: got %d bytes, %v", hint, len(got), err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	allocs := testing.AllocsPerRun(10, func() {
		f := NewFile("", 0)
		f.Grow(int64(len(want)))
		for part := range slices.Chunk(want, 4<<10) {
			_, _ = f.Write(part)
		}
		_ = f.Close()
	})
	if allocs > 2 {
		t.Errorf("allocations with a right hint: got %v, want those of the File and of its bytes", allocs)
	}
}

func TestFileReadsLikeMemory(t *testing.T) {
	dir := t.TempDir()
	data := bytes.Repeat([]byte("0123456789abcdef"), fileMemory/16+1)
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.SampledFrom([]int{0, 100, fileMemory, len(data)}).Draw(t, "size")
		f := NewFile(dir, 0)
		defer f.Close()
		if _, err := f.Write(data[:size]); err != nil {
			t.Fatal(err)
		}
		off := rapid.Int64Range(0, int64(size)+10).Draw(t, "off")
		got, want := make([]byte, rapid.IntRange(0, 200).Draw(t, "n")), make([]byte, 200)
		want = want[:len(got)]
		gotN, gotErr := f.ReadAt(got, off)
		wantN, wantErr := bytes.NewReader(data[:size]).ReadAt(want, off)
		if gotN != wantN || !errors.Is(gotErr, wantErr) || !bytes.Equal(got, want) {
			t.Fatalf("ReadAt(%d bytes, %d) of %d: got %d, %v, want %d, %v", len(got), off, size, gotN, gotErr, wantN, wantErr)
		}
	})
}

func TestFileStopsAtItsLimit(t *testing.T) {
	f := NewFile(t.TempDir(), 10)
	defer f.Close()
	if _, err := io.WriteString(f, "0123456789"); err != nil {
		t.Errorf("up to the limit: %v", err)
	}
	if _, err := io.WriteString(f, "x"); !errors.Is(err, ErrLimit) {
		t.Errorf("beyond the limit: got %v, want ErrLimit", err)
	}
	got, err := io.ReadAll(f.Reader())
	if string(got) != "0123456789" || err != nil {
		t.Errorf("after that: got %q, %v", got, err)
	}
}
