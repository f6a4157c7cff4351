package mirror

import (
	"context"
	"time"
)

// Committed returns when the last complete run of a set was committed, by the clock of the
// mirror; false before the first complete baseline. set is the URI of a Capability List.
func (m *Mirror) Committed(ctx context.Context, set string) (time.Time, bool, error) {
	id, err := m.set(ctx, set)
	if err != nil || id == 0 {
		return time.Time{}, false, err
	}
	c, complete, err := m.cursorOf(ctx, id)
	if err != nil || !complete {
		return time.Time{}, false, err
	}
	at, err := m.own.Committed(ctx, id)
	if at.IsZero() {
		at = c.Looked // of a run of an earlier version
	}
	return at, err == nil, err
}

// Shares reports whether resources with the same bytes have one file.
func (m *Mirror) Shares() bool { return m.flat != nil }

// Steady returns an error if what was read of a mirror that OpenReadOnly has opened may be
// wrong, because a run began since.
func (m *Mirror) Steady() error {
	if m.cat == nil {
		return nil
	}
	return m.cat.Steady()
}
