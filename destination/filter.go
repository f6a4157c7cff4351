package destination

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// choice names what of a Source is followed, as the settings say: what was left out
// under one choice may belong to another.
func (d *Destination) choice() string {
	sorted := func(s []string) []string { return slices.Sorted(slices.Values(s)) }
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q %t %t", sorted(d.Include), sorted(d.Exclude), sorted(d.Types),
		sorted(d.AllowOrigins), d.Strict, d.KeepDeleted))
	return hex.EncodeToString(sum[:8])
}

// filter chooses resources by the path of their URI and by media type.
type filter struct{ include, exclude, types []string }

// GlobError is a pattern of Include or Exclude that cannot be used.
type GlobError struct{ Glob string }

func (e *GlobError) Error() string { return fmt.Sprintf("not a valid glob: %q", e.Glob) }

func newFilter(include, exclude, types []string) (*filter, error) {
	for _, g := range append(append([]string(nil), include...), exclude...) {
		if !doublestar.ValidatePattern(g) {
			return nil, &GlobError{Glob: g}
		}
	}
	return &filter{include, exclude, types}, nil
}

// admits reports whether a resource passes. path is the decoded path of its URI.
// A resource whose type is unknown passes a filter by type: leaving it out would be a guess.
func (f *filter) admits(path, mediaType string) bool {
	path = strings.TrimPrefix(path, "/")
	if len(f.include) > 0 && !matchAny(f.include, path) {
		return false
	}
	if matchAny(f.exclude, path) {
		return false
	}
	if len(f.types) == 0 || mediaType == "" {
		return true
	}
	mediaType, _, _ = strings.Cut(mediaType, ";")
	return matchAny(f.types, strings.ToLower(strings.TrimSpace(mediaType)))
}

// matchAny reports whether name matches a glob. A glob without a slash is about the last segment.
func matchAny(globs []string, name string) bool {
	last := name[strings.LastIndexByte(name, '/')+1:]
	for _, g := range globs {
		target := name
		if !strings.Contains(g, "/") {
			target = last
		}
		if ok, _ := doublestar.Match(g, target); ok {
			return true
		}
	}
	return false
}
