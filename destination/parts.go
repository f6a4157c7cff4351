package destination

import (
	"context"

	"instep/harvest"
	"instep/resourcesync"
)

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
