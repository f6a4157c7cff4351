package transfer

import (
	"cmp"
	"context"
	"fmt"
	"sync"

	"instep/fetch"
	"instep/harvest"
)

// Duplicates says when a resource is fetched from one of its duplicates (1.1 §14.2), which is
// done only where a digest proves the bytes. "" takes duplicates that have a pri before the
// resource itself, as the Source asks for that, and the others if the resource itself cannot
// be had.
type Duplicates string

// When duplicates are asked for. All are in the order of pri.
const (
	DuplicatesFirst Duplicates = "first" // before the resource itself
	DuplicatesLast  Duplicates = "last"  // only if the resource itself cannot be had
	DuplicatesNever Duplicates = "never"
)

const (
	// badAfter is how many failures in a row there are at an origin before no duplicates are
	// asked for there any more in a run.
	badAfter = 3
	// maxDuplicateOrigins is how many origins are asked for duplicates in a run: a Source
	// must not send its readers to any number of others.
	maxDuplicateOrigins = 16
)

// Origins remembers in a run what became of requests for duplicates at their origins.
type Origins struct {
	When Duplicates

	mu       sync.Mutex
	failures map[string]int // in a row, by origin; badAfter is for good
}

// split returns the duplicates to ask for before the resource itself, and those to ask for
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

// usable reports whether an origin may be asked.
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

// came remembers what became of a request; bad reports whether the origin will not be asked
// again.
func (m *Origins) came(origin string, ok bool) (bad bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch n := m.failures[origin]; {
	case n >= badAfter:
		return false // it was told
	case ok:
		m.failures[origin] = 0
	default:
		m.failures[origin] = n + 1
	}
	return m.failures[origin] == badAfter
}

// Fetch brings the bytes of w from the first place that has them.
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
		f.Tell(fmt.Sprintf("%s: taken from its duplicate %s, as it could not be had itself: %v", w.URI, from, failed))
	}
	return n, err
}

// fromDuplicates brings the bytes of w from the first of its duplicates that has them; from is
// "" if none has.
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
			f.Tell(fmt.Sprintf("duplicates at %s have failed %d times in a row and are left alone for the rest of this run, the last one: %v", origin, badAfter, err))
		}
	}
	return 0, "", nil
}
