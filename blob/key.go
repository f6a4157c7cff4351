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

// ValidKey returns nil if key is a slash-separated relative path of UTF-8 text, without
// empty, "." and ".." segments and without NUL, of at most MaxKey bytes and MaxSegment
// bytes per segment. Otherwise the error is an ErrKey. A bucket may refuse further
// keys: those of its temporary objects, or names that its system cannot write.
func ValidKey(key string) error {
	switch {
	case len(key) > MaxKey:
		return fmt.Errorf("%w: %d bytes long, at most %d are possible", ErrKey, len(key), MaxKey)
	case key == "." || !fs.ValidPath(key):
		return fmt.Errorf("%w: %q is no clean relative path", ErrKey, key)
	case strings.ContainsRune(key, 0):
		return fmt.Errorf("%w: %q contains NUL", ErrKey, key)
	}
	for segment := range strings.SplitSeq(key, "/") {
		if len(segment) > MaxSegment {
			return fmt.Errorf("%w: a segment of %q is %d bytes long, at most %d are possible", ErrKey, key, len(segment), MaxSegment)
		}
	}
	return nil
}
