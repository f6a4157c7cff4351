package destination

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"instep/internal/evidence"
	"instep/internal/spool"
	"instep/resourcesync"
)

// view is a state of a Source beside which the mirror is put.
type view struct {
	*state
	d    *Destination
	lift time.Time // what the documents say counts as said at this moment, if they are older
}

// named is a resource as one document names it, and as others do that count no less.
type named struct {
	resource
	others []resource
}

// compare hands every resource that admit lets through to each, in batches, and remembers
// in seen every resource that the Source names. What twice names comes last, with all that
// counts.
func (v *view) compare(ctx context.Context, seen *spool.Keys, twice map[spool.Key]bool, admit func(*Wanted) bool, each func(context.Context, []named) error) error {
	batch := make([]named, 0, lookupBatch)
	add := func(w named) (err error) {
		w.Changed = evidence.Later(w.Changed, v.lift)
		if !admit(&w.Wanted) {
			return nil
		}
		if batch = append(batch, w); len(batch) == lookupBatch {
			err, batch = each(ctx, batch), batch[:0]
		}
		return err
	}
	several := map[spool.Key]*named{}
	for w, err := range v.state.resources(ctx) {
		if err != nil {
			return err
		}
		key := resourcesync.KeyOf(w.URI)
		if err := seen.Add(key); err != nil {
			return err
		}
		if twice[key] {
			if err := v.reader.lighten(&w.Wanted); err != nil {
				return err
			}
			several[key] = several[key].beside(&w)
			continue
		}
		if err := add(named{resource: w}); err != nil {
			return err
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(several), func(a, b spool.Key) int { return bytes.Compare(a[:], b[:]) }) {
		if err := add(*several[key]); err != nil {
			return err
		}
	}
	return each(ctx, batch)
}

// maxOthers is how many documents that say different things of one resource are compared.
const maxOthers = 4

// beside is what is left when another document names the resource, too: the later word, or
// both.
func (n *named) beside(w *resource) *named {
	switch {
	case n == nil, w.Changed.After(n.Changed):
		return &named{resource: *w}
	case w.Changed.Equal(n.Changed) && !sameWant(&w.Wanted, &n.Wanted) && len(n.others) < maxOthers:
		n.others = append(n.others, *w)
	}
	return n
}

// choose is what counts of what documents say of a resource: what the bytes held are, else
// something that did not fail when it was last tried.
func (n *named) choose(h *Held) *resource {
	if len(n.others) == 0 {
		return &n.resource
	}
	all := append([]resource{n.resource}, n.others...)
	slices.SortFunc(all, func(a, b resource) int { return cmp.Compare(a.Digests.String(), b.Digests.String()) }) // in whatever order the documents came
	for i := range all {
		if h.Due == "" && match(h, &all[i].Wanted) == evidence.Same {
			return &all[i]
		}
	}
	for i := range all {
		if h.Due == "" || !sameWant(&all[i].Wanted, &h.Wanted) {
			return &all[i]
		}
	}
	return &n.resource
}

// applied is how far the set was followed, in the time of the view.
func (v *view) applied(cur Cursor) evidence.Applied {
	if !v.lift.IsZero() {
		return evidence.Applied{}
	}
	return v.d.applied(cur, v.served)
}

// said is what is said of a resource that was yielded.
func (v *view) said(w *resource, a evidence.Applied) evidence.Statement {
	if w.by == nil {
		s := listed(evidence.Listed, w.Changed)
		s.Old = v.old(w.Changed, a)
		return s
	}
	s, _ := w.by.word()
	s.Old = v.changes.span().Old(a) && (w.at.IsZero() || v.old(w.at, a))
	s.From = evidence.Later(s.From, v.lift)
	return s
}

// absent is what the documents say of a member that they do not name, and when: a change,
// or else the lists.
func (v *view) absent(h *Held, cur Cursor, k known) (evidence.Statement, *Wanted) {
	a := v.applied(cur)
	if c := v.changes.last(resourcesync.KeyOf(h.URI)); c != nil && c.change == resourcesync.Deleted {
		said, w := c.against(h.LastMod)
		said.Old = v.changes.span().Old(a)
		said.From, w.Changed = evidence.Later(said.From, v.lift), evidence.Later(w.Changed, v.lift)
		if d, _ := evidence.Decide(said, v.d.evidenceOf(h, k, v.served)); d == evidence.Remove || d == evidence.Ask {
			return said, w
		}
	}
	at := evidence.Later(v.at, v.lift)
	said := listed(evidence.Absent, at)
	said.Old, said.Again = v.old(at, a), v.lift.IsZero() && at.Equal(k.named)
	return said, &Wanted{URI: h.URI, Changed: at}
}

// wentBack says that the Resource List is older than one that was read before. "" if
// it is not, or if the clock was wrong by which that one was dated.
func (v *view) wentBack(cur Cursor) string {
	if v.at.IsZero() || !v.at.Before(cur.Listed) || evidence.Misdated(cur.Listed, v.served, v.reader.now()) {
		return ""
	}
	return fmt.Sprintf("the Resource List is of %s, one of %s was read before", v.at.UTC().Format(time.RFC3339Nano), cur.Listed.UTC().Format(time.RFC3339Nano))
}
