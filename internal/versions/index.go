package versions

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"path/filepath"
	"time"

	_ "modernc.org/sqlite" // the database driver for SQLite

	"instep/resourcesync"
)

// FileName is the name of the database file in a state directory. It begins with the
// name of the catalog's file, so that catalog.IsStateName recognises it.
const FileName = "catalog.db.versions"

// schema creates two tables. The table version has one row for each state of a resource;
// sha256 is NULL if the state is a deletion. The table log has the numbers that Through
// returns.
const schema = `
CREATE TABLE IF NOT EXISTS version (
	path     TEXT NOT NULL,
	since    INTEGER NOT NULL, -- microseconds since 1970
	sha256   BLOB,
	length   INTEGER NOT NULL,
	type     TEXT NOT NULL,
	encoding TEXT NOT NULL,
	PRIMARY KEY (path, since)
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS version_sha256 ON version (sha256) WHERE sha256 IS NOT NULL;
CREATE INDEX IF NOT EXISTS version_since ON version (since);
CREATE TABLE IF NOT EXISTS log (name TEXT PRIMARY KEY, through INTEGER NOT NULL) STRICT, WITHOUT ROWID;
`

// applicationID identifies databases of this package ("inVe").
const applicationID = 0x696e5665

const columns = "path, since, sha256, length, type, encoding"

type index struct{ db *sql.DB }

func openIndex(ctx context.Context, state string, writes bool) (*index, error) {
	q := url.Values{"mode": {"ro"}, "_pragma": {"busy_timeout(10000)", "query_only(ON)"}}
	if writes {
		q = url.Values{"_txlock": {"immediate"}, "_pragma": {
			"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(FULL)", "mmap_size(0)", "journal_size_limit(16777216)",
		}}
	}
	name := filepath.Join(state, FileName)
	path := url.URL{Path: filepath.ToSlash(name)}
	u := url.URL{Scheme: "file", Opaque: path.EscapedPath(), RawQuery: q.Encode()} // with Path instead of Opaque, a relative path would become absolute
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(4)
	x := &index{db: db}
	if err := x.prepare(ctx, writes); err != nil {
		return nil, errors.Join(fmt.Errorf("the database of versions %q: %w", name, err), db.Close())
	}
	return x, nil
}

func (x *index) prepare(ctx context.Context, writes bool) error {
	var id, tables int64
	err := x.db.QueryRowContext(ctx, "SELECT (SELECT application_id FROM pragma_application_id), (SELECT count(*) FROM sqlite_schema)").Scan(&id, &tables)
	if err != nil {
		return err
	}
	if id != applicationID && (id != 0 || tables > 0) {
		return fmt.Errorf("the database belongs to another program (application id %#x)", id)
	}
	if !writes {
		return nil
	}
	_, err = x.db.ExecContext(ctx, fmt.Sprintf("PRAGMA application_id = %d;", applicationID)+schema)
	return err
}

// Close closes the database, but not the bucket that contains the bytes.
func (x *index) Close() error { return x.db.Close() }

