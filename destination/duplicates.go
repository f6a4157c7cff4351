package destination

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

// duplicates remembers the origins of duplicates in a run.
type duplicates struct {
	when Duplicates

	mu       sync.Mutex
	failures map[string]int // in a row, by origin; badAfter is for good
}

// split returns the duplicates to ask for before the resource itself, and those to ask for
// after it.
func (m *duplicates) split(w *harvest.Resource) (before, after []string) {
	preferred := min(w.Preferred, len(w.Duplicates))
	switch m.when {
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
func (m *duplicates) usable(origin string) bool {
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
func (m *duplicates) came(origin string, ok bool) (bad bool) {
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

// fromAnywhere brings the bytes of w from the first place that has them.
func (r *runner) fromAnywhere(ctx context.Context, b Batch, w harvest.Resource) (int64, error) {
	before, after := r.duplicates.split(&w)
	n, from, err := r.fromDuplicates(ctx, b, w, before)
	if from != "" {
		return n, err
	}
	n, failed := r.fromWeb(ctx, b, w, cmp.Or(w.BytesAt, w.URI))
	if !harvest.IsSourceError(failed) || ctx.Err() != nil {
		return n, failed
	}
	n, from, err = r.fromDuplicates(ctx, b, w, after)
	if from == "" {
		return 0, failed
	}
	if err == nil {
		r.d.note(r.sp.Set, fmt.Sprintf("%s: taken from its duplicate %s, as it could not be had itself: %v", w.URI, from, failed))
	}
	return n, err
}

// fromDuplicates brings the bytes of w from the first of its duplicates that has them; from is
// "" if none has.
func (r *runner) fromDuplicates(ctx context.Context, b Batch, w harvest.Resource, uris []string) (n int64, from string, err error) {
	for _, uri := range uris {
		u, err := fetch.ParseReference(uri)
		if err != nil {
			continue
		}
		origin := fetch.Origin(u)
		if !r.duplicates.usable(origin) {
			continue
		}
		n, err := r.fromWeb(ctx, b, w, uri)
		if err == nil {
			r.duplicates.came(origin, true)
			r.odd.add(oddDuplicate, uri)
			return n, uri, nil
		}
		if !harvest.IsSourceError(err) || ctx.Err() != nil {
			return n, uri, err
		}
		if r.duplicates.came(origin, false) {
			r.d.note(r.sp.Set, fmt.Sprintf("duplicates at %s have failed %d times in a row and are left alone for the rest of this run, the last one: %v", origin, badAfter, err))
		}
	}
	return 0, "", nil
}
