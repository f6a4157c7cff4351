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

// planner makes one plan of a set. A setPlanner may make several plans and keep one.
type planner struct {
	*SetPlan
	d       *Destination
	known   known     // how far the set was followed, and the evidence of the newest list
	view    *view     // for a baseline: the Source's state of the set
	served  time.Time // for an increment: time at which the Source sent its changes, by its clock; zero if unknown
	doubted bool      // for an increment: the times of the changes contradict each other or the held state
	stays   bool      // a resource is disputed, so the cursor does not move
	empty   bool      // the mirror holds nothing of the set, so no look-up for held content is needed
	sum     hash.Hash
	left    bool  // the options left out a resource that other options would include
	asked   int64 // bytes of the resources that are requested one by one, with an estimate for unknown lengths

	twice     map[spool.Key]bool // resources that appear in several documents of the view
	named     int64              // number of resources in the view
	bulk      *bulk              // the wanted members of the package that is being planned
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

// SkipStale means that only a list older than the applied state contains the resource,
// so it may have been deleted since.
const SkipStale Skip = "only in a list older than what is here"

// sent returns the time at which the Source sent the documents, by its own clock.
func (pl *planner) sent() time.Time {
	if pl.view != nil {
		return pl.view.Served
	}
	return pl.served
}

// confirm records that the held bytes are the bytes of w.
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

// outlasts reports whether a list's confirmation of bytes without a digest must be
// recorded. Recording it discards their arrival time.
func (pl *planner) outlasts(w *harvest.Resource, h *Held) bool {
	return len(w.Digests) == 0 && h.Changed.Before(w.LastMod.Time().Add(within))
}

// notBefore returns w with the time of the held state if that is later. So a statement
// that is later by its position in a list never gets an earlier time. A time in the
// future is ignored.
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

// bring adds the action that obtains the bytes of w; h is the mirror's record.
func (pl *planner) bring(ctx context.Context, w *harvest.Resource, from harvest.Location, h *Held) error {
	w = pl.notBefore(w, h)
	pl.lookWhole(w)
	if w.BytesAt != "" { // the package contains another representation
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

// sameWant reports whether two descriptions are of the same bytes.
func sameWant(v, w *harvest.Resource) bool {
	return v.LastMod == w.LastMod && v.Length == w.Length && v.Digests.String() == w.Digests.String() && v.Type == w.Type && v.Encoding == w.Encoding
}

// add adds an action that needs bytes, which may be in a package.
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
	// A mirror's rows are in the order of these keys; a Source may list its resources
	// in any order. Writing the rows of a million resources in random order takes three
	// times as long.
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
// another URI. Only the length and a digest of sha-256 or stronger together prove that.
func (pl *planner) findContent(ctx context.Context, a *Action) error {
	best := a.Want.Digests.Get(resourcesync.SHA256) // the algorithm that every mirror records
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

// remove adds the deletion of a member. If a change reported the deletion, w has its
// time. If doubted is set, the guard withholds the deletion.
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
