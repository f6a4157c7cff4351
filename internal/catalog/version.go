package catalog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"math"
	"strconv"
	"time"

	"instep/resourcesync"
)

// Run is what one command did to a mirror.
type Run struct {
	ID                        int64 // 0: it has done nothing yet
	Begun                     time.Time
	What                      string // the command
	Created, Updated, Deleted int64  // memberships
}

// Why is what ended a state.
type Why string

// The ends of a state.
const (
	WhyUpdated Why = "updated"
	WhyDeleted Why = "deleted"
)

// Version is a state of a resource in a set: one that has ended, or the present one.
type Version struct {
	ID   int64 // 0: the present state
	Set  SetID
	Kept string // where the bytes are since they left Path; "": they did not leave it then
	Resource

	Since, Until time.Time // zero: unknown; of the present state Until is zero
	Why          Why       // it ended; "" of the present state
	Began, Ended int64     // the runs that began and ended it; 0: unknown, or not ended
	Overtaken    bool      // of RunVersions and RunOvertaken: a later run changed what came after it
}

const (
	versionColumns = "v.key, v.uri, v.path, v.length, v.sha256, v.digests, v.verified, v.type, v.changed, v.lastmod, v.id, v.set_id, v.kept, v.since, v.until, v.why, v.began, v.ended, v.remainder"
	presentColumns = "r.key, r.uri, r.path, r.length, r.sha256, r.digests, r.verified, r.type, m.changed, m.lastmod, 0, m.set_id, '', m.since, 0, '', m.run, 0, m.remainder"
)

// enterRun adds to the counts of a run, and returns its ID.
func (r *recorder) enterRun(run *Run) (id int64, err error) {
	if run.ID != 0 {
		_, err = r.exec("UPDATE run SET created = created + $2, updated = updated + $3, deleted = deleted + $4 WHERE id = $1",
			run.ID, run.Created, run.Updated, run.Deleted)
		return run.ID, err
	}
	row, err := r.row("INSERT INTO run (begun, what, created, updated, deleted) VALUES ($1, $2, $3, $4, $5) RETURNING id",
		run.Begun.UnixMicro(), run.What, run.Created, run.Updated, run.Deleted)
	if err == nil {
		err = row.Scan(&id)
	}
	return id, err
}

// The statements that keep states which end. The intents tell where bytes went; CROSS
// JOIN begins with them, since they are few.
const (
	insertVersion = `INSERT INTO version (set_id, key, uri, path, kept, length, sha256, digests, verified, type, changed, lastmod, remainder, since, until, began, why, ended)
		SELECT m.set_id, r.key, r.uri, r.path, COALESCE(i.kept, ''), r.length, r.sha256, r.digests, r.verified, r.type, m.changed, m.lastmod, m.remainder, m.since, $1, m.run, $2, $3 `
	keepOne = insertVersion + `FROM member m JOIN resource r ON r.key = m.key LEFT JOIN intent i ON i.key = m.key
		WHERE m.set_id = $4 AND m.key = $5 AND r.stored`
	keepReplaced = insertVersion + `FROM intent i CROSS JOIN resource r ON r.key = i.key CROSS JOIN member m ON m.key = i.key
		WHERE i.kept <> '' AND i.sha256 <> r.sha256 AND r.stored`
	beginNew = `UPDATE member SET since = $1, run = $2 WHERE key IN (SELECT i.key FROM intent i CROSS JOIN resource r ON r.key = i.key
		WHERE i.sha256 IS NOT NULL AND NOT (r.stored AND i.sha256 = r.sha256))`
)

