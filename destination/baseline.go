package destination

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"time"

	"instep/internal/spool"
	"instep/resourcesync"
)

// keyBudget is how many keys of listed resources stay in memory: 16 bytes each.
const keyBudget = 1 << 19

// baseline plans a comparison with the whole Resource List and the changes after it.
func (pl *planner) baseline(ctx context.Context, cur Cursor, c *chain, ch *changes) error {
	if len(pl.set.ResourceLists) == 0 {
		pl.Partial = fmt.Errorf("%s: %w", pl.Set, ErrNothingOffered)
		return nil
	}
	members, err := pl.d.Mirror.Count(ctx, pl.Set)
	if err != nil {
		return err
	}
	pl.empty = members == 0
	seen := spool.NewKeys(pl.d.Spool, keyBudget)
	defer seen.Close()
	st := &state{d: pl.d, scope: pl.scope, set: pl.Set, lists: pl.set.ResourceLists, changes: ch}
	defer st.close()
	if err := st.overlay(ctx, c); err != nil {
		return err
	}
	if err := st.compare(ctx, seen, pl.admit, pl.compare); err != nil {
		return err
	}
	if !st.reaches(cur) && !st.unsure {
		pl.d.quirk(resourcesync.QuirkStale, pl.Set, fmt.Sprintf("the Resource List is of %s, older than what is here (%s): it takes nothing back",
			st.at.UTC().Format(time.RFC3339Nano), cur.At.UTC().Format(time.RFC3339Nano)))
	}
	if pl.Partial = st.partial; pl.Partial != nil || st.unsure {
		return nil
	}
	if members > 0 {
		if err := pl.removeUnseen(ctx, st, seen); err != nil {
			return err
		}
	}
	next := baselineCursor(cur, st)
	switch {
	case pl.left:
		next.Scope = pl.d.choice()
	case cur.Scope != "" && !st.reaches(cur):
		next.Scope = cur.Scope // what was left out may have changed since the list
	}
	pl.move = &CursorMove{Set: pl.Set, Cursor: next}
	if st.changes != nil {
		pl.Partial = st.changes.rest
	}
	return nil
}

// admit counts a resource out that this run leaves alone. It was listed all the
// same, so it is not deleted: a filter is not evidence.
func (pl *planner) admit(w *Wanted) bool {
	skip, origin := pl.scope.admit(w)
	if skip == "" {
		return true
	}
	pl.skip(skip)
	pl.left = pl.left || skip != SkipUnsupported
	if skip == SkipOrigin {
		if pl.Origins == nil {
			pl.Origins = map[string]int64{}
		}
		if _, known := pl.Origins[origin]; known || len(pl.Origins) < 100 {
			pl.Origins[origin]++
		}
	}
	return false
}

