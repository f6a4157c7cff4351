package mirror

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"instep/destination"
	"instep/internal/durable"
)

const fullBatches, fullFiles = 40, 8

func fullName(batch, i int) string { return fmt.Sprintf("d%d/f%d", batch%7, batch*fullFiles+i) }

func fullBody(batch, i int) string { return strings.Repeat(fullName(batch, i)+"\n", 300) }

// TestCat_STO_05 fills disks of many sizes, in which the bytes of a mirror have no room.
// The run says so; what was committed is there and whole, and nothing else is. When there
// is room again the same mirror goes on.
func TestCat_STO_05(t *testing.T) {
	for kilobytes := 300; kilobytes < 2400; kilobytes += 100 {
		for name, space := range map[string]func(*os.Root) (durable.Space, error){
			"to the last block": func(*os.Root) (durable.Space, error) { return durable.Space{}, nil },
			"with the reserve":  nil,
		} {
			t.Run(fmt.Sprintf("%d KiB %s", kilobytes, name), func(t *testing.T) {
				dir := smallDisk(t, kilobytes)
				fillDisk(t, dir, space)
			})
		}
	}
}

func smallDisk(t *testing.T, kilobytes int) string {
	t.Helper()
	dir := t.TempDir()
	err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dk", kilobytes))
	if errors.Is(err, unix.EPERM) {
		t.Skip("SKIPPED: making a disk to fill needs root")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func fillDisk(t *testing.T, dir string, space func(*os.Root) (durable.Space, error)) {
	o := options(filepath.Join(dir, "mirror"))
	o.space = space
	m, err := Open(t.Context(), o)
	if err != nil { // not even room for the catalog
		if !errors.Is(err, unix.ENOSPC) && !strings.Contains(err.Error(), "full") {
			t.Fatalf("got %v, want that the disk is full", err)
		}
		m = nil
	}
	done := 0
	if m != nil {
		done = untilFull(t, m)
		wantBatches(t, m, done)
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_REMOUNT, "size=64m"); err != nil {
		t.Fatal(err)
	}
	if m == nil {
		m = openMirror(t, o)
	}
	for i := done; i < fullBatches; i++ {
		if err := fillBatch(m, i); err != nil {
			t.Fatalf("batch %d, with room again: %v", i, err)
		}
	}
	wantBatches(t, m, fullBatches)
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	left, err := os.ReadDir(filepath.Join(o.Dir, tempKey))
	if len(left) > 0 || err != nil && !os.IsNotExist(err) {
		t.Errorf("temporary files: got %v, %v; want none", left, err)
	}
}

// untilFull returns how many batches were committed.
func untilFull(t *testing.T, m *Mirror) int {
	t.Helper()
	err := m.Bind(t.Context(), site, home)
	for i := 0; err == nil && i < fullBatches; i++ {
		if err = fillBatch(m, i); err != nil {
			if !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), m.o.Dir) {
				t.Fatalf("got %v, want ErrFull and the directory", err)
			}
			return i
		}
	}
	if err == nil {
		t.Fatal("the disk was never full")
	}
	return 0
}

func fillBatch(m *Mirror, batch int) error {
	if err := m.Bind(context.Background(), site, home); err != nil {
		return err
	}
	return tryCommit(m, nil, func(b destination.Batch) error {
		var errs []error
		for i := range fullFiles {
			errs = append(errs, put(b, set, fullName(batch, i), fullBody(batch, i), noon))
		}
		return errors.Join(errs...)
	})
}

// wantBatches checks that exactly so many batches are in the mirror, whole.
func wantBatches(t *testing.T, m *Mirror, want int) {
	t.Helper()
	if n, err := m.Count(t.Context(), set); n != int64(want*fullFiles) || err != nil {
		t.Errorf("members: got %d, %v; want %d", n, err, want*fullFiles)
	}
	for batch := range want {
		for i := range fullFiles {
			if got := bodyOf(t, m, home+"/"+fullName(batch, i)); got != fullBody(batch, i) {
				t.Errorf("%s: got %d bytes, want those of the Source", fullName(batch, i), len(got))
			}
		}
	}
	files := 0
	for info, err := range m.bucket.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(info.Key, ours+"/") {
			files++
		}
	}
	if files != want*fullFiles && !m.undone {
		t.Errorf("files: got %d, want %d", files, want*fullFiles)
	}
}
