package republish

import (
	"slices"

	"instep/destination"
	"instep/fetch"
	"instep/resourcesync"
)

// dropped are the relations that hold for the origin alone: from the perspective of who
// publishes the copy they are wrong, or lead past the copy (1.1 §14.8).
var dropped = []string{
	resourcesync.RelCollection, resourcesync.RelCanonical, resourcesync.RelAlternate, resourcesync.RelDuplicate,
	resourcesync.RelPatch, resourcesync.RelMemento, resourcesync.RelTimeGate,
}

// Inherits reports whether an entry of ours has a link of the origin's with this relation.
// keep are the relations that the configuration keeps. This is the one place that decides
// it; via is no inherited link, see Origin.
func Inherits(rel string, keep []string) bool {
	return rel != resourcesync.RelVia && (slices.Contains(keep, rel) || !slices.Contains(dropped, rel))
}

// describes reports whether a link of this relation leads to a resource that may be held here.
func describes(rel string) bool {
	return rel == resourcesync.RelDescribedBy || rel == resourcesync.RelDescribes
}

// Origin returns the via link that names the first origin of a resource (1.1 §14.8): the one
// that the Source gives, else a link to the resource at the Source. Its length and digests
// are what the Source said of the bytes, as far as that was checked.
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

// isOrigin reports whether a link names an origin: one that no document can have names none.
func isOrigin(l resourcesync.Link) bool {
	u, err := fetch.ParseReference(l.Href)
	return l.Rel == resourcesync.RelVia && err == nil && u.IsAbs()
}

// inherit returns the links of an entry of ours but for that to the origin. copyOf returns
// the URI of our copy of a resource; "" if there is none.
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
