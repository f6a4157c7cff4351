package destination

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"instep/fetch"
	"instep/harvest"
	"instep/internal/glob"
	"instep/resourcesync"
)

// choice returns an identifier of the settings that select resources. If it differs
// from that of an earlier run, resources that the earlier run left out may be selected
// now.
func (d *Destination) choice() string {
	sorted := func(s []string) []string { return slices.Sorted(slices.Values(s)) }
	text := fmt.Appendf(nil, "%q %q %q %q %t %t", sorted(d.Include), sorted(d.Exclude), sorted(d.Types),
		sorted(d.AllowOrigins), d.Strict, d.KeepDeleted)
	if len(d.Collections) > 0 || len(d.Profiles) > 0 || d.WithMetadata {
		text = fmt.Appendf(text, " %q %q %t", sorted(d.Collections), sorted(d.Profiles), d.WithMetadata)
	}
	if len(d.Accept) > 0 {
		text = fmt.Appendf(text, " accept %q", d.Accept)
	}
	if d.Where != nil {
		text = fmt.Appendf(text, " where %s", d.Where)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// filter applies the options of a Destination that select resources.
type filter struct {
	d                *Destination
	include, exclude *glob.Set
}

// GlobError means that a pattern of Include or Exclude is invalid.
type GlobError struct{ Glob string }

func (e *GlobError) Error() string { return fmt.Sprintf("not a valid glob: %q", e.Glob) }

func (d *Destination) newFilter() (*filter, error) {
	for _, g := range slices.Concat(d.Include, d.Exclude) {
		if !glob.Valid(g) {
			return nil, &GlobError{Glob: g}
		}
	}
	return &filter{d, glob.NewSet(d.Include), glob.NewSet(d.Exclude)}, nil
}

// admits reports whether the filter selects a resource or, if deleted is true, its
// deletion. A resource with unknown links passes the filters by links, because leaving
// it out would be a guess.
func (f *filter) admits(w *harvest.Resource, path string, deleted bool) bool {
	included, excluded := f.paths(path)
	chosen := included && !excluded && f.typed(w.Type)
	switch {
	case excluded, !f.d.WithMetadata && (!chosen || len(f.d.Collections)+len(f.d.Profiles) == 0):
		return chosen
	case deleted: // selected, because the deleted resource may have been metadata about a selected resource: a deletion has no links that show this
		return true
	}
	said, err := w.Remainder.Parse()
	if err != nil || w.Remainder.Dropped() {
		return chosen
	}
	if !leadsTo(said.Links, resourcesync.RelCollection, f.d.Collections) {
		return false
	}
	metadata := slices.DeleteFunc(slices.Clone(said.Links), func(l resourcesync.Link) bool { return l.Rel != resourcesync.RelDescribes })
	switch {
	case f.d.WithMetadata && len(metadata) == 0:
		return chosen
	case !leadsTo(said.Links, resourcesync.RelProfile, f.d.Profiles):
		return false
	}
	return chosen || slices.ContainsFunc(metadata, f.describes)
}

func (f *filter) paths(path string) (included, excluded bool) {
	path = strings.TrimPrefix(path, "/")
	excluded = f.exclude.Match(path, false)
	return f.include.Empty() || f.include.Match(path, false), excluded
}

// typed reports whether the filter selects a media type. An unknown type passes,
// because leaving the resource out would be a guess.
func (f *filter) typed(mediaType string) bool {
	if len(f.d.Types) == 0 || mediaType == "" {
		return true
	}
	return harvest.MatchType(f.d.Types, mediaType) >= 0
}

// describes reports whether the filter selects the target of a "describes" link, by the
// path of the URI and by the media type in the link.
func (f *filter) describes(l resourcesync.Link) bool {
	u, err := fetch.ParseReference(l.Href)
	if err != nil {
		return false
	}
	included, excluded := f.paths(u.Path)
	return included && !excluded && f.typed(l.Type)
}

func leadsTo(links []resourcesync.Link, rel string, uris []string) bool {
	return len(uris) == 0 || slices.ContainsFunc(links, func(l resourcesync.Link) bool {
		return l.Rel == rel && slices.Contains(uris, l.Href)
	})
}

func (d *Destination) tellUnmatched(f *filter) {
	for name, set := range map[string]*glob.Set{"include": f.include, "exclude": f.exclude} {
		for _, pattern := range set.Unmatched() {
			d.note("", fmt.Sprintf("%s %q matched no resource of the Source", name, pattern))
		}
	}
}
