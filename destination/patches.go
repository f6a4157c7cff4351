package destination

import (
	"context"
	"io"

	"instep/harvest"
	"instep/resourcesync"
	"instep/transfer"
)

func (r *runner) reportPatches() {
	n, failure := r.patcher.Counts()
	r.rep.Patches.Add(n)
	if n.Failed > 0 {
		r.d.note(r.sp.Set, harvest.Counted(n.Failed, "%d {resource|resources} could not be made by {its patch|their patches}, so {it was|they were} fetched whole (%d bytes of patches were transferred in vain), {|such as }%s",
			n.Failed, n.Wasted, failure))
	}
}

// usePatches makes the resource from patches. It returns done=false if the resource
// must be fetched whole.
func (r *runner) usePatches(ctx context.Context, b Batch, a *Action) (n int64, done bool, err error) {
	if len(a.Want.Patches) == 0 || r.d.NoPatches || !r.patcher.Usable() {
		return 0, false, nil
	}
	held, err := r.d.Mirror.Lookup(ctx, r.sp.Set, []string{a.Want.URI})
	if err != nil {
		return 0, true, err
	}
	w := a.Want
	if w.Patches = patchesFrom(&w, &held[0]); w.Patches == nil {
		return 0, false, nil
	}
	base := transfer.Base{
		Open:   func(ctx context.Context) (io.ReadCloser, error) { return r.d.Mirror.Open(ctx, &held[0]) },
		Length: held[0].Length, Digests: held[0].Digests,
	}
	made, fetched, release, err := r.patcher.Make(ctx, base, &w)
	switch {
	case err != nil && ctx.Err() != nil:
		return 0, true, err
	case err != nil:
		r.budget.begun.Add(w.Length.Int64()) // the patches cannot be used, so the whole resource will be transferred
		return 0, false, nil
	}
	defer release()
	return r.putPatched(ctx, b, a, made, fetched)
}

func patchesFrom(w *harvest.Resource, h *Held) []harvest.Patch {
	if !h.Stored || len(h.Digests) == 0 {
		return nil
	}
	return w.PatchesFrom(h.Length, h.Digests)
}

func (r *runner) putPatched(ctx context.Context, b Batch, a *Action, made io.Reader, fetched int64) (int64, bool, error) {
	w := a.Want
	if transfer.Timed(&w) {
		w.Came = r.sp.asOf
	}
	verified := resourcesync.NewVerifyReader(made, w.Length.Int64(), w.Digests, resourcesync.SHA256)
	if _, err := b.Put(ctx, r.sp.Set, w, transfer.Verified{Reader: verified, Hashed: verified}, true); err != nil {
		return 0, true, err
	}
	a.Via = ViaPatch
	return fetched, true, nil
}

// cost returns the number of bytes to transfer, with an estimate for unknown lengths.
func (a *Action) cost() int64 {
	if len(a.Want.Patches) > 0 {
		return harvest.CostOf(a.Want.Patches)
	}
	return harvest.LengthOr(a.Want.Length)
}
