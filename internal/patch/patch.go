package patch

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
)

// Make returns a patch of the given kind that turns the old version into exactly the new
// version. It returns nil if no such patch is possible.
func Make(ctx context.Context, k Kind, before, after []byte) ([]byte, error) {
	if len(before) > MaxBytes || len(after) > MaxBytes {
		return nil, nil
	}
	var made []byte
	switch k {
	case JSON:
		made = makeJSON(before, after)
	case Zstd:
		var err error
		if made, err = makeZstd(before, after); err != nil {
			return nil, fmt.Errorf("making a patch: %w", err)
		}
	case VCDIFF:
		var text bytes.Buffer
		_, err := MakeVCDIFF(ctx, bytes.NewReader(before), int64(len(before)), bytes.NewReader(after), &text, MaxBytes)
		if errors.Is(err, ErrUnpaid) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("making a patch: %w", err)
		}
		made = text.Bytes()
	}
	if made == nil {
		return nil, ctx.Err()
	}
	got, err := Apply(ctx, k, before, made, max(int64(len(after)), 1))
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil || string(got) != string(after) {
		return nil, nil
	}
	return made, nil
}

// Best returns the best patch for resources of a media type, if it is smaller than half
// of the new version; otherwise the patch is nil. It prefers a JSON Patch, which more
// programs support, unless another patch is smaller than half of the JSON Patch.
func Best(ctx context.Context, mediaType string, before, after []byte) (best Kind, patch []byte, err error) {
	kinds := []Kind{Zstd}
	if isJSON(mediaType) {
		kinds = []Kind{JSON, Zstd}
	}
	for _, k := range kinds {
		made, err := Make(ctx, k, before, after)
		if err != nil {
			return "", nil, err
		}
		if made != nil && 2*len(made) < len(after) && (patch == nil || 2*len(made) < len(patch)) {
			best, patch = k, made
		}
	}
	return best, patch, nil
}

// Apply applies a patch to the old version and returns the result in a new slice. The
// result may have limit bytes, but not more than MaxBytes; a limit of 0 means ten times the
// length of the old version. Apply returns ErrBase if the patch states that it is for
// other bytes, ErrBounds if a limit is exceeded, or the reason why the patch cannot be
// applied. Only the digest of the result shows whether the result is the new version.
func Apply(ctx context.Context, k Kind, before, patch []byte, limit int64) (after []byte, err error) {
	if len(before) > MaxBytes || len(patch) > MaxBytes {
		return nil, fmt.Errorf("%w: expected a version and a patch of at most %d bytes each", ErrBounds, MaxBytes)
	}
	limit = min(cmp.Or(limit, int64(len(before))*maxGrowth), MaxBytes)
	within, cancel := context.WithTimeoutCause(ctx, maxTime, fmt.Errorf("%w: applying it took longer than %s", ErrBounds, maxTime))
	defer cancel()
	switch k {
	case JSON:
		after, err = applyJSON(before, patch, limit)
	case Zstd:
		after, err = applyZstd(within, before, patch, limit)
	case VCDIFF:
		var made bytes.Buffer
		_, err = ApplyVCDIFF(within, bytes.NewReader(before), int64(len(before)), bytes.NewReader(patch), &made, limit)
		after = made.Bytes()
	default:
		return nil, fmt.Errorf("%q is no known kind of patch", k)
	}
	if within.Err() != nil {
		err = context.Cause(within)
	}
	if err != nil {
		return nil, err
	}
	return after, nil
}
