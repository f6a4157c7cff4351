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

// kind is the kind of a document, as recognised by its content.
type kind uint8

const (
	kindOther kind = iota
	kindPage
	kindMap
	kindSitemap
	kindFeed
	kindRepository // a response of an OAI-PMH repository that is not a record
)

// answer is the result of reading a document: a map, or URIs that may lead to maps.
type answer struct {
	kind     kind
	m        *Map // the map; only if kind is kindMap
	leads    []lead
	problems []Problem
	notes    []string // messages about parts of the document that were skipped
}

// scan has what is needed to read one document during a search, and the result.
type scan struct {
	uri    string
	served string // the media type that the response states
	goal   goal
	site   string // the URL below which a Sitemap may list URLs; "" means the directory of the Sitemap
	in     Reader
	cut    bool // whether leads were skipped because there were more than maxLeads
	doc    answer
}

// read recognises the kind of a document. Then it reads the map, or collects the leads
// (URIs that may lead to maps).
func (s *scan) read(body io.Reader) error {
	b := bufio.NewReaderSize(body, headSize)
	head, err := b.Peek(headSize)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if s.served == "" {
		s.served = mediaType(http.DetectContentType(head))
	}
	switch s.doc.kind = s.recognise(head); s.doc.kind {
	case kindPage:
		return s.page(b)
	case kindMap:
		return s.mapped(b)
	case kindSitemap:
		return s.sitemap(b)
	case kindFeed:
		return s.feed(b)
	case kindOther:
		if s.goal == toPage && bytes.Contains(bytes.ToLower(head), []byte(relMap)) {
			s.tell(Problem{Rule: ruleEmbedding, URI: s.uri, Message: "this resource is not an HTML page but contains the word resourcemap; there is no standard for links to maps in other formats"})
		}
	}
	return nil
}

// headSize is the number of bytes at the start of a document by which its kind is
// recognised.
const headSize = 64 << 10

// marked matches text of the vocabulary of ORE. A feed that has such text before its first
// entry is a Resource Map itself.
var marked = regexp.MustCompile(`openarchives\.org/ore/terms/(describes|Aggregation|ResourceMap)|scheme\s*=\s*["']http://www\.openarchives\.org/ore/terms/["']`)

// recognise returns the kind of a document. It decides by the root element or, if that is
// not enough, by the media type.
func (s *scan) recognise(head []byte) kind {
	space, root := rootName(head)
	switch {
	case root == "urlset" || root == "sitemapindex", s.goal == toListing && bytes.HasPrefix(head, []byte("\x1f\x8b")):
		return kindSitemap // assumed for every document compressed with gzip, since feeds are not
	case root == "rss" && space == "":
		return kindFeed
	case space == nsOAI && root == "OAI-PMH" && bytes.Contains(head, []byte("GetRecord")) && !bytes.Contains(head, []byte("<error")):
		return kindMap
	case space == nsOAI && root == "OAI-PMH":
		return kindRepository
	case space == nsAtom && root == "entry", space == nsRDF && root == "RDF":
		return kindMap
	case space == nsAtom && root == "feed":
		if s.goal == toMap || s.goal == toAggregation || marked.Match(beforeEntries(head)) {
			return kindMap
		}
		return kindFeed
	case s.served == "text/html" || s.served == "application/xhtml+xml":
		return kindPage
	case s.goal == toMap && strings.HasPrefix(http.DetectContentType(head), "text/html"):
		return kindPage // HTML instead of a map is recognised even if the response states another media type
	case s.served == "application/ld+json", strings.HasSuffix(s.served, "/json") && bytes.Contains(head, []byte("@context")):
		return kindMap
	}
	return kindOther
}

// rootName returns the name of the root element, if its start tag is within the given
// first bytes of the document.
func rootName(head []byte) (space, local string) {
	if first(head) != '<' {
		return "", ""
	}
	d := newDecoder(bytes.NewReader(head))
	start, err := root(d)
	if err != nil {
		return "", ""
	}
	return start.Name.Space, start.Name.Local
}

// beforeEntries returns the part of a feed before its first entry.
func beforeEntries(head []byte) []byte {
	if i := bytes.Index(head, []byte("entry>")); i >= 0 {
		return head[:i]
	}
	if i := bytes.Index(head, []byte("<entry")); i >= 0 {
		return head[:i]
	}
	return head
}

