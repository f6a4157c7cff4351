package destination

import (
	"context"
	"fmt"
	"time"

	"instep/evidence"
	"instep/harvest"
)

// This file puts the words of documents and the mirror's knowledge before
// evidence.Decide, and does what it says.

// within is how near two moments are that a time in whole seconds cannot tell apart.
const within = 2 * time.Second

// applied is how far a cursor has followed its set. A moment that is still to come was
// dated by a clock that was wrong: it orders nothing.
func (d *Destination) applied(cur Cursor, served time.Time) evidence.Applied {
	now := d.Client.Now()
	return evidence.Applied{Listed: cur.newest(served, now), Changed: evidence.Placed(cur.Changed, served, now)}
}

// newest is the moment of the newest list that was read and is not dated in time to come.
func (c Cursor) newest(served, now time.Time) time.Time {
	return evidence.Later(evidence.Placed(c.Listed, served, now), c.Sure)
}

// known is what the newest list tells of resources of which no change was told since: that
// those which are held exist, and that others do not.
type known struct {
	Cursor
	whole bool      // it named no others, which were left out by another choice
	until time.Time // the latest moment that a list can be of which was read and did not tell its own; zero: there was none
}

func (d *Destination) known(ctx context.Context, set string, c Cursor) (k known, err error) {
	k.Cursor, k.whole = c, c.covers(d.choice())
	k.until, err = d.silentUntil(ctx, set)
	return k, err
}

// beside is k where a list is read that is of latest at the latest: one that is no older than those
// before says itself what they do.
func (k known) beside(latest time.Time) known {
	if !latest.Before(k.until) {
		k.until = time.Time{}
	}
	return k
}

// silent is the name under which a mirror remembers of when the lists of a set can be that did not
// tell their moment. It is no part of the cursor: their word is applied in runs too that move none.
func silent(set string) string { return "silent lists " + set }

// silentUntil is the latest moment that one of those lists can be of; zero if there was none.
func (d *Destination) silentUntil(ctx context.Context, set string) (time.Time, error) {
	text, ok, err := d.Mirror.Recall(ctx, silent(set))
	if err != nil || !ok {
		return time.Time{}, err
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("%s: %w", silent(set), err)
	}
	return at, nil
}

// keepSilent remembers of when such a list can be before anything of it is applied.
func (d *Destination) keepSilent(ctx context.Context, sp *SetPlan) error {
	before, err := d.silentUntil(ctx, sp.Set)
	if err != nil || !sp.silent.After(before) {
		return err
	}
	return d.Mirror.Remember(ctx, silent(sp.Set), sp.silent.UTC().Format(time.RFC3339Nano))
}

// evidenceOf is the evidence held of a URI.
func (d *Destination) evidenceOf(h *Held, k known, served time.Time) evidence.Held {
	e := evidence.Held{Member: h.Member, Due: h.Due != "", Change: h.Told, At: h.Changed, Until: h.Until, Ahead: k.ahead(h)}
	now := d.Client.Now()
	if at := k.newest(served, now); (h.Member || k.whole) && at.After(e.At) {
		e.Change, e.At = false, at
	}
	if h.Member { // a list of before may have named it as late as that
		e.Until = evidence.Later(e.Until, k.until)
	}
	if !h.Gone.IsZero() {
		e.Gone, e.Change, e.At = true, true, h.Gone
	}
	if !e.Until.After(e.At) {
		e.Until = time.Time{}
	}
	if evidence.Misdated(e.At, served, now) {
		e.At, e.Misdated = time.Time{}, true
	}
	return e
}

// listed is the statement of a list of a moment.
func listed(kind evidence.Kind, at time.Time) evidence.Statement {
	return evidence.Statement{Kind: kind, From: at, To: at}
}

// match compares what is known of the bytes held with what a document says of them; no byte
// is read. Where the Source gives no digest, its lastmod ties them, unless they
// came so soon after that they may be those of before.
func match(h *Held, w *harvest.Resource) evidence.Match {
	switch {
	case !h.Stored:
		return evidence.Untied
	case len(w.Digests) > 0 || w.Length.Known() && w.Length != h.Length:
		return w.Beside(h.Length, h.Digests)
	}
	return matchTimes(h, w)
}

func matchTimes(h *Held, w *harvest.Resource) evidence.Match {
	since := h.Came
	if !h.Told { // they came after the document that told of them
		since = evidence.Later(h.Changed, h.Came)
	}
	old := func(t time.Time) bool { return !since.Before(t.Add(within)) }
	switch {
	case w.LastMod != h.LastMod || !old(w.LastMod.Time()):
	case !w.Told && !w.LastMod.IsZero(), w.Told && h.Told && w.Changed.Equal(h.Changed) && old(w.Changed):
		return evidence.Same
	}
	return evidence.Untied
}

// word is what the documents say of one URI.
type word struct {
	evidence.Statement
	want *harvest.Resource // what they say of the resource, if it exists; of a deletion without another word the URI and the moment
	or   *harvest.Resource // likewise, by a document of which nobody knows whether it is the later one; nil: none
	from harvest.Location
}

// judge does what w means for what is held of its URI.
func (pl *planner) judge(ctx context.Context, w word, h *Held) error {
	if w.Kind != evidence.Absent && w.Kind != evidence.Deleted {
		pl.odd.compareProofs(h, w.want)
		w.Bytes = match(h, w.want)
	}
	d, _ := evidence.Decide(w.Statement, pl.d.evidenceOf(h, pl.known, pl.sent()))
	if d == evidence.Ask {
		return pl.ask(ctx, w, h)
	}
	return pl.do(ctx, d, w.want, w.from, h)
}

// do adds to the plan what was decided.
func (pl *planner) do(ctx context.Context, d evidence.Decision, w *harvest.Resource, from harvest.Location, h *Held) error {
	switch d {
	case evidence.Keep:
		if h.Member {
			pl.Same++
		}
	case evidence.PassOver:
		pl.skip(SkipStale)
	case evidence.Retry:
		if pl.admit(&h.Wanted) {
			return pl.bring(ctx, &h.Wanted, harvest.Location{}, h)
		}
	case evidence.Confirm:
		return pl.confirm(w, h)
	case evidence.Fetch:
		return pl.bring(ctx, w, from, h)
	case evidence.Remove:
		return pl.remove(h, w, false)
	case evidence.Withhold:
		return pl.remove(h, w, true)
	case evidence.Remember:
		return pl.actions.Append(Action{Kind: Remember, Want: *w})
	}
	return nil
}
