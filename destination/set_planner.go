package destination

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"instep/discover"
	"instep/evidence"
	"instep/harvest"
	"instep/internal/packages"
)

// setPlanner plans or audits one set. It has what the mirror knows about the set, and
// the documents of the set at the Source.
type setPlanner struct {
	planInputs
	offer *harvest.Offer
	set   discover.Set
	d     *Destination
	scope *scope
}

// newSetPlanner does not read the mirror.
func (d *Destination) newSetPlanner(sc *scope, set discover.Set) *setPlanner {
	o := harvest.NewOffer(d.reader(sc), set)
	o.DumpsFirst = d.Prefer == PreferDump
	return &setPlanner{planInputs: planInputs{Offered: &o.Offered, prefer: d.Prefer}, offer: o, set: set, d: d, scope: sc}
}

func (d *Destination) openSetPlanner(ctx context.Context, sc *scope, set discover.Set) (k *setPlanner, err error) {
	k = d.newSetPlanner(sc, set)
	if k.known, err = d.known(ctx, set.URI); err != nil {
		return nil, err
	}
	k.offer.Position = k.known.Position
	k.members, err = d.Mirror.Count(ctx, set.URI)
	k.offer.Empty = k.members == 0
	return k, err
}

func (d *Destination) planSet(ctx context.Context, sc *scope, set discover.Set, deleted int64) (*SetPlan, error) {
	if set.Err != nil {
		pl := d.newSetPlanner(sc, set).newPlanner("", "nothing is changed, because a document of the set cannot be used")
		pl.Partial = set.Err
		return pl.SetPlan, nil
	}
	k, err := d.openSetPlanner(ctx, sc, set)
	if err != nil {
		return nil, err
	}
	defer k.offer.Close()
	pl, err := k.plan(ctx)
	if err == nil {
		err = pl.guard(ctx, deleted)
	}
	if err != nil {
		pl.discard()
		return nil, err
	}
	// The retries begin with a random one, because many permanent failures at the beginning
	// would prevent the later retries.
	if n := pl.retries; n > maxOutage {
		pl.first = rand.New(rand.NewPCG(uint64(d.Client.Now().UnixNano()), 0)).Int64N(n)
	}
	pl.asOf = pl.sent()
	pl.odd.note(d, set.URI)
	pl.Pulse.Freq = set.ChangeFreq
	pl.Pulse.Gap, pl.Pulse.MaxAge = k.offer.Heard.Rhythm()
	pl.Latest = k.known.At
	if pl.move != nil {
		pl.move.Looked = d.Client.Now().UTC().Truncate(time.Second)
		known := k.known.Cursor
		// a cursor that differs only in the times of our requests does not mean that the
		// Source has changed
		known.Asked, known.Looked = pl.move.Asked, pl.move.Looked
		pl.Pulse.News, pl.Latest = pl.move.Cursor != known, pl.move.At
	}
	if !pl.Moment.IsZero() { // Latest shows how current a mirror is, so it has no meaning for a mirror of the past
		pl.Latest = time.Time{}
	}
	return pl.SetPlan, nil
}

func (k *setPlanner) plan(ctx context.Context) (*planner, error) {
	if !k.scope.moment.IsZero() {
		return k.planPast(ctx)
	}
	if k.known.followed && k.d.AcceptRollback {
		return k.baseline(ctx, "the present state of the Source is accepted, even if it is older than the mirror")
	}
	if k.known.Silent {
		return k.baseline(ctx, "the Resource List does not state its time, so it is read in each run")
	}
	var found harvest.Outcome
	mode, tr, why, err := k.mode(func(tr harvest.Track) (_ harvest.Outcome, err error) {
		var ch *harvest.Changes
		if ch, found, err = k.offer.Follow(ctx, tr); found.Reaches {
			k.overdue = k.whyOverdue(ch.Served)
		}
		return found, err
	})
	switch {
	case err != nil:
		return nil, err
	case mode == Incremental:
		return k.increment(ctx, tr, why)
	}
	pl, err := k.baseline(ctx, why)
	if k.overdue == "" || !harvest.OfSource(err) || ctx.Err() != nil {
		return pl, err
	}
	k.d.note(k.set.URI, fmt.Sprintf("%s, but no baseline can be made: %v", k.overdue, err))
	k.overdue = ""
	return k.increment(ctx, tr, found.Why)
}

// DefaultBaselineEvery is the default of Destination.BaselineEvery. Baselines repeat
// because some Sources omit deletions from their Change Lists.
const DefaultBaselineEvery = 30 * 24 * time.Hour

// whyOverdue returns the reason why the last baseline is too old, or "". now is the
// time by the Source's clock; if it is zero, our clock is used.
func (k *setPlanner) whyOverdue(now time.Time) string {
	if now.IsZero() {
		now = k.d.Client.Now()
	}
	every, last := cmp.Or(k.d.BaselineEvery, DefaultBaselineEvery), k.known.Baseline
	switch {
	case every < 0 || last.IsZero():
		return ""
	case evidence.Misdated(last, now, k.d.Client.Now()):
		return fmt.Sprintf("the last baseline was dated %s, which is in the future", last.UTC().Format(time.RFC3339))
	case now.Sub(last) < every:
		return ""
	}
	return fmt.Sprintf("the last baseline was made %d days ago, and some Sources omit deletions from their Change Lists", int(now.Sub(last).Hours()/24))
}

// increment extracts the changed resources from packages if a Change Dump saves more
// than reading its manifests costs.
func (k *setPlanner) increment(ctx context.Context, tr harvest.Track, why string) (*planner, error) {
	ch := k.offer.Changes[tr]
	pl := k.newPlanner(Incremental, why)
	err := pl.incremental(ctx, ch)
	if err == nil && pl.doubted {
		whole, err := k.baselineIfNewer(ctx)
		if whole != nil || err != nil {
			pl.discard()
			return whole, err
		}
	}
	if err != nil || !k.worthChangeDumps(tr, pl.gets()) {
		return pl, err
	}
	found, why2, err := k.offer.Carry(ctx, ch, (pl.gets()+packages.Cost(0, 2)-1)/packages.Cost(0, 2))
	if err != nil || found == 0 {
		pl.reason("requests for each resource: %s", why2)
		return pl, err
	}
	pl.discard()
	pl = k.newPlanner(Incremental, why)
	pl.reason("%s", why2)
	return pl, pl.incremental(ctx, ch)
}

// baselineIfNewer makes a baseline if the Resource List is newer than the mirror's. If the
// times of changes contradict each other, a clock was wrong, and a newer list shows the
// true state. Otherwise it returns nil.
func (k *setPlanner) baselineIfNewer(ctx context.Context) (*planner, error) {
	if !k.Usable(harvest.ResourceList) {
		return nil, nil
	}
	at, err := k.offer.ListMoment(ctx)
	if err != nil || !at.After(k.known.Listed) || evidence.ToCome(at, k.d.Client.Now()) {
		return nil, harvest.UnlessOfSource(ctx, err)
	}
	pl, err := k.baseline(ctx, "the times of the changes contradict each other or the mirror, so a clock was wrong")
	if err != nil {
		pl.discard()
		return nil, harvest.UnlessOfSource(ctx, err)
	}
	if pl.move == nil || pl.behind() {
		pl.discard()
		return nil, nil
	}
	return pl, nil
}
