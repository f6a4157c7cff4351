package repository

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	_ "modernc.org/sqlite" // driver of SQLite

	"instep/internal/oaipmh"
)

// schema has the tables of the database. A record is pending until the file with its
// metadata has been written.
const schema = `
CREATE TABLE IF NOT EXISTS record (
	id         INTEGER PRIMARY KEY,
	identifier TEXT NOT NULL UNIQUE,
	datestamp  TEXT NOT NULL,    -- as the repository says
	sets       TEXT NOT NULL,    -- a space after each
	deleted    INTEGER NOT NULL,
	round      INTEGER NOT NULL, -- of the last harvest that listed it
	path       TEXT NOT NULL,    -- of its file
	written    INTEGER NOT NULL, -- the file at path is ours
	digest     BLOB,             -- SHA-256 of the metadata
	length     INTEGER,          -- of the metadata, in bytes
	pending    BLOB,             -- metadata that is to be written
	linked     BLOB,             -- digest of the metadata whose links were followed
	wrong      TEXT              -- why what the repository says of it now cannot be used
) STRICT;
CREATE INDEX IF NOT EXISTS record_pending ON record (id) WHERE pending IS NOT NULL;
CREATE INDEX IF NOT EXISTS record_removal ON record (id) WHERE deleted AND written;
CREATE INDEX IF NOT EXISTS record_wrong ON record (id) WHERE wrong IS NOT NULL;
CREATE UNIQUE INDEX IF NOT EXISTS record_path ON record (path);
CREATE TABLE IF NOT EXISTS file (record INTEGER NOT NULL, uri TEXT NOT NULL, type TEXT NOT NULL, PRIMARY KEY (record, uri)) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS file_uri ON file (uri);
CREATE TABLE IF NOT EXISTS state (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
`

// applicationID marks databases of this package ("inOA").
const applicationID = 0x696e4f41

// Store is a database of records. Its methods are not safe for concurrent use.
type Store struct {
	db     *sql.DB
	prefix string // metadataPrefix
}

// Key says which records a Store contains: those of a set of a repository in a metadata
// format. Each Key has a Store of its own.
type Key struct{ BaseURL, Prefix, Set string }

// FileName returns the name of the file of the Store, in a state directory. It begins
// with the file name of the catalog, because catalog.IsStateName recognises the files
// of a state by that.
func (k Key) FileName() string {
	sum := sha256.Sum256([]byte(k.BaseURL + "\x00" + k.Prefix + "\x00" + k.Set))
	return "catalog.db.harvest-" + hex.EncodeToString(sum[:8])
}

// Open opens the Store of a Key in a state directory. It creates the Store if there is
// none.
func Open(ctx context.Context, state string, k Key) (*Store, error) {
	return open(ctx, filepath.Join(state, k.FileName()), k, url.Values{"_txlock": {"immediate"}, "_pragma": {
		"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(FULL)", "mmap_size(0)", "cache_size(-32768)", "journal_size_limit(16777216)",
	}}, true)
}

// OpenReadOnly opens the Store of a Key for reading. The error is fs.ErrNotExist if
// there is none.
func OpenReadOnly(ctx context.Context, state string, k Key) (*Store, error) {
	root, err := os.OpenRoot(state) //nolint:forbidigo // the state directory is the user's choice
	if err != nil {
		return nil, err
	}
	_, err = root.Stat(k.FileName())
	if err = errors.Join(err, root.Close()); err != nil {
		return nil, err
	}
	return open(ctx, filepath.Join(state, k.FileName()), k, url.Values{"mode": {"ro"}, "_pragma": {"busy_timeout(10000)", "query_only(ON)"}}, false)
}

func open(ctx context.Context, path string, k Key, q url.Values, writes bool) (*Store, error) {
	u := url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: q.Encode()}
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(2) // one connection for reading, one for writing at the same time
	s := &Store{db: db, prefix: k.Prefix}
	if err := s.prepare(ctx, writes); err != nil {
		return nil, errors.Join(fmt.Errorf("open the database of harvested records %q: %w", path, err), db.Close())
	}
	return s, nil
}

