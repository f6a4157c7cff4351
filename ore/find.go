package ore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/url"
	"slices"
	"strings"

	"instep/fetch"
	"instep/internal/oaipmh"
	"instep/internal/weblink"
)

// Finder finds Resource Maps. Only Client is required. A Finder sends one request at a
// time. It follows links to any host, because maps may describe resources of other hosts;
// the Client can refuse private addresses.
type Finder struct {
	Client *fetch.Client
	Limits Limits // limits for reading each map

	Depth    int // the largest number of links from the given URI to a map; 0 means 10
	Requests int // the largest number of requests in a search; 0 means 20,000
	// Pages is the number of maps whose URI is also requested as HTML: ORE does not allow
	// an HTML page at the URI of a map. 0 means 100; a negative number means none.
	Pages int

	// Found is called once for each map. If it returns an error, the search ends.
	Found func(*Found) error
	// Problem is called for each violation of a rule; it may be nil.
	Problem func(Problem)
	// Note is called for each part of a document that was skipped, and for each invalid
	// part of a map; it may be nil.
	Note func(uri, text string)
	// Failed is called for each linked document that could not be read; it may be nil.
	Failed func(uri string, err error)
}

// Found is a Resource Map that was found.
type Found struct {
	URI   string // URI of the map
	Way   Way
	Page  string // the document with the link to the map; "" if the map is at the given URI
	Depth int    // the number of links from the given URI to the map

	// Record is the URI of the OAI-PMH record that contains the map, if a gateway
	// returned the map (ORE alpha §2.4).
	Record string
	Map    *Map
}

// Report is the summary of a search.
type Report struct {
	Maps   int64 // number of maps that were found
	Failed int64 // number of linked documents that could not be read
	TooFar int64 // number of links that were not followed because of Depth
	Cut    bool  // whether links were not followed because of a limit of requests, memory or links of a document
}

const (
	defaultDepth    = 10
	defaultRequests = 20_000
	defaultPages    = 100
	maxQueue        = 64 << 20 // largest memory in bytes for the queue of URIs to request
	maxListing      = 200 << 20
)

type search struct {
	f            Finder
	rep          Report
	queue        []lead
	seen         map[string]*target // results of earlier requests, by the URI without fragment
	freeBytes    int64              // bytes of memory that the queue may still use
	requestsLeft int                // number of requests that the search may still send
	pages        int
}

// target is the result of a request for a URI.
type target struct {
	kind     kind
	goal     goal // the kind of document to which the link promised to lead
	m        *Map // a short form of the Resource Map at the URI; nil if there is no map
	whole    bool // whether the field m has all aggregated resources
	err      error
	reported bool // whether the error was reported
}

// Find searches for Resource Maps. It starts at uri, which may be the URI of a map, a page,
// a resource, a feed, a Sitemap or an OAI-PMH repository. It skips linked documents that cannot be read. It
// returns an error if the given document cannot be read, if ctx is done, or if Found
// returns an error.
func (f Finder) Find(ctx context.Context, uri string) (Report, error) {
	u, err := fetch.Parse(uri)
	if err != nil {
		return Report{}, err
	}
	s := &search{f: f, seen: map[string]*target{}, freeBytes: maxQueue, requestsLeft: cmp.Or(max(f.Requests, 0), defaultRequests), pages: cmp.Or(f.Pages, defaultPages)}
	if err := s.visit(ctx, &lead{uri: u.String(), way: WayGiven, goal: toPage}); err != nil {
		return s.rep, err
	}
	if u.Path == "" || u.Path == "/" {
		s.pushSitemaps(ctx, u)
	}
	for len(s.queue) > 0 && ctx.Err() == nil {
		l := s.queue[0]
		s.queue = s.queue[1:]
		s.freeBytes += l.size()
		if s.requestsLeft <= 0 {
			s.rep.Cut = true
			break
		}
		err := s.visit(ctx, &l)
		if errors.As(err, new(*stopError)) {
			return s.rep, errors.Unwrap(err)
		}
		s.fetchFailed(ctx, &l, err)
	}
	return s.rep, ctx.Err()
}

// stopError is an error that the callback Found returned to end the search.
type stopError struct{ err error }

func (e *stopError) Error() string { return e.err.Error() }
func (e *stopError) Unwrap() error { return e.err }

