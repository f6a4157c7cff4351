package destination

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"instep/discover"
	"instep/internal/evidence"
)

// desk is where one set is planned or audited: what is known of it, and what was
// read of the Source for it. Close it.
type desk struct {
	facts
	d       *Destination
	scope   *scope
	set     discover.Set
	cursor  Cursor
	chains  [tracks]*chain
	since   [tracks]time.Time // from when on the chains tell
	stands  *window           // the list in which the cursor stands, if it was read and is another than it was
	current *chain            // of the list in which the cursor stands alone, which tells nothing of before
	changes [tracks]*changes  // after the cursor, of the tracks that were followed
	heard   *changes          // the last that were read: they tell how often the set changes
}

// newDesk is a desk for what does not depend on a mirror.
func (d *Destination) newDesk(sc *scope, set discover.Set) *desk {
	k := &desk{d: d, scope: sc, set: set}
	k.prefer = d.Prefer
	for tr, c := range trackDocuments {
		k.tells[tr] = len(set.Documents(c)) > 0
	}
	for s, c := range snapshotDocuments {
		k.shows[s] = len(set.Documents(c)) > 0
	}
	return k
}

func (d *Destination) openDesk(ctx context.Context, sc *scope, set discover.Set) (k *desk, err error) {
	k = d.newDesk(sc, set)
	if k.cursor, k.followed, err = d.Mirror.Cursor(ctx, set.URI); err != nil {
		return nil, err
	}
	k.covered = k.cursor.covers(d.choice())
	k.members, err = d.Mirror.Count(ctx, set.URI)
	return k, err
}

func (k *desk) close() {
	for _, c := range append(k.chains[:], k.current) {
		if c != nil {
			c.close()
		}
	}
}

// planSet makes the plan of one set, of which the run has deleted some resources before.
func (d *Destination) planSet(ctx context.Context, sc *scope, set discover.Set, deleted int64) (*SetPlan, error) {
	if set.Err != nil {
		pl := d.newDesk(sc, set).newPlanner("", "")
		pl.Partial = set.Err
		return pl.SetPlan, nil
	}
	k, err := d.openDesk(ctx, sc, set)
	if err != nil {
		return nil, err
	}
	defer k.close()
	pl, err := k.plan(ctx)
	if err == nil {
		err = pl.guard(ctx, deleted)
	}
	if err != nil {
		pl.discard()
		return nil, err
	}
	if n := pl.late.Len(); n > maxOutage { // or those behind so many that fail for good would never be asked for
		pl.first = rand.New(rand.NewPCG(uint64(d.Client.Now().UnixNano()), 0)).Int64N(n)
	}
	pl.asOf = pl.sent()
	pl.weaker.tell(d, set.URI)
	pl.Pulse = k.heard.pulse(set.ChangeFreq)
	pl.Latest = k.cursor.At
	if pl.move != nil {
		pl.move.Looked = d.Client.Now().UTC().Truncate(time.Second)
		known := k.cursor
		known.Asked, known.Looked = pl.move.Asked, pl.move.Looked // what we have asked is no news of the Source
		pl.Pulse.News, pl.Latest = pl.move.Cursor != known, pl.move.At
	}
	pl.again = func(ctx context.Context, deleted int64) (*SetPlan, error) {
		return d.planSet(ctx, sc, set, deleted)
	}
	return pl.SetPlan, nil
}

// plan follows the set from its cursor, or makes a baseline.
func (k *desk) plan(ctx context.Context) (*planner, error) {
	if k.followed && k.d.AcceptRollback {
		return k.baseline(ctx, "what the Source says now counts, even if it is older than what is here")
	}
	if err := k.follow(ctx); err != nil {
		return nil, err
	}
	mode, tr, why := k.mode()
	if mode == Incremental {
		return k.increment(ctx, tr, why)
	}
	pl, err := k.baseline(ctx, why)
	if k.overdue == "" || !ofSource(err) || ctx.Err() != nil {
		return pl, err
	}
	k.d.note(k.set.URI, fmt.Sprintf("%s, but none can be made: %v", k.overdue, err))
	k.overdue = ""
	_, tr, why = k.mode()
	return k.increment(ctx, tr, why)
}

