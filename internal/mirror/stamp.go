package mirror

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"instep/blob"
	"instep/destination"
	"instep/internal/catalog"
	"instep/resourcesync"
)

// The stamp of a resource, in the catalog's column stat, is the moment at which its
// bytes were stored, in microseconds since 1970, and after a space the algorithm of the
// strongest digest that the Source had given of them, if any. A file that somebody has
// written to since then has a later time of modification.

// stamp completes the stamps of resources that are about to be stored.
func stamp(stored []catalog.Resource, now time.Time) {
	for i := range stored {
		stored[i].Stat = strings.TrimSpace(strconv.FormatInt(now.UnixMicro(), 10) + " " + stored[i].Stat)
	}
}

// readStamp returns what a stamp says; false if there is none that can be read.
func readStamp(s string) (stored time.Time, proof resourcesync.Algorithm, ok bool) {
	micros, algorithm, _ := strings.Cut(s, " ")
	n, err := strconv.ParseInt(micros, 10, 64)
	if err != nil {
		return time.Time{}, "", false
	}
	return time.UnixMicro(n), resourcesync.Algorithm(algorithm), true
}

// proofOf is the strongest algorithm of the digests that a Source gives; "" if there
// is none.
func proofOf(ds resourcesync.Digests) string {
	if d := ds.Strongest(); !d.IsZero() {
		return string(d.Algorithm())
	}
	return ""
}

// Untouched implements destination.Mirror. A file whose time of modification was set
// back by hand is taken for untouched.
func (m *Mirror) Untouched(ctx context.Context, h *destination.Held) (bool, error) {
	stored, _, ok := readStamp(h.Stamp)
	info, err := m.bucket.Stat(ctx, h.Path)
	if err != nil {
		return false, fmt.Errorf("bytes of %q: %w", h.URI, err)
	}
	return ok && untouched(info, h.Length, stored), nil
}

func untouched(info blob.Info, length resourcesync.Length, stored time.Time) bool {
	return length.Known() && info.Size == length.Int64() && info.ModTime.UnixMicro() <= stored.UnixMicro()
}
