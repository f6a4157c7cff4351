package republish

import (
	"slices"

	"instep/destination"
	"instep/fetch"
	"instep/resourcesync"
)

// originalOnly lists the link relations that are true only for the original resource. In
// the entry of a copy such links would be wrong, or lead away from the copy (1.1 §14.8).
var originalOnly = []string{
	resourcesync.RelCollection, resourcesync.RelCanonical, resourcesync.RelAlternate, resourcesync.RelDuplicate,
	resourcesync.RelPatch, resourcesync.RelMemento, resourcesync.RelTimeGate,
}

// Inherits reports whether the entry of a copy repeats the links of the original entry
// that have the relation rel. The parameter keep has further relations that the
// configuration allows. Links with rel="via" are never repeated: see Origin.
func Inherits(rel string, keep []string) bool {
	return rel != resourcesync.RelVia && (slices.Contains(keep, rel) || !slices.Contains(originalOnly, rel))
}

// linksToResource reports whether links with this relation lead to a resource that the
// mirror may also have copied.
func linksToResource(rel string) bool {
	return rel == resourcesync.RelDescribedBy || rel == resourcesync.RelDescribes
}

// Origin returns a link with rel="via" to the first origin of a resource (1.1 §14.8). If
// the entry at the Source has such a link, Origin returns that link. Otherwise it returns a
// link to the resource at the Source, with the length and digests that the Source stated
// and that were verified.
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

// isOrigin reports whether a link has rel="via" and an absolute URI, so that a document may
// contain the link.
func isOrigin(l resourcesync.Link) bool {
	u, err := fetch.ParseReference(l.Href)
	return l.Rel == resourcesync.RelVia && err == nil && u.IsAbs()
}

// inheritedLinks returns the links of the entry of a copy, except the link to the origin.
// For the URI of a linked resource, copyOf returns the URI of our copy, or "" if there is
// no copy.
func inheritedLinks(links []resourcesync.Link, keep []string, copyOf func(uri string) string) []resourcesync.Link {
	var ours []resourcesync.Link
	for _, l := range links {
		if !Inherits(l.Rel, keep) {
			continue
		}
		if linksToResource(l.Rel) {
			if uri := copyOf(l.Href); uri != "" {
				l.Href = uri
			}
		}
		ours = append(ours, l)
	}
	return ours
}
