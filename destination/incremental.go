package destination

import (
	"context"
	"fmt"
	"time"

	"instep/evidence"
	"instep/harvest"
	"instep/internal/spool"
	"instep/resourcesync"
)

// incremental plans the changes after the cursor, and the retries of earlier runs.
func (pl *planner) incremental(ctx context.Context, ch *harvest.Changes) error {
	cur := pl.known.Cursor
	pl.Partial, pl.served = ch.Flaw, ch.Served
	old := ch.Span().Old(pl.d.applied(cur, ch.Served).UpTo(cur.At))
	pl.doubted = ch.Early || ch.Jumbled
	if err := pl.due(ctx, ch); err != nil {
		return err
	}
	for batch, err := range spool.Batches(ch.All(), lookupBatch) {
		if err != nil {
			return err
		}
		if err := pl.changed(ctx, batch, old); err != nil {
			return err
		}
	}
	if err := pl.settle(ctx); err != nil {
		return err
	}
	pl.dispatch()
	if old {
		pl.d.quirk(resourcesync.QuirkStale, pl.Set, fmt.Sprintf("%s ends at %s, before the mirror (%s): nothing is changed",
			ch.Last(), ch.End.UTC().Format(time.RFC3339Nano), cur.Changed.UTC().Format(time.RFC3339Nano)))
	}
	alone := cur.Alone
	if !old {
		alone = alone.and(pl.Skipped)
	}
	for s, n := range cur.Alone.each() {
		pl.skipMany(s, n)
	}
	if pl.Partial != nil {
		return nil
	}
	next := cur
	if !old { // changes that are older than the applied state do not move the cursor
		next.Position = ch.Mark(cur.Position, pl.d.Client.Now())
	}
	if next.Baseline.IsZero() {
		next.Baseline = ch.Served // cursors of earlier versions of the program have no Baseline
	}
	if pl.left {
		next.Scope = pl.d.choice()
	}
	next.Alone = alone
	if next.Index == cur.Index && harvest.Recent(cur.Asked, pl.d.Client.Now()) {
		// if only the time at which the index was requested is new, the cursor does not
		// move
		next.Asked = cur.Asked
	}
	if pl.stays {
		next = cur
	}
	if age := pl.d.Client.Now().Sub(cur.Looked); next != cur || age < 0 || age >= lookEvery {
		pl.move = &CursorMove{Set: pl.Set, Cursor: next}
	}
	pl.Partial = ch.Rest
	pl.refuse(ch.Back)
	return nil
}

// due plans the resources whose bytes were missing or wrong in an earlier run or an
// audit. It leaves out those with a change in the Change List, which is planned anyway.
func (pl *planner) due(ctx context.Context, ch *harvest.Changes) error {
	for h, err := range pl.d.Mirror.Due(ctx, pl.Set) {
		if err != nil {
			return err
		}
		c, err := ch.Of(h.URI)
		if err == nil && c == nil {
			err = pl.do(ctx, evidence.Retry, nil, harvest.Location{}, &h)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// changed plans the actions for a batch of changes. If old is set, the changes are
// older than the applied state.
func (pl *planner) changed(ctx context.Context, batch []*harvest.Change, old bool) error {
	held, err := pl.d.Mirror.Lookup(ctx, pl.Set, urisOf(batch, func(c **harvest.Change) string { return (*c).URI }))
	if err != nil {
		return err
	}
	for i, c := range batch {
		h := &held[i]
		said, w := c.Against(h.LastMod, h.Wanted.LastMod)
		said.Old = old
		switch gone := said.Kind == evidence.Deleted; {
		case !gone && !pl.admit(w):
			continue
		case gone && !h.Member && !pl.remembers(c, h):
			continue
		case gone && pl.Partial != nil:
			pl.Same++ // some changes could not be read, and the resource may have been created again in one of them
			continue
		}
		if gone := said.Kind == evidence.Deleted; gone && !old && c.Timed() && h.Member && !h.Told && c.To.Before(h.Changed) {
			pl.doubted = true // the deletion contradicts the mirror: a list later than the deletion contained the resource
		}
		if err := pl.judge(ctx, word{Statement: said, want: w, or: c.Or(), from: c.Location}, h); err != nil {
			return err
		}
	}
	return nil
}

// remembers reports whether to record the deletion of a resource that the mirror does
// not hold. If the mirror never held the resource, it counts the deletion as an oddity.
func (pl *planner) remembers(c *harvest.Change, h *Held) bool {
	if skip, _ := pl.scope.admit(&c.Resource, false); skip != "" {
		return false
	}
	if c.News && h.Gone.IsZero() {
		pl.odd.add(oddDeletion, c.URI)
	}
	return pl.Partial == nil
}

// lookEvery is the interval at which the cursor, with the time of the run, is written again
// while nothing changes. By these times the mirror knows that time has passed (see Losses).
const lookEvery = 6 * time.Hour
