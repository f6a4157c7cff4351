package destination

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"instep/internal/glob"
)

// choice identifies the settings that select resources: resources left out under one choice
// may belong to another.
func (d *Destination) choice() string {
	sorted := func(s []string) []string { return slices.Sorted(slices.Values(s)) }
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q %t %t", sorted(d.Include), sorted(d.Exclude), sorted(d.Types),
		sorted(d.AllowOrigins), d.Strict, d.KeepDeleted))
	return hex.EncodeToString(sum[:8])
}

// filter chooses resources by the path of their URI and by media type.
type filter struct {
	include, exclude *glob.Set
	types            []string
}

// GlobError is a pattern of Include or Exclude that cannot be used.
type GlobError struct{ Glob string }

func (e *GlobError) Error() string { return fmt.Sprintf("not a valid glob: %q", e.Glob) }

func newFilter(include, exclude, types []string) (*filter, error) {
	for _, g := range slices.Concat(include, exclude) {
		if !glob.Valid(g) {
			return nil, &GlobError{Glob: g}
		}
	}
	return &filter{glob.NewSet(include), glob.NewSet(exclude), types}, nil
}

// admits reports whether a resource passes. path is the decoded path of its URI.
// A resource whose type is unknown passes a filter by type: leaving it out would be a guess.
func (f *filter) admits(path, mediaType string) bool {
	path = strings.TrimPrefix(path, "/")
	excluded := f.exclude.Match(path, false)
	if included := f.include.Empty() || f.include.Match(path, false); !included || excluded {
		return false
	}
	if len(f.types) == 0 || mediaType == "" {
		return true
	}
	mediaType, _, _ = strings.Cut(mediaType, ";")
	mediaType = strings.ToLower(strings.TrimSpace(mediaType))
	return slices.ContainsFunc(f.types, func(t string) bool { return doublestar.MatchUnvalidated(t, mediaType) })
}

// tellUnmatched reports patterns that matched no resource, after all were examined.
func (d *Destination) tellUnmatched(f *filter) {
	for name, set := range map[string]*glob.Set{"include": f.include, "exclude": f.exclude} {
		for _, pattern := range set.Unmatched() {
			d.note("", fmt.Sprintf("%s %q matched no resource of the Source", name, pattern))
		}
	}
}