// removeUnseen plans the deletion of the members that a complete baseline no longer lists.
func (pl *planner) removeUnseen(ctx context.Context, st *state, seen *spool.Keys) error {
	for h, err := range unseen(pl.d.Mirror.Members(ctx, pl.Set), seen.Sorted()) {
		if err != nil {
			return err
		}
		when := st.goneSince(h.URI)
		switch newer := h.Changed.After(when); { // never back: the list may be older than what we know
		case newer && h.Due == "":
			pl.Same++
		case !newer:
			err = pl.remove(&h, when)
		case pl.admit(&h.Wanted):
			err = pl.decide(ctx, &h.Wanted, &h)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// unseen yields the members whose key is not among keys; both ascend.
func unseen(members iter.Seq2[Held, error], keys iter.Seq2[resourcesync.Key, error]) iter.Seq2[Held, error] {
	return func(yield func(Held, error) bool) {
		next, stop := iter.Pull2(keys)
		defer stop()
		key, err, more := next()
		for h, herr := range members {
			if herr != nil {
				yield(Held{}, herr)
				return
			}
			k := resourcesync.KeyOf(h.URI)
			for more && err == nil && bytes.Compare(key[:], k[:]) < 0 {
				key, err, more = next()
			}
			if more && err != nil {
				yield(Held{}, err)
				return
			}
			if more && key == k {
				continue
			}
			if !yield(h, nil) {
				return
			}
		}
	}
}

// baselineCursor is where a set stands after a baseline: at the moment of the list,
// and at the position of the Change List that was read with it.
func baselineCursor(old Cursor, st *state) Cursor {
	c := Cursor{At: st.at}
	if old.At.After(c.At) {
		c.At = old.At
	}
	if ch := st.changes; ch != nil && !ch.since.IsZero() && !ch.since.Time().After(c.At) && ch.placed(c.At) {
		c = ch.cursor(c)
	}
	return c
}

// state is what a Source says of a set at one moment: its Resource List, and the
// changes that its Change List adds after the list's `at`.
type state struct {
	d       *Destination
	scope   *scope
	set     string
	lists   []string
	changes *changes             // may be nil
	opened  map[string]*document // of lists: read to know their moment

	at      time.Time // of the oldest list read; known when resources has ended
	unsure  bool      // the lists are not of one known moment: absence from them is no evidence, and no cursor starts from them
	partial error     // some document could not be used: what is not listed may exist all the same
}

// overlay reads the changes that come after the Resource Lists, unless they are known.
// Of several Change Lists only those that end after the lists' moment are read.
func (st *state) overlay(ctx context.Context, c *chain) (err error) {
	var at time.Time
	switch {
	case len(c.windows) > 1:
		at = st.moment(ctx)
	case st.changes != nil:
		return nil
	}
	st.changes, err = c.load(ctx, c.start(at), Cursor{}, nil)
	return err
}

// moment opens the Resource Lists and returns the oldest at, or the zero time if one is
// unknown. What is wrong with a list is told when its resources are read.
func (st *state) moment(ctx context.Context) (at time.Time) {
	st.opened = map[string]*document{}
	for _, uri := range st.lists {
		doc, err := st.d.read(ctx, uri, resourcesync.CapabilityResourceList)
		if err != nil {
			return time.Time{}
		}
		st.opened[uri] = doc
		t := doc.header.At.Time()
		if t.IsZero() {
			return t
		}
		if at.IsZero() || t.Before(at) {
			at = t
		}
	}
	return at
}

// open reads a Resource List that was not opened before.
func (st *state) open(ctx context.Context, uri string) (*document, error) {
	if doc := st.opened[uri]; doc != nil {
		delete(st.opened, uri)
		return doc, nil
	}
	return st.d.read(ctx, uri, resourcesync.CapabilityResourceList)
}

// close gives back the lists that were opened and not read.
func (st *state) close() {
	for _, doc := range st.opened {
		doc.close()
	}
}

// reaches reports whether the documents say everything up to the moment of a cursor.
func (st *state) reaches(cur Cursor) bool {
	return !st.at.Before(cur.At) || st.changes != nil && !st.changes.since.IsZero() && !st.changes.since.Time().After(st.at)
}

// resources yields every resource that exists at the Source. Documents that cannot
// be used are left out and recorded in partial; if no Resource List can be used, that
// ends the sequence.
func (st *state) resources(ctx context.Context) iter.Seq2[Wanted, error] {
	return func(yield func(Wanted, error) bool) {
		listed := map[resourcesync.Key]bool{} // URIs of the Change List that the Resource List named
		r := &lister{st: st, ctx: ctx, yield: yield, listed: listed, read: map[string]bool{}, indexes: map[string]bool{}}
		if !r.lists(st.lists) {
			return
		}
		if st.changes == nil {
			return
		}
		if err := st.changes.flaw; err != nil {
			r.fail(err)
		}
		for w := range st.changes.present(st.at) {
			if !listed[resourcesync.KeyOf(w.URI)] && !yield(w, nil) {
				return
			}
		}
	}
}

// compare hands every resource that admit lets through to each, in batches, and
// remembers in seen every resource that the Source names.
func (st *state) compare(ctx context.Context, seen *spool.Keys, admit func(*Wanted) bool, each func(context.Context, []Wanted) error) error {
	batch := make([]Wanted, 0, lookupBatch)
	for w, err := range st.resources(ctx) {
		if err != nil {
			return err
		}
		if err := seen.Add(resourcesync.KeyOf(w.URI)); err != nil {
			return err
		}
		if !admit(&w) {
			continue
		}
		if batch = append(batch, w); len(batch) == lookupBatch {
			if err := each(ctx, batch); err != nil {
				return err
			}
			batch = batch[:0]
		}
	}
	return each(ctx, batch)
}

// goneSince is the moment at which, on the evidence of the documents read, uri was not in the set any more.
func (st *state) goneSince(uri string) time.Time {
	if st.changes != nil {
		if c := st.changes.last(resourcesync.KeyOf(uri)); c != nil && c.change == resourcesync.Deleted && !c.Changed.Before(st.at) {
			return c.Changed
		}
	}
	return st.at
}
