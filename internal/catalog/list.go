package catalog

import (
	"context"
	"database/sql"
	"iter"
)

// pageSize is the number of rows that a listing holds at a time. Between pages no
// connection is kept: a slow consumer blocks nobody, may call any method, and does
// not make the write-ahead log grow.
const pageSize = 1000

// prefetch is the share of a page that is consumed when the next page is queried: the
// database works beside the consumer, but not for a consumer that wants only a few rows.
const prefetch = pageSize / 4

// listing yields the rows of query page by page. In query $1 is the cursor of the last row
// (at first, start), $2 the page size and args are $3 and so on; rows have to be in
// ascending order of their cursors. Rows that are added or removed while the listing runs
// may be seen or not; all others are seen once.
func listing[T any](of reading, query string, start any, scan func(*sql.Rows, *T) (cursor any, err error), args ...any) iter.Seq2[T, error] {
	return pages(of, start, func(of reading, into []T, after any) ([]T, any, error) {
		next := after
		into, err := appendRows(of, into, func(r *sql.Rows) (v T, err error) {
			next, err = scan(r, &v)
			return v, err
		}, query, append([]any{after, pageSize}, args...)...)
		return into, next, err
	})
}

// pages yields the values that fetch appends, page by page: those after a cursor, with the
// cursor of the last. Fewer than pageSize are the last ones.
func pages[T, C any](of reading, cursor C, fetch func(of reading, into []T, after C) ([]T, C, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		after, last := cursor, false
		ahead(of, 1, func() fetching[T] {
			if last {
				return nil
			}
			return func(of reading, into []T) (_ []T, err error) {
				into, after, err = fetch(of, into, after)
				last = len(into) < pageSize
				return into, err
			}
		}, yield)
	}
}

// spans yields the rows of a table by ranges of row numbers, up to the greatest, which
// query returns, so that two ranges are read at a time. fetch appends the rows after
// one number up to another. Rows that are added or removed meanwhile may be seen or not.
func spans[T any](of reading, query string, fetch func(of reading, into []T, after, through int64) ([]T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		greatest, _, err := value[int64](of, query)
		if err != nil {
			var none T
			yield(none, err)
			return
		}
		begun := int64(0)
		ahead(of, 2, func() fetching[T] {
			if begun >= greatest {
				return nil
			}
			after := begun
			begun += pageSize
			return func(of reading, into []T) ([]T, error) { return fetch(of, into, after, after+pageSize) }
		}, yield)
	}
}

// fetching appends the rows of a page.
type fetching[T any] func(of reading, into []T) ([]T, error)

// page has the rows of one.
type page[T any] struct {
	rows []T
	err  error
}

// ahead yields the rows of pages, of which it reads up to depth ahead of the consumer. next
// returns the next page, nil after the last; of depth 1 it is called when the page before
// was read.
func ahead[T any](of reading, depth int, next func() fetching[T], yield func(T, error) bool) {
	ctx, stop := context.WithCancel(of.ctx)
	of.ctx = ctx
	var begun []chan page[T] // in order
	var spare [][]T          // rows that were consumed, for their space
	defer func() {
		stop()
		for _, p := range begun {
			<-p
		}
	}()
	begin := func(pages int) {
		for len(begun) < pages {
			fetch := next()
			if fetch == nil {
				return
			}
			var into []T
			if n := len(spare); n > 0 {
				into, spare = spare[n-1][:0], spare[:n-1]
			}
			out := make(chan page[T], 1)
			begun = append(begun, out)
			go func() {
				rows, err := fetch(of, into)
				out <- page[T]{rows, err}
			}()
		}
	}
	for begin(1); len(begun) > 0; begin(depth) {
		p := <-begun[0]
		begun = begun[1:]
		if p.err != nil {
			var none T
			yield(none, p.err)
			return
		}
		for i := range p.rows {
			if i == prefetch {
				begin(depth)
			}
			if !yield(p.rows[i], nil) {
				return
			}
		}
		clear(p.rows)
		spare = append(spare, p.rows)
	}
}
