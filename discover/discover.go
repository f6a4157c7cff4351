// Package discover finds the Source to which a URI belongs: by the document or the page at
// that URI (1.1 §6.3.3), the well-known URI (1.1 §6.3.2) or robots.txt (1.1 §6.3.4). Then
// it follows the links between documents (1.1 §6, §8, §9), until it knows the sets of
// resources and the documents of each set.
//
// [Find] is the only entry point. A document is used only after it was read to its end, and
// only if it has the capability that the link to the document promises.
package discover

import (
	"context"

	"instep/fetch"
	"instep/resourcesync"
)

// Finder configures a search for a Source.
type Finder struct {
	Client *fetch.Client // required

	AllowOrigins []string // origins (scheme://host[:port]) that may serve documents, in addition to the Source's own origin
	// MaxDocuments is the maximum number of documents that are read in one search, and
	// of links in one document to others; 0 is 10,000. The entries of all documents
	// together may take 64 MiB of memory.
	MaxDocuments int
	Limits       resourcesync.Limits // limits of each document; zero values are the defaults
	Strict       bool                // whether documents with values that the standard does not allow are refused
}

// Source is the result of a search.
type Source struct {
	Given       string   // the URI given to Find
	Description string   // URI of the Source Description, or of the Capability List, page or robots.txt used in its place; empty if unknown
	Origin      string   // scheme://host[:port] of the first document that was read
	Origins     []string // all origins of the Source: Origin and, after a redirect from http to https, the http origin
	Sets        []Set    // sets of resources; at least one
	Complete    bool     // whether Sets contains all sets of the Source Description
	Way         Way      // the way by which the Source was found
	Tried       []Attempt
	Notices     []Notice // the first 1,000 deviations and omissions found; if there are more, the last Notice says how many
	Requests    int      // number of HTTP requests sent
}

// Set is a set of resources: one Capability List (1.1 §9).
type Set struct {
	URI           string   // URI of the Capability List, or of the Resource List or Change List if there is no Capability List
	Name          string   // name of the directory with the set's documents, shown to people; may be empty
	Description   string   // description of the set (rel="describedby"); may be empty
	ResourceLists []string // Resource Lists or their indexes
	ChangeLists   []string // Change Lists or their indexes
	Other         map[resourcesync.Capability][]string
	ChangeFreq    resourcesync.ChangeFreq // "changefreq" of the Change Lists, as stated in the Capability List; may be empty

	// Err is the reason why the Capability List is unusable; nil if it is usable. A set
	// with Err still exists, so its resources must not be treated as deleted.
	Err error
}

// Documents returns the URIs of the set's documents with the given capability.
func (s *Set) Documents(c resourcesync.Capability) []string {
	switch c {
	case resourcesync.CapabilityResourceList:
		return s.ResourceLists
	case resourcesync.CapabilityChangeList:
		return s.ChangeLists
	}
	return s.Other[c]
}

// Way is a way of looking for the Source of a site.
type Way string

// The values of Way; reports show them as written here.
const (
	WayDocument  Way = "document"        // the given URI is a ResourceSync document
	WayHeader    Way = "link-header"     // Link headers with rel="resourcesync" in the response to the given URI
	WayHTML      Way = "html-link"       // link elements with rel="resourcesync" in the page at the given URI
	WayWellKnown Way = "well-known"      // .well-known/resourcesync at the root of the host
	WayBelow     Way = "well-known-path" // .well-known/resourcesync below the path of the given URI
	WayRobots    Way = "robots-txt"      // Sitemap lines of robots.txt at the root of the host
)

// Attempt is one attempt to find the Source, with the result.
type Attempt struct {
	Way     Way
	URL     string
	Outcome string // "found", or the reason why the Source was not found in this way
	Err     error  // nil if found
	Page    error  // error about an HTML page that was served instead of a document; nil if there was none
}

// Notice reports a tolerated deviation, or an entry or link that was not followed.
type Notice struct {
	URI         string             // URI of the document that the notice is about
	Line        int                // line of the entry that the notice is about, counted from 1; 0 if the notice is not about an entry
	Quirk       resourcesync.Quirk // number of the known deviation from the standard; 0 if the deviation has no number
	Msg         string
	AllowOrigin string // origin of a document that was not read; the user can allow this origin; "" for other notices
}

// Find looks for the Source to which a URI belongs. If no Source was found, or an error
// such as that of ctx ended the search, Find returns an [*Error] that lists all
// attempts.
func Find(ctx context.Context, f Finder, given string) (*Source, error) {
	return newSearch(f, given).run(ctx)
}
