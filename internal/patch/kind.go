package patch

import (
	"errors"
	"mime"
	"time"
)

// Kind is the kind of a patch, given as its media type.
type Kind string

// The known kinds.
const (
	JSON   Kind = "application/json-patch+json" // RFC 6902
	Zstd   Kind = "application/zstd"            // RFC 8878 in the framing of RFC 9842, with the old version as dictionary
	VCDIFF Kind = "application/vcdiff"          // RFC 3284; the type is in common use and not registered
)

// MaxBytes is the length of the longest patch, and of the longest version that Make and
// Apply accept or produce, in bytes. All of them are held in memory.
const MaxBytes = 16 << 20

// The default Bounds.
const (
	MaxOperations = 10_000
	MaxDepth      = 100
	MaxTime       = 10 * time.Second
	maxGrowth     = 10 // factor for the length of the old version
)

// KindOf returns the kind of a patch with a media type; false if it is unknown. It
// accepts application/json-patch, which the examples of the standard use (1.1, Example
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

// Bounds limit the cost of applying a patch. The zero Bounds are the defaults.
type Bounds struct {
	Length     int64         // largest length of the result in bytes; 0: ten times that of the old version, at most MaxBytes
	Operations int           // largest number of operations in a JSON Patch; 0: MaxOperations
	Depth      int           // deepest nesting of JSON values, and longest pointer; 0: MaxDepth
	Time       time.Duration // longest time for decompression; 0: MaxTime
}

// filled returns b with the defaults for an old version of n bytes.
func (b Bounds) filled(n int) Bounds {
	if b.Length <= 0 {
		b.Length = int64(n) * maxGrowth
	}
	b.Length = min(b.Length, MaxBytes)
	if b.Operations <= 0 {
		b.Operations = MaxOperations
	}
	if b.Depth <= 0 {
		b.Depth = MaxDepth
	}
	if b.Time <= 0 {
		b.Time = MaxTime
	}
	return b
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
