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

// Resource is what a Source says of the present state of a resource.
type Resource struct {
	URI     string
	LastMod resourcesync.Datetime
	Length  resourcesync.Length
	Digests resourcesync.Digests
	Type    string
	// Encoding is the content coding in which the Source says that it sends the bytes,
	// which Length and Digests then are of; "" says nothing.
	Encoding string
	// Duplicates are URIs at which the same bytes are served (rel="duplicate", 1.1 §14.2),
	// the first choice first; none unless there is a digest to prove it.
	Duplicates []string
	Changed    time.Time // when the change happened, or the `at` of the list that says so
	Told       bool      // a change says so, not a list
	Until      time.Time // of a change whose time is unknown: at the latest then, and at Changed at the earliest; else zero
	Came       time.Time // once the bytes are here: when they came, by the clock of their server; zero if that is unknown

	// Modified is when the bytes were last changed, as the answer that brought them says;
	// zero: none did, or it said nothing.
	Modified time.Time `json:",omitzero"`

	// Remainder holds its links and other attributes. The Mirror stores it with the state;
	// it replaces that of an earlier state even if it is zero.
	Remainder Remainder `json:",omitzero"`
}

// Provable reports whether the Source gives a length or a digest, by which bytes can be
// told from others. Without one they are unverified, however they came: a
// Content-Length says how much was sent, and not that it is the resource.
func (w *Resource) Provable() bool { return w.Length.Known() || len(w.Digests) > 0 }

// Beside compares what is told of the bytes of w with what is known of others.
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

// wanted is what an entry says of a resource.
func wanted(e *resourcesync.Entry, changed time.Time) Resource {
	return Resource{URI: e.Loc, LastMod: e.LastMod, Length: e.Length, Digests: e.Digests, Type: e.Type, Encoding: e.Encoding, Duplicates: duplicates(e), Remainder: remainderOf(e), Changed: changed}
}

// MaxURI is the longest URI that is followed, in bytes (FAULTS §5).
const MaxURI = 8 << 10

// maxDuplicates is how many duplicates of a resource are tried.
const maxDuplicates = 3

// duplicates are the URIs at which an entry says that the same bytes are served.
// Without a digest nothing would tell whether they are.
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

// priority is where a link comes among others: the smaller the sooner (1.1 §14.2).
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
