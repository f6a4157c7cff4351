package catalog

import (
	"context"
	"database/sql"
	"errors"
	"iter"
)

// pageSize is the number of rows that a listing holds at a time. Between pages no
// connection is kept: a slow consumer blocks nobody, may call any method, and does
// not make the write-ahead log grow.
const pageSize = 1000

// listing yields the rows of query page by page. In query $1 is the cursor of the
// last row seen (at first, start), $2 the page size and args are $3 and so on; its
// rows come in ascending order of their cursors. What is added or removed while
// the listing runs may or may not be seen; all else is seen once.
func listing[T any](ctx context.Context, c *Catalog, op, query string, start any,
	scan func(*sql.Rows, *T) (cursor any, err error), args ...any) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		cursor := start
		scanPage := func(r *sql.Rows) (v T, err error) {
			cursor, err = scan(r, &v)
			return v, err
		}
		for {
			page, err := rows(ctx, c, op, scanPage, query, append([]any{cursor, pageSize}, args...)...)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, v := range page {
				if !yield(v, nil) {
					return
				}
			}
			if len(page) < pageSize {
				return
			}
		}
	}
}

// rows returns all rows of a query whose number is bounded.
func rows[T any](ctx context.Context, c *Catalog, op string, scan func(*sql.Rows) (T, error), query string, args ...any) ([]T, error) {
	r, err := c.read.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, c.fail(op, err)
	}
	var all []T
	for err == nil && r.Next() {
		var v T
		if v, err = scan(r); err == nil {
			all = append(all, v)
		}
	}
	if err := errors.Join(err, r.Err(), r.Close()); err != nil {
		return nil, c.fail(op, err)
	}
	return all, nil
}
