package destination

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"instep/evidence"
	"instep/harvest"
	"instep/internal/spool"
	"instep/resourcesync"
)

// view is a state of a Source beside which the mirror is put.
type view struct {
	*harvest.Snapshot
	d    *Destination
	lift time.Time // what the documents say counts as said at this moment, if they are older
}

// named is a resource as one document names it, and as others do that count no less.
type named struct {
	harvest.Item
	others []harvest.Item
}

// compare hands every resource that admit lets through to each, in batches, and remembers
// in seen every resource that the Source names. What twice names comes last, with all that
// counts. Changes that are older than what was applied up to cur count for nothing beside a list.
func (v *view) compare(ctx context.Context, cur Cursor, seen *spool.Keys, twice map[spool.Key]bool, admit func(*harvest.Resource) bool, each func(context.Context, []named) error) error {
	batch := make([]named, 0, lookupBatch)
	add := func(w named) (err error) {
		w.Changed = evidence.Later(w.Changed, v.lift)
		if !admit(&w.Resource) {
			return nil
		}
		if batch = append(batch, w); len(batch) == lookupBatch {
			err, batch = each(ctx, batch), batch[:0]
		}
		return err
	}
	several := map[spool.Key]*named{}
	for w, err := range v.Snapshot.Resources(ctx) {
		if err != nil {
			return err
		}
		if w.Listed != nil && v.Changes.Span().Old(v.applied(cur)) {
			w = *w.Listed
		}
		key := resourcesync.KeyOf(w.URI)
		if err := seen.Add(key); err != nil {
			return err
		}
		if twice[key] {
			if err := v.Reader.Lighten(&w.Resource); err != nil {
				return err
			}
			several[key] = several[key].beside(&w)
			continue
		}
		if err := add(named{Item: w}); err != nil {
			return err
		}
	}
	for _, key := range slices.Sorted(maps.Keys(several)) {
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
func (n *named) beside(w *harvest.Item) *named {
	switch {
	case n == nil, w.Changed.After(n.Changed):
		return &named{Item: *w}
	case w.Changed.Equal(n.Changed) && !sameWant(&w.Resource, &n.Resource) && len(n.others) < maxOthers:
		n.others = append(n.others, *w)
	}
	return n
}

// choose is what counts of what documents say of a resource: what the bytes held are, else
// something that did not fail when it was last tried.
func (n *named) choose(h *Held) *harvest.Item {
	if len(n.others) == 0 {
		return &n.Item
	}
	all := append([]harvest.Item{n.Item}, n.others...)
	slices.SortFunc(all, func(a, b harvest.Item) int { return cmp.Compare(a.Digests.String(), b.Digests.String()) }) // in whatever order the documents came
	for i := range all {
		if h.Due == "" && match(h, &all[i].Resource) == evidence.Same {
			return &all[i]
		}
	}
	for i := range all {
		if h.Due == "" || !sameWant(&all[i].Resource, &h.Wanted) {
			return &all[i]
		}
	}
	return &n.Item
}

// applied is how far the set was followed, in the time of the view.
func (v *view) applied(cur Cursor) evidence.Applied {
	if !v.lift.IsZero() {
		return evidence.Applied{}
	}
	return v.d.applied(cur, v.Served)
}

// said is what is said of a resource that was yielded, beside what is held of it.
func (v *view) said(w *harvest.Item, a evidence.Applied, h *Held) evidence.Statement {
	if w.By == nil {
		s := listed(evidence.Listed, w.Changed)
		if s.To.IsZero() {
			s.To = v.Latest
		}
		s.Old = v.Old(s.To, a)
		return s
	}
	s, _ := w.By.Word()
	if h.Member && !w.At.After(a.Listed) { // no newer list lacks it
		s, _ = w.By.Against(h.LastMod, h.Wanted.LastMod)
	}
	s.Old = v.Changes.Span().Old(a) && (w.At.IsZero() || v.Old(w.At, a))
	s.From = evidence.Later(s.From, v.lift)
	return s
}

// absent is what the documents say of a member that they do not name, and when: a change,
// which is told, or else the lists.
func (v *view) absent(h *Held, cur Cursor, k known) (_ evidence.Statement, _ *harvest.Resource, told bool) {
	a := v.applied(cur)
	if c := v.Changes.Of(resourcesync.KeyOf(h.URI)); c != nil && c.Change == resourcesync.Deleted {
		said, w := c.Against(h.LastMod, h.Wanted.LastMod)
		said.Old = v.Changes.Span().Old(a)
		said.From, w.Changed = evidence.Later(said.From, v.lift), evidence.Later(w.Changed, v.lift)
		held := v.d.evidenceOf(h, k, v.Served)
		d, _ := evidence.Decide(said, held)
		if v.Unsure && !h.Told && !said.Old && d == evidence.Keep {
			// A list named it later; but where lists are of several moments, that is the time of none.
			said.Torn, said.Denied = true, true
			d, _ = evidence.Decide(said, held)
		}
		if d == evidence.Remove || d == evidence.Ask {
			return said, w, true
		}
	}
	at := evidence.Later(v.At, v.lift)
	said := listed(evidence.Absent, at)
	said.Old, said.Again = v.Old(at, a), v.lift.IsZero() && (at.Equal(k.Listed) || at.Equal(k.Sure))
	return said, &harvest.Resource{URI: h.URI, Changed: at}, false
}

// wentBack says that the Resource List is older than one that was read before. "" if
// it is not, or if the clock was wrong by which that one was dated. Dumps and archives may be
// older, if the changes since lead beyond what was applied.
func (v *view) wentBack(cur Cursor) string {
	newest := cur.newest(v.Served, v.Reader.Now())
	if v.At.IsZero() || !v.At.Before(newest) || v.By != harvest.ResourceList && !v.Old(v.At, v.applied(cur)) {
		return ""
	}
	return fmt.Sprintf("the Resource List is of %s, one of %s was read before", v.At.UTC().Format(time.RFC3339Nano), newest.UTC().Format(time.RFC3339Nano))
}
