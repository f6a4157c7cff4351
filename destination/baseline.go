package destination

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"instep/evidence"
	"instep/harvest"
	"instep/internal/packages"
	"instep/internal/spool"
	"instep/resourcesync"
)

// keyBudget is the memory in bytes for the keys of listed resources.
const keyBudget = 8 << 20

// baseline plans a baseline from the cheapest usable snapshot.
func (k *setPlanner) baseline(ctx context.Context, why string) (*planner, error) {
	var failed error
	for {
		s, reason, ok := k.baselineSource()
		if !ok {
			return k.noSnapshot(why, failed)
		}
		pl, err := k.by(ctx, s, why, reason)
		switch {
		// the dump gives no evidence about missing resources, and the Resource List may
		case err == nil && s != harvest.ResourceList && (pl.Partial != nil || pl.view.Unsure) && k.Usable(harvest.ResourceList):
			err = cmp.Or(pl.Partial, error(errDoubtful))
			pl.discard()
		case err == nil && s != harvest.ResourceList && (pl.view.Unproved || pl.Deleted > 0 || pl.behind()) && k.Usable(harvest.ResourceList):
			// the dump has entries without a strong digest, lacks resources that the
			// mirror holds, or is older than the mirror's state
			return k.instead(ctx, pl, harvest.ResourceList, why, "the Resource Dump has less evidence", func(list *planner) bool {
				usable := list.Partial == nil && !list.view.Unsure && (list.RolledBack == "" || pl.RolledBack != "") && (list.Gap == "" || pl.Gap != "")
				return usable && pl.saysLess(list)
			})
		case err == nil && s == harvest.ResourceList && pl.RolledBack != "" && k.prefer == "" && k.Usable(harvest.ResourceDump):
			// a Source may write dumps more often than lists; beside a newer dump, an
			// older list does not mean that the Source went back
			return k.instead(ctx, pl, harvest.ResourceDump, why, "the Resource List is older than what was read before", func(dump *planner) bool {
				return dump.Partial == nil && !dump.view.Unsure && dump.RolledBack == "" && !dump.behind()
			})
		case err == nil && s == harvest.ResourceList && pl.RolledBack == "" && k.weighs(pl.gets()):
			return k.weigh(ctx, pl, why)
		case err == nil || !harvest.OfSource(err) || ctx.Err() != nil:
			return pl, err
		}
		failed = cmp.Or(failed, err)
		k.offer.Lose(s, err)
	}
}

// instead makes a plan from another kind of snapshot (list or dump). It returns the new
// plan if the function better prefers it, else pl.
func (k *setPlanner) instead(ctx context.Context, pl *planner, s harvest.SnapshotKind, why, reason string, better func(*planner) bool) (*planner, error) {
	other, err := k.by(ctx, s, why, reason)
	switch {
	case harvest.OfSource(err) && ctx.Err() == nil:
		k.offer.Lose(s, err)
		return pl, nil
	case err == nil && better(other):
		pl.discard()
		return other, nil
	}
	other.discard()
	return pl, err
}

// saysLess reports whether pl, a plan from a dump, rests on less evidence than a plan
// from a Resource List.
func (pl *planner) saysLess(list *planner) bool {
	return pl.view.Unproved && !list.view.Unproved || pl.named < list.named || pl.Deleted > list.Deleted || pl.behind() && !list.behind()
}

// behind reports whether the documents of the plan, together with the changes after
// them, end before the state that the mirror has already applied.
func (pl *planner) behind() bool { return pl.view.Old(pl.view.At, pl.view.applied()) }

// noSnapshot returns a plan without actions for a set that has no usable list or dump. If
// there is a list that failed with an error, it returns that error instead.
func (k *setPlanner) noSnapshot(why string, failed error) (*planner, error) {
	if failed != nil {
		return nil, failed
	}
	pl := k.newPlanner(Baseline, why)
	reason := harvest.ErrNothingOffered
	if k.known.followed {
		reason = ErrWithdrawn
	}
	pl.Partial = fmt.Errorf("%s: %w", pl.Set, reason)
	return pl, nil
}

// errDiffers and errDoubtful are reasons not to use a dump although each of its
// documents is usable.
var (
	errDiffers  = &harvest.SourceError{Err: errors.New("it has less evidence than the Resource List")}
	errDoubtful = &harvest.SourceError{Err: errors.New("its parts have no single known time")} // if the parts are of different times, a resource that is in none of them may still exist
)

// weigh compares pl, a plan with a request for each resource, with a plan from a
// Resource Dump. It makes the second plan only if that may cost less, and returns the
// better one.
func (k *setPlanner) weigh(ctx context.Context, pl *planner, why string) (*planner, error) {
	dump, err := k.cheaper(ctx, pl, why)
	switch {
	case dump != nil:
		pl.discard()
		return dump, nil
	case harvest.OfSource(err) && ctx.Err() == nil:
		pl.reason("requests for each resource: the Resource Dump cannot be used: %v", err)
		err = nil
	}
	return pl, err
}

