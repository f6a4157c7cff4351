package mirror

import (
	"context"

	"instep/internal/catalog"
	"instep/resourcesync"
)

// BeginRun begins a new run for a command. Changes that are committed from now on belong
// to this run, so that Undoing can undo it without the runs before. Without BeginRun,
// everything from Open to Close is one run. The run gets the given number if that is
// greater than the numbers of all earlier runs, and otherwise the next free number.
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

type counts struct{ created, updated, deleted int64 }

// thisRun returns the current run with the counts of a batch. Its caller must have
// called lockCommit.
func (m *Mirror) thisRun(c counts) *catalog.Run {
	if m.run.Begun.IsZero() {
		m.run.Begun = micros(m.o.Now())
	}
	m.run.Created, m.run.Updated, m.run.Deleted = c.created, c.updated, c.deleted
	return &m.run
}

// count counts a change of a membership. The change is a creation if the resource is a
// new member, and an update if the resource gets new bytes or only new metadata.
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
	// Earlier versions of this program recorded no Remainder, so the first recorded
	// Remainder does not count as a change.
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
