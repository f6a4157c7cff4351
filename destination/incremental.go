package destination

import (
	"context"
	"fmt"

	"instep/resourcesync"
)

// incremental plans the changes that the cursor has not seen, and what was left over
// from earlier runs.
func (pl *planner) incremental(ctx context.Context, cur Cursor, ch *changes) error {
	pl.Partial, pl.served, pl.older = ch.flaw, ch.served, !ch.upTo(cur.At)
	if err := pl.due(ctx, ch); err != nil {
		return err
	}
	batch := make([]*change, 0, lookupBatch)
	for c := range ch.states() {
		if batch = append(batch, c); len(batch) == lookupBatch {
			if err := pl.changed(ctx, batch); err != nil {
				return err
			}
			batch = batch[:0]
		}
	}
	if err := pl.changed(ctx, batch); err != nil {
		return err
	}
	if err := pl.dispatch(); err != nil {
		return err
	}
	pl.tellUnknown()
	if pl.Partial != nil {
		return nil
	}
	next := cur
	if !pl.older { // an older state than was seen leads nowhere
		next = ch.cursor(cur)
	}
	if next.Baseline.IsZero() {
		next.Baseline = ch.served // an older program did not take it down
	}
	if pl.left {
		next.Scope = pl.d.choice()
	}
	if next.Index == cur.Index && pl.d.recent(cur.Asked) {
		next.Asked = cur.Asked // a list that needs its index each time would move the cursor each time
	}
	if next != cur || !pl.d.looked(cur.Looked) {
		pl.move = &CursorMove{Set: pl.Set, Cursor: next}
	}
	pl.Partial = ch.rest
	pl.rolledBack(ch.back)
	return nil
}

// due plans the resources whose bytes an earlier run or an audit found missing or
// wrong, except those that the Change List speaks of anyway.
func (pl *planner) due(ctx context.Context, ch *changes) error {
	for h, err := range pl.d.Mirror.Due(ctx, pl.Set) {
		if err != nil {
			return err
		}
		if ch.last(resourcesync.KeyOf(h.URI)) != nil {
			continue
		}
		if !pl.admit(&h.Wanted) {
			continue
		}
		if err := pl.decide(ctx, &h.Wanted, carrier{}, &h); err != nil {
			return err
		}
	}
	return nil
}

// changed plans a batch of changes.
func (pl *planner) changed(ctx context.Context, batch []*change) error {
	uris := make([]string, len(batch))
	for i, c := range batch {
		uris[i] = c.URI
	}
	held, err := pl.d.Mirror.Lookup(ctx, pl.Set, uris)
	if err != nil {
		return err
	}
	for i, c := range batch {
		h := &held[i]
		switch {
		case c.change == resourcesync.Deleted && !h.Member:
			if c.news {
				pl.unknownDelete(c)
			}
		case c.change == resourcesync.Deleted && pl.ahead(h, c.Changed):
			// already newer
		case c.change == resourcesync.Deleted && pl.Partial != nil:
			pl.Same++ // it may have been created again
		case c.change == resourcesync.Deleted:
			err = pl.remove(h, c.Changed)
		case !h.Member && pl.older:
			pl.skip(SkipStale) // it was deleted since
		case pl.admit(&c.Wanted):
			err = pl.decide(ctx, &c.Wanted, c.carrier, h)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// unknownDelete counts the deletion of a resource that the set does not have here. A
// Source whose deletions name other URIs than its lists never gets rid of anything.
func (pl *planner) unknownDelete(c *change) {
	if skip, _ := pl.scope.admit(&c.Wanted); skip != "" {
		return
	}
	if pl.unknown == 0 {
		pl.unknownURI = c.URI
	}
	pl.unknown++
}

// tellUnknown reports the deletions that had nothing to delete.
func (pl *planner) tellUnknown() {
	if pl.unknown > 0 {
		pl.d.quirk(resourcesync.QuirkUnknownDelete, pl.Set, fmt.Sprintf("%d deletions are of resources that were never listed, such as %s", pl.unknown, pl.unknownURI))
	}
}
