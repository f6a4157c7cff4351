// Package discover finds the Source behind a URI: by the document given, the links of
// the page given (1.1 §6.3.3), the well-known URI (1.1 §6.3.2) or robots.txt (1.1
// §6.3.4), and then by the links between documents (1.1 §6, §8, §9), until it knows the
// sets of resources and the documents of each.
//
// [Find] is the one way in. Nothing is believed of a document that was not read to
// its end, or that is not of the kind its place promises.
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

	// AllowOrigins are origins (scheme://host[:port]) whose documents are read beside
	// those of the Source's own.
	AllowOrigins []string
	// MaxDocuments bounds how many documents are read in all, and how many one of
	// them may name; 10,000 if 0. What they name in all may take 64 MiB.
	MaxDocuments int
	Limits       resourcesync.Limits // of each document; zero is good
	Strict       bool                // refuse documents with values the standard does not allow
}

// Source is what was found.
type Source struct {
	Given       string   // the URI Find was asked about
	Description string   // URI of the Source Description, or of what names the Capability Lists, or lists, in its place; empty if there is none or it isn't known
	Origin      string   // of the Source: scheme://host[:port] of the first document that was read
	Origins     []string // all that are its own: Origin, and that of the URI given if a redirect to https led on
	Sets        []Set    // at least one
	Complete    bool     // Sets are all that the Source Description names
	Way         Way      // the way that led to it
	Tried       []Attempt
	Notices     []Notice // deviations and omissions, in the order met: the first 1,000, and the number of the others
	Requests    int      // requests sent
}

// Set is a set of resources: what one Capability List (1.1 §9) names.
type Set struct {
	// URI is that of the Capability List. For a list that belongs to none it is the
	// list's own.
	URI           string
	Name          string   // last part of the path of the set's directory, for people; may be empty
	Description   string   // description of the set (rel="describedby"); may be empty
	ResourceLists []string // Resource Lists or their indexes
	ChangeLists   []string // Change Lists or their indexes
	Other         map[resourcesync.Capability][]string
	ChangeFreq    resourcesync.ChangeFreq // of the Change Lists, as the Capability List says; may be empty

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
	WayHeader    Way = "link-header"     // Link headers with rel="resourcesync" of what the URI given answers with
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
	Line        int                // of the entry, from 1; 0 if it isn't about one
	Quirk       resourcesync.Quirk // the habit of Sources it is about; 0 if none
	Msg         string
	AllowOrigin string // the origin to allow to have it read; empty if that is not the trouble
}

// Find looks for the Source behind a URI. Errors: an [*Error] that lists every way
// tried, or what ends the search at once, such as the end of ctx.
func Find(ctx context.Context, f Finder, given string) (*Source, error) {
	return newSearch(f, given).run(ctx)
}

func (s *Source) addOrigin(o string) {
	if !slices.Contains(s.Origins, o) {
		s.Origins = append(s.Origins, o)
	}
}
