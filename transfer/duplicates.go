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
// instead of its own URI. A duplicate is used only if a digest can verify its bytes.
// With the value "", duplicates with a "pri" attribute are tried before the resource's
// own URI, and other duplicates only if its own URI fails.
type Duplicates string

// These are the values of Duplicates. The duplicates of a resource are tried in the
// order of their "pri" attributes.
const (
	DuplicatesFirst Duplicates = "first" // duplicates are tried before the resource's own URI
	DuplicatesLast  Duplicates = "last"  // duplicates are tried only if the resource cannot be fetched from its own URI
	DuplicatesNever Duplicates = "never"
)

const (
	// badAfter is the number of consecutive failures after which a run requests no more
	// duplicates from an origin.
	badAfter = 3
	// maxDuplicateOrigins is the maximum number of origins from which a run requests
	// duplicates, so that a Source cannot make its readers send requests to any number of
	// hosts.
	maxDuplicateOrigins = 16
)

// Origins records for each origin whether requests for duplicates succeeded during a
// run.
type Origins struct {
	When Duplicates

	mu       sync.Mutex
	failures map[string]int // number of consecutive failures of requests to each origin; an origin with badAfter failures is not used any more
}

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

// record counts a request to an origin. It returns true if the origin is not used any
// more because of this request.
func (m *Origins) record(origin string, ok bool) (bad bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch n := m.failures[origin]; {
	case n >= badAfter:
		return false
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
	n, from, err := f.fetchFromDuplicates(ctx, s, w, before)
	if from != "" {
		return n, err
	}
	n, failed := f.fetchAt(ctx, s, w, cmp.Or(w.BytesAt, w.URI))
	if !harvest.IsSourceError(failed) || ctx.Err() != nil {
		return n, failed
	}
	n, from, err = f.fetchFromDuplicates(ctx, s, w, after)
	if from == "" {
		return 0, failed
	}
	if err == nil {
		f.Tell(fmt.Sprintf("%s: fetched from its duplicate %s, as the resource itself could not be fetched: %v", w.URI, from, failed))
	}
	return n, err
}

// fetchFromDuplicates returns the URI from which the bytes were fetched, or "" if no
// duplicate has them.
func (f *Fetcher) fetchFromDuplicates(ctx context.Context, s Store, w harvest.Resource, uris []string) (n int64, from string, err error) {
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
			f.Duplicates.record(origin, true)
			f.Odd(OddDuplicate, uri)
			return n, uri, nil
		}
		if !harvest.IsSourceError(err) || ctx.Err() != nil {
			return n, uri, err
		}
		if f.Duplicates.record(origin, false) {
			f.Tell(fmt.Sprintf("duplicates at %s have failed %d times in a row and are not requested again in this run; the last error: %v", origin, badAfter, err))
		}
	}
	return 0, "", nil
}