// tell stores a problem, unless there are already many problems with the same rule.
func (s *scan) tell(p Problem) {
	n := 0
	for i := range s.doc.problems {
		if s.doc.problems[i].Rule == p.Rule {
			n++
		}
	}
	if n < mostProblems {
		s.doc.problems = append(s.doc.problems, p)
	}
}

func (s *scan) note(format string, args ...any) {
	if len(s.doc.notes) < maxNotices {
		s.doc.notes = append(s.doc.notes, fmt.Sprintf(format, args...))
	}
}

// add stores a lead (a URI that may lead to a map). If there are already maxLeads, or if
// the URI is very long, it skips the lead and stores a note.
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

// mapped reads a document that was recognised as a map.
func (s *scan) mapped(b io.Reader) error {
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

// page collects the leads (URIs that may lead to maps) in an HTML page.
func (s *scan) page(b *bufio.Reader) error {
	p := pageScan{uri: s.uri}
	in := &io.LimitedReader{R: b, N: maxPage}
	err := weblink.Walk(in, p.tag)
	if in.N == 0 {
		s.note("%s: only the first %d MiB of the page were read", s.uri, maxPage>>20)
		err = nil
	}
	for _, l := range p.leads() {
		if q, ok := l.checkCite(); ok {
			s.tell(q)
		}
		s.add(l)
	}
	return err
}

// sitemap collects the leads (URIs that may lead to maps) in a Sitemap or an index of
// Sitemaps.
func (s *scan) sitemap(b io.Reader) error {
	at := s.uri
	if s.site != "" {
		at = s.site
	}
	in := document.Reader{Once: true, Entry: func(d *document.Document, e *resourcesync.Entry, err error) error {
		if err != nil {
			s.note("%s: %v", s.uri, err)
			return nil
		}
		s.listed(at, e, d.Header.Root)
		return nil
	}}
	d, err := in.Take(s.uri, &fetch.Response{URL: s.uri, Body: io.NopCloser(b), ContentLength: -1})
	if err != nil {
		return err
	}
	d.Close()
	return nil
}

// listed adds the lead in an entry of a Sitemap. The given URL is the one below whose
// directory the Sitemap may list URLs.
func (s *scan) listed(at string, e *resourcesync.Entry, root resourcesync.Root) {
	l := lead{uri: newScope(s.uri).resolve(e.Loc), way: WaySitemap, page: s.uri, line: e.Line, maybe: true}
	if root == resourcesync.SitemapIndex {
		l.goal = toListing
		s.add(l)
		return
	}
	if !inScope(at, l.uri) {
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

// mayBeMap reports whether a document with the media type t may be a map.
func mayBeMap(t string) bool {
	return slices.Contains(mapTypes, t) || strings.HasSuffix(t, "xml") || strings.HasSuffix(t, "json")
}

// feed collects the leads (URIs that may lead to maps) in a feed that lists maps.
func (s *scan) feed(b io.Reader) error {
	at := newScope(s.uri)
	h, err := feed.Read(b, func(e *feed.Entry) error {
		l := lead{way: WayAtom, page: s.uri, line: e.Line, id: e.ID, updated: e.Updated, maybe: true}
		href := e.Link("alternate")
		if e.Link(nsORE+"describes") != "" && e.Link("self") != "" {
			// If an entry of such a feed is itself a map, as since version 1.0, its id is
			// that of the map, and does not identify something else.
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
	if err != nil { // the entries before the error are used
		return fmt.Errorf("read %q: %w", s.uri, err)
	}
	return nil
}

// nowhere is used as the base URL of a document without a URI. Its host can never exist
// (RFC 6761 §6.4).
const nowhere = "http://file.invalid/"

// Inspect checks a document that was not fetched, such as a file, and returns the
// problems that it finds. The parameter uri may also be the name of a file; rules about
// the URI of the document are then not checked. The parameter served is the media type,
// or "" if that is unknown. The error is the reason why the document cannot be read.
func Inspect(uri, served string, body io.Reader) ([]Problem, error) {
	s := scan{uri: uri, served: mediaType(served), goal: toListing}
	if !isHTTP(uri) {
		s.uri = nowhere
	}
	err := s.read(body)
	if errors.Is(err, ErrNotMap) && s.doc.kind == kindMap && !errors.As(err, new(*xml.SyntaxError)) {
		err = nil // not an error, since there are no rules for documents of other kinds
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
