package catalog

import (
	"context"
	"iter"
	"maps"
	"slices"
	"time"
)

// Settings of the log of a mirror. Their values are moments in microseconds since 1970.
const (
	// loggedSetting names the setting with the moment after which the log has all
	// changes. The value is "" if old entries were deleted. The setting is missing while
	// no log is written.
	loggedSetting = "logged since"
	// lastCommitSetting names the setting with the moment of the last commit that changed
	// resources. This moment increases with each commit, even if the clock is set back.
	lastCommitSetting = "held since"
)

// ownSets is an SQL pattern for the names of sets that belong to no Source: this program
// uses them for itself and never synchronizes them.
const ownSets = "instep:%"

// LogPosition is the position up to which a reader has read the log of a mirror.
type LogPosition struct {
	Seq int64     // number of the last change that was read; 0 if there was none
	At  time.Time // Datetime of the last change that was read, or the moment of the last commit if there was none
}

// Logged is an entry in the log of a mirror: the state of a resource in a set after a
// commit. For each changed resource, a commit writes one Updated entry for each set
// that contains the resource, or one Deleted entry if no set contains it any more.
// These entries have the same Datetime, and no other entries are between them. A
// Deleted entry has only URI and Path.
type Logged struct {
	Change
	Set SetID
}

// LogIf sets the function wanted, which Settle calls in its transaction. If wanted
// returns true, Settle writes the changes to the log. If it returns false, Settle ends
// the log, which would lack these changes. If the function is nil, which is the
// default, no log is written.
func (c *Mirror) LogIf(wanted func() (bool, error)) { c.logs = wanted }

// writeLog writes or ends the log. It reads the paths of resources that are in no set any
// more, so it must run before these resources are deleted.
func (s *settling) writeLog() {
	ids := slices.DeleteFunc(slices.Collect(maps.Values(s.rows)), func(id int64) bool { return id == 0 })
	if len(ids) == 0 || s.err != nil {
		return
	}
	wanted := false
	if s.logs != nil {
		var err error
		wanted, err = s.logs()
		s.stop(err)
	}
	previous, logging := s.logState()
	now := max(s.now, previous+1)
	switch {
	case !wanted && logging:
		s.breakLog(now)
		return
	case !wanted:
		s.storeNumber(lastCommitSetting, now)
		return
	}
	if !logging {
		s.cutLog()
		s.storeNumber(loggedSetting, previous)
	}
	if s.logResources(ids, now) > 0 {
		s.storeNumber(lastCommitSetting, now)
	}
}

func (r *recorder) breakLog(moment int64) {
	r.cutLog()
	r.storeNumber(lastCommitSetting, moment)
}

func (r *recorder) logState() (lastCommit int64, logging bool) {
	lastCommit, _ = r.readNumber(lastCommitSetting)
	return lastCommit, r.exists("setting WHERE name = $1", loggedSetting)
}

func (r *recorder) cutLog() {
	r.exec("DELETE FROM change")
	r.exec("DELETE FROM setting WHERE name = $1", loggedSetting)
}

const logQuery = `INSERT INTO change (set_id, datetime, change, uri, lastmod, length, digests, type, encoding, changefreq, remainder, path, due, changed, verified, stat)
	SELECT COALESCE(m.set_id, (SELECT MIN(id) FROM sets)), ?, CASE WHEN m.set_id IS NULL THEN 'deleted' ELSE 'updated' END,
		b.uri || r.rest, COALESCE(m.lastmod, ''), r.length, ` + digestsColumn + `,
		r.type, r.encoding, COALESCE(m.changefreq, ''), m.remainder, d.path || COALESCE(r.name, r.rest), m.due, m.changed, r.verified, r.stat
	FROM resource r` + placed + `LEFT JOIN member m ON m.resource = r.id
	WHERE r.id IN (`

// visible is the end of the SQL condition that begins in logQuery. The condition
// selects resources that are in no set, or in a set that readers may see.
const visible = ` OR m.set_id IS NULL OR EXISTS (SELECT 1 FROM member x WHERE x.resource = r.id
	AND (x.set_id IN (SELECT set_id FROM cursor) OR x.set_id IN (SELECT id FROM sets WHERE name LIKE '` + ownSets + `')))) ORDER BY r.id, m.set_id`

