package destination

import (
	"cmp"
	"context"
	"fmt"
	"iter"
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
	d     *Destination
	of    string    // URI of the set
	known known     // how far that was followed before
	lift  time.Time // the documents count as of this moment if they are older
}

func (k *setPlanner) view(st *harvest.Snapshot) *view {
	return &view{Snapshot: st, d: k.d, of: k.set.URI, known: k.known.beside(st.Latest)}
}

// named is a resource as one document names it, and as others do that count no less.
type named struct {
	harvest.Item
	others []harvest.Item
}

// compare hands every resource that admit lets through to each, with what is held of it. It adds
// all that the Source names to seen, unless that is nil.
func (v *view) compare(ctx context.Context, seen *spool.Keys, twice map[spool.Key]bool, admit func(*harvest.Resource) bool, each func(word, *Held) error) error {
	return batched(v.admitted(ctx, seen, twice, admit), func(batch []named) error {
		held, err := v.d.Mirror.Lookup(ctx, v.of, urisOf(batch, func(w *named) string { return w.URI }))
		if err != nil {
			return err
		}
		applied := v.applied()
		for i := range batch {
			w := batch[i].choose(&held[i])
			if err := each(word{v.said(w, applied, &held[i]), &w.Resource, w.Or, w.Location}, &held[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// admitted yields every resource that admit lets through. Those in twice come last, with all that
// counts. Changes that are older than what was applied count for nothing beside a list.
func (v *view) admitted(ctx context.Context, seen *spool.Keys, twice map[spool.Key]bool, admit func(*harvest.Resource) bool) iter.Seq2[named, error] {
	return func(yield func(named, error) bool) {
		hand := func(w named) bool {
			w.Changed = evidence.Later(w.Changed, v.lift)
			if !admit(&w.Resource) {
				return true
			}
			others := w.others
			w.others = nil
			for i := range others {
				if admit(&others[i].Resource) {
					w.others = append(w.others, others[i])
				}
			}
			return yield(w, nil)
		}
		several := map[spool.Key]*named{}
		for w, err := range v.Snapshot.Resources(ctx) {
			if w.Listed != nil && v.Changes.Span().Old(v.applied()) {
				w = *w.Listed
			}
			key := resourcesync.KeyOf(w.URI)
			if err == nil && seen != nil {
				err = seen.Add(key)
			}
			if err == nil && twice[key] {
				err = v.Reader.Lighten(&w.Resource)
			}
			switch {
			case err != nil:
				yield(named{}, err)
				return
			case twice[key]:
				several[key] = several[key].beside(&w)
			case !hand(named{Item: w}):
				return
			}
		}
		for _, key := range slices.Sorted(maps.Keys(several)) {
			if !hand(*several[key]) {
				return
			}
		}
	}
}

// unnamed hands every member that is not in seen to each, with what the documents say of it; told
// says that a change does.
func (v *view) unnamed(ctx context.Context, seen *spool.Keys, each func(w word, told bool, h *Held) error) error {
	members := spool.MinusOf(v.d.Mirror.Members(ctx, v.of), keyOf, seen.Sorted())
	return batched(members, func(members []Held) error {
		held, err := v.d.Mirror.Lookup(ctx, v.of, urisOf(members, func(h *Held) string { return h.URI })) // Members may leave out what changes have said
		if err != nil {
			return err
		}
		for i := range held {
			said, w, told, err := v.absent(&held[i])
			if err != nil {
				return err
			}
			if err := each(word{Statement: said, want: w}, told, &held[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

func keyOf(h *Held) resourcesync.Key { return resourcesync.KeyOf(h.URI) }

// decide says what a statement means for what is held.
func (v *view) decide(s evidence.Statement, h *Held) evidence.Decision {
	d, _ := evidence.Decide(s, v.d.evidenceBeside(s.Kind, h, v.known, v.Served))
	return d
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
func (v *view) applied() evidence.Applied {
	if !v.lift.IsZero() {
		return evidence.Applied{}
	}
	return v.d.applied(v.known.Cursor, v.Served)
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
	if s.From = evidence.Later(s.From, v.lift); s.Torn && !s.Denied { // the list says that it exists, too
		s.From = evidence.Later(s.From, w.At)
	}
	return s
}

// absent is what the documents say of a member that they do not name, and when: a change,
// which is told, or else the lists.
func (v *view) absent(h *Held) (_ evidence.Statement, _ *harvest.Resource, told bool, err error) {
	a := v.applied()
	c, err := v.Changes.Of(h.URI)
	if err != nil {
		return evidence.Statement{}, nil, false, err
	}
	if c != nil && c.Change == resourcesync.Deleted {
		said, w := c.Against(h.LastMod, h.Wanted.LastMod)
		said.Old = v.Changes.Span().Old(a)
		said.From, w.Changed = evidence.Later(said.From, v.lift), evidence.Later(w.Changed, v.lift)
		d := v.decide(said, h)
		if v.Unsure && !h.Told && !said.Old && d == evidence.Keep {
			// A list named it later; but where lists are of several moments, that is the time of none.
			said.Torn, said.Denied = true, true
			d = v.decide(said, h)
		}
		if d == evidence.Remove || d == evidence.Ask {
			return said, w, true, nil
		}
	}
	at := evidence.Later(v.At, v.lift)
	said := listed(evidence.Absent, at)
	said.Old, said.Again = v.Old(at, a), v.lift.IsZero() && (at.Equal(v.known.Listed) || at.Equal(v.known.Sure))
	return said, &harvest.Resource{URI: h.URI, Changed: at}, false, nil
}

// wentBack says that the Resource List is older than one that was read before. "" if
// it is not, or if the clock was wrong by which that one was dated. Dumps and archives may be
// older, if the changes since lead beyond what was applied.
func (v *view) wentBack() string {
	newest := v.known.newest(v.Served, v.Reader.Now())
	if v.At.IsZero() || !v.At.Before(newest) || v.By != harvest.ResourceList && !v.Old(v.At, v.applied()) {
		return ""
	}
	return fmt.Sprintf("the Resource List is of %s, one of %s was read before", v.At.UTC().Format(time.RFC3339Nano), newest.UTC().Format(time.RFC3339Nano))
}

// lookupBatch is how many URIs the mirror is asked for at a time.
const lookupBatch = 500

// batched hands on values in batches. It does not keep a batch that was handed on.
func batched[V any](all iter.Seq2[V, error], each func([]V) error) error {
	batch := make([]V, 0, lookupBatch)
	for v, err := range all {
		if err != nil {
			return err
		}
		if batch = append(batch, v); len(batch) == lookupBatch {
			if err := each(batch); err != nil {
				return err
			}
			batch = batch[:0]
		}
	}
	if len(batch) == 0 {
		return nil
	}
	return each(batch)
}

// urisOf is the URI of each of some values.
func urisOf[V any](some []V, uri func(*V) string) []string {
	uris := make([]string, len(some))
	for i := range some {
		uris[i] = uri(&some[i])
	}
	return uris
}
