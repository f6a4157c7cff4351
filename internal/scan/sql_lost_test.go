package scan

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"
	"time"

	"instep/fetch"
)

// A database that goes away in the middle takes nothing away, and is told as what it is.
func TestADatabaseThatIsLostInTheMiddle(t *testing.T) {
	db := newPostgres(t)
	q := db.query
	q.SQL = "SELECT 'https://example.org/o' || n AS uri, '" + digestOf("x") + "' AS hash FROM generate_series(1, 2500) n"
	lose := false
	f := newList(t, func(*fetch.Client) Listing { return q.List })
	f.MaxDelete = everything(t)
	list := f.Listing
	f.Listing = func(ctx context.Context, since time.Time) iter.Seq2[Listed, error] {
		return func(yield func(Listed, error) bool) {
			n := 0
			for e, err := range list(ctx, since) {
				if n++; lose && n == 500 {
					db.exec(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'FETCH%'")
				}
				if !yield(e, err) {
					return
				}
			}
		}
	}
	expect(t, f.scan(), 2500, 0, 0, 0)
	lose = true
	r := f.scan()
	if r.Deleted != 0 || r.Failures.Count != 1 || strings.Contains(r.Failures.First[0].Error(), "column") {
		t.Errorf("got %+v, want the lost connection told and nothing deleted", r)
	}

	t.Run("a query without end is cancelled", func(t *testing.T) {
		q.SQL = "SELECT 'https://example.org/o' || n AS uri FROM generate_series(1, 2000000000) n, pg_sleep(1000)"
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(300*time.Millisecond, cancel)
		var got error
		for _, err := range q.List(ctx, time.Time{}) {
			got = err
		}
		if !errors.Is(got, context.Canceled) {
			t.Errorf("got %v, want it cancelled", got)
		}
	})
}
