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

type view struct {
	*harvest.Snapshot
	d     *Destination
	of    string    // URI of the set
	known known     // what the mirror knows about the set from earlier runs
	lift  time.Time // if AcceptRollback is set: this time replaces earlier times in the documents; else zero
}

func (k *setPlanner) view(st *harvest.Snapshot) *view {
	return &view{Snapshot: st, d: k.d, of: k.set.URI, known: k.known.comparedTo(st.Latest)}
}

// named is a description of a resource. The field others has the different descriptions
// with the same time in other documents.
type named struct {
	harvest.Item
	others []harvest.Item
}

// compare calls handle for each resource at the Source that the function admit accepts.
// It adds the keys of all resources to seen, unless seen is nil.
func (v *view) compare(ctx context.Context, seen *spool.Keys, twice map[spool.Key]bool, admit func(*harvest.Resource) bool, handle func(word, *Held) error) error {
	uri := func(w *named) string { return w.URI }
	return lookUp(ctx, v.d.Mirror, v.of, v.admitted(ctx, seen, twice, admit), uri, func(batch []named, held []Held) error {
		applied := v.applied()
		for i := range batch {
			w := batch[i].choose(&held[i])
			said := v.said(w, applied, &held[i])
			// since the mirror's bytes arrived, documents of one time describe these and other bytes
			if or := batch[i].besides(w); or != nil && held[i].Changed.Before(w.Changed) && match(&held[i], &w.Resource) == evidence.Same {
				said.Torn, w.Or = true, or
			}
			if err := handle(word{said, &w.Resource, w.Or, w.Location}, &held[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// admitted yields the resources that the function admit accepts. Resources that several
// documents list (twice) come last, each with all its descriptions. If the changes are
// older than the mirror's state, admitted takes descriptions from the list and not from
// the changes.
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
				several[key] = several[key].withDescription(&w)
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

// forUnlisted calls handle for every member of the mirror that is not in seen. told is
// true if a change says that the member was deleted, and false if the lists do not
// contain the member.
func (v *view) forUnlisted(ctx context.Context, seen *spool.Keys, handle func(w word, told bool, h *Held) error) error {
	unnamed := spool.Minus(v.d.Mirror.Keys(ctx, v.of), seen.Sorted())
	return lookUp(ctx, v.d.Mirror, v.of, unnamed, (*resourcesync.Key).URI, func(_ []resourcesync.Key, held []Held) error {
		for i := range held {
			said, w, told, err := v.judgeUnlisted(&held[i])
			if err != nil {
				return err
			}
			if err := handle(word{Statement: said, want: w}, told, &held[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

func (v *view) decide(s evidence.Statement, h *Held) evidence.Decision {
	d, _ := evidence.Decide(s, v.d.evidenceOf(s.Kind, h, v.known, v.Served))
	return d
}

// maxOthers is the maximum number of further descriptions of one resource
// (named.others).
const maxOthers = 4

// withDescription keeps only the later of two descriptions, or both if it is unknown
// which is later.
func (n *named) withDescription(w *harvest.Item) *named {
	switch {
	case n == nil, w.Changed.After(n.Changed), w.Changed.Equal(n.Changed) && w.LastMod.After(n.LastMod):
		return &named{Item: *w}
	case w.Changed.Equal(n.Changed) && !w.LastMod.Before(n.LastMod) && !sameWant(&w.Resource, &n.Resource) && len(n.others) < maxOthers:
		n.others = append(n.others, *w)
	}
	return n
}

// choose returns the description that matches the bytes in the mirror. If none does,
// choose prefers a description that the last failed attempt to fetch the resource did
// not use.
func (n *named) choose(h *Held) *harvest.Item {
	if len(n.others) == 0 {
		return &n.Item
	}
	all := append([]harvest.Item{n.Item}, n.others...)
	// sorted, because the choice must not depend on the order in which the documents were
	// read
	slices.SortFunc(all, func(a, b harvest.Item) int { return cmp.Compare(a.Digests.String(), b.Digests.String()) })
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

// besides returns a description of other bytes than those of w, or nil.
func (n *named) besides(w *harvest.Item) *harvest.Resource {
	if len(n.others) == 0 {
		return nil
	}
	for _, o := range append([]harvest.Item{n.Item}, n.others...) {
		if o.Contradicts(w.Length, w.Digests) {
			return &o.Resource
		}
	}
	return nil
}

// applied returns what the mirror has applied. If AcceptRollback is set (lift), it
// returns nothing, so that no document counts as older than the mirror's state.
func (v *view) applied() evidence.Applied {
	if !v.lift.IsZero() {
		return evidence.Applied{}
	}
	return v.d.applied(v.known.Cursor, v.Served)
}

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
	if h.Member && !w.At.After(a.Listed) { // the mirror has applied this list or a newer one, and still has the member
		s, _ = w.By.Against(h.LastMod, h.Wanted.LastMod)
	}
	s.Old = v.Changes.Span().Old(a) && (w.At.IsZero() || v.Old(w.At, a))
	// If documents disagree only about the version of the resource, the list shows that the
	// resource exists.
	if s.From = evidence.Later(s.From, v.lift); s.Torn && !s.Denied {
		s.From = evidence.Later(s.From, w.At)
	}
	return s
}

// judgeUnlisted returns what the documents say about a member that they do not list.
// told is true if a change deleted the member, and false if the lists do not contain
// it.
func (v *view) judgeUnlisted(h *Held) (_ evidence.Statement, _ *harvest.Resource, told bool, err error) {
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
			// The resource may be in a part of the list that is later than the deletion, because
			// the parts have different times.
			said.Torn, said.Denied = true, true
			d = v.decide(said, h)
		}
		if d == evidence.Remove || d == evidence.Ask {
			return said, w, true, nil
		}
	}
	at := evidence.Later(v.At, v.lift)
	said := listed(evidence.Absent, at)
	said.Old, said.Again = v.Old(at, a), v.lift.IsZero() && !h.Unnamed && (at.Equal(v.known.Listed) || at.Equal(v.known.Sure))
	return said, &harvest.Resource{URI: h.URI, Changed: at}, false, nil
}

// mayOverlook reports whether earlier runs read changes of unknown time that the
// documents may lack. It returns false if AcceptRollback is set (lift).
func (v *view) mayOverlook() bool {
	s := v.Changes.Span()
	return v.lift.IsZero() && v.known.Undated.After(evidence.Later(v.Newest(), evidence.Later(s.Latest, s.Until)))
}

// wentBack returns a sentence if the Resource List is older than one that was read
// before. Dumps and archives may be older if the changes after them are newer than the
// mirror's state.
func (v *view) wentBack() string {
	newest := v.known.newest(v.Served, v.Reader.Now())
	if v.At.IsZero() || !v.At.Before(newest) || v.By != harvest.ResourceList && !v.Old(v.At, v.applied()) {
		return ""
	}
	return fmt.Sprintf("the Resource List is of %s, but one of %s was read before", v.At.UTC().Format(time.RFC3339Nano), newest.UTC().Format(time.RFC3339Nano))
}

// lookupBatch is the number of URIs per look-up in the mirror.
const lookupBatch = 500

// lookUp looks up the URIs of the values in the mirror. It calls handle with each batch
// of values and their records in a set.
func lookUp[V any](ctx context.Context, m Mirror, set string, values iter.Seq2[V, error], uri func(*V) string, handle func([]V, []Held) error) error {
	for batch, err := range spool.Batches(values, lookupBatch) {
		if err != nil {
			return err
		}
		held, err := m.Lookup(ctx, set, urisOf(batch, uri))
		if err != nil {
			return err
		}
		if err := handle(batch, held); err != nil {
			return err
		}
	}
	return nil
}

func urisOf[V any](some []V, uri func(*V) string) []string {
	uris := make([]string, len(some))
	for i := range some {
		uris[i] = uri(&some[i])
	}
	return uris
}