// fetchFailed reports an error of a request. If the link does not promise a map, only a
// temporary error or a document that is too large counts as a failure.
func (s *search) fetchFailed(ctx context.Context, l *lead, err error) {
	switch {
	case err == nil || ctx.Err() != nil:
	case l.optional && !errors.Is(err, fetch.Temporary) && !errors.Is(err, ErrTooLarge):
		s.note(l.uri, err.Error())
	default:
		s.failed(l.uri, err)
	}
}

func (s *search) failed(uri string, err error) {
	s.rep.Failed++
	if s.f.Failed != nil {
		s.f.Failed(uri, err)
	}
}

func (s *search) note(uri, text string) {
	if s.f.Note != nil {
		s.f.Note(uri, text)
	}
}

func (s *search) tell(found ...Problem) {
	for _, p := range found {
		if s.f.Problem != nil {
			s.f.Problem(p)
		}
	}
}

func (s *search) visit(ctx context.Context, l *lead) error {
	l.uri = withoutFragment(l.uri)
	if t, ok := s.seen[l.uri]; ok && !t.mustReadAsList(l) {
		return s.revisit(l, t)
	}
	t := &target{goal: l.goal}
	s.seen[l.uri] = t
	t.err = s.request(ctx, l, t)
	t.reported = t.err != nil && !l.optional
	return t.err
}

// mustReadAsList reports whether the document was read as a map, but the link says that
// it is a list of maps.
func (t *target) mustReadAsList(l *lead) bool {
	return l.goal == toListing && t.goal == toMap && (t.kind == kindFeed || t.kind == kindSitemap)
}

func (s *search) request(ctx context.Context, l *lead, t *target) error {
	resp, err := s.get(ctx, l)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	doc, err := s.read(ctx, l, resp)
	if err != nil {
		return err
	}
	_ = resp.Body.Close() // now, because an open response may block the next request to the same host
	for _, n := range doc.notes {
		s.note(l.uri, n)
	}
	t.kind = doc.kind
	if doc.kind == kindMap {
		return s.mapFound(ctx, l, t, resp, doc)
	}
	s.tell(doc.problems...)
	return s.follow(ctx, l, doc)
}

// revisit handles a link to a URI that was requested before: it checks the link against
// the earlier result, and sends no request.
func (s *search) revisit(l *lead, t *target) error {
	switch {
	case t.m != nil:
		known := *l
		if !t.whole {
			known.cites = ""
		}
		s.tell(known.check(t.m)...)
	case l.goal == toPage && l.indirect:
		s.tell(l.problem(ruleIndirect, "the link leads back to the page %q, which was visited before", l.uri))
	case t.reported || l.optional:
	case t.err != nil:
		t.reported = true
		return t.err
	case l.goal == toMap && t.kind == kindFeed:
		s.tell(l.problem(ruleSeparate, "the link to a map leads to a feed that lists maps"))
	case l.goal == toMap && t.kind == kindPage:
		return s.pageAtMap(l)
	}
	return nil
}

func (s *search) pageAtMap(l *lead) error {
	s.tell(l.problem(ruleOnlyMap, "there is an HTML page at the URI of the map"))
	return fmt.Errorf("read %q: %w: it is an HTML page", l.uri, ErrNotMap)
}

const (
	acceptMap  = "application/atom+xml, application/rdf+xml, application/ld+json, application/xml;q=0.9, text/html;q=0.5, */*;q=0.1"
	acceptPage = "text/html, application/xhtml+xml, application/xml;q=0.8, */*;q=0.5"
)

func (s *search) get(ctx context.Context, l *lead) (*fetch.Response, error) {
	r := fetch.Request{URL: l.uri, Accept: acceptMap, MaxBytes: maxListing}
	if l.goal == toPage {
		r.MaxBytes = math.MaxInt64 // no limit, because even a large resource may have a useful Link header
		if l.way != WayGiven {
			r.Accept = acceptPage
		}
	}
	resp, err := s.f.Client.Get(ctx, r)
	var fe *fetch.Error
	switch {
	case err == nil:
		s.requestsLeft -= resp.Requests
	case errors.As(err, &fe):
		s.requestsLeft -= fe.Requests
	}
	return resp, err
}

