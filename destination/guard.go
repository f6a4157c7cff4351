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

// Guard contains the numbers that explain why deletions are withheld.
type Guard struct {
	Before  int64 // number of earlier deletions that count towards the limit: those of the last 24 hours, or only those of this run if the user set a limit
	Allowed int64 // number of deletions that the limit allows
	Members int64 // number of resources in the set; the limit is a share of it
	Doubted int64 // number of deletions because of a second, shorter list with the same time as the first; these are always withheld
}

// guard withholds the plan's deletions if they are too many and no person has approved
// them.
func (pl *planner) guard(ctx context.Context, before int64) (err error) {
	if pl.Deleted == 0 {
		return nil
	}
	// The hash covers the set and exactly the resources to delete, so consent to these
	// deletions is not consent to others.
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
		err = pl.guardLosses(ctx)
	default:
		pl.hold(guard.Loss{Total: before + pl.Deleted, Planned: pl.Deleted}, pl.Members+before)
		pl.consent = !pl.Withheld
	}
	if pl.Withheld {
		pl.move = nil
	}
	return err
}

func (pl *planner) hold(l guard.Loss, members int64) {
	if l.Planned > 0 && pl.d.MaxDelete.Exceeded(l.Total, members) {
		pl.Withheld = true
		pl.Guard = Guard{Before: l.Before(), Allowed: pl.d.MaxDelete.Allows(members), Members: members}
	}
}

// guardLosses withholds the plan's deletions if they exceed the limit together with the
// set's losses of the last 24 hours. The limit is a share of the members at the
// beginning of these 24 hours, or of all members since then. Resources whose content
// only moved to another URI do not count.
func (pl *planner) guardLosses(ctx context.Context) error {
	w, err := pl.d.Mirror.Losses(ctx, pl.Set)
	if err != nil {
		return err
	}
	if !pl.d.MaxDelete.Exceeded(w.Lost+pl.Deleted, min(w.Members, pl.Members+w.Lost)) {
		return nil
	}
	l := weighing{pl: pl}
	if err := l.weigh(ctx, &w); err != nil {
		return err
	}
	all, old := l.Losses()
	pl.hold(all, pl.Members+all.Before())
	pl.hold(old, w.Members)
	return nil
}

type weighing struct {
	pl *planner
	guard.Weighing
}

func (l *weighing) weigh(ctx context.Context, w *Losses) error {
	touched, deleted := spool.NewKeys(l.pl.d.Spool, keyBudget), spool.NewKeys(l.pl.d.Spool, keyBudget)
	defer touched.Close()
	defer deleted.Close()
	if err := l.collectTouched(touched, deleted); err != nil {
		return err
	}
	if w.Each != nil {
		for one, err := range w.Each {
			if err != nil {
				return err
			}
			l.Add(one.SHA256.Sum(), one.Old, false)
		}
	}
	if err := l.planned(w.Joined, deleted); err != nil {
		return err
	}
	return l.forgetMoved(ctx, touched)
}

// collectTouched fills touched with the keys of the members whose bytes the plan
// deletes or replaces.
func (l *weighing) collectTouched(touched, deleted *spool.Keys) error {
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

// planned counts the planned deletions. Members that joined the set within the last 24
// hours are counted separately, up to guard.MaxMoved of them; further ones count as old
// members.
func (l *weighing) planned(joined iter.Seq2[resourcesync.Key, error], deleted *spool.Keys) error {
	recent := map[resourcesync.Key]bool{}
	if joined != nil {
		for key, err := range spool.Minus(deleted.Sorted(), spool.Minus(deleted.Sorted(), joined)) {
			if err != nil {
				return err
			}
			if len(recent) < guard.MaxMoved {
				recent[key] = true
			}
		}
	}
	for a, err := range l.pl.deletes.All() {
		if err != nil {
			return err
		}
		l.Add(a.Want.Digests.Get(resourcesync.SHA256).Sum(), !recent[resourcesync.KeyOf(a.Want.URI)], true)
	}
	return nil
}

// forgetMoved forgets the contents that still exist: an unchanged member has the same
// content, or the plan copies the content to another URI.
func (l *weighing) forgetMoved(ctx context.Context, touched *spool.Keys) error {
	forget := func(ds resourcesync.Digests) { l.Forget(ds.Get(resourcesync.SHA256).Sum()) }
	unchanged := spool.Minus(l.pl.d.Mirror.Keys(ctx, l.pl.Set), touched.Sorted())
	err := lookUp(ctx, l.pl.d.Mirror, l.pl.Set, unchanged, (*resourcesync.Key).URI, func(_ []resourcesync.Key, held []Held) error {
		for i := range held {
			if h := &held[i]; h.Member && h.Due == "" {
				forget(sha256Of(h))
			}
		}
		return nil
	})
	if err != nil {
		return err
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
