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
func pages[T, C any](of reading, start C, fetch func(of reading, into []T, after C) ([]T, C, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		of := of
		var stop context.CancelFunc
		of.ctx, stop = context.WithCancel(of.ctx)
		defer stop()
		next := func(p page[T, C]) page[T, C] {
			clear(p.rows)
			p.rows, p.cursor, p.err = fetch(of, p.rows[:0], p.cursor)
			return p
		}
		ahead := make(chan page[T, C], 1)
		this, spare := next(page[T, C]{cursor: start}), page[T, C]{}
		for {
			if this.err != nil {
				var none T
				yield(none, this.err)
				return
			}
			more := len(this.rows) >= pageSize
			for i := range this.rows {
				if more && i == prefetch {
					spare.cursor = this.cursor
					go func(p page[T, C]) { ahead <- next(p) }(spare)
				}
				if !yield(this.rows[i], nil) {
					if more && i >= prefetch {
						stop()
						<-ahead
					}
					return
				}
			}
			if !more {
				return
			}
			this, spare = <-ahead, this
		}
	}
}

// page has some rows of a listing and the cursor of the last row.
type page[T, C any] struct {
	rows   []T
	cursor C
	err    error
}

// spansAhead is the number of spans that are read ahead of the consumer.
const spansAhead = 2

// spans yields the rows of a table by ranges of row numbers, up to the greatest, which
// query returns, so that several ranges are read at a time. fetch appends the rows after
// one number up to another. Rows that are added or removed meanwhile may be seen or not.
func spans[T any](of reading, query string, fetch func(of reading, into []T, after, through int64) ([]T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		of := of
		var stop context.CancelFunc
		of.ctx, stop = context.WithCancel(of.ctx)
		s := spanner[T]{fetch: fetch}
		defer s.wait()
		defer stop()
		var err error
		if s.last, _, err = value[int64](of, query); err != nil {
			var none T
			yield(none, err)
			return
		}
		s.begin(of, 1)
		for len(s.ahead) > 0 && s.yield(of, yield) {
			s.begin(of, spansAhead)
		}
	}
}

type spanner[T any] struct {
	fetch       func(of reading, into []T, after, through int64) ([]T, error)
	begun, last int64
	ahead       []chan spanned[T] // in order
	spare       [][]T             // rows that were consumed, for their space
}

type spanned[T any] struct {
	rows []T
	err  error
}

// begin reads ahead.
func (s *spanner[T]) begin(of reading, spans int) {
	for len(s.ahead) < spans && s.begun < s.last {
		after, out := s.begun, make(chan spanned[T], 1)
		s.begun += pageSize
		s.ahead = append(s.ahead, out)
		var into []T
		if n := len(s.spare); n > 0 {
			into, s.spare = s.spare[n-1][:0], s.spare[:n-1]
		}
		go func() {
			var p spanned[T]
			p.rows, p.err = s.fetch(of, into, after, after+pageSize)
			out <- p
		}()
	}
}

// yield yields the next span, and reports whether to continue.
func (s *spanner[T]) yield(of reading, yield func(T, error) bool) bool {
	p := <-s.ahead[0]
	s.ahead = s.ahead[1:]
	if p.err != nil {
		var none T
		yield(none, p.err)
		return false
	}
	for i := range p.rows {
		if i == prefetch {
			s.begin(of, spansAhead)
		}
		if !yield(p.rows[i], nil) {
			return false
		}
	}
	clear(p.rows)
	s.spare = append(s.spare, p.rows)
	return true
}

// wait waits for the reading that nobody waited for.
func (s *spanner[T]) wait() {
	for _, out := range s.ahead {
		<-out
	}
}
