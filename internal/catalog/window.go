package catalog

import (
	"context"
	"iter"
	"math"
	"time"

	"instep/resourcesync"
)

// The time window in which a mirror counts the resources that sets lose without
// approval.
const (
	window = 24 * time.Hour
	// maxStep is the longest time by which one extent can advance the window, even if
	// the clock advanced further: a single jump of the clock does not empty the window.
	maxStep = 12 * time.Hour
	// extentEvery is the shortest time between two extents, which bounds their number
	// in a window.
	extentEvery = 15 * time.Minute
)

// Losses has the number of resources that a set has lost without approval since the
// window began.
type Losses struct {
	Members int64 // number of members when the window began
	Lost    int64 // number of memberships that have ended since and did not begin again

	set   SetID
	start extent
}

// Loss is a membership that ended without approval.
type Loss struct {
	SHA256 resourcesync.Digest // digest of the bytes; zero if none were stored
	Old    bool                // the membership began before the window
}

// extent is the number of members of a set at a moment at which the mirror was in sync.
type extent struct{ id, at, run, members int64 }

// windowStart returns the extent with which the window of a set begins: the last one
// that is at least as old as the window is long, otherwise the first. all has the
// recorded extents of the set in order, at least one.
//
// The order is more reliable than the clock. Each extent was recorded after the one
// before it, so a clock that was behind does not make an extent older. A time in the
// future is ignored, since the clock was ahead.
func windowStart(all []extent, now int64) extent {
	at := make([]int64, len(all)) // the earliest possible time of each extent
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

// stepOf returns by how much the window advances between two moments in microseconds.
func stepOf(from, to int64) time.Duration {
	return time.Duration(min(to-from, maxStep.Microseconds())) * time.Microsecond
}

// extents returns the recorded extents of a set in order.
func extents(a asker, set SetID) ([]extent, error) {
	return rows(a, nil, func(e *extent) []any { return []any{&e.id, &e.at, &e.run, &e.members} },
		"SELECT id, at, run, members FROM extent WHERE set_id = $1 ORDER BY id", set)
}

// noteExtent records the number of members of a set that is in sync, unless it did so
// recently, and removes extents from before the window.
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

// insertLoss records a loss. If the membership has already ended once in the window,
// born and sha256 remain those of the first loss.
const insertLoss = `INSERT INTO loss (set_id, uri, extent, born, sha256)
	SELECT m.set_id, $3, e.id, m.born, CASE WHEN r.stored THEN r.sha256 END
	FROM member m JOIN resource r ON r.id = m.resource JOIN extent e ON e.id = (SELECT MAX(id) FROM extent WHERE set_id = $1)
	WHERE m.set_id = $1 AND m.resource = $2
	ON CONFLICT (set_id, uri) DO UPDATE SET extent = excluded.extent`

// lose records the end of a membership as a loss, or removes an earlier loss if the end
// was approved. It has to run before the membership ends.
func (r *recorder) lose(m *Membership, row int64, meant bool) {
	if meant {
		r.exec("DELETE FROM loss WHERE set_id = $1 AND uri = $2", m.Set, m.URI)
		return
	}
	r.exec(insertLoss, m.Set, row, m.URI)
}

// lost is the FROM clause for the losses after the URI $1. $2 is the page size: see
// listing.
var lost = ` FROM loss l WHERE l.uri > $1 AND l.set_id = $3 AND l.extent >= $4 AND NOT EXISTS (SELECT 1 FROM ` + memberOf("l") + ")"

// Losses returns the losses of a set in the window that ends now; false if the set was
// never in sync.
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

// EachLoss yields the resources that l counts.
func (c *Mirror) EachLoss(ctx context.Context, l Losses) iter.Seq2[Loss, error] {
	return listing(c.reading(ctx, "list the losses in the catalog"), "SELECT l.uri, l.sha256, l.born <= $5"+lost+" ORDER BY l.uri LIMIT $2",
		"", func(v *Loss) (any, []any) {
			uri := new(string)
			return uri, []any{uri, digestTo(&v.SHA256), &v.Old}
		}, l.set, l.start.id, l.start.run)
}

// Newcomers yields, in ascending order of keys, the members that were added to the set
// of l since the window began and were not members before.
func (c *Mirror) Newcomers(ctx context.Context, l Losses) iter.Seq2[resourcesync.Key, error] {
	const only = "AND m.born > $5 AND NOT EXISTS (SELECT 1 FROM loss l WHERE l.set_id = $1 AND l.uri = b.uri || r.rest AND l.extent >= $6 AND l.born <= $5) "
	return c.memberKeys(ctx, l.set, only, l.start.run, l.start.id)
}
