package destination

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"

	"instep/harvest"
	"instep/resourcesync"
	"instep/transfer"
)

// PatchCounts say what patches have saved and cost (1.1 §14.4).
type PatchCounts struct {
	Used   int64 // resources that were made by patches
	Saved  int64 // bytes that were not transferred for that
	Failed int64 // resources whose patches could not be used: they were fetched whole
	Wasted int64 // bytes of these patches
}

// Add adds the counts of others.
func (c *PatchCounts) Add(o PatchCounts) {
	c.Used += o.Used
	c.Saved += o.Saved
	c.Failed += o.Failed
	c.Wasted += o.Wasted
}

// maxVain is how many resources in a row may have patches that cannot be used until a run
// fetches all others whole.
const maxVain = 20

// patches makes resources by patches in a run.
type patches struct {
	by *transfer.Patcher

	mu     sync.Mutex // guards the rest
	counts PatchCounts
	vain   int // failures in a row
	first  string
}

// usable reports whether patches are still worth a try.
func (p *patches) usable() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.vain < maxVain
}

// count adds the result for one resource of that length.
func (p *patches) count(w *harvest.Resource, fetched int64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		p.counts.Used++
		p.counts.Saved += w.Length.Int64() - fetched
		p.vain = 0
		return
	}
	p.counts.Failed++
	p.counts.Wasted += fetched
	if p.vain++; p.first == "" {
		p.first = fmt.Sprintf("%s: %v", w.URI, err)
	}
}

// report adds the counts to the report of a set, with a note about what failed.
func (p *patches) report(r *runner) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r.rep.Patches.Add(p.counts)
	defer func() { p.counts, p.first = PatchCounts{}, "" }()
	if p.counts.Failed > 0 {
		r.d.note(r.sp.Set, harvest.Counted(p.counts.Failed, "%d {resource|resources} could not be made by {its patch|their patches}, so {it was|they were} fetched whole (%d bytes of patches were transferred in vain), {|such as }%s",
			p.counts.Failed, p.counts.Wasted, p.first))
	}
}

// fromPatches makes the bytes of an action by patches from those held, and puts them into a
// batch. done is false if the resource has to be fetched whole.
func (r *runner) fromPatches(ctx context.Context, b Batch, a *Action) (n int64, done bool, err error) {
	if len(a.Want.Patches) == 0 || r.d.NoPatches || !r.patches.usable() {
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
	made, fetched, release, err := r.patches.by.Make(ctx, base, &w)
	if err != nil && ctx.Err() != nil {
		return 0, true, err
	}
	r.patches.count(&w, fetched, err)
	if err != nil {
		r.budget.begun.Add(w.Length.Int64()) // it is fetched whole
		return 0, false, nil
	}
	defer release()
	return r.putPatched(ctx, b, a, made, fetched)
}

// patchesFrom returns the patches that lead from the bytes held to w.
func patchesFrom(w *harvest.Resource, h *Held) []harvest.Patch {
	if !h.Stored || len(h.Digests) == 0 {
		return nil
	}
	return w.PatchesFrom(h.Length, h.Digests)
}

// putPatched puts the bytes that patches have made into a batch.
func (r *runner) putPatched(ctx context.Context, b Batch, a *Action, made []byte, fetched int64) (int64, bool, error) {
	w := a.Want
	if transfer.Timed(&w) {
		w.Came = r.sp.asOf
	}
	verified := resourcesync.NewVerifyReader(bytes.NewReader(made), w.Length.Int64(), w.Digests, resourcesync.SHA256)
	if _, err := b.Put(ctx, r.sp.Set, w, transfer.Verified{Reader: verified, Hashed: verified}, true); err != nil {
		return 0, true, err
	}
	a.Via = ViaPatch
	return fetched, true, nil
}

// cost returns how many bytes the fetch of an action transfers, about.
func (a *Action) cost() int64 {
	if len(a.Want.Patches) > 0 {
		return harvest.CostOf(a.Want.Patches)
	}
	return harvest.LengthOr(a.Want.Length)
}
