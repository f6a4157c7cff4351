package destination

import (
	"context"
	"crypto/sha256"
	"fmt"
	"hash"
	"time"

	"instep/evidence"
	"instep/harvest"
	"instep/internal/packages"
	"instep/internal/spool"
	"instep/resourcesync"
)

// planner makes one plan of a set. Several plans of the same set may be made, of which
// one is used.
type planner struct {
	*SetPlan
	d       *Destination
	known   known     // what the mirror knows about the set: its cursor and the evidence of the newest list
	view    *view     // state of the set at the Source, if this is the plan of a baseline
	served  time.Time // time at which the Source sent its changes, by its own clock, if this is the plan of an increment; zero if unknown
	doubted bool      // set if the times of changes contradict each other or the mirror's state, in the plan of an increment
	stays   bool      // set if the cursor must stay, for example because the existence of a resource is disputed
	empty   bool      // set if the mirror holds nothing of the set, so that there is no held content to look for
	sum     hash.Hash
	left    bool  // set if a resource was left out that other options would include
	asked   int64 // bytes of the resources that are requested one by one, with an estimate for unknown lengths

	twice     map[spool.Key]bool // resources that several documents list
	named     int64              // number of resources in the Source's state of the set
	bulk      *bulk              // the wanted members of the package that is being planned; nil if none is
	questions []question         // open questions about disputed URIs
	asks      int                // number of questions

	odd tally
}

func (k *setPlanner) newPlanner(mode Mode, why string) *planner {
	d := k.d
	pl := &planner{
		SetPlan: d.newSetPlan(SetState{Set: k.set.URI, Name: k.set.Name, Mode: mode, Why: why, Moment: k.scope.moment}),
		d:       d, known: k.known, sum: sha256.New(),
	}
	pl.set, pl.scope = k.set, k.scope
	fmt.Fprintf(pl.sum, "%s\n", pl.Set)
	pl.reason("%s: %s", mode, why)
	return pl
}

// discard removes the temporary files of a dropped plan. A nil planner has none.
func (pl *planner) discard() {
	if pl != nil {
		pl.SetPlan.close()
	}
}

// gets returns the cost of requesting resources one by one.
func (pl *planner) gets() int64 { return packages.Cost(pl.asked, pl.Requests) }

// SkipStale means that the resource is only in a list that is older than the mirror's
// state, so it may have been deleted since the list was made.
const SkipStale Skip = "only in a list older than what is here"

// sent returns the time at which the Source sent the documents, by its own clock.
func (pl *planner) sent() time.Time {
	if pl.view != nil {
		return pl.view.Served
	}
	return pl.served
}

// confirm plans that the mirror records the description w for the bytes that it holds,
// which are the right ones. If nothing in the record would change, it plans nothing.
func (pl *planner) confirm(w *harvest.Resource, h *Held) error {
	pl.Same++
	proves := w.Provable() && !h.Verified
	dated := !evidence.Misdated(h.Changed, pl.sent(), pl.d.Client.Now())
	if h.Member && !proves && w.Remainder.Equal(h.Remainder) && dated && (pl.Mode == Baseline && !pl.outlasts(w, h) || !w.Changed.After(h.Changed)) {
		return nil
	}
	pl.lookWhole(w)
	state := *pl.notBefore(w, h)
	state.Came = h.Came
	return pl.actions.Append(Action{Kind: Mark, Want: state})
}

// outlasts reports whether to record that a list confirmed bytes which have no digest.
// The list's time then replaces their arrival time.
func (pl *planner) outlasts(w *harvest.Resource, h *Held) bool {
	return len(w.Digests) == 0 && h.Changed.Before(w.LastMod.Time().Add(within))
}

// notBefore returns w with a time that is not before the time of the mirror's state. A
// statement may count as later because of its position in a Change List, although its
// time is earlier. A time of the mirror in the future is ignored.
func (pl *planner) notBefore(w *harvest.Resource, h *Held) *harvest.Resource {
	if !h.Member || !evidence.Placed(h.Changed, pl.sent(), pl.d.Client.Now()).After(w.Changed) {
		return w
	}
	state := *w
	state.Changed = h.Changed
	return &state
}

func (pl *planner) lookWhole(w *harvest.Resource) {
	if w.Remainder.Dropped() {
		pl.odd.add(oddSize, w.URI)
	}
}

