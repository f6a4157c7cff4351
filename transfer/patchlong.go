package transfer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"instep/harvest"
	"instep/internal/patch"
	"instep/internal/spool"
	"instep/resourcesync"
)

// isLong reports whether a version on the way to w is too long to be held in memory.
func isLong(base *Base, w *harvest.Resource) bool {
	longest := max(base.Length.Int64(), w.Length.Int64())
	for i := range w.Patches {
		longest = max(longest, w.Patches[i].Size.Int64())
	}
	return longest > patch.MaxBytes
}

// makeLong is make for versions of more than 16 MiB, which VCDIFF alone patches. It copies
// the base to a temporary file while verifying it, so that the patch applies to verified bytes. The
// caller closes the result.
func (p *Patcher) makeLong(ctx context.Context, base Base, w *harvest.Resource) (version *spool.File, fetched int64, err error) {
	version = spool.NewFile(p.spool, patch.MaxVCDIFF)
	defer func() {
		if err != nil {
			_ = version.Close()
			version = nil
		}
	}()
	if err := base.copyTo(ctx, version); err != nil {
		return version, 0, fmt.Errorf("reading the held bytes: %w", err)
	}
	for i := range w.Patches {
		step := &w.Patches[i]
		if kind, _ := patch.KindOf(step.Type); kind != patch.VCDIFF {
			return version, fetched, fmt.Errorf("the patch %s is of type %q, which applies to versions of up to %d bytes", step.URI, step.Type, patch.MaxBytes)
		}
		data, err := p.fetch(ctx, step)
		fetched += int64(len(data))
		if err != nil {
			return version, fetched, err
		}
		next := spool.NewFile(p.spool, patch.MaxVCDIFF)
		err = applyLong(ctx, version, data, step, next)
		_ = version.Close()
		if version = next; err != nil {
			return version, fetched, fmt.Errorf("the patch %s: %w", step.URI, err)
		}
	}
	return version, fetched, verify(version.Reader(), w.Length, w.Digests)
}

// applyLong writes the version that a patch makes, verified if its digest is known.
func applyLong(ctx context.Context, before *spool.File, data []byte, step *harvest.Patch, after *spool.File) error {
	most := int64(patch.MaxVCDIFF)
	if step.Size.Known() {
		most = min(most, step.Size.Int64())
	}
	if _, err := patch.ApplyVCDIFF(ctx, before, before.Len(), bytes.NewReader(data), after, most); err != nil {
		return err
	}
	return verify(after.Reader(), step.Size, step.After)
}

// copyTo copies the bytes of a base, and returns an error unless its digests are right.
func (b *Base) copyTo(ctx context.Context, f *spool.File) error {
	r, err := b.Open(ctx)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, resourcesync.NewVerifyReader(r, b.Length.Int64(), b.Digests))
	return errors.Join(err, r.Close())
}