// cheaper makes a plan from a Resource Dump. It returns nil if the dump gives less
// evidence than the plan pl, or does not cost less.
func (k *setPlanner) cheaper(ctx context.Context, pl *planner, why string) (*planner, error) {
	st, err := k.offer.Snapshot(ctx, harvest.ResourceDump)
	if err != nil {
		return nil, err
	}
	defer st.Close()
	st.Weighed = true
	switch {
	case st.Unsure: // a dump without a known time is not used, so its manifests are not read
		return nil, errDoubtful
	case !pays(st, pl.gets(), k.members):
		pl.reason("reading the Resource Dump would save nothing")
		return nil, nil
	}
	dump, err := k.compare(ctx, st, why, "its packages cost less than requests for each resource")
	switch {
	case err != nil:
		return nil, err
	case pl.Partial == nil && !pl.view.Unsure && (dump.saysLess(pl) || st.AsOf().Before(pl.view.AsOf())):
		err = errDiffers
	case dump.Partial != nil:
		err = &harvest.SourceError{Err: dump.Partial}
	case st.Unsure:
		err = errDoubtful
	case packages.Cost(dump.Bytes, dump.Requests) < pl.gets():
		return dump, nil
	default:
		pl.reason("requests for each resource cost less than the Resource Dump")
	}
	dump.discard()
	return nil, err
}

// by makes a plan from a snapshot of the given kind (list or dump) and the changes
// after it.
func (k *setPlanner) by(ctx context.Context, s harvest.SnapshotKind, why, reason string) (*planner, error) {
	st, err := k.offer.Snapshot(ctx, s)
	if err != nil {
		return nil, err
	}
	defer st.Close()
	// a dump whose parts have different times is given up before a manifest is read
	if s != harvest.ResourceList && st.Unsure && k.Usable(harvest.ResourceList) {
		return nil, errDoubtful
	}
	if k.overdue != "" && st.Gap != "" && !k.d.AcceptGap { // the changes after this list are not all known; an increment has them
		return nil, &harvest.SourceError{Err: errors.New(st.Gap)}
	}
	return k.compare(ctx, st, why, reason)
}

// compare makes the plan that brings the mirror to the state of a snapshot (a list or
// dump with the changes after it).
func (k *setPlanner) compare(ctx context.Context, st *harvest.Snapshot, why, reason string) (*planner, error) {
	var twice map[spool.Key]bool
	for {
		pl := k.newPlanner(Baseline, why)
		pl.reason("by %s: %s", st.By, reason)
		pl.view, pl.empty, pl.twice = k.view(st), k.members == 0, twice
		pl.known = pl.view.known
		err := pl.baseline(ctx, pl.view)
		var again *repeatedError
		switch {
		case err == nil:
			return pl, nil
		case errors.As(err, &again):
			twice = again.keys
		}
		pl.discard()
		if again == nil {
			return nil, err
		}
	}
}

// baseline adds the actions of a baseline synchronisation to the plan: they bring the
// mirror to the complete state in the view.
func (pl *planner) baseline(ctx context.Context, st *view) error {
	seen := spool.NewKeys(pl.d.Spool, keyBudget)
	defer seen.Close()
	if pl.d.AcceptRollback && !pl.known.At.IsZero() {
		st.lift = pl.known.At.Add(tick)
	}
	if err := st.compare(ctx, seen, pl.twice, pl.admit, func(w word, h *Held) error { return pl.judge(ctx, w, h) }); err != nil {
		return err
	}
	pl.silent = st.Latest
	if pl.twice == nil && st.Partial == nil && !st.Unsure {
		if twice, err := seen.Repeated(); err != nil || len(twice) > 0 {
			return cmp.Or(err, error(&repeatedError{twice}))
		}
	}
	if err := pl.settle(ctx); err != nil {
		return err
	}
	pl.dispatch()
	old := st.Old(st.Newest(), st.applied())
	if old && !st.Shifting {
		pl.d.quirk(resourcesync.QuirkStale, pl.Set, fmt.Sprintf("%s is of %s, older than the mirror (%s): nothing is reverted",
			st.By, st.Newest().UTC().Format(time.RFC3339Nano), pl.known.At.UTC().Format(time.RFC3339Nano)))
	}
	pl.Gap = pl.lacks(st, old)
	if pl.Partial = st.Partial; pl.Partial != nil {
		return nil
	}
	if !pl.empty {
		if err := pl.removeUnseen(ctx, st, seen); err != nil {
			return err
		}
	}
	if st.Changes != nil {
		pl.Partial = st.Changes.Rest
	}
	if st.Shifting {
		pl.noteLeft()
		return nil
	}
	pl.named = seen.Len()
	next := st.cursor()
	next.Scope = pl.leftOut(old || pl.Skipped[SkipStale] > 0)
	next.Alone = Alone{}.and(pl.Skipped)
	if pl.Skipped[SkipStale] > 0 {
		next.Listed, next.Sure = pl.known.Listed, pl.known.Sure
	}
	if !pl.stays {
		pl.move = &CursorMove{Set: pl.Set, Cursor: next}
	}
	pl.refuse(st.wentBack())
	return nil
}

