package harvest

import (
	"cmp"
	"math"
	"slices"
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
	// Encoding is the stated content coding of the sent bytes, to which Length and Digests
	// then apply; "" is unknown.
	Encoding string
	// Duplicates are URIs at which the same bytes are served (rel="duplicate", 1.1 §14.2),
	// the first choice first; none unless there is a digest to prove it.
	Duplicates []string
	Changed    time.Time // time of the change, or the `at` of the list
	Told       bool      // a change says so, not a list
	Until      time.Time // latest possible time of a change whose time is unknown, with Changed the earliest; else zero
	Came       time.Time // after the fetch: arrival time of the bytes, by their server's clock; zero if unknown

	// Modified is the Last-Modified time of the answer with the bytes; zero: there is none.
	Modified time.Time `json:",omitzero"`

	// Remainder has its links and other attributes. The Mirror stores it with the state; it
	// replaces that of an earlier state even if it is zero.
	Remainder Remainder `json:",omitzero"`
}

// Provable reports whether the Source gives a length or a digest, by which bytes can be
// verified. Otherwise they are unverified: a Content-Length is the number of sent bytes,
// and no proof that they are the resource.
func (w *Resource) Provable() bool { return w.Length.Known() || len(w.Digests) > 0 }

// Beside compares the stated facts about the bytes of w with those of others.
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

// wanted makes a Resource of an entry.
func wanted(e *resourcesync.Entry, changed time.Time) Resource {
	return Resource{URI: e.Loc, LastMod: e.LastMod, Length: e.Length, Digests: e.Digests, Type: e.Type, Encoding: e.Encoding, Duplicates: duplicates(e), Remainder: remainderOf(e), Changed: changed}
}

// MaxURI is the longest accepted URI, in bytes.
const MaxURI = 8 << 10

// maxDuplicates is how many duplicates of a resource are tried.
const maxDuplicates = 3

// duplicates returns the URIs of the same bytes in an entry. Without a digest nothing would
// prove that they are the same.
func duplicates(e *resourcesync.Entry) []string {
	if len(e.Digests) == 0 {
		return nil
	}
	var links []resourcesync.Link
	for _, l := range e.Links {
		if l.Rel == resourcesync.RelDuplicate {
			links = append(links, l)
		}
	}
	slices.SortStableFunc(links, func(a, b resourcesync.Link) int { return cmp.Compare(priority(a), priority(b)) })
	var uris []string
	for _, l := range links {
		uris = append(uris, l.Href)
	}
	return uris
}

// priority is the rank of a link among others: the smaller the sooner (1.1 §14.2).
func priority(l resourcesync.Link) int {
	if l.Pri == 0 {
		return math.MaxInt
	}
	return l.Pri
}

// Choose keeps the duplicates that may be fetched, from these origins.
func (w *Resource) Choose(origins map[string]bool) {
	w.Duplicates = slices.DeleteFunc(w.Duplicates, func(uri string) bool {
		u, err := fetch.ParseReference(uri)
		return err != nil || len(uri) > MaxURI || u.Host == "" || !origins[fetch.Origin(u)]
	})
	if len(w.Duplicates) > maxDuplicates {
		w.Duplicates = slices.Clone(w.Duplicates[:maxDuplicates]) // frees the others
	}
}