// bring adds the action that obtains the bytes of w. from is the place of w in a
// package, if it is in one; h is the mirror's record of the URI.
func (pl *planner) bring(ctx context.Context, w *harvest.Resource, from harvest.Location, h *Held) error {
	w = pl.notBefore(w, h)
	pl.lookWhole(w)
	if w.BytesAt != "" { // the wanted bytes are those of an alternate representation, which is not in the package
		from = harvest.Location{}
	}
	a := Action{Kind: Fetch, Via: ViaGet, Change: resourcesync.Created, Want: *w, Repair: h.Due != "" && h.Stored, Again: h.Due != "" && sameWant(w, &h.Wanted)}
	if a.Want.Patches = nil; !pl.d.NoPatches {
		a.Want.Patches = patchesFrom(w, h)
	}
	if err := pl.scope.findMemento(&a.Want); err != nil {
		return err
	}
	if h.Stored {
		a.Change = resourcesync.Updated
		pl.Updated++
	} else {
		pl.Created++
	}
	if err := pl.findStray(ctx, &a, h); err != nil {
		return err
	}
	if a.Kind == Fetch {
		if err := pl.findContent(ctx, &a); err != nil {
			return err
		}
	}
	return pl.add(a, from)
}

// sameWant reports whether two descriptions agree in everything that concerns the
// bytes.
func sameWant(v, w *harvest.Resource) bool {
	return v.LastMod == w.LastMod && v.Length == w.Length && v.Digests.String() == w.Digests.String() && v.Type == w.Type && v.Encoding == w.Encoding
}

// add adds to the plan an action that needs bytes. from is their place in a package, if
// they are in one.
func (pl *planner) add(a Action, from harvest.Location) error {
	if a.Kind != Fetch {
		return pl.actions.Append(a)
	}
	pl.asked += a.cost()
	if from.Package != nil {
		return pl.addMember(a, from)
	}
	pl.Requests++
	if a.Want.Length.Known() {
		pl.Bytes += a.cost()
	}
	if a.retry() {
		pl.retries++
	}
	// The actions of a first baseline are sorted by key, since the rows of a mirror are
	// sorted by the same keys. Writing the rows of a million resources in the order of
	// the Source's list takes three times as long.
	if pl.empty && !a.retry() {
		return pl.ordered.Append(string(resourcesync.KeyOf(a.Want.URI))+"\x00", a)
	}
	return pl.actions.Append(a)
}

// findStray turns a fetch into the adoption of a file that may already contain the
// bytes and that the mirror did not store.
func (pl *planner) findStray(ctx context.Context, a *Action, h *Held) error {
	m, ok := optional[Adopter](pl.d.Mirror)
	if !ok {
		return nil
	}
	path, ok, err := m.Stray(ctx, &a.Want, h)
	if err == nil && ok {
		a.Kind, a.Via, a.From = Adopt, ViaLocal, path
	}
	return err
}

// findContent turns a fetch into a copy if the mirror holds the same bytes under
// another URI. The bytes count as the same only if their length and a digest of sha-256
// or better agree.
func (pl *planner) findContent(ctx context.Context, a *Action) error {
	best := a.Want.Digests.Get(resourcesync.SHA256) // every mirror records the sha-256 of its bytes
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

// sha256Of returns the sha-256 of the held bytes; nil if there is none.
func sha256Of(h *Held) resourcesync.Digests {
	sum := h.Digests.Get(resourcesync.SHA256)
	if !h.Stored || sum.IsZero() {
		return nil
	}
	return resourcesync.Digests{sum}
}

// remove adds the deletion of a member to the plan. If a change reported the deletion,
// w has the time of the change. If doubted is set, the deletion needs the approval of a
// person.
func (pl *planner) remove(h *Held, w *harvest.Resource, doubted bool) error {
	if pl.d.KeepDeleted {
		pl.left = true
		pl.Same++
		return nil
	}
	pl.Deleted++
	if doubted {
		pl.Guard.Doubted++
	}
	fmt.Fprintf(pl.sum, "%s\n", h.URI)
	return pl.deletes.Append(Action{
		Kind: Delete, Change: resourcesync.Deleted,
		Want: harvest.Resource{URI: h.URI, Length: h.Length, Digests: sha256Of(h), Changed: w.Changed, Told: w.Told},
	})
}
