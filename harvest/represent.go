package harvest

import (
	"math"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"instep/evidence"
	"instep/resourcesync"
)

// MatchType reports whether a media type, as a document gives it, matches one of some
// patterns, such as text/html or image/*; n is the first that does, or -1.
func MatchType(patterns []string, mediaType string) (n int) {
	mediaType, _, _ = strings.Cut(mediaType, ";")
	mediaType = strings.ToLower(strings.TrimSpace(mediaType))
	return slices.IndexFunc(patterns, func(t string) bool { return doublestar.MatchUnvalidated(t, mediaType) })
}

// Represent chooses the representation of w whose media type comes first in accept, out of w
// itself and the alternates that its entry links (1.1 §14.3); of equals the first, and w if
// none has such a type. An alternate that is chosen becomes what w describes: its type, length
// and digests, and BytesAt. The URI stays, and is recorded as canonical.
//
// It returns false if w should be left out: it is one representation of a generic URI, and
// another one, which has an entry of its own, is accepted more.
func (w *Resource) Represent(accept []string, origins map[string]bool) (bool, error) {
	if w.BytesAt != "" { // it is chosen already
		return true, nil
	}
	said, err := w.Remainder.Parse()
	if err != nil {
		return false, err
	}
	generic := slices.IndexFunc(said.Links, func(l resourcesync.Link) bool { return l.Rel == resourcesync.RelCanonical })
	own := generic >= 0 && said.Links[generic].Href == w.URI // of a Source, or one was chosen when it was stored
	best, chosen := rank(accept, w.Type), (*resourcesync.Link)(nil)
	if own && slices.ContainsFunc(said.Links, w.keptAs) {
		best = math.MaxInt
	}
	for i := range said.Links {
		l := &said.Links[i]
		if l.Rel != resourcesync.RelAlternate || l.Type == "" || l.Href == w.URI || !askable(w.URI, l, origins) {
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
	w.Duplicates, w.Preferred, w.Patches = nil, 0, nil // they have the bytes of another representation
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

// keptAs reports whether w has the type and the bytes of an alternate, as a Mirror keeps one that
// was chosen.
func (w *Resource) keptAs(l resourcesync.Link) bool {
	if l.Rel != resourcesync.RelAlternate || l.Type != w.Type {
		return false
	}
	match := w.Beside(l.Length, l.Digests)
	return match == evidence.Same || match == evidence.Untied && l.Length == w.Length && len(l.Digests)+len(w.Digests) == 0
}

// Represented reports whether a Mirror holds an alternate as the bytes of a URI, as Represent
// has chosen it.
func (r Remainder) Represented(uri string) bool {
	said, err := r.Parse()
	return err == nil && slices.ContainsFunc(said.Links, func(l resourcesync.Link) bool { return l.Rel == resourcesync.RelCanonical && l.Href == uri })
}

// rank is where a media type comes: the smaller the sooner.
func rank(accept []string, mediaType string) int {
	if n := MatchType(accept, mediaType); n >= 0 {
		return n
	}
	return math.MaxInt
}

// askable reports whether the bytes that a link leads to may be asked for there.
func askable(uri string, l *resourcesync.Link, origins map[string]bool) bool {
	probe := Resource{URI: uri, Digests: l.Digests, Duplicates: []string{l.Href}}
	probe.Choose(origins)
	return len(probe.Duplicates) > 0
}
