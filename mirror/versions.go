package mirror

import (
	"context"

	"instep/internal/catalog"
	"instep/resourcesync"
)

// BeginRun begins a run of a command. Changes that are committed after it belong to this
// run, so that Undoing it does not affect earlier runs. Without BeginRun, one run lasts
// from Open to Close. The run gets the given number or, if that is not greater than all
// earlier numbers, the next one.
func (m *Mirror) BeginRun(ctx context.Context, command string, number int64) error {
	if err := m.lockCommit(ctx); err != nil {
		return err
	}
	defer m.unlockCommit()
	m.run = catalog.Run{Begun: micros(m.o.Now()), What: command, Number: number}
	return m.updateClock(ctx, (*trashClock).begin)
}

// Run returns the number of the current run; 0 if the run has changed nothing yet.
func (m *Mirror) Run(ctx context.Context) (int64, error) {
	if err := m.lockCommit(ctx); err != nil {
		return 0, err
	}
	defer m.unlockCommit()
	return m.run.ID, nil
}

// counts are the numbers of memberships that a batch begins, changes and ends.
type counts struct{ created, updated, deleted int64 }

// thisRun returns the current run with the counts of a batch. The caller holds m.commit.
func (m *Mirror) thisRun(c counts) *catalog.Run {
	if m.run.Begun.IsZero() {
		m.run.Begun = micros(m.o.Now())
	}
	m.run.Created, m.run.Updated, m.run.Deleted = c.created, c.updated, c.deleted
	return &m.run
}

// count adds the effect of a claim on a set to the counts: a new member, new bytes, or
// only new metadata.
func (w *work) count(c *claim, content *content, row *catalog.Resource, held []catalog.Membership) {
	before := memberOf(held, c.state.Set)
	if before == nil || !row.Stored {
		if c.state.Due == "" || content != nil {
			w.counts.created++
		}
		return
	}
	typ := row.Type
	switch {
	case content != nil && content.digests.Get(resourcesync.SHA256) != row.Digests.Get(resourcesync.SHA256):
		w.counts.updated++
		return
	case content != nil:
		typ = content.typ
	case c.noted:
		typ = c.typ
	}
	// A first Remainder alone does not end the state, since catalogs of earlier versions
	// have no Remainders.
	relinked := c.state.Remainder != before.Remainder && before.Remainder != ""
	if c.state.LastMod != before.LastMod || typ != row.Type || relinked {
		c.state.Relabel = true
		w.counts.updated++
	}
}

func memberOf(held []catalog.Membership, set catalog.SetID) *catalog.Membership {
	for i := range held {
		if held[i].Set == set {
			return &held[i]
		}
	}
	return nil
}
