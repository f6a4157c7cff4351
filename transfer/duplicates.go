package transfer

import (
	"cmp"
	"context"
	"fmt"
	"sync"

	"instep/fetch"
	"instep/harvest"
)

// Duplicates says when a resource is fetched from one of its duplicates (1.1 §14.2)
// instead of its own URI. A duplicate is used only if there is a digest to verify its
// bytes. With "", duplicates to which the Source gives a priority (pri) are tried before
// the resource's own URI, and the others only if that fails.
type Duplicates string

// Values of Duplicates. The duplicates of a resource are tried in the order of their
// priority.
const (
	DuplicatesFirst Duplicates = "first" // before the resource's own URI
	DuplicatesLast  Duplicates = "last"  // only if the resource cannot be fetched from its own URI
	DuplicatesNever Duplicates = "never"
)

const (
	// badAfter is a number of failures: after so many failures of an origin in a row, a
	// run requests no more duplicates from that origin.
	badAfter = 3
	// maxDuplicateOrigins is the largest number of origins from which a run requests
	// duplicates. It is limited because a Source must not send its readers to any number
	// of other hosts.
	maxDuplicateOrigins = 16
)

// Origins records, for each origin, whether requests for duplicates succeeded during a
// run.
type Origins struct {
	When Duplicates

	mu       sync.Mutex
	failures map[string]int // for each origin, the number of failures in a row; after badAfter of them the origin is not used any more
}

// split returns the duplicates that are tried before the resource's own URI, and those
// that are tried after it.
func (m *Origins) split(w *harvest.Resource) (before, after []string) {
	preferred := min(w.Preferred, len(w.Duplicates))
	switch m.When {
	case DuplicatesFirst:
		preferred = len(w.Duplicates)
	case DuplicatesLast:
		preferred = 0
	case DuplicatesNever:
		return nil, nil
	}
	return w.Duplicates[:preferred], w.Duplicates[preferred:]
}

// usable reports whether the run may request duplicates from an origin.
func (m *Origins) usable(origin string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, known := m.failures[origin]
	if known || len(m.failures) >= maxDuplicateOrigins {
		return known && n < badAfter
	}
	if m.failures == nil {
		m.failures = map[string]int{}
	}
	m.failures[origin] = 0
	return true
}

// came records the result of a request. It returns true if this result is the reason
// why the origin is not used any more.
func (m *Origins) came(origin string, ok bool) (bad bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch n := m.failures[origin]; {
	case n >= badAfter:
		return false // already reported
	case ok:
		m.failures[origin] = 0
	default:
		m.failures[origin] = n + 1
	}
	return m.failures[origin] == badAfter
}

// Fetch fetches the bytes of the resource w from its own URI or from a duplicate.
func (f *Fetcher) Fetch(ctx context.Context, s Store, w harvest.Resource) (int64, error) {
	before, after := f.Duplicates.split(&w)
	n, from, err := f.fromDuplicates(ctx, s, w, before)
	if from != "" {
		return n, err
	}
	n, failed := f.fetchAt(ctx, s, w, cmp.Or(w.BytesAt, w.URI))
	if !harvest.IsSourceError(failed) || ctx.Err() != nil {
		return n, failed
	}
	n, from, err = f.fromDuplicates(ctx, s, w, after)
	if from == "" {
		return 0, failed
	}
	if err == nil {
		f.Tell(fmt.Sprintf("%s: fetched from its duplicate %s, as the resource itself could not be fetched: %v", w.URI, from, failed))
	}
	return n, err
}

// fromDuplicates fetches the bytes of w from one of the given URIs, and returns that
// URI. It tries one after the other. If none of them has the bytes, the URI is "".
func (f *Fetcher) fromDuplicates(ctx context.Context, s Store, w harvest.Resource, uris []string) (n int64, from string, err error) {
	for _, uri := range uris {
		u, err := fetch.ParseReference(uri)
		if err != nil {
			continue
		}
		origin := fetch.Origin(u)
		if !f.Duplicates.usable(origin) {
			continue
		}
		n, err := f.fetchAt(ctx, s, w, uri)
		if err == nil {
			f.Duplicates.came(origin, true)
			f.Odd(OddDuplicate, uri)
			return n, uri, nil
		}
		if !harvest.IsSourceError(err) || ctx.Err() != nil {
			return n, uri, err
		}
		if f.Duplicates.came(origin, false) {
			f.Tell(fmt.Sprintf("duplicates at %s have failed %d times in a row and are not requested again in this run; the last error: %v", origin, badAfter, err))
		}
	}
	return 0, "", nil
}
