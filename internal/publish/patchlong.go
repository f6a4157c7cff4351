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
)

func isLong(m catalog.Resource) bool { return m.Length.Int64() > patch.MaxBytes }

// longPatch returns the VCDIFF patch that turns the stored bytes at key into the bytes of a
// resource. It reads both as streams, because they may be too long for memory. It returns
// nil if no bytes are stored, if the patch is not smaller than half of the resource, or if
// it does not produce the recorded bytes.
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
	limit := min(patch.MaxBytes, (m.Length.Int64()-1)/2)
	ok, err = r.patching.contents.readVerified(ctx, m, patch.MaxVCDIFF, func(after io.Reader) error {
		_, err := patch.MakeVCDIFF(ctx, before, info.Size, after, &made, limit)
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
