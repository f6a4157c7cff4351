package catalog

import (
	"context"
	"database/sql"
	"iter"
	"math"
	"strings"
	"time"

	"instep/resourcesync"
)

// Run is a run of a command that changed a mirror.
type Run struct {
	ID                        int64 // ID of the run; 0 if the run has changed nothing yet
	Number                    int64 // wanted ID of a new run; if it is not greater than all earlier IDs, the run gets the next ID
	Begun                     time.Time
	What                      string // command line of the run
	Created, Updated, Deleted int64  // numbers of memberships that the run created, updated and deleted
}

// Version is a state of a resource in a set, either an ended state or the present one.
type Version struct {
	ID   int64 // ID of an ended state; 0 for the present state
	Set  SetID
	Kept string // path to which the bytes at Path were moved; "" if they were not moved
	Resource

	Since, Until time.Time           // times at which the state began and ended; Since is zero if unknown, and Until is zero for the present state
	Why          resourcesync.Change // kind of the change that ended the state, Updated or Deleted; "" for the present state
	Began, Ended int64               // IDs of the runs that began and ended the state; 0 if unknown or not ended
	Overtaken    bool                // whether a later run changed the resource again; only RunVersions and RunOvertaken set this field
}

// Columns for Version.columns.
const (
	versionColumns = "0, v.uri, NULL, v.path, TRUE, v.length, " + digestsColumn + ", v.verified, v.type, '', '', FALSE, v.changed, v.lastmod, '', '', '', v.remainder, v.id, v.set_id, v.kept, v.since, v.until, v.why, v.began, v.ended"
	presentColumns = resourceColumns + ", FALSE, m.changed, m.lastmod, '', '', '', m.remainder, 0, m.set_id, '', m.since, 0, '', m.run, 0"
)

func (v *Version) columns() []any {
	return append(v.Resource.columns(), &v.ID, &v.Set, &v.Kept, microsTo(&v.Since), microsTo(&v.Until), &v.Why, &v.Began, &v.Ended)
}

// enterRun inserts a run that has no ID yet. If the run has an ID, enterRun adds its
// counts to those that are stored.
func (r *recorder) enterRun(run *Run) (id int64) {
	if run.ID != 0 {
		r.exec("UPDATE run SET created = created + $2, updated = updated + $3, deleted = deleted + $4 WHERE id = $1",
			run.ID, run.Created, run.Updated, run.Deleted)
		return run.ID
	}
	r.scanRow([]any{&id}, `INSERT INTO run (id, begun, what, created, updated, deleted)
		VALUES (max($6, COALESCE((SELECT max(id) FROM run), 0) + 1), $1, $2, $3, $4, $5) RETURNING id`,
		run.Begun.UnixMicro(), run.What, run.Created, run.Updated, run.Deleted, run.Number)
	return id
}

// memberOf returns the part of an SQL query that follows FROM. It finds the membership
// m and the resource r for a row with the columns set_id and uri. It ends with a
// condition, so AND may follow.
func memberOf(row string) string {
	return membersOf(row) + "AND m.set_id = " + row + ".set_id "
}

// membersOf is like memberOf, but finds the memberships of the resource in all sets.
func membersOf(row string) string {
	return strings.ReplaceAll(`base b CROSS JOIN resource r ON r.base = b.id AND r.rest = substr(row.uri, length(b.uri) + 1)
		CROSS JOIN member m ON m.resource = r.id WHERE b.uri = rtrim(row.uri, replace(row.uri, '/', '')) `, "row.", row+".")
}

// The following statements store in the history the states that an outcome ends. The
// table intent has the paths to which the bytes of these states are moved. CROSS JOIN
// makes SQLite begin with this table, which has only a few rows.
const (
	insertVersion = `INSERT INTO version (set_id, uri, path, kept, length, sha256, digests, verified, type, changed, lastmod, remainder, since, until, began, why, ended)
		SELECT m.set_id, b.uri || r.rest, d.path || COALESCE(r.name, r.rest), COALESCE(i.kept, ''), r.length, r.sha256, r.digests, r.verified, r.type,
		m.changed, m.lastmod, m.remainder, m.since, $1, m.run, $2, $3 `
	keepOne = insertVersion + `FROM member m CROSS JOIN resource r ON r.id = m.resource` + placed + `LEFT JOIN intent i ON i.uri = $6
		WHERE m.set_id = $4 AND m.resource = $5 AND r.stored`
	keepReplaced = insertVersion + `FROM intent i CROSS JOIN resource r ON r.id = i.resource` + placed + `CROSS JOIN member m ON m.resource = r.id
		WHERE i.kept <> '' AND i.sha256 <> r.sha256 AND r.stored`
	beginNew = `UPDATE member SET since = $1, run = $2 WHERE resource IN (SELECT r.id FROM intent i CROSS JOIN resource r ON r.id = i.resource
		WHERE i.sha256 IS NOT NULL AND NOT (r.stored AND i.sha256 = r.sha256))`
)

