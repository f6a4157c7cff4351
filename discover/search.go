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
	room    atomic.Int64                       // number of bytes of memory that entries may still take
	told    atomic.Int64                       // notices
	allowed map[string]bool                    // origins that may be read besides the Source's own
	asked   map[string]bool                    // URIs at which the search has already looked for the Source
	way     Way                                // the current way
	page    *page                              // response for the URI given by the user; nil if there was none
	called  map[string]resourcesync.Capability // capability that Source Descriptions state for the document at a URI; set before that document is read
	src     *Source
}

// trip collects the notices and counts of one part of the search, so that several parts
// may run concurrently. A trip is used by one goroutine only.
type trip struct {
	s         *search
	notices   []Notice
	leftOut   error // reason why the first of the skipped entries was skipped
	passPlain bool  // whether the search reads only the header of plain Sitemaps
	requests  int
}

// note records a notice. To bound the memory, notices beyond a limit are only counted.
func (t *trip) note(n Notice) {
	if t.s.told.Add(1) > maxNotices {
		return
	}
	n.Msg = truncate(n.Msg, maxMessage)
	t.notices = append(t.notices, n)
}

func truncate(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

func (s *search) addTrip(t *trip) {
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
	given, err := s.checkGiven()
	if err != nil {
		return nil, s.fail(Attempt{Way: WayDocument, URL: s.src.Given, Outcome: err.Error(), Err: err})
	}
	for _, a := range places(given) {
		t := &trip{s: s}
		if !s.worthTrying(a) {
			continue
		}
		s.way = a.Way
		err := s.tryPlace(ctx, t, a)
		s.addTrip(t)
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
		if ctx.Err() != nil || endsSearch(err) {
			return nil, s.fail(a)
		}
		s.src.Tried = append(s.src.Tried, a)
	}
	return nil, &Error{Given: s.src.Given, Tried: s.src.Tried, Requests: s.src.Requests}
}

// worthTrying reports whether an attempt is still worthwhile. It returns false if the search
// has already looked at the same URI, or if the page whose links should be followed
// could not be fetched.
func (s *search) worthTrying(a Attempt) bool {
	if a.Way == WayHeader || a.Way == WayHTML {
		return s.page != nil
	}
	was := s.asked[a.URL]
	s.asked[a.URL] = true
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

// endsSearch reports whether an error ends the search. It does if a Source was found but is
// broken or unavailable, because no other Source may then be used in its place.
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

// places lists the places in which the search looks for the Source of a URI: the URI and
// its links, the well-known URIs, robots.txt. A URI that ends in a slash is a site or a
// part of one; for such a part the well-known URI below it comes first. Any other URI
// may itself be a document.
func places(given *url.URL) []Attempt {
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
