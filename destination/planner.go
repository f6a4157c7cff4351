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

// planner makes one plan of a set. A setPlanner may make several before it keeps one.
type planner struct {
	*SetPlan
	d       *Destination
	known   known     // how far the set was followed, and evidence of the newest list
	view    *view     // for a baseline: the Source's state of the set
	served  time.Time // for an increment: time at which the Source sent its changes, by its own clock; zero if unknown
	doubted bool      // for an increment: the times of the changes contradict each other, or the held state
	stays   bool      // something is disputed: the cursor stays where it is
	empty   bool      // the mirror holds nothing of the set, so no look-up for held content is needed
	sum     hash.Hash
	left    bool  // something was left out that another choice of resources would not leave out
	asked   int64 // bytes of the resources that are requested one by one, and of unknown length estimated

	twice     map[spool.Key]bool // resources that several documents of the view name
	named     int64              // resources that the view names
	bulk      *bulk              // members of the package that is being planned
	questions []question         // URIs that are to be asked
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

// discard frees the spooled actions of a plan that is dropped; a nil planner has none.
func (pl *planner) discard() {
	if pl != nil {
		pl.SetPlan.close()
	}
}

// gets is the cost of the requests for single resources.
func (pl *planner) gets() int64 { return packages.Cost(pl.asked, pl.Requests) }

// SkipStale: the resource may have been deleted since the only list that names it: the
// mirror has followed the Source further than that.
const SkipStale Skip = "only in a list older than what is here"

// sent returns when the Source sent the documents, by its own clock; zero if unknown.
func (pl *planner) sent() time.Time {
	if pl.view != nil {
		return pl.view.Served
	}
	return pl.served
}

// confirm records that the held bytes are those of w.
func (pl *planner) confirm(w *harvest.Resource, h *Held) error {
	pl.Same++
	said, err := w.Remainder.Text()
	if err != nil {
		return err
	}
	before, err := h.Remainder.Text()
	if err != nil {
		return err
	}
	proves := w.Provable() && !h.Verified
	dated := !evidence.Misdated(h.Changed, pl.sent(), pl.d.Client.Now())
	if h.Member && !proves && said == before && dated && (pl.Mode == Baseline && !pl.outlasts(w, h) || !w.Changed.After(h.Changed)) {
		return nil
	}
	pl.lookWhole(w)
	state := *pl.notBefore(w, h)
	state.Came = h.Came
	return pl.actions.Append(Action{Kind: Mark, Want: state})
}

// outlasts reports whether a list's confirmation of bytes without a digest has to be
// recorded, since it discards their arrival time.
func (pl *planner) outlasts(w *harvest.Resource, h *Held) bool {
	return len(w.Digests) == 0 && h.Changed.Before(w.LastMod.Time().Add(within))
}

// notBefore returns w with the moment of the held state, if that is later: a statement that
// counts by its position is not older. A moment in the future does not count.
func (pl *planner) notBefore(w *harvest.Resource, h *Held) *harvest.Resource {
	if !h.Member || !evidence.Placed(h.Changed, pl.sent(), pl.d.Client.Now()).After(w.Changed) {
		return w
	}
	state := *w
	state.Changed = h.Changed
	return &state
}

// lookWhole counts w if its remainder was dropped.
func (pl *planner) lookWhole(w *harvest.Resource) {
	if w.Remainder.Dropped() {
		pl.odd.add(oddSize, w.URI)
	}
}

// bring adds the action that obtains the bytes of w; h is the held record.
func (pl *planner) bring(ctx context.Context, w *harvest.Resource, from harvest.Location, h *Held) error {
	w = pl.notBefore(w, h)
	pl.lookWhole(w)
	if w.BytesAt != "" { // the package has another representation
		from = harvest.Location{}
	}
	if err := pl.findMemento(&w); err != nil {
		return err
	}
	a := Action{Kind: Fetch, Via: ViaGet, Change: resourcesync.Created, Want: *w, Repair: h.Due != "" && h.Stored, Again: h.Due != "" && sameWant(w, &h.Wanted)}
	if a.Want.Patches = nil; !pl.d.NoPatches {
		a.Want.Patches = patchesFrom(w, h)
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

// sameWant reports whether two descriptions are of the same bytes, whenever they were given.
func sameWant(v, w *harvest.Resource) bool {
	return v.LastMod == w.LastMod && v.Length == w.Length && v.Digests.String() == w.Digests.String() && v.Type == w.Type && v.Encoding == w.Encoding
}

// add adds an action that brings bytes.
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
	// The rows of a mirror are in this order, and a Source lists its resources in any. A mirror
	// of a million takes three times as long to write its rows at random.
	if pl.empty && !a.retry() {
		return pl.ordered.Append(string(resourcesync.KeyOf(a.Want.URI))+"\x00", a)
	}
	return pl.actions.Append(a)
}

// findStray turns a fetch into the adoption of a file that may hold the bytes already.
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

// findContent turns a fetch into a copy where the mirror holds the same bytes under
// another URI. Only sha-256 or stronger and the length together prove that.
func (pl *planner) findContent(ctx context.Context, a *Action) error {
	best := a.Want.Digests.Get(resourcesync.SHA256) // the one that every mirror records
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

// sha256Of is the sha-256 of the bytes held; none if there are no bytes, or others are wanted.
func sha256Of(h *Held) resourcesync.Digests {
	sum := h.Digests.Get(resourcesync.SHA256)
	if !h.Stored || sum.IsZero() {
		return nil
	}
	return resourcesync.Digests{sum}
}

// remove adds the deletion of a member; w has the time if a change gave it; doubted ones
// are withheld.
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