// endStates must run before the statements that change the states, because it stores the
// earlier states in the history.
func (s *settling) endStates() {
	for i := range s.Ended {
		m := &s.Ended[i]
		row := s.rows[m.URI]
		s.recordLoss(m, row, s.Meant)
		s.keepState(m, resourcesync.Deleted)
		s.exec("DELETE FROM member WHERE set_id = $1 AND resource = $2", m.Set, row)
	}
	if s.run != 0 {
		s.exec(keepReplaced, s.moment, resourcesync.Updated, s.run)
		s.exec(beginNew, s.moment, s.run)
		for i := range s.Members {
			if m := &s.Members[i]; m.Relabel {
				s.keepState(m, resourcesync.Updated)
				s.exec("UPDATE member SET since = $3, run = $4 WHERE set_id = $1 AND resource = $2", m.Set, s.rows[m.URI], s.moment, s.run)
			}
		}
	}
	for i := range s.Found {
		f := &s.Found[i]
		s.exec(`INSERT INTO version (set_id, uri, path, kept, length, sha256, digests, verified, type, changed, lastmod, since, until, began, why, ended)
			VALUES ($1, $2, $3, $4, $5, NULL, '', FALSE, '', 0, '', 0, $6, 0, $7, $8)`,
			f.Set, f.URI, f.Path, f.Kept, writeLength(f.Length), s.moment, resourcesync.Updated, s.run)
	}
}

func (s *settling) keepState(m *Membership, why resourcesync.Change) {
	if s.run != 0 {
		s.exec(keepOne, s.moment, why, s.run, m.Set, s.rows[m.URI], m.URI)
	}
}

// versions yields the ended states that satisfy an SQL condition, in the order of their
// IDs. The parameter overtaken is an SQL expression for the field Overtaken.
func (c *db) versions(ctx context.Context, overtaken, condition string, args ...any) iter.Seq2[Version, error] {
	return c.versionsBy(ctx, "SELECT "+versionColumns+", "+overtaken+" FROM version v WHERE v.id > $1 AND "+condition+" ORDER BY v.id LIMIT $2", 0, args...)
}

func (c *db) lastVersions(ctx context.Context, condition string, args ...any) iter.Seq2[Version, error] {
	return c.versionsBy(ctx, "SELECT "+versionColumns+", FALSE FROM version v WHERE v.id < $1 AND "+condition+" ORDER BY v.id DESC LIMIT $2", math.MaxInt64, args...)
}

func (c *db) versionsBy(ctx context.Context, query string, start int64, args ...any) iter.Seq2[Version, error] {
	return listing(c.reading(ctx, "list earlier states in the catalog"), query, start, func(v *Version) (any, []any) {
		return &v.ID, append(v.columns(), &v.Overtaken)
	}, args...)
}

// Present returns the present states of a resource, in the order of its sets.
func (c *Mirror) Present(ctx context.Context, uri string) ([]Version, error) {
	base, rest := split(uri)
	return queryAll(c.reading(ctx, "look up states in the catalog"), nil, (*Version).columns, "SELECT "+presentColumns+` FROM base b CROSS JOIN resource r ON r.base = b.id
		CROSS JOIN directory d ON d.id = r.dir CROSS JOIN member m ON m.resource = r.id WHERE b.uri = $1 AND r.rest = $2 AND r.stored ORDER BY m.set_id`, base, rest)
}

// VersionsOf yields the ended states of a resource, the last one first.
func (c *Mirror) VersionsOf(ctx context.Context, uri string) iter.Seq2[Version, error] {
	return c.lastVersions(ctx, "v.uri = $3", uri)
}

