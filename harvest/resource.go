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
	// Encoding is the stated content coding of the sent bytes, to which Length and Digests
	// then apply; "" is unknown.
	Encoding string
	// Duplicates are URIs at which the same bytes are served (rel="duplicate", 1.1 §14.2),
	// the first choice first; none unless there is a digest to prove it.
	Duplicates []string
	// Preferred is how many of the Duplicates have a pri: by that the Source asks for them
	// to be taken before the resource itself.
	Preferred int `json:",omitzero"`
	// Patches make the resource from an earlier version (1.1 §14.4): each applies to the
	// result of the one before it.
	Patches []Patch   `json:",omitempty"`
	Changed time.Time // time of the change, or the `at` of the list
	Told    bool      // a change says so, not a list
	Until   time.Time // latest possible time of a change whose time is unknown, with Changed the earliest; else zero
	Came    time.Time // after the fetch: arrival time of the bytes, by their server's clock; zero if unknown

	// Modified is the Last-Modified time of the answer with the bytes; zero: there is none.
	Modified time.Time `json:",omitzero"`

	// Memento is where its bytes as they were are served (1.1 §14.6), in a plan of the past;
	// "" if nothing says so.
	Memento string `json:",omitzero"`

	// BytesAt is where the bytes are served if that is not URI: at an alternate that Represent
	// has chosen.
	BytesAt string `json:",omitzero"`

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
	w := Resource{URI: e.Loc, LastMod: e.LastMod, Length: e.Length, Digests: e.Digests, Type: e.Type, Encoding: e.Encoding, Remainder: remainderOf(e), Changed: changed}
	w.Duplicates, w.Preferred = duplicates(e)
	w.Patches = patchOf(e)
	return w
}

// MaxURI is the longest accepted URI, in bytes.
const MaxURI = 8 << 10

// maxDuplicates is how many duplicates of a resource are tried.
const maxDuplicates = 3

// duplicates returns the URIs of the same bytes in an entry, and how many of them have a pri.
// Without a digest nothing would prove that they are the same.
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

// priority is where a link comes among others: the smaller the sooner. One without pri has
// the rank of the largest (1.1 §7), and comes after those that have it.
func priority(l resourcesync.Link) int { return cmp.Or(l.Pri, math.MaxInt) }

// Choose keeps the duplicates and patches that may be fetched: those from these origins, and
// those from others if a sha-256 or better proves the bytes.
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

// mayAsk reports whether the bytes of w may be asked for at a URI. What has to be fetched by
// https is not fetched by http from another origin.
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
