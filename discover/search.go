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
	maxDocuments = 10_000   // largest number of documents read in one search
	maxUp        = 8        // largest number of up links followed from the given document
	atATime      = 4        // number of Capability Lists read concurrently
	maxKept      = 64 << 20 // memory for the entries of all documents, in bytes
	maxNotices   = 1_000    // number of notices listed; further ones are only counted
	maxMessage   = 1_000    // largest length of a notice in bytes
)

// search is one call of Find.
type search struct {
	f       Finder
	most    int
	left    atomic.Int64                       // number of documents that may still be read
	room    atomic.Int64                       // remaining bytes for entries
	told    atomic.Int64                       // notices
	allowed map[string]bool                    // origins that may be read besides the Source's own
	asked   map[string]bool                    // URIs with which a way began, or to which a way's first links led
	way     Way                                // the current way
	page    *page                              // the response for the given URI; nil if there was none
	called  map[string]resourcesync.Capability // capability that Source Descriptions state for a URI; set before the document at that URI is read
	src     *Source
}

// trip collects the results of one part of the search. It is used by a single
// goroutine.
type trip struct {
	s         *search
	notices   []Notice
	leftOut   error // reason why the first skipped entry was skipped
	passPlain bool  // skip plain Sitemaps after their header
	requests  int
}

// note records a notice. Beyond a limit it only counts notices, which bounds the
// memory.
func (t *trip) note(n Notice) {
	if t.s.told.Add(1) > maxNotices {
		return
	}
	n.Msg = cut(n.Msg, maxMessage)
	t.notices = append(t.notices, n)
}

// cut truncates a text from a Source to a number of bytes.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// join adds the results of t to the result.
func (s *search) join(t *trip) {
	s.src.Notices = append(s.src.Notices, t.notices...)
	s.src.Requests += t.requests
}

func newSearch(f Finder, given string) *search {
	s := &search{
		f:       f,
		most:    cmp.Or(max(f.MaxDocuments, 0), maxDocuments),
		allowed: map[string]bool{},
		asked:   map[string]bool{},
		called:  map[string]resourcesync.Capability{},
		src:     &Source{Given: given},
	}
	s.left.Store(int64(s.most))
	s.room.Store(maxKept)
	return s
}

func (s *search) run(ctx context.Context) (*Source, error) {
	given, err := s.start()
	if err != nil {
		return nil, s.fail(Attempt{Way: WayDocument, URL: s.src.Given, Outcome: err.Error(), Err: err})
	}
	for _, a := range ways(given) {
		t := &trip{s: s}
		if !s.due(a) {
			continue
		}
		s.way = a.Way
		err := s.look(ctx, t, a)
		s.join(t)
		if err == nil {
			if more := s.told.Load() - maxNotices; more > 0 {
				s.src.Notices = append(s.src.Notices, Notice{URI: s.src.Given, Msg: fmt.Sprintf("%d more notices on its documents", more)})
			}
			s.src.Way, a.Outcome = a.Way, "found"
			s.src.Tried = append(s.src.Tried, a)
			return s.src, nil
		}
		a.Outcome, a.Err = err.Error(), err
		if page := pageOf(err); page != nil {
			a.Page = page
		}
		if ctx.Err() != nil || ends(err) {
			return nil, s.fail(a)
		}
		s.src.Tried = append(s.src.Tried, a)
	}
	return nil, &Error{Given: s.src.Given, Tried: s.src.Tried, Requests: s.src.Requests}
}

// due reports whether a way still has to be tried. It returns false if a link has
// already led to the same URI, or if the page with the links could not be fetched.
func (s *search) due(a Attempt) bool {
	if a.Way == WayHeader || a.Way == WayHTML {
		return s.page != nil
	}
	was := s.asked[a.URL]
	s.asked[a.URL] = true
	return !was
}

// look tries a way.
func (s *search) look(ctx context.Context, t *trip, a Attempt) error {
	load := t.load
	switch a.Way {
	case WayDocument:
		load = func(ctx context.Context, uri string) (*doc, error) { return s.readGiven(ctx, t, uri) }
	case WayHeader:
		return s.byHeader(ctx, t)
	case WayHTML:
		return s.byHTML(ctx, t)
	case WayRobots:
		return s.byRobots(ctx, t, a.URL)
	}
	d, err := load(ctx, a.URL)
	if err != nil {
		return err
	}
	return s.from(ctx, t, d)
}

// start validates the input of the search.
func (s *search) start() (*url.URL, error) {
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

// ends reports whether an error ends the search: if a Source exists but is broken or
// unavailable, no other Source may be used instead.
func ends(err error) bool {
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

// ways lists where to search for the Source of a URI: the URI and its links, the
// well-known URIs, robots.txt. A URI that ends in a slash is a site, or a part of one
// that may have a well-known URI, which then comes first. Any other URI may be a
// document itself.
func ways(given *url.URL) []Attempt {
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