// Versions yields the states that ended at or after a moment, the last one first.
func (c *Mirror) Versions(ctx context.Context, moment time.Time) iter.Seq2[Version, error] {
	// The + keeps SQLite from using an index with which it would have to sort.
	return c.lastVersions(ctx, "+v.until >= $3", moment.UnixMicro())
}

// DeletedSince yields the last states of memberships that ended at or after a moment, in the
// order in which they ended. It omits resources that any set has now.
func (c *Mirror) DeletedSince(ctx context.Context, moment time.Time) iter.Seq2[Version, error] {
	return c.versions(ctx, "FALSE", `v.why = $4 AND +v.until >= $3
		AND NOT EXISTS (SELECT 1 FROM version l WHERE l.uri = v.uri AND l.id > v.id AND l.set_id = v.set_id)
		AND NOT EXISTS (SELECT 1 FROM `+membersOf("v")+")", moment.UnixMicro(), resourcesync.Deleted)
}

// RunVersions yields the states that a run ended, in the order of the changes. It omits
// states that the same run began, and states that are equal to the present state of the
// resource. It sets Overtaken if a later run changed the resource in the set again, or
// replaced its bytes for another set.
func (c *Mirror) RunVersions(ctx context.Context, run int64) iter.Seq2[Version, error] {
	return c.versions(ctx, `EXISTS (SELECT 1 FROM version l WHERE l.uri = v.uri AND l.set_id = v.set_id AND l.ended > v.ended)
		OR EXISTS (SELECT 1 FROM `+membersOf("v")+"AND m.run > v.ended AND (m.set_id = v.set_id OR r.stored AND r.sha256 <> v.sha256))", `v.ended = $3 AND v.began <> $3
		AND NOT EXISTS (SELECT 1 FROM `+memberOf("v")+`
			AND r.stored AND r.sha256 = v.sha256 AND r.type = v.type AND m.lastmod = v.lastmod AND m.remainder IS v.remainder)`, run)
}

// RunCreated yields the members that a run added to a set and that have not changed
// since, in the order in which they were first recorded.
func (c *Mirror) RunCreated(ctx context.Context, run int64, set SetID) iter.Seq2[Version, error] {
	return c.present(ctx, ` AND m.run = $4 AND NOT EXISTS (SELECT 1 FROM version v WHERE v.uri = b.uri || r.rest
		AND v.set_id = m.set_id AND v.ended = $4 AND v.began <> $4)`, set, run)
}

// present yields the present states in a set (parameter $3) that satisfy an SQL
// condition, in the order in which the resources were first recorded.
func (c *db) present(ctx context.Context, condition string, args ...any) iter.Seq2[Version, error] {
	return listing(c.reading(ctx, "list states in the catalog"), "SELECT "+presentColumns+" FROM member m CROSS JOIN resource r ON r.id = m.resource"+placed+
		"WHERE m.set_id = $3 AND m.resource > $1 AND r.stored"+condition+" ORDER BY m.resource LIMIT $2", 0,
		func(v *Version) (any, []any) { return &v.Resource.ID, v.columns() }, args...)
}

// RunOvertaken yields states of members that a run added to a set and that a later run
// changed. It yields only the first state of each member that has ended, in the order
// in which these states ended, with Overtaken set.
func (c *Mirror) RunOvertaken(ctx context.Context, run int64, set SetID) iter.Seq2[Version, error] {
	return c.versions(ctx, "TRUE", `v.set_id = $3 AND v.began = $4 AND v.ended <> $4
		AND EXISTS (SELECT 1 FROM `+memberOf("v")+`)
		AND NOT EXISTS (SELECT 1 FROM version b WHERE b.uri = v.uri AND b.set_id = v.set_id AND b.ended = $4 AND b.began <> $4)`, set, run)
}

// AsOf yields the states that a set had at a moment: first the states that are still
// present, in the order in which the resources were first recorded, then the states that
// have ended since, in the order in which they ended. No state is missing if the moment
// is not before the result of Known.
func (c *Mirror) AsOf(ctx context.Context, set SetID, moment time.Time) iter.Seq2[Version, error] {
	return func(yield func(Version, error) bool) {
		for v, err := range c.present(ctx, " AND m.since <= $4", set, moment.UnixMicro()) {
			if !yield(v, err) {
				return
			}
		}
		c.versions(ctx, "FALSE", "v.set_id = $3 AND v.since <= $4 AND v.until > $4", set, moment.UnixMicro())(yield)
	}
}

