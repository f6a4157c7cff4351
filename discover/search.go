package discover

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"

	"instep/fetch"
	"instep/resourcesync"
)

const (
	maxDocuments = 10_000   // default for Finder.MaxDocuments
	maxUp        = 8        // largest number of "up" links followed from one document
	atATime      = 4        // largest number of Capability Lists read concurrently
	maxKept      = 64 << 20 // largest memory in bytes for the stored entries of all documents
	maxNotices   = 1_000    // largest number of notices stored; further notices are only counted
	maxMessage   = 1_000    // largest length of a notice in bytes
)

type search struct {
	f           Finder
	maxDocs     int
	docsLeft    atomic.Int64                       // number of documents that may still be read
	memoryLeft  atomic.Int64                       // bytes of memory that stored entries may still occupy
	noticeCount atomic.Int64                       // number of notices, including those beyond maxNotices
	allowed     map[string]bool                    // origins that may serve documents, in addition to the Source's own origin
	requested   map[string]bool                    // URIs that the search has already requested to find the Source
	way         Way                                // the Way that the current attempt tries
	page        *page                              // response to a request for the URI that the user gave; nil if the request failed
	stated      map[string]resourcesync.Capability // capability that a Source Description states for a document, by the URI of the document
	src         *Source
}

// trip has the notices and counts of one goroutine of a search. The function addTrip
// adds them to the result.
type trip struct {
	s           *search
	notices     []Notice
	leftOut     error // why an entry or link was not followed: the first ForeignError, otherwise the first error; nil if there is none
	headersOnly bool  // whether reading ends after the header if a document has no ResourceSync elements
	requests    int
}

// note stores a notice, unless maxNotices notices are already stored. It counts all notices.
func (t *trip) note(n Notice) {
	if t.s.noticeCount.Add(1) > maxNotices {
		return
	}
	n.Msg = truncate(n.Msg, maxMessage)
	t.notices = append(t.notices, n)
}

func truncate(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}

func (s *search) addTrip(t *trip) {
	s.src.Notices = append(s.src.Notices, t.notices...)
	s.src.Requests += t.requests
}

func newSearch(f Finder, given string) *search {
	s := &search{
		f:         f,
		maxDocs:   cmp.Or(max(f.MaxDocuments, 0), maxDocuments),
		allowed:   map[string]bool{},
		requested: map[string]bool{},
		stated:    map[string]resourcesync.Capability{},
		src:       &Source{Given: given},
	}
	s.docsLeft.Store(int64(s.maxDocs))
	s.memoryLeft.Store(maxKept)
	return s
}

func (s *search) run(ctx context.Context) (*Source, error) {
	given, err := s.checkGiven()
	if err != nil {
		return nil, s.fail(Attempt{Way: WayDocument, URL: s.src.Given, Outcome: err.Error(), Err: err})
	}
	for _, a := range attemptsFor(given) {
		t := &trip{s: s}
		if !s.worthTrying(a) {
			continue
		}
		s.way = a.Way
		err := s.tryPlace(ctx, t, a)
		s.addTrip(t)
		if err == nil {
			if more := s.noticeCount.Load() - maxNotices; more > 0 {
				s.src.Notices = append(s.src.Notices, Notice{URI: s.src.Given, Msg: fmt.Sprintf("%d more notices about the documents of the Source", more)})
			}
			s.src.Way, a.Outcome = a.Way, "found"
			s.src.Tried = append(s.src.Tried, a)
			return s.src, nil
		}
		a.Outcome, a.Err = err.Error(), err
		if page := pageOf(err); page != nil {
			a.Page = page
		}
		if ctx.Err() != nil || endsSearch(err) {
			return nil, s.fail(a)
		}
		s.src.Tried = append(s.src.Tried, a)
	}
	return nil, &Error{Given: s.src.Given, Tried: s.src.Tried, Requests: s.src.Requests}
}

// worthTrying returns false if the search has already requested the URI of the attempt,
// or if the attempt needs the links of a page that could not be fetched.
func (s *search) worthTrying(a Attempt) bool {
	if a.Way == WayHeader || a.Way == WayHTML {
		return s.page != nil
	}
	was := s.requested[a.URL]
	s.requested[a.URL] = true
	return !was
}

func (s *search) tryPlace(ctx context.Context, t *trip, a Attempt) error {
	load := t.load
	switch a.Way {
	case WayDocument:
		load = func(ctx context.Context, uri string) (*doc, error) { return s.readGiven(ctx, t, uri) }
	case WayHeader:
		return s.followHeaders(ctx, t)
	case WayHTML:
		return s.followElements(ctx, t)
	case WayRobots:
		return s.followRobots(ctx, t, a.URL)
	}
	d, err := load(ctx, a.URL)
	if err != nil {
		return err
	}
	return s.setsBehind(ctx, t, d)
}

func (s *search) checkGiven() (*url.URL, error) {
	given, err := fetch.Parse(s.src.Given)
	if err != nil {
		return nil, err
	}
	for _, o := range s.f.AllowOrigins {
		u, err := fetch.Parse(o)
		if err != nil {
			return nil, err
		}
		s.allowed[fetch.Origin(u)] = true
	}
	s.src.Origin = fetch.Origin(given)
	s.src.Origins = []string{s.src.Origin}
	return given, nil
}

func (s *search) fail(last Attempt) error {
	return &Error{Given: s.src.Given, Tried: append(s.src.Tried, last), Requests: s.src.Requests}
}

// endsSearch reports whether an error ends the search: if a Source is broken or
// unavailable, the search must not use another Source instead.
func endsSearch(err error) bool {
	var none *notDocumentError
	var broken *brokenError
	var fe *fetch.Error
	switch {
	case errors.As(err, &none), errors.As(err, new(*nowhereError)):
		return false
	case errors.As(err, &broken):
		return true
	case errors.As(err, &fe):
		return fe.Kind == fetch.Temporary || fe.AllowPrivate != ""
	}
	return true
}

// attemptsFor returns the attempts in order. A URI that ends in a slash is a site or a
// part of a site, so its well-known URI comes first. Any other URI may be a document,
// so the search first requests the URI itself.
func attemptsFor(given *url.URL) []Attempt {
	at := func(path string) string {
		u := *given
		u.Path, u.RawPath, u.RawQuery, u.ForceQuery = path, "", "", false
		return u.String()
	}
	const wellKnown = "/.well-known/resourcesync"
	itself := given.String()
	page := []Attempt{{Way: WayDocument, URL: itself}, {Way: WayHeader, URL: itself}, {Way: WayHTML, URL: itself}}
	root := Attempt{Way: WayWellKnown, URL: at(wellKnown)}
	below := Attempt{Way: WayBelow, URL: at(strings.TrimRight(given.Path, "/") + wellKnown)}
	robots := Attempt{Way: WayRobots, URL: at("/robots.txt")}
	switch {
	case below.URL == root.URL:
		return append([]Attempt{root}, append(page, robots)...)
	case strings.HasSuffix(given.Path, "/"):
		return append([]Attempt{below}, append(page, root, robots)...)
	}
	return append(page, below, root, robots)
}
