package destination

import (
	"context"
	"encoding/hex"
	"errors"
	"iter"

	"instep/guard"
	"instep/internal/spool"
	"instep/resourcesync"
)

// Guard is by which count deletions are withheld.
type Guard struct {
	Before  int64 // earlier deletions that count: those of the last 24 hours, or of the run if a limit is given
	Allowed int64 // permitted number of deletions
	Members int64 // number of resources in the set, the base of the limit
	Doubted int64 // deletions of the plan that follow from a list whose moment was read before, with more in it: these are withheld whatever their number
}

// guard withholds the deletions of the plan if there are too many and nobody has consented
// to them; before is how many the run has deleted until now.
func (pl *planner) guard(ctx context.Context, before int64) (err error) {
	if pl.Deleted == 0 {
		return nil
	}
	// The hash names the set and exactly the resources that would go: consent to
	// these deletions is consent to no others.
	pl.Hash = hex.EncodeToString(pl.sum.Sum([]byte(nil)))[:32]
	if pl.Members, err = pl.d.Mirror.Count(ctx, pl.Set); err != nil {
		return err
	}
	if pl.consent, err = pl.d.Mirror.Approved(ctx, pl.Hash); err != nil || pl.consent {
		return err
	}
	switch {
	case pl.Guard.Doubted > 0:
		pl.Withheld = true
	case pl.d.MaxDelete == (guard.Limit{}):
		err = pl.watch(ctx)
	default:
		pl.hold(loss{total: before + pl.Deleted, planned: pl.Deleted}, pl.Members+before)
		pl.consent = !pl.Withheld
	}
	if pl.Withheld {
		pl.move = nil
	}
	return err
}

// loss returns how many deletions count in all, and how many of them are planned.
type loss struct{ total, planned int64 }

func (l loss) before() int64 { return max(0, l.total-l.planned) }

// hold withholds the deletions of the plan if l exceeds the limit for that many members.
func (pl *planner) hold(l loss, members int64) {
	if l.planned > 0 && pl.d.MaxDelete.Exceeded(l.total, members) {
		pl.Withheld = true
		pl.Guard = Guard{Before: l.before(), Allowed: pl.d.MaxDelete.Allows(members), Members: members}
	}
}

// watch withholds the deletions if, together with the set's recent losses, they exceed the
// limit: a share of the members at the start of the window, or of all members since. Only
// then it looks for moved content, which is not lost.
func (pl *planner) watch(ctx context.Context) error {
	w, err := pl.d.Mirror.Losses(ctx, pl.Set)
	if err != nil {
		return err
	}
	if !pl.d.MaxDelete.Exceeded(w.Lost+pl.Deleted, min(w.Members, pl.Members+w.Lost)) {
		return nil
	}
	l := weighing{pl: pl, contents: map[contentKey]*toll{}}
	if err := l.weigh(ctx, &w); err != nil {
		return err
	}
	pl.hold(l.all, pl.Members+l.all.before())
	pl.hold(l.old, w.Members)
	return nil
}

// maxMoved is how many contents are looked for in other places: those beyond count as lost.
const maxMoved = 1 << 19

// toll counts the losses of one content: members from before the window, and others.
type toll struct{ old, joined, planned int64 }

func (t *toll) count(old, planned bool) {
	if old {
		t.old++
	} else {
		t.joined++
	}
	if planned {
		t.planned++
	}
}

// weighing distinguishes losses from moved content.
type weighing struct {
	pl       *planner
	all, old loss                 // old: of the members that were there when the window began
	contents map[contentKey]*toll // lost content that may have moved
}

// sum adds the losses of one content. A new member with the bytes of an old one has
// replaced it: together they are one loss.
func (l *weighing) sum(t *toll) {
	n := loss{t.joined, t.planned}
	if t.old > 0 {
		n.total = t.old
		l.old.total, l.old.planned = l.old.total+n.total, l.old.planned+n.planned
	}
	l.all.total, l.all.planned = l.all.total+n.total, l.all.planned+n.planned
}

func (l *weighing) weigh(ctx context.Context, w *Losses) error {
	touched, deleted := spool.NewKeys(l.pl.d.Spool, keyBudget), spool.NewKeys(l.pl.d.Spool, keyBudget)
	defer touched.Close()
	defer deleted.Close()
	if err := l.touch(touched, deleted); err != nil {
		return err
	}
	if w.Each != nil {
		for one, err := range w.Each {
			if err != nil {
				return err
			}
			l.add(one.SHA256, one.Old, false)
		}
	}
	if err := l.planned(w.Joined, deleted); err != nil {
		return err
	}
	if err := l.forgetMoved(ctx, touched); err != nil {
		return err
	}
	for _, t := range l.contents {
		l.sum(t)
	}
	return nil
}

// touch records the members that the plan deletes, and those that get other bytes or none.
func (l *weighing) touch(touched, deleted *spool.Keys) error {
	for _, log := range []*spool.Log[Action]{l.pl.actions, l.pl.deletes} {
		for a, err := range log.All() {
			if err != nil {
				return err
			}
			key := resourcesync.KeyOf(a.Want.URI)
			if a.Kind == Mark || a.Kind == Remember {
				continue
			}
			if a.Kind == Delete {
				err = deleted.Add(key)
			}
			if err := errors.Join(err, touched.Add(key)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *weighing) add(sum resourcesync.Digest, old, planned bool) {
	key, ok := contentKeyOf(sum)
	if ok && l.contents[key] == nil && len(l.contents) < maxMoved {
		l.contents[key] = &toll{}
	}
	if t := l.contents[key]; ok && t != nil {
		t.count(old, planned)
		return
	}
	var t toll
	t.count(old, planned)
	l.sum(&t)
}

// contentKey identifies a content: half of its sha-256.
type contentKey [16]byte

func contentKeyOf(sum resourcesync.Digest) (key contentKey, ok bool) {
	if sum.IsZero() {
		return key, false
	}
	return contentKey(sum.Sum()[:len(key)]), true
}

// planned counts the deletions of the plan. Those of members beyond maxMoved that joined
// count as if they had not.
func (l *weighing) planned(joined iter.Seq2[resourcesync.Key, error], deleted *spool.Keys) error {
	recent := map[resourcesync.Key]bool{}
	if joined != nil {
		for key, err := range spool.Minus(deleted.Sorted(), spool.Minus(deleted.Sorted(), joined)) {
			if err != nil {
				return err
			}
			if len(recent) < maxMoved {
				recent[key] = true
			}
		}
	}
	for a, err := range l.pl.deletes.All() {
		if err != nil {
			return err
		}
		l.add(a.Want.Digests.Get(resourcesync.SHA256), !recent[resourcesync.KeyOf(a.Want.URI)], true)
	}
	return nil
}

// forgetMoved removes content that an unchanged member holds, and content that the plan
// copies.
func (l *weighing) forgetMoved(ctx context.Context, touched *spool.Keys) error {
	forget := func(ds resourcesync.Digests) {
		if key, ok := contentKeyOf(ds.Get(resourcesync.SHA256)); ok {
			delete(l.contents, key)
		}
	}
	for h, err := range spool.MinusOf(l.pl.d.Mirror.Members(ctx, l.pl.Set), keyOf, touched.Sorted()) {
		if err != nil {
			return err
		}
		if h.Due == "" {
			forget(sha256Of(&h))
		}
	}
	for a, err := range l.pl.actions.All() {
		if err != nil {
			return err
		}
		if a.Kind == Copy {
			forget(a.Want.Digests)
		}
	}
	return nil
}
