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

func (pl *planner) incremental(ctx context.Context, ch *harvest.Changes) error {
	cur := pl.known.Cursor
	pl.Partial, pl.served = ch.Flaw, ch.Served
	old := ch.Span().Old(pl.d.applied(cur, ch.Served).UpTo(cur.At))
	pl.doubted = ch.Early || ch.Jumbled
	if err := pl.planDue(ctx, ch); err != nil {
		return err
	}
	for batch, err := range spool.Batches(ch.All(), lookupBatch) {
		if err != nil {
			return err
		}
		if err := pl.planChanges(ctx, batch, old); err != nil {
			return err
		}
	}
	if err := pl.askQuestions(ctx); err != nil {
		return err
	}
	pl.dispatch()
	if old {
		pl.d.quirk(resourcesync.QuirkStale, pl.Set, fmt.Sprintf("%s ends at %s, before the mirror (%s): nothing is changed",
			ch.Last(), ch.End.UTC().Format(time.RFC3339Nano), cur.Changed.UTC().Format(time.RFC3339Nano)))
	}
	alone := cur.Alone
	if !old {
		alone = alone.plus(pl.Skipped)
	}
	for s, n := range cur.Alone.bySkip() {
		pl.skip(s, n)
	}
	if pl.Partial != nil {
		return nil
	}
	next := cur
	if !old { // changes that are older than the mirror's state do not move the cursor
		next.Position = ch.Mark(cur.Position, pl.d.Client.Now())
	}
	if next.Baseline.IsZero() {
		next.Baseline = ch.Served // set here, because earlier versions of the program wrote cursors without a Baseline
	}
	if pl.left {
		next.Scope = pl.d.choice()
	}
	next.Alone = alone
	if next.Index == cur.Index && harvest.Recent(cur.Asked, pl.d.Client.Now()) {
		// A request for the index alone does not move the cursor.
		next.Asked = cur.Asked
	}
	if pl.stays {
		next = cur
	}
	if age := pl.d.Client.Now().Sub(cur.Looked); next != cur || age < 0 || age >= cursorInterval {
		pl.move = &CursorMove{Set: pl.Set, Cursor: next}
	}
	pl.Partial = ch.Rest
	pl.refuse(ch.Back)
	return nil
}

// planDue plans the resources whose bytes were missing or wrong in an earlier run or an
// audit, unless the Change List has a change of the resource.
func (pl *planner) planDue(ctx context.Context, ch *harvest.Changes) error {
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

func (pl *planner) planChanges(ctx context.Context, batch []*harvest.Change, old bool) error {
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
		case gone && !h.Member && !pl.recordsDeletion(c, h):
			continue
		case gone && pl.Partial != nil:
			pl.Same++ // no deletion: an unusable document may report that the resource was created again
			continue
		}
		if gone := said.Kind == evidence.Deleted; gone && !old && c.Timed() && h.Member && !h.Told && c.To.Before(h.Changed) {
			pl.doubted = true // the mirror got the resource from a list that is later than the deletion, so one of the times is wrong
		}
		if err := pl.judge(ctx, word{Statement: said, want: w, or: c.Or(), from: c.Location}, h); err != nil {
			return err
		}
	}
	return nil
}

// recordsDeletion reports whether to record the deletion of a resource that the mirror
// does not hold. It also counts deletions of resources that were never listed.
func (pl *planner) recordsDeletion(c *harvest.Change, h *Held) bool {
	if skip, _ := pl.scope.admit(&c.Resource, false); skip != "" {
		return false
	}
	if c.News && h.Gone.IsZero() {
		pl.odd.add(oddDeletion, c.URI)
	}
	return pl.Partial == nil
}

// cursorInterval is the time after which the cursor is written again although nothing
// has changed. The time of the cursor shows the mirror that time has passed (see
// Losses).
const cursorInterval = 6 * time.Hour
