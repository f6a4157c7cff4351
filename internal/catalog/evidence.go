package catalog

import (
	"context"
	"database/sql"
	"slices"
	"time"
)

// Evidence is the last statement of a change about a URI in a set. The membership has the
// statement of a list, but not the time at which the bytes arrived.
type Evidence struct {
	Set    SetID
	URI    string
	Told   bool      // a change made the statement; otherwise a list did, and Came is known
	Gone   bool      // that it was deleted
	Moment time.Time // moment of the change, in microseconds
	Until  time.Time // latest possible moment of a change whose time is unknown; else zero
	Came   time.Time // time at which the bytes arrived, by their server's clock; zero if unknown
}

// Evidence returns the last statements of changes about these URIs in a set. If a member's
// Changed is another moment, a list has made a later statement.
func (c *Mirror) Evidence(ctx context.Context, set SetID, uris []string) (map[string]Evidence, error) {
	found := map[string]Evidence{}
	err := lookup(c.reading(ctx, "look up evidence in"), func(rows *sql.Rows) error {
		var i int
		var moment, until, came int64
		e := Evidence{Set: set}
		err := rows.Scan(&i, &e.Told, &e.Gone, &moment, &until, &came)
		e.URI, e.Moment, e.Until, e.Came = uris[i], readTime(moment), readMicros(until), readMicros(came)
		found[e.URI] = e
		return err
	}, `SELECT v.column1, e.told, e.gone, e.moment, e.until, e.came
		FROM (VALUES KEYS) v CROSS JOIN evidence e ON e.set_id = ? AND e.key = v.column2`, "(?,?)", sumKeys(uris), set)
	return found, err
}

func (m *Membership) evidence() Evidence {
	return Evidence{Set: m.Set, URI: m.URI, Told: m.Told, Moment: m.Changed, Until: m.Until, Came: m.Came}
}

// tells reports whether a state has evidence beyond its membership: a change made the
// statement, or a list that was written so soon after the resource that only the arrival
// time of the bytes separates it from the version before.
func (m *Membership) tells() bool {
	return m.Told || !m.Came.IsZero() && m.Changed.Before(m.LastMod.Time().Add(soon))
}

// soon is after how long nobody takes two moments of whole seconds for one.
const soon = 2 * time.Second

// noteEvidence records the statements of changes, and those of lists that are not in the
// memberships.
func (r *recorder) noteEvidence(states []Membership, gone []Evidence) error {
	all := slices.Clone(gone)
	for i := range states {
		if s := &states[i]; s.tells() {
			all = append(all, s.evidence())
		}
	}
	args := make([]any, 0, 7*len(all))
	for i := range all {
		e := &all[i]
		key := SumOf(e.URI)
		args = append(args, e.Set, key[:], e.Told, e.Gone, e.Moment.UnixMicro(), writeMicros(e.Until), writeMicros(e.Came))
	}
	_, err := r.eachRow("INSERT INTO evidence (set_id, key, told, gone, moment, until, came) ", "(?,?,?,?,?,?,?)",
		" ON CONFLICT (set_id, key) DO UPDATE SET told = excluded.told, gone = excluded.gone, moment = excluded.moment, until = excluded.until, came = excluded.came", args)
	return err
}

// forgetEvidence forgets statements of changes before the moment of a list that was read.
func (r *recorder) forgetEvidence(set SetID, listed time.Time) error {
	if listed.IsZero() {
		return nil
	}
	_, err := r.exec("DELETE FROM evidence WHERE set_id = $1 AND moment < $2", set, listed.UnixMicro())
	return err
}
