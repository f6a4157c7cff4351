package discover

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"instep/fetch"
	"instep/resourcesync"
)

// Error means that Find found no Source. It wraps the errors of all attempts, the last
// attempt first, so errors.As finds the *fetch.Error or *resourcesync.DecodeError that
// ended the search.
type Error struct {
	Given    string
	Tried    []Attempt // attempts in chronological order; the last one ended the search
	Requests int       // number of HTTP requests sent
}

// Error returns a text with all attempts and their outcomes.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "find the Source of %q:", e.Given)
	for i, a := range e.Tried {
		if i > 0 {
			b.WriteByte(';')
		}
		fmt.Fprintf(&b, " %s %s: %s", a.Way, a.URL, a.Outcome)
	}
	return b.String()
}

// Unwrap returns the errors of all attempts, the last attempt first.
func (e *Error) Unwrap() []error {
	var errs []error
	for _, a := range slices.Backward(e.Tried) {
		if a.Err != nil {
			errs = append(errs, a.Err)
		}
	}
	return errs
}

// Broken returns the URI of the unusable document that ended the search, and why it cannot be
// used; "" if the search ended for another reason. If a Source Description has no usable
// Capability List, Broken returns the first of those that are broken.
func (e *Error) Broken() (uri string, reason error) {
	err := e.Tried[len(e.Tried)-1].Err
	for broken, ok := errors.AsType[*brokenError](err); ok; broken, ok = errors.AsType[*brokenError](reason) {
		uri, reason = broken.uri, broken.err
	}
	return uri, reason
}

// Summary returns a sentence for the user, which names the document that Broken returns,
// or says that the site does not offer ResourceSync, and which places were tried.
func (e *Error) Summary() string {
	if broken, reason := e.Broken(); broken != "" {
		return fmt.Sprintf("%s cannot be used: %v", broken, reason)
	}
	var tried []string
	for _, a := range e.Tried {
		if where := triedPlace(a); where != "" {
			tried = append(tried, where)
		}
	}
	return e.Given + " does not offer ResourceSync; tried " + strings.Join(tried, ", ")
}

// triedPlace returns the part of the summary about one attempt: where it looked for the
// Source, and the result. It returns "" if the summary should not mention the attempt.
func triedPlace(a Attempt) string {
	u, err := url.Parse(a.URL)
	if err != nil {
		return ""
	}
	place := u.EscapedPath()
	switch a.Way {
	case WayHeader:
		return ""
	case WayHTML:
		return "its links (none)"
	case WayRobots:
		place = "robots.txt"
	case WayDocument:
		place = "the URL itself"
	}
	return fmt.Sprintf("%s (%s)", place, triedOutcome(a))
}

func triedOutcome(a Attempt) string {
	fe, ok := errors.AsType[*fetch.Error](a.Err)
	foreign, elsewhere := errors.AsType[*ForeignError](a.Err)
	switch {
	case elsewhere:
		return "leads to another origin, " + foreign.Origin
	case a.Page != nil:
		return "a web page"
	case ok && fe.Status != 0:
		return fmt.Sprint(fe.Status)
	case ok:
		return fe.Msg
	case a.Way == WayRobots && strings.Contains(a.Outcome, "plain Sitemaps"):
		return "plain sitemaps only"
	case a.Way == WayRobots:
		return "no list of ResourceSync"
	}
	return "no ResourceSync document"
}

// brokenError ends the search: a Source exists, but its document at uri is unusable.
type brokenError struct {
	uri string
	err error
}

func (e *brokenError) Error() string { return fmt.Sprintf("read %q: %v", e.uri, e.err) }
func (e *brokenError) Unwrap() error { return e.err }

// ForeignError reports a document that was not read, because the user has not allowed its
// origin, which is not the origin of the Source.
type ForeignError struct {
	URI    string // URI of the document that was not read
	Origin string // origin of the document, which the user can allow
}

// Error names the document and the option that allows its origin.
func (e *ForeignError) Error() string {
	return fmt.Sprintf("%q is on another origin than the Source; allow it with --allow-origin %s", e.URI, e.Origin)
}

// CapabilityError reports a document that has another capability than the link to the
// document promises.
type CapabilityError struct {
	URI       string
	Want, Got resourcesync.Capability
	Root      resourcesync.Root
}

// Error says which capability was expected and which was found.
func (e *CapabilityError) Error() string {
	return fmt.Sprintf("%q: expected a document with capability %q, got %s", e.URI, e.Want, kindOf(e.Root, e.Got))
}

type noPlaceError struct {
	capability resourcesync.Capability
	document   string // the kind of document that has the entry
}

func (e *noPlaceError) Error() string {
	switch {
	case e.capability == "":
		return "no capability is known"
	case e.capability.Known():
		return fmt.Sprintf("capability %q has no place in %s", string(e.capability), e.document)
	}
	return fmt.Sprintf("capability %q is unknown", string(e.capability))
}

func kindOf(r resourcesync.Root, c resourcesync.Capability) string {
	switch {
	case c == "" && r == resourcesync.SitemapIndex:
		return "a plain sitemap index without a capability"
	case c == "":
		return "a plain sitemap without a capability"
	case r == resourcesync.SitemapIndex:
		return fmt.Sprintf("an index with capability %q", string(c))
	}
	return fmt.Sprintf("one with capability %q", string(c))
}
