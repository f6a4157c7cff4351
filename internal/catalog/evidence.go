package catalog

import (
	"context"
	"slices"
	"time"
)

// Evidence is the last statement that the Source made about a URI in a change. A
// statement in a list is stored as Evidence only if the time at which the bytes arrived
// decides whether they are the listed version, since the catalog does not store that
// time with the membership. If Gone is set without Told, there was no statement: the
// resource is in the set again, although no list or change has named it since its
// deletion.
type Evidence struct {
	Set    SetID
	URI    string
	Told   bool      // whether the statement was made in a change; if not, it was made in a list, and Came is known
	Gone   bool      // whether the statement says that the resource was deleted
	Moment time.Time // time of the change, with a precision of microseconds
	Until  time.Time // latest possible time of the change, if the exact time is unknown; otherwise zero
	Came   time.Time // time at which the bytes arrived, by the clock of the server that sent them; zero if unknown
}

// Evidence returns the last statement about each URI in a set. If the Moment of the
// Evidence is not the time at which the member changed, a later list has confirmed the
// member.
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

// needsEvidence reports whether a statement about a membership is stored as Evidence.
// One reason is a list that was written shortly after the "lastmod" of the resource:
// then only the time at which the bytes arrived shows whether they are the listed
// version or the previous one.
func (m *Membership) needsEvidence() bool {
	return m.Told || m.Unnamed || !m.Came.IsZero() && m.Changed.Before(m.LastMod.Latest().Add(distinctAfter))
}

// If two times are rounded to whole seconds and differ by distinctAfter or more, they
// cannot be the same moment.
const distinctAfter = 2 * time.Second

func (r *recorder) writeEvidence(states []Membership, gone []Evidence) {
	all := slices.Clone(gone)
	for i := range states {
		if s := &states[i]; s.needsEvidence() {
			all = append(all, s.evidence())
		}
	}
	args := make([]any, 0, 7*len(all))
	for i := range all {
		e := &all[i]
		args = append(args, e.Set, key(e.URI), e.Told, e.Gone, e.Moment.UnixMicro(), writeMicros(e.Until), writeMicros(e.Came))
	}
	r.execRows("INSERT INTO evidence (set_id, key, told, gone, moment, until, came) ", "(?,?,?,?,?,?,?)",
		" ON CONFLICT (set_id, key) DO UPDATE SET told = excluded.told, gone = excluded.gone, moment = excluded.moment, until = excluded.until, came = excluded.came", args)
}
