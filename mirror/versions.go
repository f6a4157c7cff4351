package mirror

import (
	"context"

	"instep/internal/catalog"
	"instep/resourcesync"
)

// BeginRun begins a run of the command what: what is committed from now on belongs to it,
// so that Undoing it leaves earlier runs alone. Without BeginRun, everything from Open to
// Close is one run. Its number in the history is number, or the next one if that is not above
// the numbers of all earlier runs.
func (m *Mirror) BeginRun(ctx context.Context, what string, number int64) error {
	if err := m.lockCommit(ctx); err != nil {
		return err
	}
	defer m.unlockCommit()
	m.run = catalog.Run{Begun: micros(m.now()), What: what, Number: number}
	return m.beginDay(ctx)
}

// Run returns the number of the present run; 0 if it has changed nothing yet.
func (m *Mirror) Run(ctx context.Context) (int64, error) {
	if err := m.lockCommit(ctx); err != nil {
		return 0, err
	}
	defer m.unlockCommit()
	return m.run.ID, nil
}

// counts are memberships that a batch begins, changes and ends.
type counts struct{ created, updated, deleted int64 }

// thisRun returns the present run including a batch. The caller holds m.commit.
func (m *Mirror) thisRun(c counts) *catalog.Run {
	if m.run.Begun.IsZero() {
		m.run.Begun = micros(m.now())
	}
	m.run.Created, m.run.Updated, m.run.Deleted = c.created, c.updated, c.deleted
	return &m.run
}

// count counts a claim by its effect on the state in the set: a new state, other bytes, or
// only other metadata.
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
	// A first remainder ends no state: catalogs of earlier versions have none.
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
