package republish

import (
	"slices"

	"instep/destination"
	"instep/fetch"
	"instep/resourcesync"
)

// dropped lists the link relations that are true only for the original resource. In the
// entry of a copy such links would be wrong, or lead away from the copy (1.1 §14.8).
var dropped = []string{
	resourcesync.RelCollection, resourcesync.RelCanonical, resourcesync.RelAlternate, resourcesync.RelDuplicate,
	resourcesync.RelPatch, resourcesync.RelMemento, resourcesync.RelTimeGate,
}

// Inherits reports whether the entry that we publish for a copy repeats those links
// with the relation rel that the entry at the origin has. keep has relations that the
// configuration adds. Links with the relation via are never repeated: see Origin.
func Inherits(rel string, keep []string) bool {
	return rel != resourcesync.RelVia && (slices.Contains(keep, rel) || !slices.Contains(dropped, rel))
}

// describes reports whether links with this relation lead to a resource that the mirror
// may have copied, too.
func describes(rel string) bool {
	return rel == resourcesync.RelDescribedBy || rel == resourcesync.RelDescribes
}

// Origin returns a link with the relation via to the first origin of a resource (1.1
// §14.8). If the entry at the Source has such a link, it is that one; otherwise it
// leads to the resource at the Source, with the length and digests that the Source
// stated and that were verified.
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

// isOrigin reports whether a link has the relation via and an absolute URI, so that a
// document may contain it.
func isOrigin(l resourcesync.Link) bool {
	u, err := fetch.ParseReference(l.Href)
	return l.Rel == resourcesync.RelVia && err == nil && u.IsAbs()
}

// inherit returns the links of the entry that we publish for a copy, except the one to
// the origin. For the URI of a linked resource, copyOf returns the URI of our copy, or
// "" if there is none.
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
