// Package discover finds the Source behind a URI: by the document given, the links of
// the page given (1.1 §6.3.3), the well-known URI (1.1 §6.3.2) or robots.txt (1.1
// §6.3.4), and then by the links between documents (1.1 §6, §8, §9), until it knows the
// sets of resources and the documents of each.
//
// [Find] is the only entry point. A document counts only after it was read to its end, and
// only if it has the kind that its place promises.
package discover

import (
	"context"

	"instep/fetch"
	"instep/resourcesync"
)

// Finder configures a search for a Source.
type Finder struct {
	Client *fetch.Client // required

	AllowOrigins []string // origins (scheme://host[:port]) from which documents may be read besides the Source's own
	// MaxDocuments is the maximum number of documents that are read in one search, and
	// of links in one document to others; 0 is 10,000. The entries of all documents
	// together may take 64 MiB of memory.
	MaxDocuments int
	Limits       resourcesync.Limits // limits of each document; zero values are the defaults
	Strict       bool                // refuse documents with values that the standard does not allow
}

// Source is the result of a search.
type Source struct {
	Given       string   // the URI given to Find
	Description string   // URI of the Source Description, or of the document that takes its place, because it lists Capability Lists or lists; empty if unknown
	Origin      string   // scheme://host[:port] of the first document that was read
	Origins     []string // all origins of the Source: Origin, and that of the given URI if a redirect led from http to https
	Sets        []Set    // at least one
	Complete    bool     // set if Sets contains all sets of the Source Description
	Way         Way      // the way by which the Source was found
	Tried       []Attempt
	Notices     []Notice // deviations and omissions, in the order found: the first 1,000, and then a Notice with the number of the others
	Requests    int      // requests sent
}

// Set is a set of resources: one Capability List (1.1 §9).
type Set struct {
	URI           string   // URI of the Capability List; for a list without one, the URI of the list
	Name          string   // name of the directory with the set's documents, for people; may be empty
	Description   string   // description of the set (rel="describedby"); may be empty
	ResourceLists []string // Resource Lists or their indexes
	ChangeLists   []string // Change Lists or their indexes
	Other         map[resourcesync.Capability][]string
	ChangeFreq    resourcesync.ChangeFreq // changefreq of the Change Lists in the Capability List; may be empty

	// Err is the reason why the Capability List could not be used; nil if it could. The
	// set exists nevertheless, and nothing may be concluded about its resources.
	Err error
}

// Documents returns the URIs of the set's documents of a capability.
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

// These are the values of Way, as used in reports.
const (
	WayDocument  Way = "document"        // the given URI is a ResourceSync document
	WayHeader    Way = "link-header"     // Link headers with rel="resourcesync" in the response to the given URI
	WayHTML      Way = "html-link"       // link elements with rel="resourcesync" in the page at the given URI
	WayWellKnown Way = "well-known"      // .well-known/resourcesync at the root of the host
	WayBelow     Way = "well-known-path" // .well-known/resourcesync below the path of the given URI
	WayRobots    Way = "robots-txt"      // Sitemap lines of robots.txt at the root of the host
)

// Attempt is one way of looking for the Source that was tried, with the result.
type Attempt struct {
	Way     Way
	URL     string
	Outcome string // "found", or the reason why the Source was not found in this way
	Err     error  // nil if found
	Page    error  // error about an HTML page that was served instead of a document; nil if there was none
}

// Notice reports to the user something that was tolerated or left out.
type Notice struct {
	URI         string             // URI of the document that the notice is about
	Line        int                // line of the entry that the notice is about, counted from 1; 0 if it is about no entry
	Quirk       resourcesync.Quirk // number of the quirk (known deviation from the standard); 0 if it is none
	Msg         string
	AllowOrigin string // origin that the user can allow, so that nothing is left out; empty if that does not help
}

// Find looks for the Source to which a URI belongs. If there is none, it returns an
// [*Error] that lists every way tried, or an error that ends the search at once, such
// as that of ctx.
func Find(ctx context.Context, f Finder, given string) (*Source, error) {
	return newSearch(f, given).run(ctx)
}
