package destination

import (
	"context"
	"fmt"
	"time"

	"instep/evidence"
	"instep/harvest"
)

// This file calls evidence.Decide with the statements of documents and the mirror's
// records, and plans the decided actions.

// within is the difference up to which two times in whole seconds are not distinguished.
const within = 2 * time.Second

// applied is how far a cursor has followed its set. A moment in the future is from a wrong
// clock: it orders nothing.
func (d *Destination) applied(cur Cursor, served time.Time) evidence.Applied {
	now := d.Client.Now()
	return evidence.Applied{Listed: cur.newest(served, now), Changed: evidence.Placed(cur.Changed, served, now)}
}

// newest is the moment of the newest list that was read and is not dated in the future.
func (c Cursor) newest(served, now time.Time) time.Time {
	return evidence.Later(evidence.Placed(c.Listed, served, now), c.Sure)
}

// known is the newest list's evidence about resources without a change since: held ones
// exist, others do not.
type known struct {
	Cursor
	followed bool      // there is a Cursor
	whole    bool      // it named no others that another choice left out
	until    time.Time // latest possible moment of a list without a stated one; zero: there was none
}

func (d *Destination) known(ctx context.Context, set string) (k known, err error) {
	if k.Cursor, k.followed, err = d.Mirror.Cursor(ctx, set); err != nil {
		return k, err
	}
	k.whole = k.covers(d.choice())
	k.until, err = d.silentUntil(ctx, set)
	return k, err
}

// beside is k for a list that is of latest at the latest: if that is not older than those
// before, its own entries count.
func (k known) beside(latest time.Time) known {
	if !latest.Before(k.until) {
		k.until = time.Time{}
	}
	return k
}

// silent is the name under which a mirror stores the latest possible moment of lists
// without a stated one. It is separate from the cursor, since such lists are also applied
// in runs that move none.
func silent(set string) string { return "silent lists " + set }

// silentUntil returns that latest moment; zero if there was none.
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

// keepSilent stores that moment before anything of the list is applied.
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

// evidenceBeside is the evidence held of a URI beside a statement of a kind. The newest list
// named every member, and may have described other bytes of one that a run left out.
func (d *Destination) evidenceBeside(kind evidence.Kind, h *Held, k known, served time.Time) evidence.Held {
	if h.Member && !k.whole && kind != evidence.Absent && kind != evidence.Deleted {
		k.Listed, k.Sure = time.Time{}, time.Time{}
	}
	return d.evidenceOf(h, k, served)
}

// listed is the statement of a list of a moment.
func listed(kind evidence.Kind, at time.Time) evidence.Statement {
	return evidence.Statement{Kind: kind, From: at, To: at}
}

// match compares the recorded facts about the held bytes with a document's; it reads no
// byte. If the Source gives no digest, its lastmod identifies them, unless they arrived so
// soon after it that they may be an older version.
func match(h *Held, w *harvest.Resource) evidence.Match {
	switch {
	case !h.Stored:
		return evidence.Untied
	case len(w.Digests) > 0 || w.Length.Known() && w.Length != h.Length:
		return w.Beside(h.Length, h.Digests)
	case w.BytesAt != "" && w.Type != h.Type, w.BytesAt == "" && h.Remainder.Represented(w.URI) && !w.Remainder.Represented(w.URI): // of another representation
		return evidence.Differs
	}
	return matchTimes(h, w)
}

func matchTimes(h *Held, w *harvest.Resource) evidence.Match {
	since := h.Came
	if !h.Told { // they arrived after the document that described them
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

// word is the statements of the documents about one URI.
type word struct {
	evidence.Statement
	want *harvest.Resource // the resource as described; for a deletion only its URI and time are set
	or   *harvest.Resource // another description, from a document whose order relative to the first is unknown; may be nil
	from harvest.Location
}

// judge carries out the decision on w for the held state of its URI.
func (pl *planner) judge(ctx context.Context, w word, h *Held) error {
	if w.Kind != evidence.Absent && w.Kind != evidence.Deleted {
		pl.odd.compareProofs(h, w.want)
		w.Bytes = match(h, w.want)
	}
	d, _ := evidence.Decide(w.Statement, pl.d.evidenceBeside(w.Kind, h, pl.known, pl.sent()))
	if d == evidence.Ask {
		return pl.ask(ctx, w, h)
	}
	return pl.do(ctx, d, w.want, w.from, h)
}

// do adds the decided action to the plan.
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
