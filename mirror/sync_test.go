package mirror

import (
	"context"
	"errors"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"instep/blob"
)

// unsynced is a bucket whose next batch cannot be made durable, for err.
type unsynced struct {
	blob.Bucket
	err error
}

func (u *unsynced) Begin(ctx context.Context) (blob.Batch, error) {
	b, err := u.Bucket.Begin(ctx)
	if err != nil || u.err == nil {
		return b, err
	}
	err = u.err
	u.err = nil
	return &unsyncedBatch{b, err}, nil
}

type unsyncedBatch struct {
	blob.Batch
	err error
}

func (b *unsyncedBatch) Sync(context.Context) error { return b.err }

// TestCat_STO_06: where the disk fails to make the bytes of a batch durable, which it is
// asked for while the intents are recorded, nothing of the batch is there. The next one
// brings the bytes anew.
func TestCat_STO_06(t *testing.T) {
	first, last := wantStates(t)
	for _, errno := range []syscall.Errno{syscall.EIO, syscall.EROFS, syscall.ENOSPC, syscall.EDQUOT} {
		u := &unsynced{}
		o := options(t.TempDir())
		o.bucket = func(b blob.Bucket) blob.Bucket {
			u.Bucket = b
			return u
		}
		m := openMirror(t, o)
		commit(t, m, fillBefore)
		u.err = errno
		if err := tryCommit(m, storyMove, fillAfter); !errors.Is(err, errno) {
			t.Errorf("got %v, want %v", err, errno)
		}
		if diff := cmp.Diff(first, stateOf(t, m)); diff != "" {
			t.Errorf("after %v (-want +got):\n%s", errno, diff)
		}
		if err := tryCommit(m, storyMove, fillAfter); err != nil {
			t.Errorf("again after %v: %v", errno, err)
		}
		if diff := cmp.Diff(last, stateOf(t, m)); diff != "" {
			t.Errorf("again after %v (-want +got):\n%s", errno, diff)
		}
	}
}
