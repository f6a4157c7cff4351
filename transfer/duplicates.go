package transfer

import (
	"cmp"
	"context"
	"fmt"
	"sync"

	"instep/fetch"
	"instep/harvest"
)

// Duplicates selects when a resource is fetched from one of its duplicates (1.1 §14.2). A
// duplicate is used only if a digest can prove its bytes. "" tries duplicates with a pri
// before the resource itself, since the Source asks for that by the pri, and the others
// only if the resource itself is unavailable.
type Duplicates string

// Values of Duplicates. Each resource's duplicates are tried in the order of their pri.
const (
	DuplicatesFirst Duplicates = "first" // try duplicates before the resource itself
	DuplicatesLast  Duplicates = "last"  // try duplicates only if the resource itself is unavailable
	DuplicatesNever Duplicates = "never"
)

const (
	// badAfter is the number of consecutive failures of an origin after which a run
	// requests no more duplicates from it.
	badAfter = 3
	// maxDuplicateOrigins is the largest number of origins from which a run requests
	// duplicates: a Source must not send its readers to arbitrarily many other hosts.
	maxDuplicateOrigins = 16
)

// Origins records the results of requests for duplicates during a run, by origin.
type Origins struct {
	When Duplicates

	mu       sync.Mutex
	failures map[string]int // consecutive failures by origin; an origin with badAfter failures is not used again
}

// split returns the duplicates to try before the resource itself, and those to try
// after it.
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

// usable reports whether duplicates may be requested from an origin.
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

// came records the result of a request. It returns true if the origin is not used again
// because of this result.
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

// Fetch fetches the bytes of w from the resource's own URI or from a duplicate.
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

// fromDuplicates fetches the bytes of w from the first of these URIs that has them. It
// returns "" for from if none of them has.
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
