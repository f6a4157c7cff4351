package mirror

import (
	"context"
	"iter"
	"time"

	"instep/destination"
	"instep/internal/catalog"
)

// Committed returns the time, by the clock of the mirror, at which the last complete
// run for a set was committed; false if there was none. The parameter set is the URI of
// the Capability List of the set.
func (m *Mirror) Committed(ctx context.Context, set string) (time.Time, bool, error) {
	id, err := m.setID(ctx, set)
	if err != nil || id == 0 {
		return time.Time{}, false, err
	}
	c, complete, err := m.cursorOf(ctx, id)
	if err != nil || !complete {
		return time.Time{}, false, err
	}
	at, err := m.own.Committed(ctx, id)
	if at.IsZero() {
		at = c.Looked // an earlier version of this program stored no time with the cursor
	}
	return at, err == nil, err
}

// MembersOf yields each resource that is a member of at least one of the given sets, in
// ascending order of the keys of their URIs ([resourcesync.KeyOf]). It yields a slice
// with the state of the resource in each of the sets, in their order. Member is false
// in the state for a set that does not have the resource. If a run changes the resource
// at the same time, all states are from before the change, or all from after it. The
// next iteration overwrites the slice.
func (m *Mirror) MembersOf(ctx context.Context, sets []string) iter.Seq2[[]destination.Held, error] {
	return func(yield func([]destination.Held, error) bool) {
		var ids []catalog.SetID
		var places []int // for each element of ids, the index of the set in sets
		for i, set := range sets {
			id, err := m.setID(ctx, set)
			if err != nil {
				yield(nil, err)
				return
			}
			if id != 0 {
				ids, places = append(ids, id), append(places, i)
			}
		}
		if len(ids) == 0 {
			return
		}
		held := make([]destination.Held, len(sets))
		for rows, err := range m.facts.MembersOf(ctx, ids) {
			clear(held)
			for i := range rows {
				if err == nil && rows[i].Member {
					held[places[i]], err = heldOf(&rows[i])
				}
			}
			if !yield(held, err) || err != nil {
				return
			}
		}
	}
}

// Shares reports whether resources with the same bytes share one file, as in the layout
// Flat.
func (m *Mirror) Shares() bool { return m.flat != nil }

// Steady returns an error if another process has begun to write to the mirror since
// OpenReadOnly. In that case, results that were read at different times may contradict
// each other.
func (m *Mirror) Steady() error {
	if m.cat == nil {
		return nil
	}
	return m.cat.Steady()
}
