package destination

import (
	"context"
	"fmt"
	"time"

	"instep/evidence"
	"instep/harvest"
)

// This file decides what to do about each URI.

// tolerance is the largest difference between two times in whole seconds that count as
// equal.
const tolerance = 2 * time.Second

// applied returns what the mirror has applied, without times in the future, which come
// from a wrong clock.
func (d *Destination) applied(cur Cursor, served time.Time) evidence.Applied {
	now := d.Client.Now()
	return evidence.Applied{Listed: cur.newest(served, now), Changed: evidence.Placed(cur.Changed, served, now)}
}

// newest returns the time of the newest list that is not dated in the future.
func (c Cursor) newest(served, now time.Time) time.Time {
	return evidence.Later(evidence.Placed(c.Listed, served, now), c.Sure)
}

// known is what the mirror knows about a set. If no later change is recorded for a
// resource, the newest list decides: a resource in the mirror existed at the time of
// that list, and any other resource did not.
type known struct {
	Cursor
	followed bool      // the mirror has a cursor for the set
	whole    bool      // this run leaves out every resource that earlier runs left out
	until    time.Time // latest possible time of a Resource List that does not state its time; zero if there was none
}

func (d *Destination) known(ctx context.Context, set string) (k known, err error) {
	if k.Cursor, k.followed, err = d.Mirror.Cursor(ctx, set); err != nil {
		return k, err
	}
	k.whole = k.covers(d.choice())
	k.until, err = d.silentUntil(ctx, set)
	return k, err
}

// comparedTo clears the field until if it is not later than latest, the latest possible
// time of the list to compare with. latest is zero if that list states its time.
func (k known) comparedTo(latest time.Time) known {
	if !latest.Before(k.until) {
		k.until = time.Time{}
	}
	return k
}

// silent returns the name under which a mirror stores the latest possible time of the
// lists that do not state their time. The cursor cannot store it, because runs that do
// not move the cursor also apply such lists.
func silent(set string) string { return "silent lists " + set }

func (d *Destination) silentUntil(ctx context.Context, set string) (time.Time, error) {
	return recallTime(ctx, d.Mirror, silent(set))
}

func recallTime(ctx context.Context, m Mirror, name string) (time.Time, error) {
	text, ok, err := m.Recall(ctx, name)
	if err != nil || !ok {
		return time.Time{}, err
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("%s: %w", name, err)
	}
	return at, nil
}

// keepSilent stores the latest possible time of lists that do not state their time. It
// is called before the run applies any action of the plan.
func (d *Destination) keepSilent(ctx context.Context, sp *SetPlan) error {
	before, err := d.silentUntil(ctx, sp.Set)
	if err != nil || !sp.silent.After(before) {
		return err
	}
	return d.Mirror.Remember(ctx, silent(sp.Set), sp.silent.UTC().Format(time.RFC3339Nano))
}

// evidenceOf returns the mirror's state as evidence beside a statement of the given kind.
func (d *Destination) evidenceOf(kind evidence.Kind, h *Held, k known, served time.Time) evidence.Held {
	// If the statement is about the bytes of a member, and an earlier run may have left the
	// member out, the newest list is ignored, because it may have described other bytes. For
	// a deletion the list counts, because it contained the member.
	if h.Member && !k.whole && kind != evidence.Absent && kind != evidence.Deleted {
		k.Listed, k.Sure = time.Time{}, time.Time{}
	}
	e := evidence.Held{Member: h.Member, Due: h.Due != "", Change: h.Told, At: h.Changed, Until: h.Until, Ahead: k.ahead(h)}
	now := d.Client.Now()
	named := h.Member && !h.Unnamed // the newest lists contained the member
	if at := k.newest(served, now); (named || !h.Member && k.whole) && at.After(e.At) {
		e.Change, e.At = false, at
	}
	if named { // a list that does not state its time may have contained the member; known.until is its latest possible time
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

func listed(kind evidence.Kind, at time.Time) evidence.Statement {
	return evidence.Statement{Kind: kind, From: at, To: at}
}

// match compares the mirror's record of the bytes with the Source's description,
// without reading the bytes. If the Source gives no digest, match compares the lastmod
// and the time of the change. An equal time proves nothing if the bytes arrived so soon
// after it that they may be of an older version. If the time of a change is not exact,
// the bytes must have arrived after its latest possible time.
func match(h *Held, w *harvest.Resource) evidence.Match {
	switch {
	case !h.Stored:
		return evidence.Untied
	case len(w.Digests) > 0 || w.Length.Known() && w.Length != h.Length:
		return w.Beside(h.Length, h.Digests)
	// the mirror holds the bytes of another representation of the resource
	case w.BytesAt != "" && w.Type != h.Type, w.BytesAt == "" && h.Remainder.Represented(w.URI) && !w.Remainder.Represented(w.URI):
		return evidence.Differs
	}
	return matchTimes(h, w)
}

func matchTimes(h *Held, w *harvest.Resource) evidence.Match {
	since := h.Came
	if !h.Told { // the description comes from a list, and the bytes arrived after that list was made
		since = evidence.Later(h.Changed, h.Came)
	}
	old := func(t time.Time) bool { return !since.Before(t.Add(tolerance)) }
	latest := w.LastMod.Latest()
	if !w.Told && w.Changed.After(w.LastMod.Time()) && w.Changed.Before(latest) { // the list says nothing about the rest of the day
		latest = w.Changed
	}
	switch {
	case w.LastMod != h.LastMod || !old(latest):
	case !w.Told && !w.LastMod.IsZero(), w.Told && h.Told && w.Changed.Equal(h.Changed) && old(evidence.Later(w.Changed, w.Until)):
		return evidence.Same
	}
	return evidence.Untied
}

type word struct {
	evidence.Statement
	want *harvest.Resource // the described resource; for a deletion only its URI and time are set
	or   *harvest.Resource // another description of the resource, if it is unknown which one is newer; else nil
	from harvest.Location
}

// contradictory reports whether a statement that is Torn leaves open if the resource exists, or
// which bytes it has. Two descriptions of the same bytes leave nothing open.
func (w *word) contradictory() bool {
	return w.Denied || w.or != nil && w.or.Beside(w.want.Length, w.want.Digests) != evidence.Same
}

func (pl *planner) judge(ctx context.Context, w word, h *Held) error {
	if w.Kind != evidence.Absent && w.Kind != evidence.Deleted {
		pl.odd.compareProofs(h, w.want)
		w.Bytes = match(h, w.want)
	}
	d, _ := evidence.Decide(w.Statement, pl.d.evidenceOf(w.Kind, h, pl.known, pl.sent()))
	if d == evidence.Ask {
		return pl.ask(ctx, w, h)
	}
	return pl.do(ctx, d, w.want, w.from, h)
}

func (pl *planner) do(ctx context.Context, d evidence.Decision, w *harvest.Resource, from harvest.Location, h *Held) error {
	switch d {
	case evidence.Keep:
		if h.Member {
			pl.Same++
		}
	case evidence.PassOver:
		pl.skip(SkipStale, 1)
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
		// two lists have the same time, and only the first contained the resource
		return pl.remove(h, w, true)
	case evidence.Remember:
		return pl.actions.Append(Action{Kind: Remember, Want: *w})
	}
	return nil
}
