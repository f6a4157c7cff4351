package blob

import (
	"fmt"
	"io/fs"
	"strings"
)

// Limits of a key in bytes.
const (
	MaxKey     = 4096
	MaxSegment = 255
)

// ValidKey returns an ErrKey unless key is a slash-separated relative path of UTF-8 text,
// without empty, "." and ".." segments and without NUL, of at most MaxKey bytes and
// MaxSegment bytes per segment. A bucket may refuse other keys, too: those of its
// temporary objects, and names that its system cannot write.
func ValidKey(key string) error {
	switch {
	case len(key) > MaxKey:
		return fmt.Errorf("%w: the key has %d bytes, at most %d are possible", ErrKey, len(key), MaxKey)
	case key == "." || !fs.ValidPath(key):
		return fmt.Errorf("%w: %q is not a clean relative path", ErrKey, key)
	case strings.ContainsRune(key, 0):
		return fmt.Errorf("%w: %q contains NUL", ErrKey, key)
	}
	for segment := range strings.SplitSeq(key, "/") {
		if len(segment) > MaxSegment {
			return fmt.Errorf("%w: a segment of %q has %d bytes, at most %d are possible", ErrKey, key, len(segment), MaxSegment)
		}
	}
	return nil
}
