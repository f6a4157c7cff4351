package catalog

import (
	"context"
	"iter"
)

// pageSize is the number of rows that a listing reads at a time. Between two pages a
// listing holds no connection. So a slow consumer does not block other callers, may call
// any method, and does not make the write-ahead log grow.
const pageSize = 1000

// prefetch is the number of rows of a page after which a listing starts to read the
// next page. So the database works concurrently with the caller, but reads no page for
// a caller that stops early.
const prefetch = pageSize / 4

// listing yields the rows of a query, which it reads page by page. The query sorts by
// one column, whose value is the cursor. Its parameters are $1 for the cursor after
// which a page begins (start for the first page), $2 for the page size, and args from
// $3 on. The function dest returns the destinations for the columns of a row, and which
// of them receives the cursor. A row that is added or removed during the listing may be
// missing; every other row is yielded once.
func listing[T any](of reading, query string, start any, dest func(*T) (cursor any, columns []any), args ...any) iter.Seq2[T, error] {
	return pages(of, start, func(of reading, into []T, after any) ([]T, any, error) {
		var cursor any
		into, err := queryAll(of, into, func(v *T) (columns []any) {
			cursor, columns = dest(v)
			return columns
		}, query, append([]any{after, pageSize}, args...)...)
		return into, cursor, err
	})
}

type page[T, C any] struct {
	rows []T
	last C
	err  error
}

// pages yields values page by page. The function fetch appends the values after a
// cursor, and returns the cursor of the last one. A page with fewer than pageSize
// values is the last page.
func pages[T, C any](of reading, cursor C, fetch func(of reading, into []T, after C) ([]T, C, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		of := of
		ctx, stop := context.WithCancel(of.ctx)
		of.ctx = ctx
		next := make(chan page[T, C], 1)
		begun := 0
		begin := func(into []T, after C) {
			begun++
			go func() {
				rows, last, err := fetch(of, into[:0], after)
				next <- page[T, C]{rows, last, err}
			}()
		}
		defer func() {
			stop()
			if begun > 0 {
				<-next
			}
		}()
		var spare []T // the slice of the previous page, to be reused
		for begin(nil, cursor); begun > 0; {
			p := <-next
			begun--
			if p.err != nil {
				var none T
				yield(none, p.err)
				return
			}
			more := len(p.rows) >= pageSize
			for i := range p.rows {
				if i == prefetch && more {
					begin(spare, p.last)
				}
				if !yield(p.rows[i], nil) {
					return
				}
			}
			clear(p.rows)
			spare = p.rows
		}
	}
}
