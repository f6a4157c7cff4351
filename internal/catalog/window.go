package catalog

import (
	"context"
	"iter"
	"math"
	"time"

	"instep/resourcesync"
)

const (
	// window is the period for which memberships that ended without approval are
	// counted.
	window = 24 * time.Hour
	// maxStep is the longest time that counts as passed between two extents (records of
	// the size of a set), even if the clock moved further. So a single jump of the
	// clock does not empty the window.
	maxStep = 12 * time.Hour
	// extentEvery is the shortest time between two extents (records of the size of a
	// set), which limits their number in a window.
	extentEvery = 15 * time.Minute
)

// Losses says how many resources a set has lost without approval since the window
// began.
type Losses struct {
	Members int64 // number of members of the set when the window began
	Lost    int64 // number of memberships that ended in the window without approval and did not begin again
	// Each yields the losses that Lost counts.
	Each iter.Seq2[Loss, error]
	// Joined yields the keys of the members that were added to the set in the window and
	// had not been in the set before. The keys are in ascending order.
	Joined iter.Seq2[resourcesync.Key, error]
}

// Loss is a membership that ended without approval.
type Loss struct {
	SHA256 resourcesync.Digest // SHA-256 of the bytes; zero if none were stored
	Old    bool                // whether the membership existed before the window began
}

// extent records how many members a set had at a moment at which the mirror was in sync
// with the Source.
type extent struct{ id, at, run, members int64 }

// windowStart returns the extent (a record of the size of a set) at which the window
// begins: the last extent that is old enough for the length of the window, or the first
// extent if none is. There must be at least one extent. The order of the extents is
// more reliable than their times. If an extent has an earlier time than a previous one,
// the clock was behind, and the time of the previous one counts. A time in the future
// does not count, because the clock was ahead when it was recorded.
func windowStart(extents []extent, now int64) extent {
	at := make([]int64, len(extents)) // the earliest possible time of each extent, in microseconds
	latest := int64(math.MinInt64)
	for i, e := range extents {
		if e.at <= now {
			latest = max(latest, e.at)
		}
		at[i] = latest
	}
	age, next := time.Duration(0), now
	for i := len(extents) - 1; i > 0; i-- {
		if at[i] == math.MinInt64 {
			break
		}
		age += stepOf(at[i], next)
		if age >= window {
			return extents[i]
		}
		next = at[i]
	}
	return extents[0]
}

// stepOf returns the time that counts as passed between two moments in microseconds.
func stepOf(start, end int64) time.Duration {
	return time.Duration(min(end-start, maxStep.Microseconds())) * time.Microsecond
}

func extents(a querier, set SetID) ([]extent, error) {
	return queryAll(a, nil, func(e *extent) []any { return []any{&e.id, &e.at, &e.run, &e.members} },
		"SELECT id, at, run, members FROM extent WHERE set_id = $1 ORDER BY id", set)
}

// recordExtent records the number of members of a set that has just been synchronized,
// at most once in extentEvery. It deletes the records and losses from before the
// window.
func (r *recorder) recordExtent(set SetID, at int64) {
	all, _ := extents(r, set)
	if n := len(all); n > 0 && at >= all[n-1].at && at-all[n-1].at < extentEvery.Microseconds() {
		return
	}
	last := extent{at: at}
	r.scanRow([]any{&last.id}, `INSERT INTO extent (set_id, at, run, members)
		SELECT id, $2, (SELECT COALESCE(MAX(id), 0) FROM run), members FROM sets WHERE id = $1 RETURNING id`, set, at)
	start := windowStart(append(all, last), at)
	if len(all) == 0 || start.id == all[0].id {
		return
	}
	r.exec("DELETE FROM extent WHERE set_id = $1 AND id < $2", set, start.id)
	r.exec("DELETE FROM loss WHERE set_id = $1 AND extent < $2", set, start.id)
}

// insertLoss records that a membership ends without approval. If the same membership was
// already lost in the window, the columns "born" and "sha256" keep their first values.
const insertLoss = `INSERT INTO loss (set_id, uri, extent, born, sha256)
	SELECT m.set_id, $3, e.id, m.born, CASE WHEN r.stored THEN r.sha256 END
	FROM member m JOIN resource r ON r.id = m.resource JOIN extent e ON e.id = (SELECT MAX(id) FROM extent WHERE set_id = $1)
	WHERE m.set_id = $1 AND m.resource = $2
	ON CONFLICT (set_id, uri) DO UPDATE SET extent = excluded.extent`

// recordLoss must run before the membership ends. If the user has approved the end, it
// deletes the record of an earlier loss instead.
func (r *recorder) recordLoss(m *Membership, row int64, approved bool) {
	if approved {
		r.exec("DELETE FROM loss WHERE set_id = $1 AND uri = $2", m.Set, m.URI)
		return
	}
	r.exec(insertLoss, m.Set, row, m.URI)
}

// fromLosses selects the losses in the window. It is a part of a query that is passed
// to listing.
var fromLosses = ` FROM loss l WHERE l.uri > $1 AND l.set_id = $3 AND l.extent >= $4 AND NOT EXISTS (SELECT 1 FROM ` + memberOf("l") + ")"

// Losses returns the memberships of a set that ended without approval in the window,
// which ends now. It returns false if the set was never in sync with the Source.
func (c *Mirror) Losses(ctx context.Context, set SetID) (l Losses, ok bool, err error) {
	all, err := extents(c.reading(ctx, "read extents of the catalog"), set)
	if err != nil || len(all) == 0 {
		return l, false, err
	}
	start := windowStart(all, c.instant().UnixMicro())
	l.Members = start.members
	l.Lost, ok, err = queryValue[int64](c.reading(ctx, "count the losses in the catalog"), "SELECT COUNT(*)"+fromLosses+" LIMIT $2", "", 1, set, start.id)
	l.Each = listing(c.reading(ctx, "list the losses in the catalog"), "SELECT l.uri, l.sha256, l.born <= $5"+fromLosses+" ORDER BY l.uri LIMIT $2",
		"", func(v *Loss) (any, []any) {
			uri := new(string)
			return uri, []any{uri, digestTo(&v.SHA256), &v.Old}
		}, set, start.id, start.run)
	const joined = "AND m.born > ? AND NOT EXISTS (SELECT 1 FROM loss l WHERE l.set_id = m.set_id AND l.uri = b.uri || r.rest AND l.extent >= ? AND l.born <= ?) "
	l.Joined = c.memberKeys(ctx, set, joined, start.run, start.id, start.run)
	return l, ok, err
}