func (s *search) read(ctx context.Context, l *lead, resp *fetch.Response) (*answer, error) {
	in := scan{
		uri: resp.URL, served: mediaType(resp.ContentType), goal: l.goal, site: l.site,
		in: Reader{Limits: s.f.Limits, Load: func(uri string) ([]byte, error) { return s.context(ctx, uri) }},
	}
	err := in.read(resp.Body)
	switch {
	case err == nil:
	case errors.Is(err, ErrNotMap) && l.goal == toPage && l.way == WayGiven && in.served != "":
		in.note("%v", err)
		in.doc.kind = kindOther
	case errors.Is(err, ErrNotMap):
		return nil, err
	default:
		if len(in.doc.leads) == 0 {
			return nil, err
		}
		if l.goal != toMap {
			s.failed(l.uri, fmt.Errorf("%w: only the part before the error was used", err))
		}
	}
	s.rep.Cut = s.rep.Cut || in.cut && l.goal != toMap // the links of a document are not followed if it should be a map
	if in.doc.kind == kindPage || l.goal != toMap {
		in.addHeaderLinks(resp)
	}
	return &in.doc, nil
}

func (s *scan) addHeaderLinks(resp *fetch.Response) {
	at := newScope(resp.URL)
	var found []lead
	for _, h := range weblink.Header(resp.Header.Values("Link")) {
		if h.Anchor != "" && withoutFragment(at.resolve(h.Anchor)) != withoutFragment(resp.URL) {
			continue // not a link of this resource: the "anchor" parameter names another one
		}
		if h.Href = withoutFragment(at.resolve(h.Href)); isHTTP(h.Href) {
			found = append(found, leadsOfLink(&h, WayHeader, resp.URL)...)
		}
	}
	s.doc.leads = append(found, s.doc.leads...)
}

func (s *search) context(ctx context.Context, uri string) ([]byte, error) {
	s.requestsLeft--
	return loadContext(ctx, s.f.Client, uri)
}

func loadContext(ctx context.Context, c *fetch.Client, uri string) ([]byte, error) {
	resp, err := c.Get(ctx, fetch.Request{URL: uri, Accept: "application/ld+json, application/json", MaxBytes: maxContext})
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}

const maxContext = 1 << 20 // largest JSON-LD context in bytes

// mapFound checks and reports a map, unless the same map was already found at another
// URI.
func (s *search) mapFound(ctx context.Context, l *lead, t *target, resp *fetch.Response, doc *answer) error {
	m := doc.m
	f := Found{URI: l.uri, Way: l.way, Page: l.page, Depth: l.depth, Record: getRecord(l.uri), Map: m}
	if len(resp.Redirects) > 0 {
		if other, ok := s.seen[withoutFragment(resp.URL)]; ok && other != t {
			t.kind, t.m, t.whole = other.kind, other.m, other.whole
			return s.revisit(l, other)
		}
		f.URI = resp.URL
		s.seen[withoutFragment(resp.URL)] = t
	}
	if self := selfOfRecord(m, resp.URL); self != "" {
		if other, ok := s.seen[self]; ok && other.m != nil {
			t.kind, t.m, t.whole = other.kind, other.m, other.whole
			return s.revisit(l, other)
		}
		s.seen[self] = t
	}
	s.tell(doc.problems...)
	if problems := s.checkConflation(ctx, l, resp); len(problems) > 0 {
		s.tell(problems...)
		f.Way = WayConflated
	}
	if m.Wrapped && l.way != WayOAIPMH && l.way != WayGiven {
		s.tell(l.problem(ruleEnvelope, "the link leads to an OAI-PMH record, which contains the map; it should lead to the map itself"))
	}
	if l.way == WaySimpleFile {
		s.tell(l.problem(ruleSimpleFile, "the map is linked only in a list of links; the pages that the map describes should link to it"))
	}
	s.tell(l.check(m)...)
	for _, n := range m.Notices {
		s.note(f.URI, n)
	}
	t.m, t.whole = m.summary()
	s.rep.Maps++
	if s.f.Found != nil {
		if err := s.f.Found(&f); err != nil {
			return &stopError{err}
		}
	}
	s.pushOtherMaps(l, m)
	return nil
}

// selfOfRecord returns the URI that a map in an OAI-PMH record states for itself. If
// this URI has another origin than the record, it returns "": a record must not pretend
// to be a map of another site.
func selfOfRecord(m *Map, at string) string {
	if !m.Wrapped || m.Self == "" {
		return ""
	}
	self, err := fetch.Parse(m.Self)
	if err != nil {
		return ""
	}
	record, err := fetch.Parse(at)
	if err != nil || fetch.Origin(self) != fetch.Origin(record) {
		return ""
	}
	return withoutFragment(self.String())
}

