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

// The metadata of a record is pending until the file of the record is written.
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

// applicationID marks databases of this package: "inOA" in ASCII.
const applicationID = 0x696e4f41

// Store is a database of harvested records. Its methods are not safe for concurrent use.
type Store struct {
	db     *sql.DB
	prefix string // metadataPrefix
}

// Key identifies a Store by what is harvested: a set of a repository, in a metadata
// format.
type Key struct{ BaseURL, Prefix, Set string }

// FileName returns the name of the database in the state directory. It begins with
// "catalog.db", so that catalog.IsStateName is true for it.
func (k Key) FileName() string {
	sum := sha256.Sum256([]byte(k.BaseURL + "\x00" + k.Prefix + "\x00" + k.Set))
	return "catalog.db.harvest-" + hex.EncodeToString(sum[:8])
}

// Open opens the Store with the given Key in a state directory, or creates it.
func Open(ctx context.Context, state string, k Key) (*Store, error) {
	return open(ctx, filepath.Join(state, k.FileName()), k, url.Values{"_txlock": {"immediate"}, "_pragma": {
		"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(FULL)", "mmap_size(0)", "cache_size(-32768)", "journal_size_limit(16777216)",
	}}, true)
}

// OpenReadOnly opens the Store with the given Key for reading. The error is fs.ErrNotExist if
// there is no Store.
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
	db.SetMaxOpenConns(2) // one connection iterates over records while the other one writes
	s := &Store{db: db, prefix: k.Prefix}
	if err := s.prepare(ctx, writes); err != nil {
		return nil, errors.Join(fmt.Errorf("open the database of harvested records %q: %w", path, err), db.Close())
	}
	return s, nil
}

// prepare returns an error if the database belongs to another program.
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

// progress is the stored state of the current or last harvest.
type progress struct {
	Round    int64           `json:"round"`          // number of the harvest, counted from 1
	Full     bool            `json:"full,omitempty"` // whether the harvest lists all records, so that a missing record may have been deleted
	Running  bool            `json:"running,omitempty"`
	Lost     bool            `json:"lost,omitempty"` // whether the list had a record without an identifier, which may be any of the missing records
	From     oaipmh.Stamp    `json:"from,omitzero"`  // value of the argument "from" in list requests
	Position oaipmh.Position `json:"position,omitzero"`
	Highest  oaipmh.Stamp    `json:"highest,omitzero"` // highest datestamp so far; a datestamp later than its response counts as the time of the response
	Began    time.Time       `json:"began,omitzero"`   // start of the harvest, by our clock
	LastFull time.Time       `json:"last_full,omitzero"`
	Deleted  string          `json:"deleted,omitempty"` // deletedRecord
	Size     int64           `json:"size,omitempty"`    // largest completeListSize in a response
	Format   oaipmh.Format   `json:"format,omitzero"`   // metadata format as the repository states it
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

// transact calls the function run in a transaction. It commits if run returns nil, and
// otherwise rolls back.
func (s *Store) transact(ctx context.Context, run func(*sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := run(tx); err != nil {
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

// storePage stores the records of a response and the progress of the harvest in one
// transaction.
func (s *Store) storePage(ctx context.Context, page *oaipmh.Page, p *progress) error {
	return s.transact(ctx, func(tx *sql.Tx) error {
		if page != nil {
			if err := s.put(ctx, tx, page, p.Round); err != nil {
				return err
			}
		}
		return setProgress(ctx, tx, p)
	})
}

// upsert stores a record. Changed metadata becomes pending.
const upsert = `INSERT INTO record (identifier, datestamp, sets, deleted, round, path, written, digest, length, pending)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0, ?7, ?8, ?9)
ON CONFLICT (identifier) DO UPDATE SET datestamp = ?2, sets = ?3, deleted = ?4, round = ?5, wrong = NULL,
	pending = CASE WHEN ?4 THEN NULL WHEN digest IS ?7 AND (written OR pending IS NOT NULL) THEN pending ELSE ?9 END,
	digest = CASE WHEN ?4 THEN NULL ELSE ?7 END, length = ?8`

// upsertWrong stores why a record cannot be used, and keeps the earlier facts about the record.
const upsertWrong = `INSERT INTO record (identifier, datestamp, sets, deleted, round, path, written, wrong) VALUES (?1, '', '', 1, ?2, ?3, 0, ?4)
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
		if _, err := tx.ExecContext(ctx, upsertWrong, b.Identifier, round, PathOf(s.prefix, b.Identifier), b.Err.Error()); err != nil {
			return err
		}
	}
	return nil
}

// declaration is the first line of each file of a record.
const declaration = `<?xml version="1.0" encoding="UTF-8"?>` + "\n"

// keepRecord marks a record as listed in this round, so that the record is not deleted at the
// end of a complete list. It also stores the records that the given page contains.
func (s *Store) keepRecord(ctx context.Context, id int64, page *oaipmh.Page, p *progress) error {
	return s.transact(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "UPDATE record SET round = ? WHERE id = ?", p.Round, id); err != nil {
			return err
		}
		return s.put(ctx, tx, page, p.Round)
	})
}

// markDeleted marks records as deleted: all those that the harvest with the given number did
// not list.
func (s *Store) markDeleted(ctx context.Context, tx *sql.Tx, round int64) error {
	_, err := tx.ExecContext(ctx, "UPDATE record SET deleted = 1, pending = NULL, digest = NULL, wrong = NULL WHERE round < ? AND NOT deleted", round)
	return err
}

type storedRecord struct {
	id               int64
	identifier, path string
	datestamp        string
	written          bool
	wrong            string
	pending          []byte
}

// batch is the usual number of records that are read together.
const batch = 500

// recordsWhere yields the records that match an SQL condition, ordered by ID, in batches
// of n records. The caller may write to the Store while it iterates.
func (s *Store) recordsWhere(ctx context.Context, where string, n int) iter.Seq2[[]storedRecord, error] {
	query := "SELECT id, identifier, path, datestamp, written, ifnull(wrong, ''), pending FROM record WHERE id > ? AND " + where + " ORDER BY id LIMIT ?"
	return batches(ctx, s.db, query, int64(0), n, func(rows *sql.Rows, k *storedRecord) (int64, error) {
		err := rows.Scan(&k.id, &k.identifier, &k.path, &k.datestamp, &k.written, &k.wrong, &k.pending)
		return k.id, err
	})
}

// batches yields rows in batches of n. It runs the SQL query once for each batch, with two
// parameters: the key of the last row of the previous batch, or start for the first batch,
// and n. The function scan reads a row and returns its key.
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

// update sets columns of some records in one transaction. The assignments are SQL, as after
// SET in an UPDATE statement.
func (s *Store) update(ctx context.Context, assignments string, records []storedRecord) error {
	return s.transact(ctx, func(tx *sql.Tx) error {
		for i := range records {
			if _, err := tx.ExecContext(ctx, "UPDATE record SET "+assignments+" WHERE id = ?", records[i].id); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *Store) identifiersOf(ctx context.Context, paths []string) (byPath map[string]string, err error) {
	byPath = make(map[string]string, len(paths))
	if len(paths) == 0 {
		return byPath, nil
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
		byPath[path] = identifier
	}
	return byPath, rows.Err()
}
