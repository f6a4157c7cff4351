package resourcesync

import "strings"

// Link relations that the standard or existing Sources use, with the sections that define
// them. Links may have other relations, too (1.1 §7).
const (
	RelUp          = "up"           // the document one level up, such as the Capability List for a Resource List (1.1 §6.2)
	RelIndex       = "index"        // on a document: link to the index that lists it (1.1 §6.2)
	RelDescribedBy = "describedby"  // metadata about a resource, or a description of a set or Source (1.1 §8, §14.5)
	RelDescribes   = "describes"    // on metadata: link to the resource that it describes (1.1 §14.5)
	RelContents    = "contents"     // on a package: link to a copy of its manifest (1.1 §11.1, §13.1)
	RelDuplicate   = "duplicate"    // the same bytes at a mirror (1.1 §14.2)
	RelAlternate   = "alternate"    // another representation of the resource (1.1 §14.3)
	RelCanonical   = "canonical"    // the generic URI of a representation (1.1 §14.3)
	RelPatch       = nsRS + "patch" // a patch that turns the previous version of the resource into this version (1.1 §14.4)
	RelProfile     = "profile"      // a profile that helps to interpret metadata (1.1 §14.5)
	RelMemento     = "memento"      // a prior version of the resource (1.1 §14.6)
	RelTimeGate    = "timegate"     // a service that finds the version at a given time (1.1 §14.6)
	RelTimeMap     = "timemap"      // a list of versions of the resource (1.1 §14.6)
	RelCollection  = "collection"   // a collection that the resource belongs to (1.1 §14.7)
	RelVia         = "via"          // the original of a copied resource, at another Source (1.1 §14.8)
	RelArchives    = "archives"     // the list of archived versions of the document (Archives §2.2)
	RelSelf        = "self"         // the URI of the document itself; from Atom, used by existing Sources
	RelNext        = "next"         // the next page of a list; used by existing Sources, not defined by the standard
	RelPrev        = "prev"         // the previous page of a list; used by existing Sources, not defined by the standard
	RelSource      = "resourcesync" // on a web page: a link to a Capability List (1.1 §6.3.3); drafts of 2013 use it instead of "up"
)

// IsPatchType reports whether a media type is that of a patch: bytes that turn one
// version of a resource into the next, and are not a resource themselves (1.1 §14.4).
// It ignores parameters of the media type.
func IsPatchType(mediaType string) bool {
	essence, _, _ := strings.Cut(mediaType, ";")
	switch strings.ToLower(strings.TrimRight(essence, xmlSpace)) {
	case "application/json-patch", "application/json-patch+json", "application/vcdiff",
		"application/patch-ops-error+xml", "application/xml-patch+xml",
		"text/x-diff", "text/x-patch":
		return true
	}
	return false
}
