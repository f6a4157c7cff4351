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
	failed(err error) error // the error to return to the caller of the operation; nil if err is nil
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

// each scans each row of a query into dest and then calls do.
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

// first scans the only row of a query into dest; false if there is none.
func first(a asker, dest []any, query string, args ...any) (found bool, err error) {
	err = each(a, dest, func() { found = true }, query, args...)
	return found && err == nil, err
}

// value returns the only column of the only row of a query; false if there is no row.
func value[T any](a asker, query string, args ...any) (v T, found bool, err error) {
	found, err = first(a, []any{&v}, query, args...)
	return v, found, err
}

// exists reports whether there is a row; from is a query from its FROM clause on.
func exists(a asker, from string, args ...any) (yes bool, err error) {
	return first(a, []any{new(int)}, "SELECT 1 FROM "+from+" LIMIT 1", args...)
}

// rows appends all rows of a query, whose number is bounded. dest returns the
// destinations for the columns.
func rows[T any](a asker, all []T, dest func(*T) []any, query string, args ...any) ([]T, error) {
	var v T
	if err := each(a, dest(&v), func() { all = append(all, v) }, query, args...); err != nil {
		return nil, err
	}
	return all, nil
}

// column returns the only column of all rows of a query whose number is bounded.
func column[T any](a asker, query string, args ...any) ([]T, error) {
	return rows(a, nil, func(v *T) []any { return []any{v} }, query, args...)
}

// lookup is like each for a query with keys, and asks for lookupSize keys at a time.
// keys has the parameters of row for each key; KEYS in query is replaced by the rows,
// and the parameters in more come after them. All parameters are "?": see bulkRows.
func lookup(a asker, dest []any, do func(), query, row string, keys []any, more ...any) error {
	width := strings.Count(row, "?")
	for some := range slices.Chunk(keys, lookupSize*width) {
		err := each(a, dest, do, strings.Replace(query, "KEYS", repeated(row, len(some)/width), 1), append(some, more...)...)
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
		keys = append(keys, i, key(t))
	}
	return keys
}

// key returns the sum of a text as a query parameter.
func key(text string) []byte {
	sum := SumOf(text)
	return sum[:]
}

// anys returns values as query parameters.
func anys[T any](values []T) []any {
	all := make([]any, len(values))
	for i, v := range values {
		all[i] = v
	}
	return all
}
