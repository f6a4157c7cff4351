package ore

import (
	"bufio"
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"instep/document"
	"instep/fetch"
	"instep/internal/feed"
	"instep/internal/weblink"
	"instep/resourcesync"
)

type kind uint8

const (
	kindOther kind = iota
	kindPage
	kindMap
	kindSitemap
	kindFeed
	kindRepository // any response of an OAI-PMH repository, except a record
)

// answer is the content of a document: a map, or URIs that may lead to maps.
type answer struct {
	kind     kind
	m        *Map // the Resource Map; nil if the document is not a map
	leads    []lead
	problems []Problem
	notes    []string // messages about parts of the document that were skipped
}

// scan reads one document of a search for Resource Maps, and stores the result in doc.
type scan struct {
	uri    string
	served string // the Content-Type of the response, without parameters
	goal   goal
	site   string // the URL below which a Sitemap may list URLs; "" means the directory of the Sitemap
	in     Reader
	cut    bool // whether links were skipped because of maxLeads or maxPage
	doc    answer
}

func (s *scan) read(body io.Reader) error {
	b := bufio.NewReaderSize(body, kindBytes)
	head, err := b.Peek(kindBytes)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if s.served == "" {
		s.served = mediaType(http.DetectContentType(head))
	}
	switch s.doc.kind = s.recognise(head); s.doc.kind {
	case kindPage:
		return s.readPage(b)
	case kindMap:
		return s.readMap(b)
	case kindSitemap:
		return s.readSitemap(b)
	case kindFeed:
		return s.readFeed(b)
	case kindOther:
		if s.goal == toPage && bytes.Contains(bytes.ToLower(head), []byte(relMap)) {
			s.tell(Problem{Rule: ruleEmbedding, URI: s.uri, Message: "this resource is not an HTML page but contains the word resourcemap; there is no standard for links to maps in other formats"})
		}
	}
	return nil
}

// kindBytes is the number of bytes at the start of a document that are read to
// recognise its kind.
const kindBytes = 64 << 10

// oreVocabulary matches terms of ORE. A feed that has them before its first entry is a
// Resource Map, and not a list of maps.
var oreVocabulary = regexp.MustCompile(`openarchives\.org/ore/terms/(describes|Aggregation|ResourceMap)|scheme\s*=\s*["']http://www\.openarchives\.org/ore/terms/["']`)

// recognise returns the kind of a document by its root element. It uses the media type
// only if the root element does not show the kind, because servers often send a wrong
// media type.
func (s *scan) recognise(head []byte) kind {
	space, root := rootName(head)
	switch {
	case root == "urlset" || root == "sitemapindex", s.goal == toListing && bytes.HasPrefix(head, []byte("\x1f\x8b")):
		return kindSitemap // a list in gzip must be a Sitemap: feeds are never compressed in this way
	case root == "rss" && space == "":
		return kindFeed
	case space == nsOAI && root == "OAI-PMH" && bytes.Contains(head, []byte("GetRecord")) && !bytes.Contains(head, []byte("<error")):
		return kindMap
	case space == nsOAI && root == "OAI-PMH":
		return kindRepository
	case space == nsAtom && root == "entry", space == nsRDF && root == "RDF":
		return kindMap
	case space == nsAtom && root == "feed":
		if s.goal == toMap || s.goal == toAggregation || oreVocabulary.Match(beforeEntries(head)) {
			return kindMap
		}
		return kindFeed
	case s.served == "text/html" || s.served == "application/xhtml+xml":
		return kindPage
	case s.goal == toMap && strings.HasPrefix(http.DetectContentType(head), "text/html"):
		return kindPage // not a map: some servers send an HTML error page with the media type of the map
	case s.served == "application/ld+json", strings.HasSuffix(s.served, "/json") && bytes.Contains(head, []byte("@context")):
		return kindMap
	}
	return kindOther
}

// rootName returns the namespace and the name of the root element. They are empty if the
// start tag of this element does not end within head.
func rootName(head []byte) (space, local string) {
	if firstByte(head) != '<' {
		return "", ""
	}
	d := newDecoder(bytes.NewReader(head))
	start, err := root(d)
	if err != nil {
		return "", ""
	}
	return start.Name.Space, start.Name.Local
}

func beforeEntries(head []byte) []byte {
	if i := bytes.Index(head, []byte("entry>")); i >= 0 {
		return head[:i]
	}
	if i := bytes.Index(head, []byte("<entry")); i >= 0 {
		return head[:i]
	}
	return head
}

// tell stores a problem, unless maxProblems problems of its rule are already stored.
func (s *scan) tell(p Problem) {
	n := 0
	for i := range s.doc.problems {
		if s.doc.problems[i].Rule == p.Rule {
			n++
		}
	}
	if n < maxProblems {
		s.doc.problems = append(s.doc.problems, p)
	}
}

func (s *scan) note(format string, args ...any) {
	if len(s.doc.notes) < maxNotices {
		s.doc.notes = append(s.doc.notes, fmt.Sprintf(format, args...))
	}
}

