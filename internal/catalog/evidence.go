package catalog

import (
	"context"
	"slices"
	"time"
)

// Evidence is the last statement about a URI that the Source made in a change. It is
// also stored for the statement of a list if it depends on the time at which the bytes
// arrived whether they are the version that the list states. A Membership does not
// store that time. With Gone and without Told, it is not a statement of the Source: the
// resource is in the set again, although no list or change says so.
type Evidence struct {
	Set    SetID
	URI    string
	Told   bool      // whether the statement was made in a change; if not, it was made in a list, and Came is known
	Gone   bool      // whether the statement says that the resource was deleted
	Moment time.Time // time of the change, with a precision of microseconds
	Until  time.Time // latest possible time of the change, if the exact time is unknown; otherwise zero
	Came   time.Time // time at which the bytes arrived, by the clock of the server that sent them; zero if unknown
}

// Evidence returns the stored evidence about URIs in a set. If a member has another
// time in its field Changed than its evidence has in Moment, its present state comes
// from a list and not from the evidence.
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
	return Evidence{Set: m.Set, URI: m.URI, Told: m.Told, Gone: m.Unnamed, Moment: m.Changed, Until: m.Until, Came: m.Came}
}

// tells reports whether evidence has to be stored for a membership. That is so if the
// membership comes from a change, or from a list that was written soon after the
// lastmod of the resource: then only the time at which the bytes arrived shows whether
// they are the version that the list states, or the one before.
func (m *Membership) tells() bool {
	return m.Told || m.Unnamed || !m.Came.IsZero() && m.Changed.Before(m.LastMod.Time().Add(soon))
}

// soon is the difference from which on two times, rounded to whole seconds, cannot be
// the same moment.
const soon = 2 * time.Second

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