// endStates ends memberships, and keeps every state that an outcome ends. It comes
// before all that changes them.
func (r *recorder) endStates(o *Outcome, run int64) error {
	for _, m := range o.Ended {
		if err := r.lose(&m, o.Meant); err != nil {
			return err
		}
		if err := r.keepState(&m, WhyDeleted, run); err != nil {
			return err
		}
		if _, err := r.exec("DELETE FROM member WHERE set_id = $1 AND key = $2", m.Set, m.Key[:]); err != nil {
			return err
		}
	}
	if run == 0 {
		return nil
	}
	if _, err := r.exec(keepReplaced, r.at, WhyUpdated, run); err != nil {
		return err
	}
	if _, err := r.exec(beginNew, r.at, run); err != nil {
		return err
	}
	for _, m := range o.Members {
		if !m.Relabel {
			continue
		}
		if err := r.keepState(&m, WhyUpdated, run); err != nil {
			return err
		}
		if _, err := r.exec("UPDATE member SET since = $3, run = $4 WHERE set_id = $1 AND key = $2", m.Set, m.Key[:], r.at, run); err != nil {
			return err
		}
	}
	return nil
}

// endFound keeps the states of files that made room for resources.
func (r *recorder) endFound(all []Found, run int64) error {
	for i := range all {
		f, key := &all[i], resourcesync.KeyOf(all[i].URI)
		_, err := r.exec(`INSERT INTO version (set_id, key, uri, path, kept, length, sha256, digests, verified, type, changed, lastmod, since, until, began, why, ended)
			VALUES ($1, $2, $3, $4, $5, $6, NULL, '', FALSE, '', 0, '', 0, $7, 0, $8, $9)`,
			f.Set, key[:], f.URI, f.Path, f.Kept, writeLength(f.Length), r.at, WhyUpdated, run)
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *recorder) keepState(m *Membership, why Why, run int64) error {
	if run == 0 {
		return nil
	}
	_, err := r.exec(keepOne, r.at, why, run, m.Set, m.Key[:])
	return err
}

// scanVersion reads versionColumns or presentColumns, and then extra.
func scanVersion(rows *sql.Rows, v *Version, extra ...any) error {
	var (
		key, sha256           []byte
		length                sql.NullInt64
		digests, lastmod      string
		changed, since, until int64
		remainder             sql.NullString
	)
	dest := append(make([]any, 0, 20), &key, &v.URI, &v.Path, &length, &sha256, &digests, &v.Verified, &v.Type, &changed, &lastmod,
		&v.ID, &v.Set, &v.Kept, &since, &until, &v.Why, &v.Began, &v.Ended, &remainder)
	if err := rows.Scan(append(dest, extra...)...); err != nil {
		return err
	}
	if v.Key = resourcesync.KeyOf(v.URI); string(key) != string(v.Key[:]) {
		return fmt.Errorf("%w: the row with key %x holds %q, whose key is %x; %s", ErrDamaged, key, v.URI, v.Key, hint)
	}
	var err error
	if v.Digests, err = readDigests(v.URI, digests, sha256); err != nil {
		return err
	}
	v.Stored, v.Length, v.Changed, v.Remainder = true, readLength(length), readTime(changed), remainder.String
	v.Since, v.Until = readMoment(since), readMoment(until)
	v.LastMod, err = readDatetime(v.URI, lastmod)
	return err
}

// readMoment reads a time that may be unknown.
func readMoment(micros int64) time.Time {
	if micros == 0 {
		return time.Time{}
	}
	return readTime(micros)
}

// versions is a listing of versions in the order of their numbers, descending if
// the query begins at the last.
func (c *Catalog) versions(ctx context.Context, query string, start any, args ...any) iter.Seq2[Version, error] {
	return listing(ctx, c, "list earlier states in", query, start, func(rows *sql.Rows, v *Version) (any, error) {
		err := scanVersion(rows, v)
		return v.ID, err
	}, args...)
}

// Present returns the states in which sets hold a resource now, in the order of the sets.
func (c *Catalog) Present(ctx context.Context, key resourcesync.Key) ([]Version, error) {
	if waits := c.ledger.versions(func(w *row, _ *state) bool { return w.resource.Key == key }); len(waits) > 0 {
		return waits, nil
	}
	return rows(ctx, c, "look up states in", func(r *sql.Rows) (v Version, err error) {
		return v, scanVersion(r, &v)
	}, "SELECT "+presentColumns+" FROM member m JOIN resource r ON r.key = m.key WHERE m.key = $1 AND r.stored ORDER BY m.set_id", key[:])
}

// VersionsOf yields the states of a resource that have ended, the last first.
func (c *Catalog) VersionsOf(ctx context.Context, key resourcesync.Key) iter.Seq2[Version, error] {
	return c.versions(ctx, "SELECT "+versionColumns+" FROM version v WHERE v.key = $3 AND v.id < $1 ORDER BY v.id DESC LIMIT $2",
		int64(math.MaxInt64), key[:])
}

// Versions yields the states that ended at a moment or after it, the last first. The +
// keeps SQLite from an index by which it would have to sort.
func (c *Catalog) Versions(ctx context.Context, since time.Time) iter.Seq2[Version, error] {
	return c.versions(ctx, "SELECT "+versionColumns+" FROM version v WHERE v.id < $1 AND +v.until >= $3 ORDER BY v.id DESC LIMIT $2",
		int64(math.MaxInt64), since.UnixMicro())
}

// DeletedSince yields the last states of the memberships that were ended at a moment
// or after it and did not begin again, in the order in which they ended.
func (c *Catalog) DeletedSince(ctx context.Context, since time.Time) iter.Seq2[Version, error] {
	deleted := c.versions(ctx, "SELECT "+versionColumns+` FROM version v
		WHERE v.id > $1 AND v.why = $4 AND +v.until >= $3
		AND NOT EXISTS (SELECT 1 FROM version l WHERE l.key = v.key AND l.id > v.id AND l.set_id = v.set_id)
		AND NOT EXISTS (SELECT 1 FROM member m WHERE m.set_id = v.set_id AND m.key = v.key) ORDER BY v.id LIMIT $2`,
		int64(0), since.UnixMicro(), WhyDeleted)
	return func(yield func(Version, error) bool) {
		for v, err := range deleted {
			if r, _ := c.ledger.find(v.Set, v.Key); err == nil && r.Member {
				continue // it has come again
			}
			if !yield(v, err) {
				return
			}
		}
	}
}

// RunVersions yields what a run changed or ended, as it was before that run, in the
// order in which it did so. Overtaken is what a later run changed once more; what is
// again as it was is left out.
func (c *Catalog) RunVersions(ctx context.Context, run int64) iter.Seq2[Version, error] {
	return listing(ctx, c, "list earlier states in", "SELECT "+versionColumns+`,
		EXISTS (SELECT 1 FROM version l WHERE l.key = v.key AND l.set_id = v.set_id AND l.ended > v.ended)
		OR EXISTS (SELECT 1 FROM member m WHERE m.set_id = v.set_id AND m.key = v.key AND m.run > v.ended)
		FROM version v WHERE v.id > $1 AND v.ended = $3 AND v.began <> $3
		AND NOT EXISTS (SELECT 1 FROM member m JOIN resource r ON r.key = m.key WHERE m.set_id = v.set_id AND m.key = v.key
			AND r.stored AND r.sha256 = v.sha256 AND r.type = v.type AND m.lastmod = v.lastmod AND m.remainder IS v.remainder)
		ORDER BY v.id LIMIT $2`, int64(0), func(rows *sql.Rows, v *Version) (any, error) {
		err := scanVersion(rows, v, &v.Overtaken)
		return v.ID, err
	}, run)
}

// RunCreated yields the members of a set that a run made and that are still as it
// made them, in ascending order of their keys.
func (c *Catalog) RunCreated(ctx context.Context, run int64, set SetID) iter.Seq2[Version, error] {
	waiting := func() []Version {
		return c.ledger.versions(func(_ *row, s *state) bool { return s.Set == set && s.run == run })
	}
	return withWaiting(ctx, c, waiting, c.versionsByKey(ctx, "SELECT "+presentColumns+` FROM member m CROSS JOIN resource r
		WHERE m.set_id = $3 AND m.key > $1 AND m.run = $4 AND r.key = m.key AND r.stored
		AND NOT EXISTS (SELECT 1 FROM version v WHERE v.key = m.key AND v.set_id = m.set_id AND v.ended = $4 AND v.began <> $4)
		ORDER BY m.key LIMIT $2`, set, run), func(v *Version) resourcesync.Key { return v.Key })
}

// RunOvertaken yields the first states of the members of a set that a run made and a
// later one changed, in ascending order of their keys. Those are Overtaken.
func (c *Catalog) RunOvertaken(ctx context.Context, run int64, set SetID) iter.Seq2[Version, error] {
	return listing(ctx, c, "list states in", "SELECT "+versionColumns+` FROM version v
		WHERE v.key > $1 AND v.set_id = $3 AND v.began = $4 AND v.ended <> $4
		AND EXISTS (SELECT 1 FROM member m WHERE m.set_id = v.set_id AND m.key = v.key)
		AND NOT EXISTS (SELECT 1 FROM version b WHERE b.key = v.key AND b.set_id = v.set_id AND b.ended = $4 AND b.began <> $4)
		ORDER BY v.key LIMIT $2`, []byte{}, func(rows *sql.Rows, v *Version) (any, error) {
		err := scanVersion(rows, v)
		v.Overtaken = true
		return v.Key[:], err
	}, set, run)
}

// AsOf yields the states in which a set held its resources at a moment, in ascending
// order of their keys. They are all from the moment that Known returns.
func (c *Catalog) AsOf(ctx context.Context, set SetID, at time.Time) iter.Seq2[Version, error] {
	waiting := func() []Version {
		return c.ledger.versions(func(_ *row, s *state) bool { return s.Set == set && s.at <= at.UnixMicro() })
	}
	return withWaiting(ctx, c, waiting, c.versionsByKey(ctx, `SELECT * FROM (SELECT `+presentColumns+` FROM member m CROSS JOIN resource r
			WHERE m.set_id = $3 AND m.key > $1 AND m.since <= $4 AND r.key = m.key AND r.stored ORDER BY m.key LIMIT $2)
		UNION ALL SELECT * FROM (SELECT `+versionColumns+` FROM version v
			WHERE v.key > $1 AND v.set_id = $3 AND v.since <= $4 AND v.until > $4 ORDER BY v.key LIMIT $2)
		ORDER BY 1 LIMIT $2`, set, at.UnixMicro()), func(v *Version) resourcesync.Key { return v.Key })
}

func (c *Catalog) versionsByKey(ctx context.Context, query string, args ...any) iter.Seq2[Version, error] {
	return listing(ctx, c, "list states in", query, []byte{}, func(rows *sql.Rows, v *Version) (any, error) {
		err := scanVersion(rows, v)
		return v.Key[:], err
	}, args...)
}

// KeyAt returns the key of the resource that has a path, by its folded form, or had
// it last; false if there is none.
func (c *Catalog) KeyAt(ctx context.Context, path string, fold resourcesync.Key) (key resourcesync.Key, ok bool, err error) {
	if err := c.current(ctx); err != nil {
		return key, false, err
	}
	if waits := c.ledger.versions(func(w *row, _ *state) bool { return w.fold == fold }); len(waits) > 0 {
		return waits[0].Key, true, nil
	}
	var found []byte
	err = c.read.QueryRowContext(ctx, `SELECT key FROM resource WHERE fold = $1
		UNION ALL SELECT key FROM (SELECT key FROM version WHERE path = $2 ORDER BY id DESC LIMIT 1) LIMIT 1`, fold[:], path).Scan(&found)
	if errors.Is(err, sql.ErrNoRows) {
		return key, false, nil
	}
	if err == nil {
		key, err = readKey(found)
	}
	if err != nil {
		return key, false, c.fail("look up a path in", err)
	}
	return key, true, nil
}

// purgedSetting holds up to which moment states that had ended were removed, in
// microseconds since 1970.
const purgedSetting = "versions purged"

// Known returns from when all states are known: before that, states that ended were
// removed or not kept yet. false if none were ever kept.
func (c *Catalog) Known(ctx context.Context) (time.Time, bool, error) {
	var micros sql.NullInt64
	err := c.read.QueryRowContext(ctx, `SELECT MAX(at) FROM (SELECT MIN(begun) AS at FROM run
		UNION ALL SELECT CAST(value AS BIGINT) FROM setting WHERE name = $1)`, purgedSetting).Scan(&micros)
	if err != nil {
		return time.Time{}, false, c.fail("read the runs of", err)
	}
	return readMoment(micros.Int64), micros.Valid, nil
}

// forgetVersions is how many states one transaction removes.
const forgetVersions = 5000

// VersionDays returns the days, in UTC, on which states ended, but for those that leave
// holds of. Days are written as 2006-01-02.
func (c *Catalog) VersionDays(ctx context.Context, leave func(day string) bool) (days []string, err error) {
	from := int64(math.MinInt64)
	for {
		var until sql.NullInt64
		err := c.read.QueryRowContext(ctx, "SELECT MIN(until) FROM version WHERE until >= $1", from).Scan(&until)
		if err != nil {
			return nil, c.fail("list earlier states in", err)
		}
		if !until.Valid {
			return days, nil
		}
		at := readTime(until.Int64).UTC()
		if day := at.Format(time.DateOnly); !leave(day) {
			days = append(days, day)
		}
		from = at.Truncate(24*time.Hour).AddDate(0, 0, 1).UnixMicro()
	}
}

// ForgetVersions removes the states that ended on a day, some thousands at a time. What
// ended before the day since is not all known from then on.
func (c *Catalog) ForgetVersions(ctx context.Context, day, since string) error {
	first, err := time.Parse(time.DateOnly, day)
	if err != nil {
		return err
	}
	known, err := time.Parse(time.DateOnly, since)
	if err != nil {
		return err
	}
	for {
		n, err := c.forgetSomeVersions(ctx, first.UnixMicro(), first.AddDate(0, 0, 1).UnixMicro(), known.UnixMicro())
		if err != nil || n < forgetVersions {
			return err
		}
	}
}

func (c *Catalog) forgetSomeVersions(ctx context.Context, from, before, known int64) (n int64, err error) {
	err = c.update(ctx, "remove earlier states from", func(tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, "DELETE FROM version WHERE id IN (SELECT id FROM version WHERE until >= $1 AND until < $2 ORDER BY until LIMIT $3)",
			from, before, forgetVersions)
		if err != nil {
			return err
		}
		if n, err = res.RowsAffected(); err != nil || n == 0 {
			return err
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO setting (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE
			SET value = MAX(CAST(value AS BIGINT), CAST(excluded.value AS BIGINT))`, purgedSetting, strconv.FormatInt(known, 10))
		return err
	})
	return n, err
}

// Runs yields the runs that changed a mirror, the last first. One that was interrupted
// before it did is left out.
func (c *Catalog) Runs(ctx context.Context) iter.Seq2[Run, error] {
	return func(yield func(Run, error) bool) {
		if err := c.current(ctx); err != nil {
			yield(Run{}, err)
			return
		}
		waiting := c.ledger.runs()
		for r, err := range c.allRuns(ctx) {
			w := waiting[r.ID]
			r.Created, r.Updated, r.Deleted = r.Created+w.Created, r.Updated+w.Updated, r.Deleted+w.Deleted
			if err == nil && r.Created+r.Updated+r.Deleted == 0 {
				continue
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

func (c *Catalog) allRuns(ctx context.Context) iter.Seq2[Run, error] {
	return listing(ctx, c, "list the runs of", "SELECT id, begun, what, created, updated, deleted FROM run WHERE id < $1 ORDER BY id DESC LIMIT $2",
		int64(math.MaxInt64), func(rows *sql.Rows, r *Run) (any, error) {
			var begun int64
			err := rows.Scan(&r.ID, &begun, &r.What, &r.Created, &r.Updated, &r.Deleted)
			r.Begun = readTime(begun)
			return r.ID, err
		})
}
