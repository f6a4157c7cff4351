package patch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
)

// Make returns a patch of a kind, from which Apply makes exactly the new version within
// the default bounds; nil if there is none.
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
	got, err := Apply(ctx, k, before, made, Bounds{Length: max(int64(len(after)), 1)})
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil || string(got) != string(after) {
		return nil, nil
	}
	return made, nil
}

// Best returns a patch of the kinds that fit a media type if it is smaller than half of
// the new version; otherwise the patch is nil. It prefers a JSON Patch, which more
// programs support, to a patch of another kind that is at least half as long.
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

// Apply returns the result of applying a patch to the old version, which it does not
// change. It returns ErrBase if the patch names other bytes as its base, ErrBounds if a
// limit is exceeded, or the reason why the patch cannot be applied. Only its digest
// shows whether the result is the new version.
func Apply(ctx context.Context, k Kind, before, patch []byte, b Bounds) (after []byte, err error) {
	if len(before) > MaxBytes || len(patch) > MaxBytes {
		return nil, fmt.Errorf("%w: expected at most %d bytes of a version", ErrBounds, MaxBytes)
	}
	b = b.filled(len(before))
	within, cancel := context.WithTimeoutCause(ctx, b.Time, fmt.Errorf("%w: it took longer than %s", ErrBounds, b.Time))
	defer cancel()
	switch k {
	case JSON:
		after, err = applyJSON(before, patch, b)
	case Zstd:
		after, err = applyZstd(within, before, patch, b)
	case VCDIFF:
		var made bytes.Buffer
		_, err = ApplyVCDIFF(within, bytes.NewReader(before), int64(len(before)), bytes.NewReader(patch), &made, b.Length)
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