// follow looks along the tracks until one tells everything since the cursor.
func (k *desk) follow(ctx context.Context) error {
	for {
		tr, more := k.next()
		if !more {
			return nil
		}
		c, err := k.from(ctx, tr)
		if err != nil {
			return err
		}
		ch, err := c.after(ctx, k.cursor)
		if err != nil {
			return err
		}
		k.changes[tr], k.heard = ch, ch
		k.tried[tr] = k.joined(ch, reach(k.cursor, c, ch))
		if k.tried[tr].reaches {
			k.overdue = k.age(ch.served)
		}
	}
}

// from opens a track where the cursor stands.
func (k *desk) from(ctx context.Context, tr track) (*chain, error) {
	if tr != changeLists {
		return k.chain(ctx, tr, k.cursor.At)
	}
	c, stands, err := k.d.openCurrent(ctx, k.scope, k.set, k.cursor)
	if c != nil || err != nil {
		k.current = c
		return c, err
	}
	k.stands = stands
	c, err = k.chain(ctx, tr, k.cursor.At)
	if err == nil && stands != nil && c.added == stands.uri { // all is applied that came before it
		c.windows = slices.DeleteFunc(c.windows, func(w window) bool { return w.from.Time().Before(stands.from.Time()) })
	}
	return c, err
}

// DefaultBaselineEvery is how long increments are trusted alone, unless
// Destination.BaselineEvery says otherwise.
const DefaultBaselineEvery = 30 * 24 * time.Hour

// age says why it is time for a baseline, now by the Source's own clock, or by ours if that
// is unknown; "" if it is not.
func (k *desk) age(now time.Time) string {
	if now.IsZero() {
		now = k.d.Client.Now()
	}
	every, last := cmp.Or(k.d.BaselineEvery, DefaultBaselineEvery), k.cursor.Baseline
	switch {
	case every < 0 || last.IsZero():
		return ""
	case k.d.misdated(last, now):
		return fmt.Sprintf("the last baseline was dated %s, which is still to come", last.UTC().Format(time.RFC3339))
	case now.Sub(last) < every:
		return ""
	}
	return fmt.Sprintf("the last baseline was made %d days ago, and not every Source tells every deletion", int(now.Sub(last).Hours()/24))
}

// chain opens a track, so that it tells what it can since a moment.
func (k *desk) chain(ctx context.Context, tr track, since time.Time) (*chain, error) {
	if c := k.chains[tr]; c != nil {
		if !since.Before(k.since[tr]) {
			return c, nil
		}
		c.close()
	}
	var c *chain
	var err error
	switch tr {
	case changeLists:
		c, err = k.d.openChain(ctx, k.scope, k.set, since)
	case changeDumps:
		c, err = k.openDumps(ctx, since)
	case changeListArchive, changeDumpArchive:
		c, err = k.openArchive(ctx, tr, since)
	}
	if err != nil {
		return nil, err
	}
	if tr == changeLists && k.stands != nil && len(c.windows) > 0 && !c.named[k.stands.uri] { // the index is a copy from before
		c.add(*k.stands)
		c.added = k.stands.uri
		c.arrange()
	}
	k.chains[tr], k.since[tr] = c, since
	return c, nil
}

// reach says whether changes tell everything since a cursor (1.1 §12.1).
func reach(cur Cursor, c *chain, ch *changes) outcome {
	no := func(format string, args ...any) outcome {
		return outcome{known: true, why: fmt.Sprintf(format, args...)}
	}
	at := cur.At.UTC().Format(time.RFC3339Nano)
	switch {
	case ch == nil:
		return no("%s", c.why)
	case ch.resumed:
		return outcome{known: true, reaches: true, why: fmt.Sprintf("after entry %d of %s", cur.Applied, ch.first)}
	case c.jumbled && !ch.span().Since(cur.At):
		return no("the %ss are not in the order of their times", c.name)
	case ch.since.IsZero():
		return no("the %s %s does not say where it begins (no from)", c.name, ch.first)
	case c.d.misdated(cur.At, ch.served):
		return no("the mirror ends at %s, which is still to come", at)
	case ch.since.Time().After(cur.At) && c.why != "":
		return no("%s", c.why)
	case ch.since.Time().After(cur.At):
		return no("gap: the %s %s begins at %s, the mirror ends at %s", c.name, ch.first, ch.since, at)
	case cur.List != "" && !c.named[cur.List] && ch.end.Before(cur.At):
		return no("%s, in which the mirror stands, is gone, and the %ss tell of nothing that is later", cur.List, c.name)
	case ch.slid:
		return no("gap: the %s %s has dropped the changes up to %s, and maybe more", c.name, ch.first, at)
	}
	return outcome{known: true, reaches: true, why: fmt.Sprintf("changes since %s in %s", at, ch.first)}
}