// pushOtherMaps queues other maps of the same Aggregation, and maps of Aggregations
// that the map aggregates.
func (s *search) pushOtherMaps(l *lead, m *Map) {
	named := slices.Clone(m.Aggregation.Maps)
	for i := range m.Resources {
		named = append(named, m.Resources[i].Maps...)
	}
	for _, uri := range named {
		s.push(l, lead{uri: uri, way: WayMap, page: l.uri})
	}
}

// push queues a lead that was found at the URI of another lead, parent. If the search is
// too deep or needs too much memory, push drops the lead and counts it in the Report.
func (s *search) push(parent *lead, next lead) {
	next.uri = withoutFragment(next.uri)
	next.depth = parent.depth + 1
	next.indirect = next.indirect || parent.indirect && parent.goal == toPage
	if next.way == WayLink && parent.indirect && next.goal == toMap {
		next.way = WayIndirect
	}
	switch {
	case !isHTTP(next.uri):
	case next.depth > cmp.Or(max(s.f.Depth, 0), defaultDepth):
		s.rep.TooFar++
	case s.freeBytes < next.size():
		s.rep.Cut = true
	default:
		s.freeBytes -= next.size()
		s.queue = append(s.queue, next)
	}
}

func (s *search) follow(ctx context.Context, l *lead, doc *answer) error {
	switch {
	case doc.kind == kindRepository && l.goal != toMap:
		return s.pushRecords(ctx, l)
	case doc.kind == kindPage && l.goal == toMap && !l.optional:
		return s.pageAtMap(l)
	case l.goal == toMap:
		return fmt.Errorf("read %q: %w", l.uri, ErrNotMap)
	case l.goal == toListing && doc.kind == kindPage:
		return fmt.Errorf("read %q: expected a feed or a Sitemap, found an HTML page", l.uri)
	}
	promises := 0
	for _, next := range doc.leads {
		if doc.kind == kindSitemap && next.goal == toListing {
			next.site = l.site
		}
		if !next.optional {
			promises++
		}
		s.push(l, next)
	}
	s.checkPromise(l, doc, promises)
	return nil
}

// checkPromise reports a problem if a link should lead to a document that links a map,
// but the document has no such link. The parameter promises is the number of links in
// the document that promise a map, or a page with a link to a map.
func (s *search) checkPromise(l *lead, doc *answer, promises int) {
	switch {
	case l.goal == toAggregation && !l.optional && promises == 0:
		s.tell(l.problem(ruleBeforeUse, "the link leads to an Aggregation, but the Aggregation leads to no Resource Map"))
	case l.goal != toPage || l.way == WayGiven:
	case promises == 0:
		s.tell(l.problem(ruleIndirect, "the page %q, which is linked with rel=%q, has no link to a map or to another page", l.uri, relIndirect))
	case doc.kind == kindPage && l.mime != "text/html" && l.mime != "application/xhtml+xml":
		s.tell(l.problem(ruleIndirect, "the link to the page has type=%q; expected type=\"text/html\"", l.mime))
	}
}

// checkConflation requests the URI of a map as HTML, and returns a problem if the
// response is a page: the URI must only return the map (ORE alpha §5.2). The URI of an
// Aggregation may return both, so it is not checked.
func (s *search) checkConflation(ctx context.Context, l *lead, resp *fetch.Response) []Problem {
	if l.goal == toAggregation || l.way == WayOAIPMH || l.way == WayGiven && len(resp.Redirects) > 0 {
		return nil
	}
	var found []Problem
	if slices.Contains(resp.Redirects, 303) {
		found = append(found, l.problem(ruleSeeOther, "the URI answers with status 303 and leads to the map %q, which should be linked directly", resp.URL))
	}
	if s.pages <= 0 || s.requestsLeft <= 0 {
		return found
	}
	s.pages--
	page, err := s.f.Client.Get(ctx, fetch.Request{URL: l.uri, Accept: "text/html, application/xhtml+xml;q=0.9, */*;q=0.1", MaxBytes: math.MaxInt64})
	s.requestsLeft--
	if err != nil {
		return found // no further problem, because no HTML page was returned
	}
	defer page.Body.Close()
	if t := mediaType(page.ContentType); t != "text/html" && t != "application/xhtml+xml" || mediaType(resp.ContentType) == t {
		return found
	}
	if len(found) == 0 {
		found = append(found, l.problem(ruleNegotiated, "the URI returns the map or an HTML page, depending on the Accept header field"))
	}
	return append(found, l.problem(ruleOnlyMap, "a request for text/html returns an HTML page instead of the map"))
}

