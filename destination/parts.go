package destination

import (
	"context"
	"io"

	"instep/resourcesync"
)

// Parts is implemented by a Mirror that keeps what came of a large transfer which
// broke off, so that a later run goes on from there.
type Parts interface {
	// Part opens what is kept under a name, or an empty Part. One name is open once
	// at a time.
	Part(ctx context.Context, name string) (Part, error)
}

// Part is the beginning of some bytes. It is not safe for concurrent use but for
// ReadAt.
type Part interface {
	io.Writer // appends
	io.ReaderAt
	Size() int64 // bytes that are here
	// Note is what the last Checkpoint noted, and at how many bytes; "" and 0 of an
	// empty Part. What lies beyond may not have survived a power cut.
	Note() (note string, at int64)
	// Checkpoint makes the bytes written so far durable, and then the note.
	Checkpoint(ctx context.Context, note string) error
	// Truncate drops the bytes from n on, and the note if it was made beyond n.
	Truncate(n int64) error
	// Close keeps what is here for a later run.
	Close() error
	// Discard removes it.
	Discard() error
}

// PartBatch is implemented by the Batch of a Mirror with Parts.
type PartBatch interface {
	// PutPart is Put of a Part that was verified: its bytes are not copied. The Part
	// is spent unless an error is returned: an ErrNotHeld if it does not hold the bytes
	// of w, as where the disk has damaged it.
	PutPart(ctx context.Context, set string, w Wanted, p Part, verified bool) (n int64, err error)
}

// Adopter is implemented by a Mirror that can take over files which are there already
// and which it did not put there.
type Adopter interface {
	// Stray finds a file that may hold the bytes of w: where they belong, or where
	// other programs that mirror would have put them. h is what Lookup has of w.URI. Only
	// names and sizes are looked at.
	Stray(ctx context.Context, w *Wanted, h *Held) (path string, ok bool, err error)
}

// AdoptBatch is implemented by the Batch of an Adopter.
type AdoptBatch interface {
	// Adopt makes the file at path, which Stray has found, the bytes of w without
	// copying them, if they are verified. Bytes that are not those of w are an
	// ErrNotHeld and stay where they are.
	Adopt(ctx context.Context, set string, w Wanted, path string) (n int64, err error)
}

// Memory is implemented by a Mirror that remembers a few small things for the
// Destination between runs.
type Memory interface {
	// Recall returns what was remembered under a name; false if nothing was.
	Recall(ctx context.Context, name string) (value string, ok bool, err error)
	// Remember keeps a value of at most 64 KiB; "" forgets it.
	Remember(ctx context.Context, name, value string) error
}

// ExpectBatch is implemented by a Batch that looks many resources up faster than one.
type ExpectBatch interface {
	// Expect says of which resources of a set, at most 1,000, the batch is about to be
	// told. Nobody else changes them until the batch has been committed.
	Expect(ctx context.Context, set string, uris []string) error
}

// Hashed may be implemented by a reader that is given to a Batch: it has hashed what was
// read, so that the Batch need not do it again.
type Hashed interface {
	// Digests are those of the bytes read so far. Their algorithms do not change.
	Digests() resourcesync.Digests
}

// SyncBatch is implemented by a Batch for which it takes time to make bytes durable.
type SyncBatch interface {
	// Sync makes durable what was put so far, so that Commit need not. Another batch may
	// commit meanwhile. An error means that this one must not be committed.
	Sync(ctx context.Context) error
}
