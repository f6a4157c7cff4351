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

// planner makes one plan of a set. A run may make several plans of a set, of which it
// uses one.
type planner struct {
	*SetPlan
	d       *Destination
	known   known
	view    *view     // for a baseline: state of the set at the Source; else nil
	served  time.Time // for an incremental plan: time at which the Source sent its changes, by its own clock; zero if unknown
	doubted bool      // set if changes contradict each other or the mirror's state
	stays   bool      // set if the cursor must not move, for example because the existence of a resource is disputed
	empty   bool      // set if the mirror has no member of the set
	sum     hash.Hash
	left    bool  // set if the options of this run left out a resource
	asked   int64 // number of bytes to transfer if each resource is requested by itself, with an estimate for unknown lengths

	twice     map[spool.Key]bool // resources that several documents list
	named     int64              // number of resources that the Source has in the set
	bulk      *bulk              // the package that is being planned; nil if none is
	questions []question
	asks      int // number of questions

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

func (pl *planner) discard() {
	if pl != nil {
		pl.SetPlan.close()
	}
}

func (pl *planner) gets() int64 { return packages.Cost(pl.asked, pl.Requests) }

// SkipStale means that the resource is only in a list that is older than the mirror's
// state, so it may have been deleted since the list was made.
const SkipStale Skip = "only in a list that is older than the mirror"

// sent returns the time at which the Source sent the documents, by its own clock.
func (pl *planner) sent() time.Time {
	if pl.view != nil {
		return pl.view.Served
	}
	return pl.served
}

// confirm plans to record the description w, which the bytes in the mirror match. It
// plans nothing if the record would not change.
func (pl *planner) confirm(w *harvest.Resource, h *Held) error {
	pl.Same++
	proves := w.Provable() && !h.Verified
	dated := !evidence.Misdated(h.Changed, pl.sent(), pl.d.Client.Now())
	if h.Member && !proves && w.Remainder.Equal(h.Remainder) && dated && (pl.Mode == Baseline && !pl.needsListTime(w, h) || !w.Changed.After(h.Changed)) {
		return nil
	}
	return pl.mark(w, h)
}

func (pl *planner) mark(w *harvest.Resource, h *Held) error {
	pl.lookWhole(w)
	state := *pl.withLaterTime(w, h)
	state.Came = h.Came
	return pl.actions.Append(Action{Kind: Mark, Want: state})
}

// needsListTime reports whether to record the time of a list that confirms bytes
// without a digest: the recorded time is so close to the lastmod that the bytes may be
// of an older version.
func (pl *planner) needsListTime(w *harvest.Resource, h *Held) bool {
	return len(w.Digests) == 0 && h.Changed.Before(w.LastMod.Latest().Add(tolerance))
}

// withLaterTime returns the resource with the later of two times: its own and that of
// the mirror's state, unless that is in the future. A later change in a Change List may
// have an earlier time.
func (pl *planner) withLaterTime(w *harvest.Resource, h *Held) *harvest.Resource {
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

func (pl *planner) bring(ctx context.Context, w *harvest.Resource, from harvest.Location, h *Held) error {
	w = pl.withLaterTime(w, h)
	pl.lookWhole(w)
	if w.BytesAt != "" { // no package is used, because the bytes of an alternate representation are not in it
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

func sameWant(v, w *harvest.Resource) bool {
	return v.LastMod == w.LastMod && v.Length == w.Length && v.Digests.String() == w.Digests.String() && v.Type == w.Type && v.Encoding == w.Encoding
}

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

func (pl *planner) findStray(ctx context.Context, a *Action, h *Held) error {
	path, ok, err := pl.d.Mirror.Stray(ctx, &a.Want, h)
	if err == nil && ok {
		a.Kind, a.Via, a.From = Adopt, ViaLocal, path
	}
	return err
}

// findContent plans to copy the bytes of another URI if their length and a digest of
// sha-256 or better agree.
func (pl *planner) findContent(ctx context.Context, a *Action) error {
	best := a.Want.Digests.Get(resourcesync.SHA256) // sha-256 comes first, because every mirror records the sha-256 of its bytes
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

func sha256Of(h *Held) resourcesync.Digests {
	sum := h.Digests.Get(resourcesync.SHA256)
	if !h.Stored || sum.IsZero() {
		return nil
	}
	return resourcesync.Digests{sum}
}

// remove adds a deletion to the plan. If doubted is true, a person must approve the
// deletion.
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