// pushSitemaps queues the Sitemaps in the robots.txt of a host (ORE alpha §2.2).
func (s *search) pushSitemaps(ctx context.Context, host *url.URL) {
	origin := fetch.Origin(host)
	from := &lead{uri: origin + "/robots.txt"}
	resp, err := s.f.Client.Get(ctx, fetch.Request{URL: from.uri, Accept: "text/plain, */*;q=0.1", MaxBytes: maxPage})
	s.requestsLeft--
	if err != nil {
		return // robots.txt is optional
	}
	defer resp.Body.Close()
	lines, err := weblink.Robots(resp.Body, maxPage)
	if err != nil {
		s.note(from.uri, err.Error())
		return
	}
	at := newScope(resp.URL)
	for _, line := range lines {
		s.push(from, lead{uri: at.resolve(line.URI), way: WaySitemap, goal: toListing, page: from.uri, line: line.Line, site: origin + "/"})
	}
}

// pushRecords queues the records of an OAI-PMH repository that contain maps (ORE alpha
// §2.1).
func (s *search) pushRecords(ctx context.Context, l *lead) error {
	base := repositoryOf(l.uri)
	c := oaipmh.Client{Fetch: s.f.Client, BaseURL: base}
	left := s.requestsLeft
	defer func() { s.requestsLeft = left - c.Requests }()
	formats, err := c.Formats(ctx)
	if err != nil {
		return fmt.Errorf("read the repository %q: %w", base, err)
	}
	for _, format := range formats {
		if !isMapFormat(format) {
			continue
		}
		for h, err := range c.Headers(ctx, oaipmh.Selection{Prefix: format.Prefix}) {
			if err != nil {
				return fmt.Errorf("read the repository %q: %w", base, err)
			}
			if c.Requests > left || s.freeBytes < maxQueue/100 {
				s.rep.Cut = true
				return nil
			}
			if !h.Deleted {
				s.push(l, lead{uri: recordURI(base, format.Prefix, h.Identifier), way: WayOAIPMH, page: l.uri, id: h.Identifier, updated: h.Datestamp.String()})
			}
		}
	}
	return nil
}

// repositoryOf returns the base URL of an OAI-PMH repository: it removes the arguments
// of OAI-PMH from the URI of a request.
func repositoryOf(uri string) string {
	base, query, _ := strings.Cut(uri, "?")
	var own []string
	for arg := range strings.SplitSeq(query, "&") {
		switch name, _, _ := strings.Cut(arg, "="); name {
		case "", "verb", "identifier", "metadataPrefix", "from", "until", "set", "resumptionToken":
		default:
			own = append(own, arg)
		}
	}
	if len(own) == 0 {
		return base
	}
	return base + "?" + strings.Join(own, "&")
}

func recordURI(base, prefix, identifier string) string {
	sep := "?"
	if strings.Contains(base, "?") {
		sep = "&"
	}
	return base + sep + url.Values{"verb": {"GetRecord"}, "metadataPrefix": {prefix}, "identifier": {identifier}}.Encode()
}

// isMapFormat reports whether records in an OAI-PMH metadata format are Resource Maps.
// It also accepts the usual prefixes, because many repositories do not state the
// namespace of ORE.
func isMapFormat(f oaipmh.Format) bool {
	switch f.Namespace {
	case nsAtom, nsORE, nsOREAtom:
		return true
	}
	prefix := strings.ToLower(f.Prefix)
	return prefix == "ore" || slices.ContainsFunc([]string{"rem", "oai_rem", "oai_ore", "ore_"}, func(p string) bool { return strings.HasPrefix(prefix, p) })
}

// Show fetches and reads the Resource Map at a URI.
func Show(ctx context.Context, c *fetch.Client, uri string, l Limits) (*Map, error) {
	resp, err := c.Get(ctx, fetch.Request{URL: uri, Accept: acceptMap, MaxBytes: l.bytes()})
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	r := Reader{Limits: l, Load: func(uri string) ([]byte, error) { return loadContext(ctx, c, uri) }}
	return r.Read(resp.URL, resp.Body)
}