// URIAt returns the URI of the resource whose file has the path. If there is none, it
// returns the URI of the last resource that had the path, or false if no resource ever
// had it. Paths are compared with the function of FoldBy.
func (c *Mirror) URIAt(ctx context.Context, path string) (uri string, ok bool, err error) {
	dir, name := split(c.folding()(path))
	return queryValue[string](c.reading(ctx, "look up a path in the catalog"), `SELECT b.uri || r.rest FROM directory d CROSS JOIN resource r ON r.dir = d.id AND r.fold = $2
		CROSS JOIN base b ON b.id = r.base WHERE d.fold = $1
		UNION ALL SELECT uri FROM (SELECT uri FROM version WHERE path = $3 ORDER BY id DESC LIMIT 1) LIMIT 1`, dir, name, path)
}

// purgedSetting names the setting with a time in microseconds since 1970. States that
// ended before this time were deleted from the history.
const purgedSetting = "versions purged"

// Known returns the moment since which the history is complete. States that ended earlier
// were deleted or never stored. Known returns false if no state was ever stored.
func (c *Mirror) Known(ctx context.Context) (time.Time, bool, error) {
	micros, _, err := queryValue[sql.NullInt64](c.reading(ctx, "read the runs of the catalog"), `SELECT MAX(at) FROM (SELECT MIN(begun) AS at FROM run
		UNION ALL SELECT CAST(value AS BIGINT) FROM setting WHERE name = $1)`, purgedSetting)
	return readMicros(micros.Int64), micros.Valid, err
}

// VersionDays returns the days on which states ended, in UTC, in the form 2006-01-02.
// It leaves out the days for which omit returns true.
func (c *Mirror) VersionDays(ctx context.Context, omit func(day string) bool) (days []string, err error) {
	from := int64(math.MinInt64)
	for {
		until, _, err := queryValue[sql.NullInt64](c.reading(ctx, "list earlier states in the catalog"), "SELECT MIN(until) FROM version WHERE until >= $1", from)
		if err != nil || !until.Valid {
			return days, err
		}
		at := readTime(until.Int64).UTC()
		if day := at.Format(time.DateOnly); !omit(day) {
			days = append(days, day)
		}
		from = at.Truncate(24*time.Hour).AddDate(0, 0, 1).UnixMicro()
	}
}

// ForgetVersions deletes the states that ended on a day, at most forgetRows (5000) in
// each transaction. If a state was deleted, Known then returns the beginning of the day
// knownSince or a later moment.
func (c *Mirror) ForgetVersions(ctx context.Context, day, knownSince string) error {
	begin, err := time.Parse(time.DateOnly, day)
	if err != nil {
		return err
	}
	known, err := time.Parse(time.DateOnly, knownSince)
	if err != nil {
		return err
	}
	for {
		var n int64
		err := c.transact(ctx, "remove earlier states from the catalog", func(r *recorder) {
			n = r.exec("DELETE FROM version WHERE id IN (SELECT id FROM version WHERE until >= $1 AND until < $2 ORDER BY until LIMIT $3)",
				begin.UnixMicro(), begin.AddDate(0, 0, 1).UnixMicro(), forgetRows)
			if n > 0 {
				purged, _ := r.readNumber(purgedSetting)
				r.storeNumber(purgedSetting, max(purged, known.UnixMicro()))
			}
		})
		if err != nil || n < forgetRows {
			return err
		}
	}
}

// Runs yields the runs that changed a mirror, the last one first. It omits runs that were
// interrupted before their first change.
func (c *Mirror) Runs(ctx context.Context) iter.Seq2[Run, error] {
	return listing(c.reading(ctx, "list the runs of the catalog"), `SELECT id, begun, what, created, updated, deleted FROM run
		WHERE id < $1 AND created + updated + deleted > 0 ORDER BY id DESC LIMIT $2`,
		int64(math.MaxInt64), func(r *Run) (any, []any) {
			return &r.ID, []any{&r.ID, timeTo(&r.Begun), &r.What, &r.Created, &r.Updated, &r.Deleted}
		})
}
