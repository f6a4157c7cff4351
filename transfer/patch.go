package transfer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"golang.org/x/sync/semaphore"

	"instep/fetch"
	"instep/harvest"
	"instep/internal/patch"
	"instep/internal/spool"
	"instep/resourcesync"
)

// Base is the stored version of a resource from which patches make a new version.
type Base struct {
	Open    func(context.Context) (io.ReadCloser, error)
	Length  resourcesync.Length
	Digests resourcesync.Digests // digests of the bytes, which the Patcher verifies
}

// patchMemory is the maximum number of bytes that all concurrent calls of Make together
// hold in memory.
const patchMemory = 4 * patch.MaxBytes

// PatchCounts counts the resources that were made from patches (1.1 §14.4), and the
// bytes that patches saved or wasted.
type PatchCounts struct {
	Used   int64 // number of resources that were made from patches
	Saved  int64 // number of bytes that were not transferred because of patches
	Failed int64 // number of resources that were fetched whole because their patches could not be used
	Wasted int64 // number of bytes of the patches that could not be used
}

// Add adds the numbers of other.
func (c *PatchCounts) Add(other PatchCounts) {
	c.Used += other.Used
	c.Saved += other.Saved
	c.Failed += other.Failed
	c.Wasted += other.Wasted
}

// maxVain is the number of consecutive resources with unusable patches after which a
// run uses no more patches.
const maxVain = 20

// Patcher makes new versions of resources from patches (1.1 §14.4) during a run. It
// does not change the stored version. It is safe for concurrent use.
type Patcher struct {
	fetch  func(context.Context, *harvest.Patch) ([]byte, error) // fetches a patch and returns its bytes
	memory *semaphore.Weighted
	spool  string // directory for temporary files; "" for the system's directory

	mu     sync.Mutex // guards the fields below
	counts PatchCounts
	vain   int    // number of consecutive resources whose patches could not be used
	first  string // message of the first failure; "" if there was none
}

// NewPatcher returns a Patcher that fetches patches with the given client. spool is the
// directory for temporary files; "" means the system's directory.
func NewPatcher(c *fetch.Client, spool string) *Patcher {
	fetch := func(ctx context.Context, step *harvest.Patch) ([]byte, error) { return fetchPatch(ctx, c, step) }
	return &Patcher{fetch: fetch, memory: semaphore.NewWeighted(patchMemory), spool: spool}
}

// Make applies the patches of w to base, and returns the bytes of w, verified by the
// digests of w. fetched is the number of transferred bytes, even after an error. The
// caller must call done when it no longer needs the bytes; after an error, done is nil.
// Versions of more than 1 MiB are in temporary files.
func (p *Patcher) Make(ctx context.Context, base Base, w *harvest.Resource) (made io.Reader, fetched int64, done func(), err error) {
	room := int64(2 * patch.MaxBytes)
	if base.Length.Known() && w.Length.Known() && len(w.Patches) == 1 {
		room = min(room, base.Length.Int64()+w.Length.Int64())
	}
	if err := p.memory.Acquire(ctx, room); err != nil {
		return nil, 0, nil, err
	}
	version, fetched, err := p.applyAll(ctx, base, w)
	if err == nil || ctx.Err() == nil {
		p.count(w, fetched, err)
	}
	if err != nil {
		p.memory.Release(room)
		return nil, fetched, nil, err
	}
	return version.Reader(), fetched, func() { p.memory.Release(room); _ = version.Close() }, nil
}

// Usable returns false after too many consecutive failures.
func (p *Patcher) Usable() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.vain < maxVain
}

// Counts returns the counts of the run so far, and the message of the first failure, or
// "" if there was none.
func (p *Patcher) Counts() (n PatchCounts, failure string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counts, p.first
}