// add stores a link to follow. It skips the link if the document has more than maxLeads
// links, or if the URI is too long.
func (s *scan) add(l lead) {
	const longestTime = 100
	if len(l.id) > fetch.MaxURL {
		l.id = ""
	}
	if len(l.updated) > longestTime {
		l.updated = l.updated[:longestTime]
	}
	if len(l.cites) > fetch.MaxURL {
		l.cites = ""
	}
	switch {
	case len(l.uri) > fetch.MaxURL:
		s.note("%s line %d: a URI of %d bytes is too long", s.uri, l.line, len(l.uri))
	case len(s.doc.leads) < maxLeads:
		s.doc.leads = append(s.doc.leads, l)
	case !s.cut:
		s.cut = true
		s.note("%s: the document has more than %d links; the rest is skipped", s.uri, maxLeads)
	}
}

func (s *scan) readMap(b io.Reader) error {
	m, err := s.in.Read(s.uri, b)
	if err != nil {
		return err
	}
	s.doc.m = m
	if m.Feed {
		s.tell(Problem{Rule: ruleSuperseded, URI: s.uri, Message: "the map is an Atom feed, as in the alpha of 2007; since version 1.0 a map is an Atom entry"})
	}
	return nil
}

func (s *scan) readPage(b *bufio.Reader) error {
	p := pageScan{uri: s.uri}
	in := &io.LimitedReader{R: b, N: maxPage}
	err := weblink.Walk(in, p.tag)
	if in.N == 0 {
		s.note("%s: only the first %d MiB of the page were read", s.uri, maxPage>>20)
		s.cut, err = true, nil
	}
	for _, l := range p.leads() {
		if q, ok := l.checkCite(); ok {
			s.tell(q)
		}
		s.add(l)
	}
	return err
}

func (s *scan) readSitemap(b io.Reader) error {
	at := s.uri
	if s.site != "" {
		at = s.site
	}
	in := document.Reader{Once: true, Entry: func(d *document.Document, e *resourcesync.Entry, err error) error {
		if err != nil {
			s.note("%s: %v", s.uri, err)
			return nil
		}
		s.addListed(at, e, d.Header.Root)
		return nil
	}}
	d, err := in.Take(s.uri, &fetch.Response{URL: s.uri, Body: io.NopCloser(b), ContentLength: -1})
	if err != nil {
		return err
	}
	d.Close()
	return nil
}

// addListed stores the URI in an entry of a Sitemap. The Sitemap may only list URLs in
// the directory of the URL base.
func (s *scan) addListed(base string, e *resourcesync.Entry, root resourcesync.Root) {
	l := lead{uri: newScope(s.uri).resolve(e.Loc), way: WaySitemap, page: s.uri, line: e.Line, optional: true}
	if root == resourcesync.SitemapIndex {
		l.goal = toListing
		s.add(l)
		return
	}
	if !inScope(base, l.uri) {
		s.tell(l.problem(ruleScope, "the URI %q is not below the directory of the Sitemap", l.uri))
	}
	if t := mediaType(e.Type); t != "" && !mayBeMap(t) {
		return
	}
	if !e.LastMod.IsZero() {
		l.updated = e.LastMod.String()
	}
	s.add(l)
}

func mayBeMap(t string) bool {
	return slices.Contains(mapTypes, t) || strings.HasSuffix(t, "xml") || strings.HasSuffix(t, "json")
}

func (s *scan) readFeed(b io.Reader) error {
	at := newScope(s.uri)
	h, err := feed.Read(&limitedReader{r: b, left: maxListing}, func(e *feed.Entry) error {
		l := lead{way: WayAtom, page: s.uri, line: e.Line, id: e.ID, updated: e.Updated, optional: true}
		href := e.Link("alternate")
		if e.Link(nsORE+"describes") != "" && e.Link("self") != "" {
			href, l.id = e.Link("self"), ""
		}
		if href == "" {
			return nil
		}
		l.uri = at.resolve(href)
		if l.id == l.uri {
			s.tell(l.problem(ruleEntryIsMap, "the id of the entry is the URI of the map: %q", l.id))
		}
		s.add(l)
		return nil
	})
	for i := range s.doc.leads {
		l := &s.doc.leads[i]
		if h.Kind == feed.RSS {
			l.way, l.id = WayRSS, ""
		}
		if l.uri == s.uri || h.Self != "" && l.uri == at.resolve(h.Self) {
			s.tell(l.problem(ruleSeparate, "the feed that lists maps lists itself"))
		}
	}
	if err != nil { // the links before the error are kept: the search follows them
		return fmt.Errorf("read %q: %w", s.uri, err)
	}
	return nil
}

// nowhere is the base URL of a file that has no URL. The host cannot exist (RFC 6761
// §6.4).
const nowhere = "http://file.invalid/"

// Inspect returns the problems of a document that the caller has fetched or opened. The
// parameter uri is a URL or the name of a file; rules about the URL of the document are
// not checked for a file. The parameter served is the media type; "" if it is unknown.
// Inspect returns an error if the document cannot be read.
func Inspect(uri, served string, body io.Reader) ([]Problem, error) {
	s := scan{uri: uri, served: mediaType(served), goal: toListing}
	if !isHTTP(uri) {
		s.uri = nowhere
	}
	err := s.read(body)
	if errors.Is(err, ErrNotMap) && s.doc.kind == kindMap && !errors.As(err, new(*xml.SyntaxError)) {
		err = nil // nothing to report: the rules apply only to maps
	}
	if s.uri == uri {
		return s.doc.problems, err
	}
	var found []Problem
	for _, p := range s.doc.problems {
		if p.Rule != ruleScope {
			p.URI, p.Entry = uri, strings.TrimPrefix(p.Entry, nowhere)
			found = append(found, p)
		}
	}
	return found, err
}
