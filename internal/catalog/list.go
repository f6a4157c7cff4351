package catalog

import (
	"context"
	"database/sql"
	"iter"
)

// pageSize is the number of rows that a listing holds at a time. It uses no connection
// between pages, so a slow consumer blocks nobody, may call any method, and does not
// make the write-ahead log grow.
const pageSize = 1000

// prefetch is the number of rows of a page after which the next page is queried, so
// that the database works concurrently with the consumer, but not for a consumer that
// needs only a few rows.
const prefetch = pageSize / 4

// listing yields the rows of query page by page. In query, $1 is the cursor of the last
// row (start for the first page), $2 is the page size, and args begin at $3. The rows
// must be in ascending order of their cursors. A row that is added or removed during
// the listing may or may not be yielded; every other row is yielded once.
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

// pages yields the values that fetch appends, page by page. fetch returns the values
// after a cursor, and the cursor of the last one. A page with fewer than pageSize
// values is the last.
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

// spans yields the rows of a table by ranges of row numbers, two of which are read
// concurrently. query returns the greatest row number; fetch appends the rows with
// after < number <= through. A row that is added or removed during the listing may or
// may not be yielded.
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

// fetching is a function that appends the rows of one page.
type fetching[T any] func(of reading, into []T) ([]T, error)

// page holds the rows of one page, or the error of reading them.
type page[T any] struct {
	rows []T
	err  error
}

// ahead yields the rows of pages and reads up to depth pages ahead of the consumer.
// next returns a function that fetches the next page, nil after the last. With a depth
// of 1, next is called only after the page before was read.
func ahead[T any](of reading, depth int, next func() fetching[T], yield func(T, error) bool) {
	ctx, stop := context.WithCancel(of.ctx)
	of.ctx = ctx
	var begun []chan page[T] // in the order of the pages
	var spare [][]T          // slices of consumed pages, to be reused
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
