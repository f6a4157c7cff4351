package destination

import (
	"context"
	"crypto/sha256"
	"fmt"
	"hash"
	"time"

	"instep/internal/spool"
	"instep/resourcesync"
)

// planner makes one plan of a set. A desk may make several before it keeps one.
type planner struct {
	*SetPlan
	d      *Destination
	scope  *scope
	cursor Cursor    // the zero Cursor before the first baseline
	truth  *state    // of a baseline: what the Source says the set is
	older  bool      // of an increment: the Change Lists end before what was followed already, as from a cache
	served time.Time // of an increment: when the Source sent its changes, by its own clock; zero if that is unknown
	empty  bool      // the mirror holds nothing of the set: no lookups for content that is held
	sum    hash.Hash
	left   bool  // something was left out that another choice of resources would not leave out
	asked  int64 // bytes of the resources that are requested one by one, and of unknown length estimated

	shipment *shipment // members of the package that is being planned

	unknown    int    // deletions of what was never listed
	unknownURI string // of the first of them

	weaker downgrades
}

func (k *desk) newPlanner(mode Mode, why string) *planner {
	d := k.d
	pl := &planner{
		SetPlan: &SetPlan{
			Set: k.set.URI, Name: k.set.Name, Mode: mode, Why: why,
			actions: spool.NewLog[Action](d.Spool), late: spool.NewLog[Action](d.Spool), deletes: spool.NewLog[Action](d.Spool),
		},
		d: d, scope: k.scope, cursor: k.cursor, sum: sha256.New(),
	}
	fmt.Fprintf(pl.sum, "%s\n", pl.Set)
	pl.reason("%s: %s", mode, why)
	return pl
}

// discard frees what a plan that is not kept has written; a nil planner has nothing.
func (pl *planner) discard() {
	if pl != nil {
		pl.shipment.close()
		pl.SetPlan.close()
	}
}

// gets is what the requests for single resources cost.
func (pl *planner) gets() int64 { return cost(pl.asked, pl.Requests) }

// SkipStale is that of a resource which may have been deleted since the only list that
// names it: the mirror has followed the Source further than that.
const SkipStale Skip = "only in a list older than what is here"

// lookupBatch is how many URIs a planner asks the mirror for at a time.
const lookupBatch = 500

// compare looks wants up and adds what each needs; carriers tells of each where in a
// package its bytes are.
func (pl *planner) compare(ctx context.Context, wants []Wanted, carriers []carrier) error {
	uris := make([]string, len(wants))
	for i := range wants {
		uris[i] = wants[i].URI
	}
	held, err := pl.d.Mirror.Lookup(ctx, pl.Set, uris)
	if err != nil {
		return err
	}
	for i := range wants {
		if !held[i].Member && pl.unproved(&wants[i]) {
			pl.skip(SkipStale)
			continue
		}
		if err := pl.decide(ctx, &wants[i], carriers[i], &held[i]); err != nil {
			return err
		}
	}
	return nil
}

// unproved reports whether a resource that the mirror lacks may have been deleted
// since the list of it was made: the mirror has followed the Source further.
func (pl *planner) unproved(w *Wanted) bool {
	return pl.truth != nil && w.Changed.Before(pl.cursor.At) && !pl.beyond(pl.cursor.At) && !pl.truth.bridges(w.Changed)
}

// beyond reports whether t is still to come: the clock by which something was dated
// must have been wrong, and t is no evidence of being newer.
func (pl *planner) beyond(t time.Time) bool {
	served := pl.served
	if pl.truth != nil {
		served = pl.truth.served
	}
	return pl.d.toCome(t, served)
}

// past reports whether t is later than a clock that shows now; an unknown one shows
// nothing.
func past(t, now time.Time) bool { return !now.IsZero() && t.After(now.Add(clockSkew)) }

// toCome reports whether t, which the Source told once, is still to come: by the clock of
// the Source and by ours. That of the Source alone may stand where an old answer was made,
// which a cache gives again with the Date that it had; ours can only keep more.
func (d *Destination) toCome(t, served time.Time) bool {
	return past(t, served) && past(t, d.Client.Now())
}

// ahead reports whether what the mirror holds is newer than t.
func (pl *planner) ahead(h *Held, t time.Time) bool {
	return h.Changed.After(t) && !pl.beyond(h.Changed)
}