// joined is the outcome for changes that reach back to the cursor beside those of the tracks
// looked at before, which are laid over them.
func (k *desk) joined(ch *changes, o outcome) outcome {
	for _, other := range k.changes {
		if !o.reaches || other == ch {
			continue
		}
		if gap := ch.join(other, k.cursor); gap != "" {
			return outcome{known: true, why: "gap: " + gap}
		}
	}
	return o
}

// increment plans the changes of a track. Where the packages of a Change Dump save
// more than it costs to read their manifests, they bring what the Change Lists name.
func (k *desk) increment(ctx context.Context, tr track, why string) (*planner, error) {
	ch := k.changes[tr]
	pl := k.newPlanner(Incremental, why)
	err := pl.incremental(ctx, k.cursor, ch)
	if err == nil && pl.doubted {
		whole, err := k.recount(ctx)
		if whole != nil || err != nil {
			pl.discard()
			return whole, err
		}
	}
	if err != nil || !k.carries(tr, pl.gets()) {
		return pl, err
	}
	found, why2, err := k.carry(ctx, ch, pl.gets())
	if err != nil || found == 0 {
		pl.reason("requests for each: %s", why2)
		return pl, err
	}
	pl.discard()
	pl = k.newPlanner(Incremental, why)
	pl.reason("%s", why2)
	return pl, pl.incremental(ctx, k.cursor, ch)
}

// recount makes a baseline because the times of the changes contradict each other, or what
// is here: a clock was wrong by which some are dated, and a newer list tells what came of
// it. nil if there is no newer list.
func (k *desk) recount(ctx context.Context) (*planner, error) {
	if !k.usable(resourceList) {
		return nil, nil
	}
	at, err := k.listMoment(ctx)
	if err != nil || !at.After(k.cursor.Listed) || evidence.ToCome(at, k.d.Client.Now()) {
		return nil, unlessSource(ctx, err)
	}
	pl, err := k.baseline(ctx, "the times of the changes contradict each other, or what is here, so a clock was wrong")
	if err != nil {
		return nil, unlessSource(ctx, err)
	}
	if pl.move == nil || pl.truth.old(pl.truth.at, pl.applied()) {
		pl.discard()
		return nil, nil
	}
	return pl, nil
}

// unlessSource drops an error that is about the documents of the Source alone.
func unlessSource(ctx context.Context, err error) error {
	if ofSource(err) && ctx.Err() == nil {
		return nil
	}
	return err
}

// carry looks for the bytes of changes in the packages of Change Dumps. It returns how
// many were found, and in which words that is told.
func (k *desk) carry(ctx context.Context, ch *changes, gets int64) (found int, why string, err error) {
	c, err := k.chain(ctx, changeDumps, k.cursor.At)
	if err != nil {
		return 0, fmt.Sprintf("the Change Dumps cannot be used: %v", err), unlessLost(ctx, err)
	}
	if len(c.windows) == 0 {
		return 0, c.why, nil
	}
	windows := c.windows[c.start(k.cursor.At):]
	if look := cost(0, int64(2*len(windows))); look >= gets {
		return 0, fmt.Sprintf("to look into %d packages of Change Dumps saves nothing", len(windows)), nil
	}
	for _, w := range windows {
		n, err := k.match(ctx, c, w, ch)
		if err = unlessLost(ctx, err); err != nil {
			return 0, "", err
		}
		found += n
	}
	return found, fmt.Sprintf("%d of the changed resources are in %d packages of Change Dumps", found, len(windows)), nil
}

// match finds changes in one package. A manifest that cannot be used is passed over.
func (k *desk) match(ctx context.Context, c *chain, w window, ch *changes) (found int, err error) {
	doc, err := c.read(ctx, w)
	if err != nil {
		if lost(ctx, err) {
			k.d.note(k.set.URI, fmt.Sprintf("the package %s is left alone: %v", w.uri, err))
		}
		return 0, err
	}
	defer doc.close()
	for e, err := range doc.entries() {
		if err != nil {
			return found, err
		}
		if from := w.parcel.carries(&e); from.parcel != nil && ch.carriedBy(&e, from) {
			found++
		}
	}
	return found, nil
}
