package catalog

import (
	"context"
	"iter"
	"math"
	"time"

	"instep/resourcesync"
)

// The following constants define the time window in which a mirror counts the resources
// that a set loses without approval.
const (
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
	Lost    int64 // the number of memberships that ended in the window without approval and did not begin again

	set   SetID
	start extent
}

// Loss is a membership that ended without approval.
type Loss struct {
	SHA256 resourcesync.Digest // SHA-256 of the bytes; zero if none were stored
	Old    bool                // the membership existed before the window began
}

// extent records how many members a set had at a moment at which the mirror was in sync
// with the Source.
type extent struct{ id, at, run, members int64 }

// windowStart returns the extent (a record of the size of a set) at which the window of
// a set begins: the last one that is at least as old as the window is long, or the
// first one if none is. all has at least one extent, and is in the order in which they
// were recorded.
//
// The order of the extents is more reliable than the clock. Each extent was recorded
// after the one before it, so it is not older than that, even if the clock was behind.
// An extent with a time in the future was recorded while the clock was ahead, so its
// time does not count.
func windowStart(all []extent, now int64) extent {
	at := make([]int64, len(all)) // the earliest possible time of each extent, in microseconds
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

// stepOf returns the time that counts as passed between two moments, which are given in
// microseconds. It is at most maxStep.
func stepOf(from, to int64) time.Duration {
	return time.Duration(min(to-from, maxStep.Microseconds())) * time.Microsecond
}

func extents(a asker, set SetID) ([]extent, error) {
	return rows(a, nil, func(e *extent) []any { return []any{&e.id, &e.at, &e.run, &e.members} },
		"SELECT id, at, run, members FROM extent WHERE set_id = $1 ORDER BY id", set)
}

// noteExtent records the number of members of a set that has just been synchronized,
// unless this was recorded a short time ago. It deletes such records, and losses, from
// before the window.
func (r *recorder) noteExtent(set SetID, at int64) {
	all, _ := extents(r, set)
	if n := len(all); n > 0 && at >= all[n-1].at && at-all[n-1].at < extentEvery.Microseconds() {
		return
	}
	last := extent{at: at}
	r.first([]any{&last.id}, `INSERT INTO extent (set_id, at, run, members)
		SELECT id, $2, (SELECT COALESCE(MAX(id), 0) FROM run), members FROM sets WHERE id = $1 RETURNING id`, set, at)
	start := windowStart(append(all, last), at)
	if len(all) == 0 || start.id == all[0].id {
		return
	}
	r.exec("DELETE FROM extent WHERE set_id = $1 AND id < $2", set, start.id)
	r.exec("DELETE FROM loss WHERE set_id = $1 AND extent < $2", set, start.id)
}

// insertLoss records that a membership ends without approval. If this has already
// happened to it in the window, born and sha256 keep their first values.
const insertLoss = `INSERT INTO loss (set_id, uri, extent, born, sha256)
	SELECT m.set_id, $3, e.id, m.born, CASE WHEN r.stored THEN r.sha256 END
	FROM member m JOIN resource r ON r.id = m.resource JOIN extent e ON e.id = (SELECT MAX(id) FROM extent WHERE set_id = $1)
	WHERE m.set_id = $1 AND m.resource = $2
	ON CONFLICT (set_id, uri) DO UPDATE SET extent = excluded.extent`

// lose records that a membership ends without approval. If the end was approved, it
// deletes the record of an earlier loss instead. It must run before the membership
// ends.
func (r *recorder) lose(m *Membership, row int64, meant bool) {
	if meant {
		r.exec("DELETE FROM loss WHERE set_id = $1 AND uri = $2", m.Set, m.URI)
		return
	}
	r.exec(insertLoss, m.Set, row, m.URI)
}

// lost is the FROM clause for the losses in the window whose URIs come after $1. The
// page size is $2: see listing.
var lost = ` FROM loss l WHERE l.uri > $1 AND l.set_id = $3 AND l.extent >= $4 AND NOT EXISTS (SELECT 1 FROM ` + memberOf("l") + ")"

// Losses returns the losses of a set in the window that ends now, or false if the set
// was never in sync.
func (c *Mirror) Losses(ctx context.Context, set SetID) (l Losses, ok bool, err error) {
	all, err := extents(c.reading(ctx, "read extents of the catalog"), set)
	if err != nil || len(all) == 0 {
		return l, false, err
	}
	l.set, l.start = set, windowStart(all, c.instant().UnixMicro())
	l.Members = l.start.members
	l.Lost, ok, err = value[int64](c.reading(ctx, "count the losses in the catalog"), "SELECT COUNT(*)"+lost+" LIMIT $2", "", 1, set, l.start.id)
	return l, ok, err
}

// EachLoss yields the losses that were counted in the field Lost of the given Losses.
func (c *Mirror) EachLoss(ctx context.Context, l Losses) iter.Seq2[Loss, error] {
	return listing(c.reading(ctx, "list the losses in the catalog"), "SELECT l.uri, l.sha256, l.born <= $5"+lost+" ORDER BY l.uri LIMIT $2",
		"", func(v *Loss) (any, []any) {
			uri := new(string)
			return uri, []any{uri, digestTo(&v.SHA256), &v.Old}
		}, l.set, l.start.id, l.start.run)
}

// Newcomers yields the keys of members that were added to the set in the window and had
// not been in it before, in ascending order. The set and the window are those of the
// given Losses.
func (c *Mirror) Newcomers(ctx context.Context, l Losses) iter.Seq2[resourcesync.Key, error] {
	const only = "AND m.born > $5 AND NOT EXISTS (SELECT 1 FROM loss l WHERE l.set_id = $1 AND l.uri = b.uri || r.rest AND l.extent >= $6 AND l.born <= $5) "
	return c.memberKeys(ctx, l.set, only, l.start.run, l.start.id)
}
