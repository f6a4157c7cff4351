package catalog

import (
	"context"
	"slices"
	"time"
)

// Evidence is the last statement about a URI that a change of the Source made, or a
// list whose statement needs the arrival time of the bytes, which a Membership does not
// store.
type Evidence struct {
	Set    SetID
	URI    string
	Told   bool      // a change made the statement; otherwise a list made it, and Came is known
	Gone   bool      // the statement was that the resource is deleted
	Moment time.Time // moment of the change, in microseconds
	Until  time.Time // if the time of the change is unknown, the latest possible one; otherwise zero
	Came   time.Time // time at which the bytes arrived, by the clock of their server; zero if unknown
}

// Evidence returns the stored statements about these URIs in a set. If a member's
// Changed differs from Moment, a list has made a later statement.
func (c *Mirror) Evidence(ctx context.Context, set SetID, uris []string) (map[string]Evidence, error) {
	found := map[string]Evidence{}
	var i int
	e := Evidence{Set: set}
	err := lookup(c.reading(ctx, "look up evidence in the catalog"),
		[]any{&i, &e.Told, &e.Gone, timeTo(&e.Moment), microsTo(&e.Until), microsTo(&e.Came)}, func() {
			e.URI = uris[i]
			found[e.URI] = e
		}, `SELECT v.column1, e.told, e.gone, e.moment, e.until, e.came
		FROM (VALUES KEYS) v CROSS JOIN evidence e ON e.set_id = ? AND e.key = v.column2`, "(?,?)", sumKeys(uris), set)
	return found, err
}

func (m *Membership) evidence() Evidence {
	return Evidence{Set: m.Set, URI: m.URI, Told: m.Told, Moment: m.Changed, Until: m.Until, Came: m.Came}
}

// tells reports whether a membership needs stored evidence: a change made its
// statement, or a list was written so soon after lastmod that only the arrival time of
// the bytes distinguishes them from the version before.
func (m *Membership) tells() bool {
	return m.Told || !m.Came.IsZero() && m.Changed.Before(m.LastMod.Time().Add(soon))
}

// soon is the smallest distance at which two moments in whole seconds cannot be the
// same moment.
const soon = 2 * time.Second

// noteEvidence stores the evidence of memberships that need it, and of deletions.
func (r *recorder) noteEvidence(states []Membership, gone []Evidence) {
	all := slices.Clone(gone)
	for i := range states {
		if s := &states[i]; s.tells() {
			all = append(all, s.evidence())
		}
	}
	args := make([]any, 0, 7*len(all))
	for i := range all {
		e := &all[i]
		args = append(args, e.Set, key(e.URI), e.Told, e.Gone, e.Moment.UnixMicro(), writeMicros(e.Until), writeMicros(e.Came))
	}
	r.eachRow("INSERT INTO evidence (set_id, key, told, gone, moment, until, came) ", "(?,?,?,?,?,?,?)",
		" ON CONFLICT (set_id, key) DO UPDATE SET told = excluded.told, gone = excluded.gone, moment = excluded.moment, until = excluded.until, came = excluded.came", args)
}