// prepare checks that the database is one of this package, and creates the tables if it
// may write.
func (s *Store) prepare(ctx context.Context, writes bool) error {
	var id, objects int64
	if err := s.db.QueryRowContext(ctx, "PRAGMA application_id").Scan(&id); err != nil {
		return err
	}
	if err := s.db.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema").Scan(&objects); err != nil {
		return err
	}
	if id != applicationID && (id != 0 || objects > 0) {
		return fmt.Errorf("the database belongs to another program (application id %#x)", id)
	}
	if !writes {
		return nil
	}
	_, err := s.db.ExecContext(ctx, fmt.Sprintf("PRAGMA application_id = %d;", applicationID)+schema)
	return err
}

// Close closes the store.
func (s *Store) Close() error { return s.db.Close() }

// progress is the state of the current or last harvest, stored in the database.
type progress struct {
	Round    int64           `json:"round"`          // number of the harvest
	Full     bool            `json:"full,omitempty"` // the harvest lists all records, so records that it does not list may have been deleted
	Running  bool            `json:"running,omitempty"`
	Lost     bool            `json:"lost,omitempty"` // the harvest contained records without an identifier
	From     oaipmh.Stamp    `json:"from,omitzero"`  // the datestamp from which records are requested
	Position oaipmh.Position `json:"position,omitzero"`
	Highest  oaipmh.Stamp    `json:"highest,omitzero"` // the highest datestamp so far; one that is later than its response counts as the time of the response
	Began    time.Time       `json:"began,omitzero"`   // time at which the harvest began, by our clock
	LastFull time.Time       `json:"last_full,omitzero"`
	Deleted  string          `json:"deleted,omitempty"` // deletedRecord
	Size     int64           `json:"size,omitempty"`    // the largest completeListSize that a response stated
	Format   oaipmh.Format   `json:"format,omitzero"`   // metadata format, as the repository describes it
}

const progressName = "progress"

func (s *Store) progress(ctx context.Context) (p progress, err error) {
	var text string
	err = s.db.QueryRowContext(ctx, "SELECT value FROM state WHERE name = ?", progressName).Scan(&text)
	if errors.Is(err, sql.ErrNoRows) {
		return p, nil
	}
	if err == nil {
		err = json.Unmarshal([]byte(text), &p)
	}
	return p, err
}

// transact calls a function in a transaction. The transaction is durable if transact
// returns nil.
func (s *Store) transact(ctx context.Context, do func(*sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := do(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

func setProgress(ctx context.Context, tx *sql.Tx, p *progress) error {
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "INSERT INTO state VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value", progressName, string(text))
	return err
}

// take stores, in one transaction, the records of a response and the progress of the
// harvest.
func (s *Store) take(ctx context.Context, page *oaipmh.Page, p *progress) error {
	return s.transact(ctx, func(tx *sql.Tx) error {
		if page != nil {
			if err := s.put(ctx, tx, page, p.Round); err != nil {
				return err
			}
		}
		return setProgress(ctx, tx, p)
	})
}

// upsert stores a record. The record becomes pending if its metadata changed.
const upsert = `INSERT INTO record (identifier, datestamp, sets, deleted, round, path, written, digest, length, pending)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0, ?7, ?8, ?9)
ON CONFLICT (identifier) DO UPDATE SET datestamp = ?2, sets = ?3, deleted = ?4, round = ?5, wrong = NULL,
	pending = CASE WHEN ?4 THEN NULL WHEN digest IS ?7 AND (written OR pending IS NOT NULL) THEN pending ELSE ?9 END,
	digest = CASE WHEN ?4 THEN NULL ELSE ?7 END, length = ?8`

// mark is a statement that stores why a record cannot be used. It keeps the earlier
// facts about the record.
const mark = `INSERT INTO record (identifier, datestamp, sets, deleted, round, path, written, wrong) VALUES (?1, '', '', 1, ?2, ?3, 0, ?4)
ON CONFLICT (identifier) DO UPDATE SET round = ?2, wrong = ?4`

func (s *Store) put(ctx context.Context, tx *sql.Tx, page *oaipmh.Page, round int64) (err error) {
	insert, err := tx.PrepareContext(ctx, upsert)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, insert.Close()) }()
	for i := range page.Records {
		r := &page.Records[i]
		sets := ""
		for _, set := range r.Sets {
			if !strings.ContainsAny(set, " \t\n") {
				sets += set + " "
			}
		}
		var digest, pending, length any
		if !r.Deleted {
			file := append([]byte(declaration), r.Metadata...)
			sum := sha256.Sum256(file)
			digest, length, pending = sum[:], len(file), file
		}
		if _, err := insert.ExecContext(ctx, r.Identifier, r.Datestamp.String(), sets, r.Deleted, round, PathOf(s.prefix, r.Identifier),
			digest, length, pending); err != nil {
			return err
		}
	}
	for _, b := range page.Bad {
		if b.Identifier == "" {
			continue
		}
		if _, err := tx.ExecContext(ctx, mark, b.Identifier, round, PathOf(s.prefix, b.Identifier), b.Err.Error()); err != nil {
			return err
		}
	}
	return nil
}

