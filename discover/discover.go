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
	"slices"

	"instep/fetch"
	"instep/resourcesync"
)

// Finder says how to look for a Source.
type Finder struct {
	Client *fetch.Client // required

	// AllowOrigins are origins (scheme://host[:port]) whose documents may be read in
	// addition to the Source's own.
	AllowOrigins []string
	// MaxDocuments bounds the documents read in all, and those that one of them may name;
	// 10,000 if 0. The entries of all together may take 64 MiB.
	MaxDocuments int
	Limits       resourcesync.Limits // limits of each document; zero is good
	Strict       bool                // refuse documents with values the standard does not allow
}

// Source is the result of a search.
type Source struct {
	Given       string   // the URI Find was asked about
	Description string   // URI of the Source Description, or of the document that names the Capability Lists, or lists, in its place; empty if there is none or it is unknown
	Origin      string   // scheme://host[:port] of the first document that was read
	Origins     []string // all origins of the Source: Origin, and that of the given URI if it redirects to https
	Sets        []Set    // at least one
	Complete    bool     // whether Sets has all sets of the Source Description
	Way         Way      // the way that led to it
	Tried       []Attempt
	Notices     []Notice // deviations and omissions, in the order met: the first 1,000, and the number of the others
	Requests    int      // requests sent
}

// Set is a set of resources: one Capability List (1.1 §9).
type Set struct {
	// URI of the Capability List. A list without one has its own URI here.
	URI           string
	Name          string   // last part of the path of the set's directory, for people; may be empty
	Description   string   // description of the set (rel="describedby"); may be empty
	ResourceLists []string // Resource Lists or their indexes
	ChangeLists   []string // Change Lists or their indexes
	Other         map[resourcesync.Capability][]string
	ChangeFreq    resourcesync.ChangeFreq // changefreq of the Change Lists in the Capability List; may be empty

	// Err says why the Capability List could not be used. The set exists all the
	// same, and nothing may be concluded about it.
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

// Way is a way to look for a Source.
type Way string

// The ways, in the words of the reports.
const (
	WayDocument  Way = "document"        // the URI given is a ResourceSync document
	WayHeader    Way = "link-header"     // Link headers with rel="resourcesync" in the answer of the given URI
	WayHTML      Way = "html-link"       // link elements with rel="resourcesync" of the page at the URI given
	WayWellKnown Way = "well-known"      // .well-known/resourcesync at the root of the host
	WayBelow     Way = "well-known-path" // .well-known/resourcesync below the path given
	WayRobots    Way = "robots-txt"      // Sitemap lines of robots.txt at the root of the host
)

// Attempt is one way that was tried.
type Attempt struct {
	Way     Way
	URL     string
	Outcome string // "found", or why not
	Err     error  // nil if found
	Page    error  // says that a page for people answered, not a document; nil if none did
}

// Notice is something tolerated or left out that the user should know.
type Notice struct {
	URI         string             // the document it is about
	Line        int                // line of the entry, from 1; 0 if it is not about one
	Quirk       resourcesync.Quirk // the habit of Sources it is about; 0 if none
	Msg         string
	AllowOrigin string // origin that has to be allowed to read it; empty if another origin is not the cause
}

// Find searches for the Source behind a URI. Errors: an [*Error] that lists every way
// tried, or one that ends the search at once, such as the end of ctx.
func Find(ctx context.Context, f Finder, given string) (*Source, error) {
	return newSearch(f, given).run(ctx)
}

func (s *Source) addOrigin(o string) {
	if !slices.Contains(s.Origins, o) {
		s.Origins = append(s.Origins, o)
	}
}
