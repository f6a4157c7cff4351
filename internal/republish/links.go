package republish

import (
	"slices"

	"instep/destination"
	"instep/fetch"
	"instep/resourcesync"
)

// dropped is the link relations that are true only at the origin. In the entry of a
// copy they would be wrong, or lead past the copy (1.1 §14.8).
var dropped = []string{
	resourcesync.RelCollection, resourcesync.RelCanonical, resourcesync.RelAlternate, resourcesync.RelDuplicate,
	resourcesync.RelPatch, resourcesync.RelMemento, resourcesync.RelTimeGate,
}

// Inherits reports whether links with this relation are copied from the origin's entry
// to ours. keep is the relations that the configuration keeps. The via link is not
// copied: see Origin.
func Inherits(rel string, keep []string) bool {
	return rel != resourcesync.RelVia && (slices.Contains(keep, rel) || !slices.Contains(dropped, rel))
}

// describes reports whether links with this relation lead to a resource of which we may
// hold a copy.
func describes(rel string) bool {
	return rel == resourcesync.RelDescribedBy || rel == resourcesync.RelDescribes
}

// Origin returns the via link to the first origin of a resource (1.1 §14.8): the one in
// the Source's entry, otherwise a link to the resource at the Source. Its length and
// digests are those that the Source stated and that were verified.
func Origin(h *destination.Held, links []resourcesync.Link) resourcesync.Link {
	if i := slices.IndexFunc(links, isOrigin); i >= 0 {
		return links[i]
	}
	via := resourcesync.Link{Rel: resourcesync.RelVia, Href: h.URI, Modified: h.LastMod, Type: h.Type}
	if !h.Verified {
		return via
	}
	via.Length = h.Length
	if d := h.Digests.Get(h.Proof); !d.IsZero() {
		via.Digests = resourcesync.Digests{d}
	}
	return via
}

// isOrigin reports whether a link leads to an origin. A link that no document may
// contain does not count.
func isOrigin(l resourcesync.Link) bool {
	u, err := fetch.ParseReference(l.Href)
	return l.Rel == resourcesync.RelVia && err == nil && u.IsAbs()
}

// inherit returns the links of an entry of ours, except the one to the origin. copyOf
// returns the URI of our copy of a resource; "" if there is none.
func inherit(links []resourcesync.Link, keep []string, copyOf func(uri string) string) []resourcesync.Link {
	var ours []resourcesync.Link
	for _, l := range links {
		if !Inherits(l.Rel, keep) {
			continue
		}
		if describes(l.Rel) {
			if uri := copyOf(l.Href); uri != "" {
				l.Href = uri
			}
		}
		ours = append(ours, l)
	}
	return ours
}