// declaration is the first line of the files of records.
const declaration = `<?xml version="1.0" encoding="UTF-8"?>` + "\n"

// keep stores that a record exists although a complete list does not contain it. It
// also stores the facts that page may have about the record.
func (s *Store) keep(ctx context.Context, id int64, page *oaipmh.Page, p *progress) error {
	return s.transact(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "UPDATE record SET round = ? WHERE id = ?", p.Round, id); err != nil {
			return err
		}
		return s.put(ctx, tx, page, p.Round)
	})
}

// sweep stores that those records are deleted that a complete harvest did not list.
func (s *Store) sweep(ctx context.Context, tx *sql.Tx, round int64) error {
	_, err := tx.ExecContext(ctx, "UPDATE record SET deleted = 1, pending = NULL, digest = NULL, wrong = NULL WHERE round < ? AND NOT deleted", round)
	return err
}

// known is a row of the table record.
type known struct {
	id               int64
	identifier, path string
	datestamp        string
	written          bool
	wrong            string
	pending          []byte
}

// batch is the usual number of rows that are read together.
const batch = 500

// each yields the records that match an SQL condition, ordered by ID, in batches of n.
// While it iterates, the caller may write to the store.
func (s *Store) each(ctx context.Context, where string, n int) iter.Seq2[[]known, error] {
	query := "SELECT id, identifier, path, datestamp, written, ifnull(wrong, ''), pending FROM record WHERE id > ? AND " + where + " ORDER BY id LIMIT ?"
	return batches(ctx, s.db, query, int64(0), n, func(rows *sql.Rows, k *known) (int64, error) {
		err := rows.Scan(&k.id, &k.identifier, &k.path, &k.datestamp, &k.written, &k.wrong, &k.pending)
		return k.id, err
	})
}

// batches yields the rows of an SQL query in batches of n. The query has two
// parameters: the key after which it begins, and n. For the first batch the key is
// start. The function scan reads a row, and returns the key of that row.
func batches[T, K any](ctx context.Context, db *sql.DB, query string, start K, n int, scan func(*sql.Rows, *T) (K, error)) iter.Seq2[[]T, error] {
	read := func(after K) (some []T, last K, err error) {
		rows, err := db.QueryContext(ctx, query, after, n)
		if err != nil {
			return nil, after, err
		}
		defer func() { err = errors.Join(err, rows.Close()) }()
		for rows.Next() {
			var row T
			if last, err = scan(rows, &row); err != nil {
				return nil, after, err
			}
			some = append(some, row)
		}
		return some, last, rows.Err()
	}
	return func(yield func([]T, error) bool) {
		for after := start; ; {
			some, last, err := read(after)
			if (err != nil || len(some) > 0) && !yield(some, err) || err != nil || len(some) < n {
				return
			}
			after = last
		}
	}
}

// update applies assignments, as in an UPDATE statement, to records in one transaction.
func (s *Store) update(ctx context.Context, assignments string, records []known) error {
	return s.transact(ctx, func(tx *sql.Tx) error {
		for i := range records {
			if _, err := tx.ExecContext(ctx, "UPDATE record SET "+assignments+" WHERE id = ?", records[i].id); err != nil {
				return err
			}
		}
		return nil
	})
}

// identifiers returns, by path, the identifiers of the records whose files have these
// paths.
func (s *Store) identifiers(ctx context.Context, paths []string) (known map[string]string, err error) {
	known = make(map[string]string, len(paths))
	if len(paths) == 0 {
		return known, nil
	}
	args := make([]any, len(paths))
	for i := range paths {
		args[i] = paths[i]
	}
	query := "SELECT path, identifier FROM record WHERE path IN (?" + strings.Repeat(",?", len(paths)-1) + ")"
	rows, err := s.db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var path, identifier string
		if err := rows.Scan(&path, &identifier); err != nil {
			return nil, err
		}
		known[path] = identifier
	}
	return known, rows.Err()
}
