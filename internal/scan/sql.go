package scan

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	_ "modernc.org/sqlite" // the SQLite driver

	"instep/resourcesync"
)

// fetchRows is the number of rows that PostgreSQL sends at a time.
const fetchRows = 1000

// Query lists the resources that an SQL query returns, one in each row. The query runs
// in a read-only transaction. Its columns are recognised by their names:
//
//	uri         of the resource; may be missing if there is a path
//	path        of the file with its bytes, slash-separated below the directory of the set
//	url         where its bytes are; if there is neither path nor url, they are at the uri
//	lastmod     a time, or text in the form of a W3C Datetime
//	length      in bytes
//	hash        one or more digests, as sha-256:…
//	type, encoding, changefreq
//
// NULL means unknown. The password of the database is never part of a configuration: it
// is read from PGPASSWORD, PGPASSFILE or ~/.pgpass.
type Query struct {
	Postgres string // the connection string or URL of a PostgreSQL database, without a password; missing parts are taken from environment variables
	SQLite   string // the name of an SQLite file; exactly one of Postgres and SQLite is set
	SQL      string
	BaseURL  string // the base URL of the files in the column path; ends in "/"
}

var queryColumns = []string{"uri", "path", "url", "lastmod", "length", "hash", "type", "encoding", "changefreq"}

// passwordSetting matches a password in the key=value form of a connection string.
var passwordSetting = regexp.MustCompile(`(?i)\bpassword\s*=`)

// ErrSecret means that a connection string contains a password.
var ErrSecret = errors.New("expected a connection string without a password: put that into PGPASSWORD or ~/.pgpass")

// Check returns an error for a mistake in the configuration that can be found without
// connecting to the database.
func (q Query) Check() error {
	switch {
	case (q.Postgres == "") == (q.SQLite == ""):
		return errors.New("expected either a PostgreSQL or an SQLite database")
	case strings.TrimSpace(q.SQL) == "":
		return errors.New("the query is missing")
	}
	u, err := url.Parse(q.Postgres)
	if err == nil && u.User != nil {
		if _, secret := u.User.Password(); secret {
			return ErrSecret
		}
	}
	if passwordSetting.MatchString(q.Postgres) {
		return ErrSecret
	}
	return nil
}

// List implements Listing.
func (q Query) List(ctx context.Context, _ time.Time) iter.Seq2[Listed, error] {
	return func(yield func(Listed, error) bool) {
		if err := q.Check(); err != nil {
			yield(Listed{}, err)
			return
		}
		read := q.readPostgres
		if q.SQLite != "" {
			read = q.readSQLite
		}
		t := rowTaker{q: q, yield: yield}
		if err := read(ctx, &t); err != nil && !t.stopped {
			yield(Listed{}, err)
		}
	}
}

// readPostgres reads the rows through a cursor on the server, so that neither client
// nor server holds all rows in memory.
func (q Query) readPostgres(ctx context.Context, t *rowTaker) (err error) {
	conn, err := pgx.Connect(ctx, q.Postgres)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrConnect, err)
	}
	defer func() { err = cmp.Or(err, conn.Close(context.WithoutCancel(ctx))) }()
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return fmt.Errorf("begin to read the database: %w", err)
	}
	defer func() { err = cmp.Or(err, tx.Rollback(context.WithoutCancel(ctx))) }()
	declare, err := tx.Query(ctx, "DECLARE listing NO SCROLL CURSOR FOR "+strings.TrimRight(q.SQL, "; \t\r\n")) // Query is used because, unlike Exec, it accepts only one statement
	if err == nil {
		declare.Close()
		err = declare.Err()
	}
	for some := true; err == nil && some && !t.stopped; {
		some, err = fetchPostgres(ctx, tx, t)
	}
	if err != nil {
		return fmt.Errorf("run the query for resources: %w", err)
	}
	return nil
}

func fetchPostgres(ctx context.Context, tx pgx.Tx, t *rowTaker) (some bool, err error) {
	rows, err := tx.Query(ctx, fmt.Sprintf("FETCH FORWARD %d FROM listing", fetchRows))
	if err != nil {
		return false, err
	}
	defer rows.Close()
	var names []string
	fields := rows.FieldDescriptions()
	if len(fields) == 0 { // check the connection first, because a lost one also leads to a result without columns
		if rows.Close(); rows.Err() != nil {
			return false, rows.Err()
		}
	}
	for _, f := range fields {
		names = append(names, f.Name)
	}
	if err := t.header(names); err != nil {
		return false, err
	}
	for rows.Next() {
		some = true
		values, err := rows.Values()
		if err != nil {
			return false, err
		}
		for i, v := range values {
			if day, ok := v.(time.Time); ok && fields[i].DataTypeOID == pgtype.DateOID {
				values[i] = day.Format(time.DateOnly)
			}
		}
		if !t.row(values) {
			return false, nil
		}
	}
	return some, rows.Err()
}

