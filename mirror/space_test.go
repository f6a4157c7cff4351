package mirror

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"instep/blob"
	"instep/blob/blobtest"
	"instep/destination"
	"instep/internal/durable"
)

// Before the disk is full no batch begins any more; once there is room again, all goes on.
func TestNoBatchBeginsWhenTheReserveIsReached(t *testing.T) {
	const gb = 1 << 30
	fine := durable.Space{Known: true, Total: 500 * gb, Free: 2 * gb, Files: 1e6, FreeFiles: 5e5}
	for name, tt := range map[string]struct {
		change func(*durable.Space)
		full   string // "": there is room
	}{
		"room":                       {change: func(*durable.Space) {}},
		"less than 1 GiB":            {change: func(s *durable.Space) { s.Free = gb - 1 }, full: "1023 MiB are free"},
		"1 % of a small disk":        {change: func(s *durable.Space) { s.Total, s.Free = gb, gb/100+1 }},
		"less than 1 % of it":        {change: func(s *durable.Space) { s.Total, s.Free = gb, gb/100-1 }, full: "10 MiB are free"},
		"hardly any files":           {change: func(s *durable.Space) { s.FreeFiles = 9_999 }, full: "9999 more files can be created"},
		"files that are not counted": {change: func(s *durable.Space) { s.Files, s.FreeFiles = 0, 0 }},
		"nobody knows":               {change: func(s *durable.Space) { *s = durable.Space{} }},
	} {
		t.Run(name, func(t *testing.T) {
			now := fine
			o := options(t.TempDir())
			o.space = func(*os.Root) (durable.Space, error) { return now, nil }
			m := openMirror(t, o)
			tt.change(&now)
			fill := func(b destination.Batch) error { return put(b, set, "a", "one", noon) }
			err := tryCommit(m, nil, fill)
			switch {
			case tt.full == "" && err != nil:
				t.Fatal(err)
			case tt.full != "" && (!errors.Is(err, ErrFull) || !strings.Contains(err.Error(), tt.full) || !strings.Contains(err.Error(), o.Dir)):
				t.Fatalf("got %v, want ErrFull, %q and the directory", err, tt.full)
			}
			now = fine
			if err := tryCommit(m, nil, fill); err != nil {
				t.Errorf("with room again: %v", err)
			}
		})
	}
}

// Errors of the system that mean a full disk, a quota or a limit say so, and say where.
func TestErrorsForLackOfRoomSayWhatIsFull(t *testing.T) {
	for _, full := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG} {
		for _, op := range []blobtest.Op{blobtest.OpWrite, blobtest.OpCommit} {
			o := options(t.TempDir())
			o.bucket = func(b blob.Bucket) blob.Bucket {
				return blobtest.Faulty(b, blobtest.At(op, 2, blobtest.Fault{Err: fmt.Errorf("write: %w", full)})) // the first is of the marker
			}
			m := openMirror(t, o)
			fill := func(b destination.Batch) error { return put(b, set, "a", "one", noon) }
			err := tryCommit(m, nil, fill)
			if !errors.Is(err, ErrFull) || !errors.Is(err, full) || !strings.Contains(err.Error(), o.Dir) {
				t.Errorf("%v of %s: got %v, want ErrFull and the directory", full, op, err)
			}
			if err := tryCommit(m, nil, fill); err != nil {
				t.Errorf("%v of %s, with room again: %v", full, op, err)
			}
		}
	}
}