// The changes of the function change are durable when transact has returned nil.
func (x *index) transact(ctx context.Context, change func(*sql.Tx) error) error {
	tx, err := x.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := change(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// insertOne skips a state if the path already has a state with the same time, if the
// state is equal to the previous one, or if it is a deletion without a previous state.
const insertOne = `INSERT INTO version (path, since, sha256, length, type, encoding)
	SELECT ?1, ?2, ?3, ?4, ?5, ?6 WHERE NOT EXISTS (
		SELECT 1 FROM (SELECT sha256, type, encoding FROM version WHERE path = ?1 AND since <= ?2 ORDER BY since DESC LIMIT 1)
		WHERE sha256 IS ?3 AND type = ?5 AND encoding = ?6)
	AND (?3 IS NOT NULL OR EXISTS (SELECT 1 FROM version WHERE path = ?1 AND since < ?2))
	ON CONFLICT (path, since) DO NOTHING`

func (x *index) insert(ctx context.Context, states []Version) error {
	return x.transact(ctx, func(tx *sql.Tx) error {
		insert, err := tx.PrepareContext(ctx, insertOne)
		if err != nil {
			return err
		}
		defer insert.Close()
		for i := range states {
			v := &states[i]
			if v.Deleted {
				v = &Version{Path: v.Path, Since: v.Since, Deleted: true}
			}
			if _, err := insert.ExecContext(ctx, v.Path, v.Since.UnixMicro(), v.SHA256.Sum(), v.Length, v.Type, v.Encoding); err != nil {
				return err
			}
		}
		return nil
	})
}

// At returns the state of a resource at the given time. It returns ErrNoVersion if all
// stored states of the resource began later. In the returned Version, Deleted is set if
// the resource did not exist at that time.
func (x *index) At(ctx context.Context, name string, at time.Time) (Version, error) {
	for v, err := range x.query(ctx, "WHERE path = ? AND since <= ? ORDER BY since DESC LIMIT 1", name, at.UnixMicro()) {
		return v, err
	}
	return Version{}, fmt.Errorf("%w: of %q at %s", ErrNoVersion, name, at.UTC().Format(time.RFC3339))
}

// List yields the stored states of a resource, the oldest first.
func (x *index) List(ctx context.Context, name string) iter.Seq2[Version, error] {
	return x.query(ctx, "WHERE path = ? ORDER BY since", name)
}

// After yields the states of all resources that began after the given time, ordered by
// the times at which they began.
func (x *index) After(ctx context.Context, at time.Time) iter.Seq2[Version, error] {
	return x.query(ctx, "WHERE since > ? ORDER BY since, path", at.UnixMicro())
}

func (x *index) query(ctx context.Context, where string, args ...any) iter.Seq2[Version, error] {
	return func(yield func(Version, error) bool) {
		rows, err := x.db.QueryContext(ctx, "SELECT "+columns+" FROM version "+where, args...)
		if err != nil {
			yield(Version{}, err)
			return
		}
		defer rows.Close()
		for rows.Next() {
			v, err := scan(rows)
			if !yield(v, err) || err != nil {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(Version{}, err)
		}
	}
}

func scan(rows *sql.Rows) (v Version, err error) {
	var since int64
	var sum []byte
	if err := rows.Scan(&v.Path, &since, &sum, &v.Length, &v.Type, &v.Encoding); err != nil {
		return v, err
	}
	v.Since = time.UnixMicro(since).UTC()
	if v.Deleted = sum == nil; v.Deleted {
		return v, nil
	}
	v.SHA256, err = resourcesync.NewDigest(resourcesync.SHA256, sum)
	return v, err
}

func (x *index) drop(ctx context.Context, v *Version) error {
	_, err := x.db.ExecContext(ctx, "DELETE FROM version WHERE path = ? AND since = ?", v.Path, v.Since.UnixMicro())
	return err
}

// endedSQL returns a condition that is true for a row if its state ended before the time ?1.
// A state ends when the next state of the same path begins.
func endedSQL(row string) string {
	return row + ".since < ?1 AND EXISTS (SELECT 1 FROM version AS n WHERE n.path = " + row + ".path AND n.since > " + row + ".since AND n.since < ?1)"
}

// expired returns the states that ended before the given moment, and the digests of
// bytes that no remaining state has.
func (x *index) expired(ctx context.Context, moment time.Time) (old []Version, free []resourcesync.Digest, err error) {
	for v, err := range x.query(ctx, "AS v WHERE "+endedSQL("v"), moment.UnixMicro()) {
		if err != nil {
			return nil, nil, err
		}
		old = append(old, v)
	}
	rows, err := x.db.QueryContext(ctx, "SELECT DISTINCT v.sha256 FROM version AS v WHERE v.sha256 IS NOT NULL AND "+endedSQL("v")+
		" AND NOT EXISTS (SELECT 1 FROM version AS o WHERE o.sha256 = v.sha256 AND NOT ("+endedSQL("o")+"))", moment.UnixMicro())
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var sum []byte
		if err := rows.Scan(&sum); err != nil {
			return nil, nil, err
		}
		d, err := resourcesync.NewDigest(resourcesync.SHA256, sum)
		if err != nil {
			return nil, nil, err
		}
		free = append(free, d)
	}
	return old, free, rows.Err()
}

func (x *index) forget(ctx context.Context, moment time.Time) error {
	_, err := x.db.ExecContext(ctx, "DELETE FROM version AS v WHERE "+endedSQL("v"), moment.UnixMicro())
	return err
}

// Through returns the number that SetThrough stored last for a change log, or false if
// there is none. The parameter log is the name of this log. The log of each catalog and
// set must have another name.
func (x *index) Through(ctx context.Context, log string) (n int64, ok bool, err error) {
	err = x.db.QueryRowContext(ctx, "SELECT through FROM log WHERE name = ?", log).Scan(&n)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, false, nil
	}
	return n, err == nil, err
}

// SetThrough records that the Store has the states after all changes of a log with
// numbers up to n.
func (x *index) SetThrough(ctx context.Context, log string, n int64) error {
	_, err := x.db.ExecContext(ctx, "INSERT INTO log VALUES (?, ?) ON CONFLICT DO UPDATE SET through = excluded.through", log, n)
	return err
}