// logResources writes the log entries of resources for a commit, and returns their number.
// It omits resources that are only in sets whose first synchronization is not complete,
// unless a set has lost the resource in this commit.
func (s *settling) logResources(ids []int64, moment int64) (n int64) {
	ended := make(map[int64]bool, len(s.Ended))
	for i := range s.Ended {
		ended[s.rows[s.Ended[i].URI]] = true
	}
	slices.Sort(ids)
	for some := range slices.Chunk(ids, lookupSize) {
		gone := slices.DeleteFunc(slices.Clone(some), func(id int64) bool { return !ended[id] })
		query := logQuery + repeated("?", len(some)) + ") AND (r.id IN (" + repeated("?", len(gone)) + ")" + visible
		n += s.exec(query, slices.Concat([]any{moment}, anys(some), anys(gone))...)
	}
	return n
}

// LogEnd returns the position at the end of the log.
func (c *Mirror) LogEnd(ctx context.Context) (p LogPosition, err error) {
	_, err = scanRow(c.reading(ctx, "read the log of the catalog"), []any{&p.Seq, timeTo(&p.At)}, `SELECT COALESCE(l.seq, 0), COALESCE(l.datetime, CAST(s.value AS BIGINT), 0)
		FROM (SELECT 1) LEFT JOIN (SELECT seq, datetime FROM change ORDER BY seq DESC LIMIT 1) l LEFT JOIN setting s ON s.name = $1`, lastCommitSetting)
	return p, err
}

// LogHas reports whether the log has all changes after a position. The position comes
// from LogEnd or from an entry of the log.
func (c *Mirror) LogHas(ctx context.Context, p LogPosition) (has bool, err error) {
	// A position with Seq 0 is valid until the next commit, even if no log is written.
	has, _, err = queryValue[bool](c.reading(ctx, "read the log of the catalog"), `SELECT CASE WHEN $1 > 0 THEN EXISTS (SELECT 1 FROM change WHERE seq = $1 AND datetime = $2)
			AND EXISTS (SELECT 1 FROM setting WHERE name = $3)
		ELSE COALESCE((SELECT value FROM setting WHERE name = $3), (SELECT value FROM setting WHERE name = $4), '0') = CAST($2 AS TEXT) END`,
		p.Seq, p.At.UnixMicro(), loggedSetting, lastCommitSetting)
	return has, err
}

// Log yields the entries with after < Seq <= through, in the order of Seq.
func (c *Mirror) Log(ctx context.Context, after, through int64) iter.Seq2[Logged, error] {
	return listing(c.reading(ctx, "read the log of the catalog"), "SELECT "+changeColumns+" FROM change WHERE seq > $1 AND seq <= $3 ORDER BY seq LIMIT $2", after,
		func(l *Logged) (any, []any) { return &l.Seq, l.columns(&l.Set) }, through)
}

// TrimLog deletes the entries with a number less than seq. Each transaction deletes at
// most forgetRows (5000) entries.
func (c *Mirror) TrimLog(ctx context.Context, seq int64) error {
	for {
		var n int64
		err := c.transact(ctx, "shorten the log of the catalog", func(r *recorder) {
			n = r.exec("DELETE FROM change WHERE seq IN (SELECT seq FROM change WHERE seq < $1 ORDER BY seq LIMIT $2)", seq, forgetRows)
			if n > 0 {
				r.exec("UPDATE setting SET value = '' WHERE name = $1", loggedSetting)
			}
		})
		if err != nil || n < forgetRows {
			return err
		}
	}
}

// CutLog ends the log and deletes its entries, so that its readers have to compare all
// resources.
func (c *Mirror) CutLog(ctx context.Context) error {
	if _, logging, err := setting(c.reading(ctx, "read the log of the catalog"), loggedSetting); err != nil || !logging {
		return err
	}
	return c.transact(ctx, "end the log of the catalog", (*recorder).cutLog)
}
