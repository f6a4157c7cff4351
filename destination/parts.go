package destination

import (
	"context"
	"io"

	"instep/harvest"
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

// Adopter is implemented by a Mirror that can take over files which are there already
// and which it did not put there.
type Adopter interface {
	// Stray finds a file that may hold the bytes of w: where they belong, or where
	// other programs that mirror would have put them. h is what Lookup has of w.URI. Only
	// names and sizes are looked at.
	Stray(ctx context.Context, w *harvest.Resource, h *Held) (path string, ok bool, err error)
}

// Hashed may be implemented by a reader that is given to a Batch: it has hashed what was
// read, so that the Batch need not do it again.
type Hashed interface {
	// Digests are those of the bytes read so far. Their algorithms do not change.
	Digests() resourcesync.Digests
}

// optional finds what a Mirror, or one that it wraps, implements besides.
func optional[T any](m Mirror) (t T, ok bool) {
	for m != nil {
		if t, ok = m.(T); ok {
			return t, true
		}
		w, wraps := m.(interface{ Unwrap() Mirror })
		if !wraps {
			break
		}
		m = w.Unwrap()
	}
	return t, false
}
