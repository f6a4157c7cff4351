package publish

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"instep/blob"
	"instep/internal/catalog"
	"instep/internal/patch"
	"instep/resourcesync"
	"instep/source"
)

// isLong reports whether a resource is too long to be held in memory.
func isLong(m catalog.Resource) bool { return m.Length.Int64() > patch.MaxBytes }

// patchLong is patchOf for a resource of more than patch.MaxBytes. Its bytes are never in memory
// completely.
func (r *run) patchLong(ctx context.Context, key string, ch catalog.Change, yield func(source.Patch) bool) error {
	p := &r.patching
	if p.wanted(key, ch) {
		data, err := r.longPatch(ctx, key, ch.Resource)
		if err == nil && data != nil {
			err = r.addPatch(ch, patch.VCDIFF, data, yield)
		}
		if err != nil {
			return err
		}
	}
	if r.site.DryRun {
		p.touched[key] = true
		return nil
	}
	return p.bases.copy(ctx, key, p.contents, ch.Resource)
}

// longPatch returns the VCDIFF patch from the base at key to a resource; nil if there is no
// base, if the patch does not pay, or if it does not make the recorded bytes.
func (r *run) longPatch(ctx context.Context, key string, m catalog.Resource) ([]byte, error) {
	body, info, err := r.bases.Get(ctx, key, 0, -1)
	if errors.Is(err, blob.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer body.Close()
	before, ok := body.(io.ReaderAt)
	if !ok || info.Size > patch.MaxVCDIFF {
		return nil, nil
	}
	var made bytes.Buffer
	most := min(patch.MaxBytes, (m.Length.Int64()-1)/2)
	ok, err = r.patching.contents.verified(ctx, m, patch.MaxVCDIFF, func(after io.Reader) error {
		_, err := patch.MakeVCDIFF(ctx, before, info.Size, after, &made, most)
		return err
	})
	if errors.Is(err, patch.ErrUnpaid) {
		return nil, nil
	}
	if !ok {
		return nil, err
	}
	got := resourcesync.NewHasher(resourcesync.SHA256)
	if _, err := patch.ApplyVCDIFF(ctx, before, info.Size, bytes.NewReader(made.Bytes()), got, m.Length.Int64()); err != nil {
		return nil, fmt.Errorf("verifying the patch: %w", err)
	}
	if got.Digests().Get(resourcesync.SHA256) != m.Digests.Get(resourcesync.SHA256) {
		return nil, nil
	}
	return made.Bytes(), nil
}

// copy replaces a base by the bytes of a resource, or removes it if they cannot be had.
func (w *baseWriter) copy(ctx context.Context, key string, c *contents, m catalog.Resource) error {
	if err := w.begin(ctx, key); err != nil {
		return err
	}
	o, err := w.batch.Create(ctx)
	if err != nil {
		return err
	}
	ok, err := c.verified(ctx, m, patch.MaxVCDIFF, func(r io.Reader) error {
		_, err := io.Copy(o, r)
		return err
	})
	if !ok {
		if err = errors.Join(err, o.Discard()); err != nil {
			return err
		}
		w.batch.Delete(key)
		return w.end(ctx, 0)
	}
	if err := o.Close(); err != nil {
		return err
	}
	w.batch.Put(o, blob.Put{Key: key})
	return w.end(ctx, m.Length.Int64())
}
