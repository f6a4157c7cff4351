package harvest

import (
	"math"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"instep/evidence"
	"instep/resourcesync"
)

// MatchType returns the index of the first pattern, such as text/html or image/*, that
// matches a media type from a document. It returns -1 if none matches.
func MatchType(patterns []string, mediaType string) (n int) {
	mediaType, _, _ = strings.Cut(mediaType, ";")
	mediaType = strings.ToLower(strings.TrimSpace(mediaType))
	return slices.IndexFunc(patterns, func(t string) bool { return doublestar.MatchUnvalidated(t, mediaType) })
}

// Represent chooses the representation of w whose media type comes first in accept, among
// w itself and the alternates to which its entry links (1.1 §14.3). If none is accepted, w
// stays unchanged. If it chooses an alternate, w gets the type, length and digests of the
// alternate, BytesAt becomes the URI of the alternate, and w gets a canonical link to its
// own URI, which stays. Represent returns false if w should be left out, because w
// represents a generic URI and another representation, which has its own entry, is
// preferred.
func (w *Resource) Represent(accept []string, origins map[string]bool) (bool, error) {
	if w.BytesAt != "" { // an alternate was already chosen
		return true, nil
	}
	said, err := w.Remainder.Parse()
	if err != nil {
		return false, err
	}
	generic := slices.IndexFunc(said.Links, func(l resourcesync.Link) bool { return l.Rel == resourcesync.RelCanonical })
	// the canonical link leads to the resource's own URI: the Source or an earlier call of
	// Represent added it
	own := generic >= 0 && said.Links[generic].Href == w.URI
	best, chosen := rank(accept, w.Type), (*resourcesync.Link)(nil)
	if own && slices.ContainsFunc(said.Links, w.keptAs) {
		best = math.MaxInt
	}
	for i := range said.Links {
		l := &said.Links[i]
		if l.Rel != resourcesync.RelAlternate || l.Type == "" || l.Href == w.URI || !mayRequest(w.URI, l, origins) {
			continue
		}
		if n := rank(accept, l.Type); n < best {
			best, chosen = n, l
		}
	}
	if chosen == nil {
		return true, nil
	}
	if generic >= 0 && !own {
		return false, nil
	}
	w.Type, w.Encoding, w.Length, w.Digests, w.BytesAt = chosen.Type, chosen.Encoding, chosen.Length, chosen.Digests, chosen.Href
	if !chosen.Modified.IsZero() {
		w.LastMod = chosen.Modified
	}
	// dropped, because the duplicates and patches of the resource do not give the bytes of
	// the alternate
	w.Duplicates, w.Preferred, w.Patches = nil, 0, nil
	if own {
		return true, nil
	}
	said.Links = append(said.Links, resourcesync.Link{Rel: resourcesync.RelCanonical, Href: w.URI})
	text, err := said.Text()
	if err == nil && len(text) <= resourcesync.MaxRemainder {
		w.Remainder = NewRemainder(text)
	}
	return true, err
}

// keptAs reports whether w has the type and the bytes of an alternate. In the record of
// a mirror this means that the alternate was chosen.
func (w *Resource) keptAs(l resourcesync.Link) bool {
	if l.Rel != resourcesync.RelAlternate || l.Type != w.Type {
		return false
	}
	match := w.Beside(l.Length, l.Digests)
	return match == evidence.Same || match == evidence.Untied && l.Length == w.Length && len(l.Digests)+len(w.Digests) == 0
}

// Represented reports whether Represent has chosen an alternate for the URI to which
// the Remainder belongs.
func (r Remainder) Represented(uri string) bool {
	said, err := r.Parse()
	return err == nil && slices.ContainsFunc(said.Links, func(l resourcesync.Link) bool { return l.Rel == resourcesync.RelCanonical && l.Href == uri })
}

// rank returns the position of the media type in accept. A smaller rank is preferred.
func rank(accept []string, mediaType string) int {
	if n := MatchType(accept, mediaType); n >= 0 {
		return n
	}
	return math.MaxInt
}

func mayRequest(uri string, l *resourcesync.Link, origins map[string]bool) bool {
	probe := Resource{URI: uri, Digests: l.Digests, Duplicates: []string{l.Href}}
	probe.Choose(origins)
	return len(probe.Duplicates) > 0
}
