package catalog

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
)

const lookupSize = 500

// querier runs queries. A reading runs them outside of a transaction, and a recorder
// inside a transaction.
type querier interface {
	query(query string, args ...any) (*sql.Rows, error)
	onError(err error) error // converts an error to the one that the caller of the store gets; nil remains nil
}

type reading struct {
	*db
	ctx context.Context
	op  string
}

func (c *db) reading(ctx context.Context, op string) reading { return reading{c, ctx, op} }

// query prepares each query with numbered parameters only once, because preparing a
// query for one resource takes several times as long as running it. The other queries
// have "?" for a varying number of values, so their texts are too many to keep.
func (r reading) query(query string, args ...any) (*sql.Rows, error) {
	if strings.Contains(query, "?") {
		return r.read.QueryContext(r.ctx, query, args...)
	}
	s, err := r.statement(r.ctx, query)
	if err != nil {
		return nil, err
	}
	return s.QueryContext(r.ctx, args...)
}

func (c *db) statement(ctx context.Context, query string) (s *sql.Stmt, err error) {
	c.preparing.Lock()
	defer c.preparing.Unlock()
	if s = c.statements[query]; s == nil {
		if s, err = c.read.PrepareContext(ctx, query); err == nil {
			c.statements[query] = s
		}
	}
	return s, err
}

func (r reading) onError(err error) error {
	if err == nil {
		return nil
	}
	return r.fail(r.op, err)
}

// scanRows scans each row of a query into dest, and then calls handle.
func scanRows(a querier, dest []any, handle func(), query string, args ...any) error {
	rows, err := a.query(query, args...)
	if err != nil {
		return a.onError(err)
	}
	for err == nil && rows.Next() {
		if err = rows.Scan(dest...); err == nil {
			handle()
		}
	}
	return a.onError(errors.Join(err, rows.Err(), rows.Close()))
}

func scanRow(a querier, dest []any, query string, args ...any) (found bool, err error) {
	err = scanRows(a, dest, func() { found = true }, query, args...)
	return found && err == nil, err
}

func queryValue[T any](a querier, query string, args ...any) (v T, found bool, err error) {
	found, err = scanRow(a, []any{&v}, query, args...)
	return v, found, err
}

func exists(a querier, fromClause string, args ...any) (found bool, err error) {
	return scanRow(a, []any{new(int)}, "SELECT 1 FROM "+fromClause+" LIMIT 1", args...)
}

// queryAll appends all rows of a query to values, so it is only for queries with few
// rows. The function dest returns the destinations for the columns of a row.
func queryAll[T any](a querier, values []T, dest func(*T) []any, query string, args ...any) ([]T, error) {
	var v T
	if err := scanRows(a, dest(&v), func() { values = append(values, v) }, query, args...); err != nil {
		return nil, err
	}
	return values, nil
}

// queryColumn is for a query that returns one column and a bounded number of rows.
func queryColumn[T any](a querier, query string, args ...any) ([]T, error) {
	return queryAll(a, nil, func(v *T) []any { return []any{v} }, query, args...)
}

// lookup runs a query for at most lookupSize keys at a time, and calls handle for each
// row. It replaces the word KEYS in the query with the SQL of the keys; row is the SQL
// of one key, such as (?,?). The slice keys has the values of all keys, one key after
// the other. The parameters after the keys are in args. All parameters are "?": see
// bulkRows.
func lookup(a querier, dest []any, handle func(), query, row string, keys []any, args ...any) error {
	width := strings.Count(row, "?")
	for some := range slices.Chunk(keys, lookupSize*width) {
		err := scanRows(a, dest, handle, strings.Replace(query, "KEYS", repeated(row, len(some)/width), 1), append(some, args...)...)
		if err != nil {
			return err
		}
	}
	return nil
}

func repeated(row string, n int) string { return strings.TrimSuffix(strings.Repeat(row+",", n), ",") }

// splitKeys returns keys of the form (?,?,?) for lookup. Each has the index of a text
// in texts, the directory of the text, and the rest of the text.
func splitKeys(texts []string) []any {
	keys := make([]any, 0, 3*len(texts))
	for i, t := range texts {
		dir, rest := split(t)
		keys = append(keys, i, dir, rest)
	}
	return keys
}

// sumKeys returns keys of the form (?,?) for lookup. Each has the index of a text in
// texts, and the Sum of the text.
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