// decide adds what brings one URI, held as h, to the state w.
func (pl *planner) decide(ctx context.Context, w *Wanted, from carrier, h *Held) error {
	pl.weaker.look(h, w)
	if h.Member && pl.ahead(h, w.Changed) { // never back
		if h.Due == "" {
			pl.Same++
			return nil
		}
		w, from = &h.Wanted, carrier{}
	}
	if h.Member && h.Changed.After(w.Changed) { // the clock was wrong by which that was dated
		state := *w
		state.Changed = h.Changed
		w = &state
	}
	if h.Stored && h.Due == "" && sameBytes(h, w) {
		pl.Same++
		proves := w.provable() && !h.Verified
		if h.Member && !proves && (pl.Mode == Baseline || !w.Changed.After(h.Changed)) {
			return nil
		}
		return pl.actions.Append(Action{Kind: Mark, Want: *w})
	}
	a := Action{Kind: Fetch, Via: ViaGet, Change: resourcesync.Created, Want: *w, Repair: h.Due != "" && h.Stored, Again: h.Due != "" && sameWant(w, &h.Wanted)}
	if h.Stored {
		a.Change = resourcesync.Updated
		pl.Updated++
	} else {
		pl.Created++
	}
	if err := pl.findStray(ctx, &a); err != nil {
		return err
	}
	if a.Kind == Fetch {
		if err := pl.findContent(ctx, &a); err != nil {
			return err
		}
	}
	return pl.bring(a, from)
}

// sameWant reports whether two descriptions are of the same bytes, whenever they were given.
func sameWant(v, w *Wanted) bool {
	return v.LastMod == w.LastMod && v.Length == w.Length && v.Digests.String() == w.Digests.String() && v.Type == w.Type && v.Encoding == w.Encoding
}

// bring adds an action that brings bytes.
func (pl *planner) bring(a Action, from carrier) error {
	if a.Kind != Fetch {
		return pl.actions.Append(a)
	}
	pl.asked += sizeOr(a.Want.Length)
	if from.parcel != nil {
		return pl.ship(a, from)
	}
	pl.Requests++
	if a.Want.Length.Known() {
		pl.Bytes += a.Want.Length.Int64()
	} else {
		pl.Unsized++
	}
	return pl.request(a)
}

// request adds an action that requests a resource.
func (pl *planner) request(a Action) error {
	if a.Again {
		return pl.late.Append(a)
	}
	return pl.actions.Append(a)
}

// findContent turns a fetch into a copy where the mirror holds the same bytes under
// another URI. Only sha-256 or stronger and the length together prove that.
func (pl *planner) findContent(ctx context.Context, a *Action) error {
	best := a.Want.Digests.Get(resourcesync.SHA256) // the one that every mirror keeps
	if best.IsZero() {
		best = a.Want.Digests.Strongest()
	}
	if pl.empty || !best.Strong() || !a.Want.Length.Known() {
		return nil
	}
	from, ok, err := pl.d.Mirror.FindContent(ctx, best, a.Want.Length.Int64())
	if err == nil && ok && from.URI != a.Want.URI {
		a.Kind, a.Via, a.From = Copy, ViaLocal, from.URI
	}
	return err
}

// sameBytes reports whether the bytes held are those that w describes, by what was
// known of them when they were stored.
func sameBytes(h *Held, w *Wanted) bool {
	if w.Length.Known() && w.Length != h.Length {
		return false
	}
	if len(w.Digests) == 0 {
		return !w.LastMod.IsZero() && w.LastMod == h.LastMod
	}
	proved := false
	for _, want := range w.Digests {
		got := h.Digests.Get(want.Algorithm())
		if got.IsZero() {
			continue
		}
		if got != want {
			return false
		}
		proved = true
	}
	return proved
}

// sha256Of is the sha-256 of the bytes held; none if there are no bytes, or others are wanted.
func sha256Of(h *Held) resourcesync.Digests {
	sum := h.Digests.Get(resourcesync.SHA256)
	if !h.Stored || sum.IsZero() {
		return nil
	}
	return resourcesync.Digests{sum}
}

// remove adds the deletion of a member.
func (pl *planner) remove(h *Held, when time.Time) error {
	if pl.d.KeepDeleted {
		pl.left = true
		pl.Same++
		return nil
	}
	pl.Deleted++
	fmt.Fprintf(pl.sum, "%s\n", h.URI)
	return pl.deletes.Append(Action{
		Kind: Delete, Change: resourcesync.Deleted,
		Want: Wanted{URI: h.URI, Length: h.Length, Digests: sha256Of(h), Changed: when},
	})
}
