package catalog

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
)

// lookupSize is the largest number of keys that the function lookup puts into one
// query.
const lookupSize = 500

// asker runs queries: a reading runs them outside of a transaction, a recorder inside.
type asker interface {
	query(query string, args ...any) (*sql.Rows, error)
	failed(err error) error // converts an error for the caller of the operation; nil stays nil
}

// reading is an operation that only reads, on one of the connections for reading.
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

// each runs a query. For each row it scans the columns into dest and then calls the
// function do.
func each(a asker, dest []any, do func(), query string, args ...any) error {
	rows, err := a.query(query, args...)
	if err != nil {
		return a.failed(err)
	}
	for err == nil && rows.Next() {
		if err = rows.Scan(dest...); err == nil {
			do()
		}
	}
	return a.failed(errors.Join(err, rows.Err(), rows.Close()))
}

func first(a asker, dest []any, query string, args ...any) (found bool, err error) {
	err = each(a, dest, func() { found = true }, query, args...)
	return found && err == nil, err
}

// value returns the value of a query for one row and one column. It returns false if
// there is no row.
func value[T any](a asker, query string, args ...any) (v T, found bool, err error) {
	found, err = first(a, []any{&v}, query, args...)
	return v, found, err
}

// exists reports whether a query finds any row. from is the part of the query after
// FROM.
func exists(a asker, from string, args ...any) (yes bool, err error) {
	return first(a, []any{new(int)}, "SELECT 1 FROM "+from+" LIMIT 1", args...)
}

// rows appends all rows of a query to a slice, so their number must be bounded. dest
// returns the destinations for the columns of a row.
func rows[T any](a asker, all []T, dest func(*T) []any, query string, args ...any) ([]T, error) {
	var v T
	if err := each(a, dest(&v), func() { all = append(all, v) }, query, args...); err != nil {
		return nil, err
	}
	return all, nil
}

// column returns all values of a query for one column, whose number must be bounded.
func column[T any](a asker, query string, args ...any) ([]T, error) {
	return rows(a, nil, func(v *T) []any { return []any{v} }, query, args...)
}

// lookup runs a query for many keys, at most lookupSize at a time, and handles its rows
// like the function each. keys has the values of all keys one after the other, and row
// is the SQL of one key, such as (?,?). Such rows replace the word KEYS in the query.
// The parameters in args come after the keys. All parameters are "?": see bulkRows.
func lookup(a asker, dest []any, do func(), query, row string, keys []any, args ...any) error {
	width := strings.Count(row, "?")
	for some := range slices.Chunk(keys, lookupSize*width) {
		err := each(a, dest, do, strings.Replace(query, "KEYS", repeated(row, len(some)/width), 1), append(some, args...)...)
		if err != nil {
			return err
		}
	}
	return nil
}

// repeated returns a text n times, separated by commas.
func repeated(row string, n int) string { return strings.TrimSuffix(strings.Repeat(row+",", n), ",") }

// splitKeys returns keys for lookup of the form (?,?,?): the index of a text in the
// slice, its directory, and the rest of the text.
func splitKeys(texts []string) []any {
	keys := make([]any, 0, 3*len(texts))
	for i, t := range texts {
		dir, rest := split(t)
		keys = append(keys, i, dir, rest)
	}
	return keys
}

// sumKeys returns keys for lookup of the form (?,?): the index of a text in the slice,
// and its Sum.
func sumKeys(texts []string) []any {
	keys := make([]any, 0, 2*len(texts))
	for i, t := range texts {
		keys = append(keys, i, key(t))
	}
	return keys
}

func key(text string) []byte {
	sum := SumOf(text)
	return sum[:]
}

func anys[T any](values []T) []any {
	all := make([]any, len(values))
	for i, v := range values {
		all[i] = v
	}
	return all
}