func (p *Patcher) count(w *harvest.Resource, fetched int64, err error) {
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

// isLong reports whether any version, from the base to the resource w, is too long to
// be held in memory.
func isLong(base *Base, w *harvest.Resource) bool {
	longest := max(base.Length.Int64(), w.Length.Int64())
	for i := range w.Patches {
		longest = max(longest, w.Patches[i].Size.Int64())
	}
	return longest > patch.MaxBytes
}

// applyAll applies the patches of w to base. The caller closes the returned file.
func (p *Patcher) applyAll(ctx context.Context, base Base, w *harvest.Resource) (version *spool.File, fetched int64, err error) {
	version = spool.NewFile(p.spool, patch.MaxVCDIFF)
	defer func() {
		if err != nil {
			_ = version.Close()
			version = nil
		}
	}()
	if err := base.copyTo(ctx, version); err != nil {
		return version, 0, fmt.Errorf("reading the stored bytes: %w", err)
	}
	long := isLong(&base, w)
	for i := range w.Patches {
		step := &w.Patches[i]
		kind, _ := patch.KindOf(step.Type)
		if long && kind != patch.VCDIFF {
			return version, fetched, fmt.Errorf("the patch %s is of type %q, which applies to versions of up to %d bytes", step.URI, step.Type, patch.MaxBytes)
		}
		data, err := p.fetch(ctx, step)
		fetched += int64(len(data))
		if err != nil {
			return version, fetched, err
		}
		next := spool.NewFile(p.spool, patch.MaxVCDIFF)
		if long {
			err = applyLong(ctx, version, data, step.Size, next)
		} else {
			err = applyShort(ctx, kind, version, data, step.Size, next)
		}
		if err == nil {
			err = verify(next.Reader(), step.Size, step.After)
		}
		_ = version.Close()
		if version = next; err != nil {
			return version, fetched, fmt.Errorf("the patch %s: %w", step.URI, err)
		}
	}
	return version, fetched, verify(version.Reader(), w.Length, w.Digests)
}

// copyTo returns an error unless the bytes of the base have its length and digests.
func (b *Base) copyTo(ctx context.Context, f *spool.File) error {
	r, err := b.Open(ctx)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, resourcesync.NewVerifyReader(r, b.Length.Int64(), b.Digests))
	return errors.Join(err, r.Close())
}

// applyShort holds both versions in memory.
func applyShort(ctx context.Context, kind patch.Kind, before *spool.File, data []byte, size resourcesync.Length, after *spool.File) error {
	old, err := io.ReadAll(before.Reader())
	if err != nil {
		return err
	}
	version, err := patch.Apply(ctx, kind, old, data, max(0, size.Int64()))
	if err != nil {
		return err
	}
	_, err = after.Write(version)
	return err
}

// applyLong holds neither version in memory, which is possible only for patches in
// VCDIFF.
func applyLong(ctx context.Context, before *spool.File, data []byte, size resourcesync.Length, after *spool.File) error {
	limit := int64(patch.MaxVCDIFF)
	if size.Known() {
		limit = min(limit, size.Int64())
	}
	_, err := patch.ApplyVCDIFF(ctx, before, before.Len(), bytes.NewReader(data), after, limit)
	return err
}

// fetchPatch does not repeat a failed request, since the whole resource can be fetched
// instead.
func fetchPatch(ctx context.Context, c *fetch.Client, step *harvest.Patch) ([]byte, error) {
	most := int64(patch.MaxBytes)
	if step.Length.Known() {
		most = min(most, step.Length.Int64())
	}
	resp, err := c.Get(ctx, fetch.Request{URL: step.URI, MaxBytes: max(most, 1), Once: true})
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	data, err := readVerified(resp.Body, step.Length, step.Digests)
	if err != nil {
		err = fmt.Errorf("the patch %s: %w", step.URI, err)
	}
	return data, err
}

func readVerified(r io.Reader, length resourcesync.Length, digests resourcesync.Digests) ([]byte, error) {
	return io.ReadAll(resourcesync.NewVerifyReader(r, length.Int64(), digests))
}

func verify(r io.Reader, length resourcesync.Length, digests resourcesync.Digests) error {
	_, err := io.Copy(io.Discard, resourcesync.NewVerifyReader(r, length.Int64(), digests))
	return err
}