func (q Query) readSQLite(ctx context.Context, t *rowTaker) (err error) {
	options := url.Values{"mode": {"ro"}, "_pragma": {"query_only(ON)", "busy_timeout(10000)"}}
	name := url.URL{Path: filepath.ToSlash(q.SQLite)}
	db, err := sql.Open("sqlite", "file:"+name.EscapedPath()+"?"+options.Encode())
	if err != nil {
		return fmt.Errorf("open the database %q: %w", q.SQLite, err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	rows, err := db.QueryContext(ctx, q.SQL)
	if err != nil {
		return fmt.Errorf("run the query for resources in %q: %w", q.SQLite, err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	names, err := rows.Columns()
	if err == nil {
		err = t.header(names)
	}
	if err != nil {
		return err
	}
	values, to := make([]any, len(names)), make([]any, len(names))
	for i := range values {
		to[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(to...); err != nil {
			return err
		}
		if !t.row(values) {
			return nil
		}
	}
	return rows.Err()
}

type rowTaker struct {
	q       Query
	yield   func(Listed, error) bool
	names   []string
	n       int // the number of the current row, counted from 1
	stopped bool
}

func (t *rowTaker) header(names []string) error {
	for i, n := range names {
		if !slices.Contains(queryColumns, n) {
			return fmt.Errorf("column %q of the query: expected one of the names %s", n, strings.Join(queryColumns, ", "))
		}
		if slices.Contains(names[:i], n) {
			return fmt.Errorf("the query has two columns %q", n)
		}
	}
	if !slices.Contains(names, "uri") && !slices.Contains(names, "path") {
		return fmt.Errorf("expected a column uri or path in the query, found %s", strings.Join(names, ", "))
	}
	t.names = names
	return nil
}

// row yields the entry for a row. It returns false if the consumer has stopped.
func (t *rowTaker) row(values []any) bool {
	t.n++
	var e Listed
	var wrong error
	named := true // whether the columns that identify the resource could be read
	for i, v := range values {
		err := e.set(t.names[i], v)
		named = named && (err == nil || t.names[i] != "uri" && t.names[i] != "path")
		if err != nil && wrong == nil {
			wrong = fmt.Errorf("row %d of the query, column %s: %w", t.n, t.names[i], err)
		}
	}
	if e.URI == "" && e.Path != "" && named {
		e.URI = URI(t.q.BaseURL, e.Path)
	}
	if e.URI == "" && wrong == nil {
		wrong = fmt.Errorf("row %d of the query: expected a uri, found none", t.n)
	}
	if !slices.Contains(t.names, "path") && !slices.Contains(t.names, "url") {
		e.URL = e.URI
	}
	t.stopped = !t.yield(e, wrong)
	return !t.stopped
}

func (e *Listed) set(name string, value any) error {
	if value == nil {
		return nil
	}
	switch name {
	case "length":
		n, err := number(value)
		if err == nil {
			e.Length = resourcesync.Bytes(n)
		}
		return err
	case "lastmod":
		if t, ok := value.(time.Time); ok {
			e.LastMod = lastMod(t)
			return nil
		}
	}
	text, err := text(value)
	if err != nil || text == "" {
		return err
	}
	switch name {
	case "uri":
		e.URI = text
	case "path":
		e.Path = text
	case "url":
		e.URL = text
	case "type":
		e.Type = text
	case "encoding":
		e.Encoding = text
	case "lastmod":
		e.LastMod, err = parseLastMod(text)
	case "hash":
		e.Digests, err = resourcesync.ParseDigests(text)
	case "changefreq":
		if e.ChangeFreq = resourcesync.ChangeFreq(text); !e.ChangeFreq.Known() {
			e.ChangeFreq, err = "", fmt.Errorf("expected always, hourly, daily, weekly, monthly, yearly or never, found %q", text)
		}
	}
	return err
}

// parseLastMod parses a W3C Datetime, or a UTC time in the form in which SQLite writes
// it.
func parseLastMod(text string) (resourcesync.Datetime, error) {
	if t, err := time.Parse(time.DateTime, text); err == nil {
		return lastMod(t), nil
	}
	return resourcesync.ParseDatetime(text)
}

func text(value any) (string, error) {
	switch v := value.(type) {
	case string:
		return v, nil
	case []byte:
		return string(v), nil
	}
	return "", fmt.Errorf("expected text, found %T: cast the column to text", value)
}

func number(value any) (int64, error) {
	var n int64
	switch v := value.(type) {
	case int64:
		n = v
	case int32:
		n = int64(v)
	case int16:
		n = int64(v)
	default:
		return 0, fmt.Errorf("expected an integer, found %T: cast the column to bigint", value)
	}
	if n < 0 {
		return 0, fmt.Errorf("expected a number of bytes, found %d", n)
	}
	return n, nil
}
