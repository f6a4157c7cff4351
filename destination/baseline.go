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

func (k *setPlanner) baseline(ctx context.Context, why string) (*planner, error) {
	var failed error
	for {
		s, reason, ok := k.baselineSource()
		if !ok {
			return k.planWithoutSnapshot(why, failed)
		}
		pl, err := k.planFrom(ctx, s, why, reason)
		switch {
		// A Resource Dump with faults is no evidence that resources are missing.
		case err == nil && s != harvest.ResourceList && (pl.Partial != nil || pl.view.Unsure) && k.Usable(harvest.ResourceList):
			err = cmp.Or(pl.Partial, error(errDoubtful))
			pl.discard()
		case err == nil && s != harvest.ResourceList && (pl.view.Unproved || pl.Deleted > 0 || pl.behind()) && k.Usable(harvest.ResourceList):
			// The dump has entries without a strong digest, lacks resources that the mirror
			// holds, or is older than the mirror's state.
			return k.chooseSnapshot(ctx, pl, harvest.ResourceList, why, "the Resource Dump proves less than the Resource List", func(list *planner) bool {
				usable := list.Partial == nil && !list.view.Unsure && (list.RolledBack == "" || pl.RolledBack != "") && (list.Gap == "" || pl.Gap != "")
				return usable && pl.hasLessEvidence(list)
			})
		case err == nil && s == harvest.ResourceList && pl.RolledBack != "" && k.prefer == "" && k.Usable(harvest.ResourceDump):
			// A Source may write dumps more often than lists. Then an older list does not mean
			// that the Source went back.
			return k.chooseSnapshot(ctx, pl, harvest.ResourceDump, why, "the Resource List is older than a document that an earlier run read", func(dump *planner) bool {
				return dump.Partial == nil && !dump.view.Unsure && dump.RolledBack == "" && !dump.behind()
			})
		case err == nil && s == harvest.ResourceList && pl.RolledBack == "" && k.worthComparing(pl.gets()):
			return k.compareWithDump(ctx, pl, why)
		case err == nil || !harvest.OfSource(err) || ctx.Err() != nil:
			return pl, err
		}
		failed = cmp.Or(failed, err)
		k.offer.Lose(s, err)
	}
}

// chooseSnapshot makes another plan, from the kind of snapshot s. The function prefers
// decides whether the new plan or pl is returned.
func (k *setPlanner) chooseSnapshot(ctx context.Context, pl *planner, s harvest.SnapshotKind, why, reason string, prefers func(*planner) bool) (*planner, error) {
	other, err := k.planFrom(ctx, s, why, reason)
	switch {
	case harvest.OfSource(err) && ctx.Err() == nil:
		k.offer.Lose(s, err)
		return pl, nil
	case err == nil && prefers(other):
		pl.discard()
		return other, nil
	}
	other.discard()
	return pl, err
}

func (pl *planner) hasLessEvidence(list *planner) bool {
	return pl.view.Unproved && !list.view.Unproved || pl.named < list.named || pl.Deleted > list.Deleted || pl.behind() && !list.behind()
}

// behind reports whether the documents of the plan end before the state that the mirror
// has already applied.
func (pl *planner) behind() bool { return pl.view.Old(pl.view.At, pl.view.applied()) }

