package harvest

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"instep/evidence"
	"instep/fetch"
	"instep/resourcesync"
)

// Resource is a Source's description of the present state of a resource.
type Resource struct {
	URI     string
	LastMod resourcesync.Datetime
	Length  resourcesync.Length
	Digests resourcesync.Digests
	Type    string
	// Encoding is the content coding of the bytes that the server sends; "" means unknown.
	// If it is set, Length and Digests are those of the encoded bytes.
	Encoding string
	// Duplicates are URIs that serve the same bytes ("duplicate" links, 1.1 §14.2), in
	// order of preference. They are empty unless a digest can prove the bytes.
	Duplicates []string
	// Preferred is the number of Duplicates with a "pri" attribute. The Source prefers
	// these to the resource's own URI.
	Preferred int `json:",omitzero"`
	// Patches convert an earlier version into the resource (1.1 §14.4). Each patch
	// applies to the result of the previous one.
	Patches []Patch   `json:",omitempty"`
	Changed time.Time // time of the change that gives the description, or "at" time of the list that gives it
	Told    bool      // the description comes from a change, not from a list
	Until   time.Time // latest possible time of a change of unknown time, for which Changed is the earliest possible time; else zero
	Came    time.Time // time at which the bytes were fetched, by the clock of their server; zero if unknown

	// Modified is the Last-Modified time of the response with the bytes; zero if there
	// is none.
	Modified time.Time `json:",omitzero"`

	// Memento is the URI of the bytes of an earlier version (1.1 §14.6), in a plan for a
	// past moment; "" if no document gives one.
	Memento string `json:",omitzero"`

	// BytesAt is the URI of the alternate that Represent chose; "" if the resource's own
	// URI provides the bytes.
	BytesAt string `json:",omitzero"`

	// Remainder contains the attributes and links that have no field here. A mirror stores
	// the Remainder with the other fields, and even a zero Remainder replaces an earlier
	// one.
	Remainder Remainder `json:",omitzero"`
}

// Provable reports whether the Source gives a length or a digest that can verify the
// bytes. A Content-Length proves nothing, because it only counts the sent bytes.
func (w *Resource) Provable() bool { return w.Length.Known() || len(w.Digests) > 0 }

// Beside compares the resource with another version, given by its length and digests.
// It returns Differs if a value differs, Same if a digest is equal, and otherwise
// Untied.
func (w *Resource) Beside(length resourcesync.Length, digests resourcesync.Digests) evidence.Match {
	if w.Length.Known() && length.Known() && w.Length != length {
		return evidence.Differs
	}
	proved := evidence.Untied
	for _, d := range digests {
		switch w.Digests.Get(d.Algorithm()) {
		case resourcesync.Digest{}:
		case d:
			proved = evidence.Same
		default:
			return evidence.Differs
		}
	}
	return proved
}

// Contradicts reports whether the length or a digest of the resource differs from the
// given ones.
func (w *Resource) Contradicts(length resourcesync.Length, digests resourcesync.Digests) bool {
	return w.Beside(length, digests) == evidence.Differs
}

func wanted(e *resourcesync.Entry, changed time.Time) Resource {
	w := Resource{URI: e.Loc, LastMod: e.LastMod, Length: e.Length, Digests: e.Digests, Type: e.Type, Encoding: e.Encoding, Remainder: remainderOf(e), Changed: changed}
	w.Duplicates, w.Preferred = duplicates(e)
	w.Patches = patchOf(e)
	return w
}

// MaxURI is the maximum length of a URI in bytes.
const MaxURI = 8 << 10

// maxDuplicates is the maximum number of duplicates of a resource that are tried.
const maxDuplicates = 3

// duplicates returns the URIs of an entry's duplicates; none if the entry has no digest
// to prove the bytes. preferred is the number of duplicates with a "pri" attribute.
func duplicates(e *resourcesync.Entry) (uris []string, preferred int) {
	if len(e.Digests) == 0 {
		return nil, 0
	}
	var links []resourcesync.Link
	for _, l := range e.Links {
		if l.Rel == resourcesync.RelDuplicate {
			links = append(links, l)
		}
	}
	slices.SortStableFunc(links, func(a, b resourcesync.Link) int { return cmp.Compare(priority(a), priority(b)) })
	for _, l := range links {
		uris = append(uris, l.Href)
		if l.Pri > 0 {
			preferred++
		}
	}
	return uris, preferred
}

// priority returns the sort key of a link. Links without "pri" come last (1.1 §7).
func priority(l resourcesync.Link) int { return cmp.Or(l.Pri, math.MaxInt) }

// Choose keeps the duplicates and patches that may be fetched: those from the given
// origins, and those from other origins if sha-256 or a stronger digest proves the
// bytes.
func (w *Resource) Choose(origins map[string]bool) {
	var keep []string
	preferred := 0
	for i, uri := range w.Duplicates {
		if len(keep) == maxDuplicates {
			break
		}
		if !w.mayAsk(uri, origins) {
			continue
		}
		if keep = append(keep, uri); i < w.Preferred {
			preferred++
		}
	}
	w.Duplicates, w.Preferred = keep, preferred
	if slices.ContainsFunc(w.Patches, func(p Patch) bool { return !w.mayAsk(p.URI, origins) }) {
		w.Patches = nil
	}
}

// mayAsk reports whether the resource may be fetched from another URI. It does not
// allow http at another origin for a resource with an https URI.
func (w *Resource) mayAsk(uri string, origins map[string]bool) bool {
	u, err := fetch.ParseReference(uri)
	switch {
	case err != nil || len(uri) > MaxURI || u.Host == "" || u.User != nil || uri == w.URI:
		return false
	case origins[fetch.Origin(u)]:
		return true
	case !w.Digests.Strong():
		return false
	}
	return u.Scheme == "https" || u.Scheme == "http" && !strings.HasPrefix(strings.ToLower(w.URI), "https:")
}