// leftOut returns the Scope that the cursor has after the run. The Scope identifies the
// filters that left resources out; it is "" if none were left out. If the lists are
// old, it also takes account of earlier runs: a resource that an earlier run left out
// may have changed since the lists were made.
func (pl *planner) leftOut(old bool) string {
	earlier := ""
	if old {
		earlier = pl.known.Scope
	}
	switch {
	case !pl.left:
		return earlier
	case earlier != "" && !pl.known.covers(pl.d.choice()):
		return severalChoices
	}
	return pl.d.choice()
}

// noteLeft records in the cursor which filters left resources out, and moves nothing
// else in the cursor. It is for lists whose parts have different times, which do not
// move the cursor.
func (pl *planner) noteLeft() {
	next := pl.known.Cursor
	next.Scope = pl.leftOut(true)
	if pl.known.followed && next.Scope != pl.known.Scope {
		pl.move = &CursorMove{Set: pl.Set, Cursor: next}
	}
}

// lacks describes the changes after the time of a list or dump that are unknown. It
// returns "" if there are none, or the settings accept such gaps.
func (pl *planner) lacks(st *view, old bool) string {
	switch {
	case pl.d.AcceptGap:
		return ""
	case old && pl.known.Scope != "" && !pl.known.covers(pl.d.choice()):
		return fmt.Sprintf("as of %s, for the resources requested now; the resources that earlier runs left out may have changed since", st.Newest().UTC().Format(time.RFC3339Nano))
	}
	return st.Gap
}

// severalChoices is the Scope of a cursor if runs with different filters have left
// resources out. It equals the identifier of no filters, so the next run makes a
// baseline.
const severalChoices = "several"

// repeatedError is returned if several documents list the same resources. Then the plan
// must be made again, with all entries for these resources.
type repeatedError struct{ keys map[spool.Key]bool }

func (e *repeatedError) Error() string {
	return harvest.Counted(len(e.keys), "%d {resource is|resources are} named more than once", len(e.keys))
}

// admit reports whether the filters of this run admit a resource. It counts those that
// they do not. They are not deleted, because the Source lists them.
func (pl *planner) admit(w *harvest.Resource) bool {
	skip, origin := pl.scope.admit(w, false)
	if skip == "" {
		return true
	}
	pl.skip(skip)
	pl.left = pl.left || skip != SkipUnsupported
	pl.stays = pl.stays || skip == SkipRecord // the cursor does not move, so the next run requests the record again
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

// removeUnseen plans the deletion of the members that are in no list of a complete
// baseline. If the lists have no known time, it plans only the deletions that a change
// reports.
func (pl *planner) removeUnseen(ctx context.Context, st *view, seen *spool.Keys) error {
	err := st.unnamed(ctx, seen, func(w word, told bool, h *Held) error {
		if st.Unsure && !told {
			return nil
		}
		return pl.judge(ctx, w, h)
	})
	if err != nil {
		return err
	}
	return pl.settle(ctx)
}

// cursor returns the cursor of a set after a baseline: the time of the list, and the
// position in the Change List that was read with it. If the time of the list is
// unknown, the cursor contains only the position, and only if no changes before the
// position are unknown.
func (st *view) cursor() Cursor {
	old := st.known.Cursor
	now := st.d.Client.Now()
	c := Cursor{Position: harvest.Position{At: evidence.Later(evidence.Later(st.At, old.At), st.lift), Undated: old.Undated}, Baseline: evidence.Later(st.Newest(), st.Served), Listed: old.newest(st.Served, now)}
	if !st.Unsure {
		c.Listed = evidence.Later(st.At, c.Listed)
	}
	switch {
	case st.lift.IsZero():
	case !st.At.IsZero():
		c.Listed = st.At
	case st.Latest.Before(c.Listed):
		c.Listed = st.Latest
	}
	// only our clock decides whether the time is in the future, because the Source's
	// clock may be corrected before the next run
	if evidence.ToCome(c.Listed, now) {
		c.Sure = old.newest(time.Time{}, now)
	}
	c.Silent = st.At.IsZero()
	c.Changed = old.Changed
	if !st.lift.IsZero() {
		c.Changed = time.Time{}
	}
	leads := st.Changes.Span().Since(c.At) || st.At.IsZero() && st.Changes != nil && st.Gap == ""
	switch {
	case !leads && !c.At.Equal(old.At):
	case !leads, st.lift.IsZero() && st.Newest().Before(old.At) && st.Changes.Span().Old(st.applied()):
		// If there are no changes, or the Source shows an older state than before, the
		// cursor keeps its place in the earlier Change List. Should the Source offer
		// that list again, the next run notices if entries are missing.
		c.List, c.From, c.Applied, c.Prefix, c.Last = old.List, old.From, old.Applied, old.Prefix, old.Last
		c.Index, c.Asked, c.Ended, c.Left = old.Index, old.Asked, old.Ended, old.Left
	default:
		c.Position = st.Changes.Mark(c.Position, now)
	}
	if c.List != "" && c.At.IsZero() { // the cursor is in a Change List but has no time: use the start of the period of that list
		if c.At = st.Changes.Since.Time(); c.At.IsZero() {
			c.At = st.Latest
		}
	}
	return c
}