// planWithoutSnapshot returns a plan without actions if the Source offers no list or
// dump. If it offers some that cannot be used, the result is the error failed.
func (k *setPlanner) planWithoutSnapshot(why string, failed error) (*planner, error) {
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

// These errors are reasons not to use a dump although each of its documents is usable.
var (
	errDiffers  = &harvest.SourceError{Err: errors.New("the dump proves less than the Resource List")}
	errDoubtful = &harvest.SourceError{Err: errors.New("the times of the dump's parts differ or are unknown")} // a resource that moved between two parts of different times may be in neither
)

// compareWithDump returns the given plan or a plan from the Resource Dump, whichever
// costs less.
func (k *setPlanner) compareWithDump(ctx context.Context, pl *planner, why string) (*planner, error) {
	dump, err := k.cheaperDump(ctx, pl, why)
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

// cheaperDump returns a plan from the Resource Dump; nil if the dump proves less than
// the documents of pl, or does not cost less.
func (k *setPlanner) cheaperDump(ctx context.Context, pl *planner, why string) (*planner, error) {
	st, err := k.offer.Snapshot(ctx, harvest.ResourceDump)
	if err != nil {
		return nil, err
	}
	defer st.Close()
	st.Weighed = true
	switch {
	case st.Unsure: // a dump without a known time is not used, so its manifests are not read
		return nil, errDoubtful
	case !dumpMaySave(st, pl.gets(), k.members):
		pl.reason("reading the Resource Dump would save nothing")
		return nil, nil
	}
	dump, err := k.compare(ctx, st, why, "its packages cost less than requests for each resource")
	switch {
	case err != nil:
		return nil, err
	case pl.Partial == nil && !pl.view.Unsure && (dump.hasLessEvidence(pl) || st.AsOf().Before(pl.view.AsOf())):
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

func (k *setPlanner) planFrom(ctx context.Context, s harvest.SnapshotKind, why, reason string) (*planner, error) {
	st, err := k.offer.Snapshot(ctx, s)
	if err != nil {
		return nil, err
	}
	defer st.Close()
	// a dump without a known time is not used, so its manifests are not read
	if s != harvest.ResourceList && st.Unsure && k.Usable(harvest.ResourceList) {
		return nil, errDoubtful
	}
	if k.overdue != "" && st.Gap != "" && !k.d.AcceptGap { // this list is not used: changes after it are missing, and an incremental synchronisation misses none
		return nil, &harvest.SourceError{Err: errors.New(st.Gap)}
	}
	return k.compare(ctx, st, why, reason)
}

func (k *setPlanner) compare(ctx context.Context, st *harvest.Snapshot, why, reason string) (*planner, error) {
	var twice map[spool.Key]bool
	for {
		pl := k.newPlanner(Baseline, why)
		pl.reason("by %s: %s", st.By, reason)
		pl.view, pl.empty, pl.twice = k.view(st), k.members == 0, twice
		pl.known = pl.view.known
		var err error
		if twice, err = pl.baseline(ctx, pl.view); err == nil && len(twice) == 0 {
			return pl, nil
		}
		pl.discard()
		if err != nil {
			return nil, err
		}
	}
}

// baseline plans by a snapshot. If several of its documents list the same resources, it
// returns their keys: then the plan must be made again with all their entries.
func (pl *planner) baseline(ctx context.Context, st *view) (repeated map[spool.Key]bool, err error) {
	seen := spool.NewKeys(pl.d.Spool, keyBudget)
	defer seen.Close()
	if pl.d.AcceptRollback && !pl.known.At.IsZero() {
		st.lift = pl.known.At.Add(tick)
	}
	if err := st.compare(ctx, seen, pl.twice, pl.admit, func(w word, h *Held) error { return pl.judge(ctx, w, h) }); err != nil {
		return nil, err
	}
	pl.silent = st.Latest
	if pl.twice == nil && st.Partial == nil && !st.Unsure {
		if repeated, err = seen.Repeated(); err != nil || len(repeated) > 0 {
			return repeated, err
		}
	}
	if err := pl.askQuestions(ctx); err != nil {
		return nil, err
	}
	pl.dispatch()
	old := st.Old(st.Newest(), st.applied())
	if old && !st.Shifting {
		pl.d.quirk(resourcesync.QuirkStale, pl.Set, fmt.Sprintf("%s is of %s, older than the mirror (%s): nothing is reverted",
			st.By, st.Newest().UTC().Format(time.RFC3339Nano), pl.known.At.UTC().Format(time.RFC3339Nano)))
	}
	overlooked := old || st.mayOverlook()
	pl.Gap = pl.unknownChanges(st, overlooked)
	if pl.Partial = st.Partial; pl.Partial != nil {
		return nil, nil
	}
	if !pl.empty {
		if err := pl.removeUnseen(ctx, st, seen); err != nil {
			return nil, err
		}
	}
	if st.Changes != nil {
		pl.Partial = st.Changes.Rest
	}
	if st.Shifting {
		pl.updateScope()
		return nil, nil
	}
	pl.named = seen.Len()
	next := st.cursor()
	next.Scope = pl.nextScope(overlooked || pl.Skipped[SkipStale] > 0)
	next.Alone = Alone{}.plus(pl.Skipped)
	if pl.Skipped[SkipStale] > 0 {
		next.Listed, next.Sure = pl.known.Listed, pl.known.Sure
	}
	if !pl.stays {
		pl.move = &CursorMove{Set: pl.Set, Cursor: next}
	}
	pl.refuse(st.wentBack())
	return nil, nil
}

// nextScope returns the identifier of filters (Scope) for the next cursor. If the
// documents may lack changes that earlier runs read (overlooked), the Scope of these
// runs still counts, because the resources that they left out may have changed.
func (pl *planner) nextScope(overlooked bool) string {
	earlier := ""
	if overlooked {
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

// updateScope changes only the Scope of the cursor, because lists whose parts have
// different times do not move the cursor.
func (pl *planner) updateScope() {
	next := pl.known.Cursor
	next.Scope = pl.nextScope(true)
	if pl.known.followed && next.Scope != pl.known.Scope {
		pl.move = &CursorMove{Set: pl.Set, Cursor: next}
	}
}

func (pl *planner) unknownChanges(st *view, overlooked bool) string {
	switch {
	case pl.d.AcceptGap:
		return ""
	case overlooked && pl.known.Scope != "" && !pl.known.covers(pl.d.choice()):
		return fmt.Sprintf("as of %s, for the resources requested now; the resources that earlier runs left out may have changed since", st.Newest().UTC().Format(time.RFC3339Nano))
	}
	return st.Gap
}

// severalChoices is the Scope of a cursor after runs with different filters have left
// resources out. No filters have this identifier, so the next run makes a baseline.
const severalChoices = "several"

// admit counts the resources that the filters leave out. They are not deleted, because
// the Source lists them.
func (pl *planner) admit(w *harvest.Resource) bool {
	skip, origin := pl.scope.admit(w, false)
	if skip == "" {
		return true
	}
	pl.skip(skip, 1)
	pl.left = pl.left || skip != SkipUnsupported
	pl.stays = pl.stays || skip == SkipRecord // the cursor stays where it is, so that the next run reads the metadata record again
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

// removeUnseen plans the deletion of members that the Source does not list. If the time
// of the lists is unknown, removeUnseen plans only deletions that a change reports.
func (pl *planner) removeUnseen(ctx context.Context, st *view, seen *spool.Keys) error {
	err := st.forUnlisted(ctx, seen, func(w word, told bool, h *Held) error {
		if st.Unsure && !told {
			return nil
		}
		return pl.judge(ctx, w, h)
	})
	if err != nil {
		return err
	}
	return pl.askQuestions(ctx)
}

// cursor returns the cursor after a baseline: the time of the list, and the position in
// the Change List that was read with it. If the time of the list is unknown, the cursor
// has the position only if all changes before it are known.
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
	// Only our clock decides whether the time is in the future, because the Source's clock
	// may be corrected before the next run.
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
		// If there are no changes, or the Source shows an older state than before, the cursor
		// keeps its position in the earlier Change List. If the Source offers that list
		// again, the next run detects missing entries.
		c.List, c.From, c.Applied, c.Prefix, c.Last = old.List, old.From, old.Applied, old.Prefix, old.Last
		c.Index, c.Asked, c.Ended, c.Left = old.Index, old.Asked, old.Ended, old.Left
	default:
		c.Position = st.Changes.Mark(c.Position, now)
	}
	if c.List != "" && c.At.IsZero() { // no list or change gives the cursor a time, so it gets the "from" datetime of the Change List
		if c.At = st.Changes.Since.Time(); c.At.IsZero() {
			c.At = st.Latest
		}
	}
	return c
}
