package patch

import (
	"errors"
	"fmt"
	"mime"
	"time"
)

// Kind is the kind of a patch, given as its media type.
type Kind string

// The known kinds.
const (
	JSON   Kind = "application/json-patch+json" // RFC 6902
	Zstd   Kind = "application/zstd"            // Zstandard (RFC 8878) in the framing of RFC 9842, with the old version as dictionary
	VCDIFF Kind = "application/vcdiff"          // VCDIFF (RFC 3284); the media type is in common use but not registered
)

// MaxBytes is the maximum length in bytes of a patch and of both versions in Make and
// Apply, which hold them in memory.
const MaxBytes = 16 << 20

// Limits of applying a patch.
const (
	maxOperations = 10_000 // largest number of operations in a JSON Patch
	maxDepth      = 100    // the largest number of levels of nested JSON values, and of steps of a JSON pointer
	maxTime       = 10 * time.Second
	maxGrowth     = 10 // the default limit of the length of the result, as a multiple of the length of the old version
)

// KindOf returns the kind of a patch with a media type, and false if the type is unknown.
// It accepts application/json-patch, which the examples of the standard use (1.1, Example
// 27).
func KindOf(mediaType string) (Kind, bool) {
	essence, _, err := mime.ParseMediaType(mediaType)
	switch {
	case err != nil:
		return "", false
	case essence == "application/json-patch", essence == string(JSON):
		return JSON, true
	case essence == string(Zstd), essence == string(VCDIFF):
		return Kind(essence), true
	}
	return "", false
}

// Errors that Apply returns.
var (
	ErrBase   = errors.New("the patch is for another version of the resource")
	ErrBounds = errors.New("the patch exceeds its bounds")
)

func tooLong(limit int64) error {
	return fmt.Errorf("%w: the result has more than %d bytes", ErrBounds, limit)
}

// Extension returns the file name extension of a patch of this kind, with the dot.
func (k Kind) Extension() string {
	switch k {
	case JSON:
		return ".json-patch"
	case VCDIFF:
		return ".vcdiff"
	}
	return ".zst"
}
