package catalog

import (
	"context"
	"database/sql"
	"iter"
	"math"
	"time"

	"instep/resourcesync"
)

// The window in which a mirror counts resources that its sets lose without consent.
const (
	window = 24 * time.Hour
	// maxStep is how much of the window passes between two extents, however far the clock
	// went in between: one jump of the clock does not empty the window.
	maxStep = 12 * time.Hour
	// extentEvery bounds how many extents a window has.
	extentEvery = 15 * time.Minute
)

// Losses counts the resources that a set has lost without consent since the window began.
type Losses struct {
	Members int64 // that the set had when the window began
	Lost    int64 // memberships that have ended since, and have not begun again

	set   SetID
	start extent
}

// Loss is a membership that has ended.
type Loss struct {
	SHA256 resourcesync.Digest // digest of the bytes; zero if there were none
	Old    bool                // the loss began before the window
}

// extent is how many members a set had at a moment at which it was in step.
type extent struct{ id, at, run, members int64 }

// windowStart returns the extent from which the losses of a set count: the last one that is
// at least as old as the window is long, otherwise the first. all are the recorded extents
// of the set in order, at least one.
//
// The order is more reliable than the clock. Each extent was recorded after the one before
// it, so a clock that was behind does not make an extent older; a time in the future comes
// from a clock that was ahead, and is ignored.
func windowStart(all []extent, now int64) extent {
	at := make([]int64, len(all)) // the earliest that each may be of
	latest := int64(math.MinInt64)
	for i, e := range all {
		if e.at <= now {
			latest = max(latest, e.at)
		}
		at[i] = latest
	}
	age, next := time.Duration(0), now
	for i := len(all) - 1; i > 0; i-- {
		if at[i] == math.MinInt64 {
			break
		}
		age += stepOf(at[i], next)
		if age >= window {
			return all[i]
		}
		next = at[i]
	}
	return all[0]
}

// stepOf is how much of the window has passed between two moments, in microseconds.
func stepOf(from, to int64) time.Duration {
	return time.Duration(min(to-from, maxStep.Microseconds())) * time.Microsecond
}

const extentsQuery = "SELECT id, at, run, members FROM extent WHERE set_id = $1 ORDER BY id"

func scanExtent(r *sql.Rows) (e extent, err error) {
	return e, r.Scan(&e.id, &e.at, &e.run, &e.members)
}

// noteExtent records that a set is in step, unless that was recorded recently, and forgets
// extents before the window.
func (r *recorder) noteExtent(set SetID, at int64) error {
	all, err := rows(r, scanExtent, extentsQuery, set)
	if err != nil {
		return err
	}
	if n := len(all); n > 0 && at >= all[n-1].at && at-all[n-1].at < extentEvery.Microseconds() {
		return nil
	}
	last := extent{at: at}
	last.id, _, err = value[int64](r, `INSERT INTO extent (set_id, at, run, members)
		SELECT id, $2, (SELECT COALESCE(MAX(id), 0) FROM run), members FROM sets WHERE id = $1 RETURNING id`, set, at)
	if err != nil {
		return err
	}
	start := windowStart(append(all, last), at)
	if len(all) == 0 || start.id == all[0].id {
		return nil
	}
	if _, err := r.exec("DELETE FROM extent WHERE set_id = $1 AND id < $2", set, start.id); err != nil {
		return err
	}
	_, err = r.exec("DELETE FROM loss WHERE set_id = $1 AND extent < $2", set, start.id)
	return err
}

// insertLoss records a loss. If the membership has ended before within the window, born and
// sha256 stay those of the first time.
const insertLoss = `INSERT INTO loss (set_id, uri, extent, born, sha256)
	SELECT m.set_id, $3, e.id, m.born, CASE WHEN r.stored THEN r.sha256 END
	FROM member m JOIN resource r ON r.id = m.resource JOIN extent e ON e.id = (SELECT MAX(id) FROM extent WHERE set_id = $1)
	WHERE m.set_id = $1 AND m.resource = $2
	ON CONFLICT (set_id, uri) DO UPDATE SET extent = excluded.extent`

// lose records the end of a membership. It has to run before the membership ends.
func (r *recorder) lose(m *Membership, row int64, meant bool) (err error) {
	if meant {
		_, err = r.exec("DELETE FROM loss WHERE set_id = $1 AND uri = $2", m.Set, m.URI)
	} else {
		_, err = r.exec(insertLoss, m.Set, row, m.URI)
	}
	return err
}

// lost takes the page size as $2: see listing. $1 is a URI.
var lost = ` FROM loss l WHERE l.uri > $1 AND l.set_id = $3 AND l.extent >= $4 AND NOT EXISTS (SELECT 1 FROM ` + memberOf("l") + ")"

// Losses returns the losses of a set in the window that ends now; false if it was never in
// step.
func (c *Mirror) Losses(ctx context.Context, set SetID) (l Losses, ok bool, err error) {
	all, err := rows(c.reading(ctx, "read extents of"), scanExtent, extentsQuery, set)
	if err != nil || len(all) == 0 {
		return l, false, err
	}
	l.set, l.start = set, windowStart(all, c.instant().UnixMicro())
	l.Members = l.start.members
	l.Lost, ok, err = value[int64](c.reading(ctx, "count the losses in"), "SELECT COUNT(*)"+lost+" LIMIT $2", "", 1, set, l.start.id)
	return l, ok, err
}

// EachLoss yields the resources that l counts as lost.
func (c *Mirror) EachLoss(ctx context.Context, l Losses) iter.Seq2[Loss, error] {
	return listing(c.reading(ctx, "list the losses in"), "SELECT l.uri, l.sha256, l.born"+lost+" ORDER BY l.uri LIMIT $2",
		"", func(rows *sql.Rows, v *Loss) (any, error) {
			var uri string
			var sum []byte
			var born int64
			err := rows.Scan(&uri, &sum, &born)
			if err == nil {
				v.SHA256, err = readSHA256(sum)
			}
			v.Old = born <= l.start.run
			return uri, err
		}, l.set, l.start.id)
}

// Newcomers yields the keys of the members that l's set has got since the window began and
// did not have before, in ascending order.
func (c *Mirror) Newcomers(ctx context.Context, l Losses) iter.Seq2[resourcesync.Key, error] {
	const only = "AND m.born > $5 AND NOT EXISTS (SELECT 1 FROM loss l WHERE l.set_id = $1 AND l.uri = b.uri || r.rest AND l.extent >= $6 AND l.born <= $5) "
	return listByKey(c.reading(ctx, listMembers), "SELECT b.uri || r.rest"+byKey, only, scanKey, l.set, l.start.run, l.start.id)
}
