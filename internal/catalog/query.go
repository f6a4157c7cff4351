package catalog

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
)

// lookupSize is the number of keys in one query of lookup.
const lookupSize = 500

// asker runs queries: a reading outside of a transaction, a recorder inside one.
type asker interface {
	query(query string, args ...any) (*sql.Rows, error)
	failed(err error) error // adds the name of the operation to an error; nil remains nil
}

// reading is an operation that uses the read connections.
type reading struct {
	*db
	ctx context.Context
	op  string
}

func (c *db) reading(ctx context.Context, op string) reading { return reading{c, ctx, op} }

func (r reading) query(query string, args ...any) (*sql.Rows, error) {
	return r.read.QueryContext(r.ctx, query, args...)
}

func (r reading) failed(err error) error {
	if err == nil {
		return nil
	}
	return r.fail(r.op, err)
}

// each calls scan for each row of a query.
func each(a asker, scan func(*sql.Rows) error, query string, args ...any) error {
	rows, err := a.query(query, args...)
	if err != nil {
		return a.failed(err)
	}
	for err == nil && rows.Next() {
		err = scan(rows)
	}
	return a.failed(errors.Join(err, rows.Err(), rows.Close()))
}

// first scans the only row of a query into dest; false if there is none.
func first(a asker, dest []any, query string, args ...any) (found bool, err error) {
	err = each(a, func(rows *sql.Rows) error {
		found = true
		return rows.Scan(dest...)
	}, query, args...)
	return found && err == nil, err
}

// value returns the only column of the only row of a query; false if there is no row.
func value[T any](a asker, query string, args ...any) (v T, found bool, err error) {
	found, err = first(a, []any{&v}, query, args...)
	return v, found, err
}

// rows returns all rows of a query whose number is bounded.
func rows[T any](a asker, scan func(*sql.Rows) (T, error), query string, args ...any) ([]T, error) {
	return appendRows(a, nil, scan, query, args...)
}

// column returns the only column of all rows of a query whose number is bounded.
func column[T any](a asker, query string, args ...any) ([]T, error) {
	return rows(a, func(rows *sql.Rows) (v T, err error) {
		err = rows.Scan(&v)
		return v, err
	}, query, args...)
}

func appendRows[T any](a asker, all []T, scan func(*sql.Rows) (T, error), query string, args ...any) ([]T, error) {
	err := each(a, func(rows *sql.Rows) error {
		v, err := scan(rows)
		all = append(all, v)
		return err
	}, query, args...)
	if err != nil {
		return nil, err
	}
	return all, nil
}

// lookup queries for keys, lookupSize at a time. keys has the parameters of row for
// each key; KEYS in query is replaced by the rows, and the parameters in more come
// after them. All parameters are "?": see bulkRows.
func lookup(a asker, scan func(*sql.Rows) error, query, row string, keys []any, more ...any) error {
	width := strings.Count(row, "?")
	for some := range slices.Chunk(keys, lookupSize*width) {
		err := each(a, scan, strings.Replace(query, "KEYS", repeated(row, len(some)/width), 1), append(some, more...)...)
		if err != nil {
			return err
		}
	}
	return nil
}

// repeated returns row n times, separated by commas.
func repeated(row string, n int) string { return strings.TrimSuffix(strings.Repeat(row+",", n), ",") }

// splitKeys returns the keys of texts for lookup with (?,?,?): index, directory, rest.
func splitKeys(texts []string) []any {
	keys := make([]any, 0, 3*len(texts))
	for i, t := range texts {
		dir, rest := split(t)
		keys = append(keys, i, dir, rest)
	}
	return keys
}

// sumKeys returns the keys of texts for lookup with (?,?): index, sum.
func sumKeys(texts []string) []any {
	keys := make([]any, 0, 2*len(texts))
	for i, t := range texts {
		sum := SumOf(t)
		keys = append(keys, i, sum[:])
	}
	return keys
}

// anys returns values as query parameters.
func anys[T any](values []T) []any {
	all := make([]any, len(values))
	for i, v := range values {
		all[i] = v
	}
	return all
}
