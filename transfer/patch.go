package transfer

import (
	"bytes"
	"context"
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

// Base is a version of a resource to which a patch may apply.
type Base struct {
	Open    func(context.Context) (io.ReadCloser, error)
	Length  resourcesync.Length
	Digests resourcesync.Digests // digests of these bytes, which are verified when they are read
}

// patchMemory is the memory in bytes for all versions that are being patched, since
// each is held in memory completely.
const patchMemory = 4 * patch.MaxBytes

// PatchCounts count the use of patches, and the bytes that they have saved and cost
// (1.1 §14.4).
type PatchCounts struct {
	Used   int64 // resources that were made from patches
	Saved  int64 // bytes that did not have to be transferred for them
	Failed int64 // resources whose patches could not be used, so that they were fetched completely
	Wasted int64 // bytes of the patches that could not be used
}

// Add adds other counts.
func (c *PatchCounts) Add(o PatchCounts) {
	c.Used += o.Used
	c.Saved += o.Saved
	c.Failed += o.Failed
	c.Wasted += o.Wasted
}

// maxVain is the number of resources in a row whose patches cannot be used, after which
// a run uses no more patches.
const maxVain = 20

// Patcher makes versions of resources from patches (1.1 §14.4) during a run. It only
// reads the base. It is safe for concurrent use.
type Patcher struct {
	fetch  func(context.Context, *harvest.Patch) ([]byte, error) // returns the bytes of a patch, or an error that describes what happened
	memory *semaphore.Weighted
	spool  string // directory for temporary files; "" is the system's

	mu     sync.Mutex // guards the rest
	counts PatchCounts
	vain   int    // number of consecutive failures
	first  string // the first failure
}

// NewPatcher returns a Patcher that fetches patches with a client, and keeps long versions in
// temporary files in a directory; "" is the system's.
func NewPatcher(c *fetch.Client, spool string) *Patcher {
	fetch := func(ctx context.Context, step *harvest.Patch) ([]byte, error) { return fetchPatch(ctx, c, step) }
	return &Patcher{fetch: fetch, memory: semaphore.NewWeighted(patchMemory), spool: spool}
}

// Make fetches the patches that lead from base to w. It returns the bytes of w,
// verified by its digests, and the number of bytes fetched, even with an error. The
// caller must call done when it no longer needs the bytes; done is nil if there is an
// error. Versions of more than 16 MiB are in temporary files.
func (p *Patcher) Make(ctx context.Context, base Base, w *harvest.Resource) (made io.Reader, fetched int64, done func(), err error) {
	room := int64(2 * patch.MaxBytes)
	if base.Length.Known() && w.Length.Known() && len(w.Patches) == 1 {
		room = min(room, base.Length.Int64()+w.Length.Int64())
	}
	if err := p.memory.Acquire(ctx, room); err != nil {
		return nil, 0, nil, err
	}
	done = func() { p.memory.Release(room) }
	if isLong(&base, w) {
		var version *spool.File
		if version, fetched, err = p.makeLong(ctx, base, w); err == nil {
			made = version.Reader()
			done = func() { p.memory.Release(room); _ = version.Close() }
		}
	} else {
		var version []byte
		version, fetched, err = p.make(ctx, base, w)
		made = bytes.NewReader(version)
	}
	if err == nil || ctx.Err() == nil {
		p.count(w, fetched, err)
	}
	if err != nil {
		done()
		return nil, fetched, nil, err
	}
	return made, fetched, done, nil
}

// Usable reports whether the run still uses patches.
func (p *Patcher) Usable() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.vain < maxVain
}

// Counts returns the counts and the message of the first failure; "" if there was none.
func (p *Patcher) Counts() (n PatchCounts, failure string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counts, p.first
}

// count adds the result for one resource.
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

func (p *Patcher) make(ctx context.Context, base Base, w *harvest.Resource) (version []byte, fetched int64, err error) {
	version, err = base.read(ctx)
	if err != nil {
		return nil, 0, fmt.Errorf("reading the held bytes: %w", err)
	}
	for i := range w.Patches {
		step := &w.Patches[i]
		data, err := p.fetch(ctx, step)
		fetched += int64(len(data))
		if err != nil {
			return nil, fetched, err
		}
		kind, _ := patch.KindOf(step.Type)
		version, err = patch.Apply(ctx, kind, version, data, max(0, step.Size.Int64()))
		if err == nil {
			err = verify(bytes.NewReader(version), step.Size, step.After)
		}
		if err != nil {
			return nil, fetched, fmt.Errorf("the patch %s: %w", step.URI, err)
		}
	}
	return version, fetched, verify(bytes.NewReader(version), w.Length, w.Digests)
}

// read returns the bytes of a base after verifying its digests.
func (b *Base) read(ctx context.Context) ([]byte, error) {
	r, err := b.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return readVerified(io.LimitReader(r, patch.MaxBytes+1), b.Length, b.Digests)
}

// fetchPatch returns the bytes of a patch. It sends the request without retries, since
// the resource can be fetched in another way.
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

// readVerified returns the bytes of r. It returns an error unless they have that length
// and these digests.
func readVerified(r io.Reader, length resourcesync.Length, digests resourcesync.Digests) ([]byte, error) {
	return io.ReadAll(resourcesync.NewVerifyReader(r, length.Int64(), digests))
}

func verify(r io.Reader, length resourcesync.Length, digests resourcesync.Digests) error {
	_, err := io.Copy(io.Discard, resourcesync.NewVerifyReader(r, length.Int64(), digests))
	return err
}
