package ore

import (
	"net/url"
	"regexp"
	"slices"
	"strings"

	"instep/internal/weblink"
)

// Way is the kind of link or list in which a Resource Map was found.
type Way string

// Values of Way. ORE discourages the last two (ORE alpha §5).
const (
	WayGiven       Way = "given"          // the URI at which the search began is the map
	WaySitemap     Way = "sitemap"        // a Sitemap that lists maps, ORE alpha §2.2
	WayAtom        Way = "atom"           // an Atom feed that lists maps, §2.3
	WayRSS         Way = "rss"            // an RSS feed that lists maps, §2.3
	WayOAIPMH      Way = "oai-pmh"        // a record of an OAI-PMH repository, §2.1
	WayLink        Way = "html-link"      // link rel="resourcemap", §3.1
	WayIndirect    Way = "html-indirect"  // a link in a page that is itself linked with rel="indirectresourcemap", §3.1
	WayAttribute   Way = "html-attribute" // attribute "resourcemap" of an element "a" or "img", §3.2
	WayRel         Way = "html-rel"       // attribute rel="resourcemap=URI" of an element "a", §3.2
	WayText        Way = "html-text"      // a URI in the visible text of a page, §3.4
	WayHeader      Way = "link-header"    // Link: rel="resourcemap", §4.1
	WayAggregation Way = "aggregation"    // a link to an Aggregation: a request for its URI leads to the map (1.0 Discovery §1.2)
	WayMap         Way = "resource-map"   // a link in another Resource Map
	WaySimpleFile  Way = "simple-file"    // a link in a page that lists maps, §5.1
	WayConflated   Way = "conflated-uri"  // the URI returns the map or an HTML page, depending on the request, §5.2
)

// Discouraged reports whether ORE advises against publishing a map in this way.
func (w Way) Discouraged() bool { return w == WaySimpleFile || w == WayConflated }

// goal is the kind of document to which a link promises to lead.
type goal uint8

const (
	toMap         goal = iota // a Resource Map
	toPage                    // a page, or another resource, whose links lead to a map
	toListing                 // a feed, a Sitemap or an OAI-PMH repository
	toAggregation             // an Aggregation: a request for its URI leads to the map
)

// lead is a URI that may lead to a map.
type lead struct {
	uri   string
	way   Way
	goal  goal
	page  string // the URI of the document with the link
	line  int
	depth int // number of links from the start of the search to this URI

	optional bool   // whether the link may also lead to something else than a map
	indirect bool   // whether the link has rel="indirectresourcemap": then it leads to a page with a link to the map
	id       string // atom:id of the map in a feed that lists maps, or identifier of the OAI-PMH record
	updated  string // time of the last change of the map, as written in a feed, a Sitemap or an OAI-PMH header
	mime     string // attribute "type" of the link to the map
	site     string // for a Sitemap that robots.txt names: the URL below which the Sitemap may list URLs
	cites    string // "href" or "src" of the element "a" or "img" that names the map; the map should aggregate this resource
}

const (
	relMap      = "resourcemap"
	relIndirect = "indirectresourcemap"

	maxAnchors = 100     // largest number of links of one page that are followed because they look like links to maps
	maxTexts   = 50      // largest number of URIs in the text of one page that are followed
	maxLeads   = 10_000  // largest number of links of one document that are followed
	maxPage    = 4 << 20 // largest length in bytes that is read of one HTML page
)

// Link relations of ORE 1.0 that lead to a Resource Map or to an Aggregation.
var (
	relMaps         = []string{relMap, strings.ToLower(nsORE + "isDescribedBy")}
	relAggregations = []string{"aggregation", strings.ToLower(nsORE + "isAggregatedBy")}
)

var mapTypes = []string{"application/atom+xml", "application/rdf+xml", "application/ld+json"}

// size returns the estimated memory of a lead in bytes.
func (l *lead) size() int64 {
	const frame = 250
	return int64(frame + len(l.uri) + len(l.id) + len(l.updated) + len(l.cites) + len(l.mime))
}

// leadsOfLink returns the lead in a link, or none if the relation of the link has nothing
// to do with maps. The URI of the link must be absolute.
func leadsOfLink(l *weblink.Link, way Way, page string) []lead {
	base := lead{uri: l.Href, way: way, page: page, line: l.Line, mime: mediaType(l.Type)}
	switch {
	case l.Has(relIndirect):
		base.goal, base.indirect = toPage, true
	case hasAny(l, relMaps):
	case hasAny(l, relAggregations):
		base.goal, base.way = toAggregation, WayAggregation
	case l.Has("collection"):
		base.goal, base.way, base.optional = toAggregation, WayAggregation, true
	case l.Has("describedby") && slices.Contains(mapTypes, base.mime):
		base.optional = true
	case way == WayLink && l.Has("alternate") && isFeedType(base.mime), way == WayLink && l.Has("sitemap"):
		base.goal, base.optional = toListing, true
	default:
		return nil
	}
	return []lead{base}
}

func hasAny(l *weblink.Link, rels []string) bool { return slices.ContainsFunc(rels, l.Has) }

func isFeedType(mime string) bool {
	return mime == "application/atom+xml" || mime == "application/rss+xml"
}

func mediaType(s string) string {
	s, _, _ = strings.Cut(s, ";")
	return strings.ToLower(strings.TrimSpace(s))
}

type pageScan struct {
	uri  string
	page weblink.Page // has the base URL of the page; its other fields are not used

	links, cited, texts, anchors []lead

	anchor *lead // the link whose text is being read; nil outside of an element "a"
	words  strings.Builder
}

func (p *pageScan) tag(t *weblink.Tag) {
	switch t.Name {
	case "base":
		if p.page.Base == "" {
			p.page.Base = strings.TrimSpace(t.Attr("href"))
		}
	case "link":
		p.link(t)
	case "a", "img":
		p.element(t)
	case "input":
		p.text(t.Attr("value"), t.Line)
	case "":
		if p.anchor != nil && p.words.Len() < 200 {
			p.words.WriteString(t.Text)
		}
		p.text(t.Text, t.Line)
	}
}

// absolute resolves a reference in the page. It returns "" if the result is not an http or
// https URL.
func (p *pageScan) absolute(ref string) string {
	uri, err := p.page.Resolve(p.uri, ref)
	if err != nil || ref == "" || !isHTTP(uri) {
		return ""
	}
	return withoutFragment(uri)
}

func isHTTP(uri string) bool {
	return strings.HasPrefix(uri, "http://") || strings.HasPrefix(uri, "https://")
}

func withoutFragment(uri string) string {
	uri, _, _ = strings.Cut(uri, "#")
	return uri
}

func (p *pageScan) link(t *weblink.Tag) {
	l := weblink.Link{Href: p.absolute(t.Attr("href")), Rels: strings.Fields(strings.ToLower(t.Attr("rel"))), Type: t.Attr("type"), Line: t.Line}
	if l.Href != "" && len(p.links) < maxLeads {
		p.links = append(p.links, leadsOfLink(&l, WayLink, p.uri)...)
	}
}

// element stores the maps that an element "a" or "img" names in an attribute. Such a
// map should aggregate the target of the element.
func (p *pageScan) element(t *weblink.Tag) {
	p.endAnchor()
	target := p.absolute(t.Attr("href"))
	if t.Name == "img" {
		target = p.absolute(t.Attr("src"))
	}
	cite := func(ref string, way Way) {
		if uri := p.absolute(ref); uri != "" && len(p.cited) < maxLeads {
			p.cited = append(p.cited, lead{uri: uri, way: way, page: p.uri, line: t.Line, cites: target})
		}
	}
	cite(t.Attr("resourcemap"), WayAttribute)
	for _, rel := range strings.Fields(t.Attr("rel")) {
		if uri, ok := strings.CutPrefix(rel, relMap+"="); ok {
			cite(uri, WayRel)
		}
	}
	if t.Name == "a" && target != "" && len(p.anchors) < maxAnchors {
		p.anchor = &lead{uri: target, way: WaySimpleFile, page: p.uri, line: t.Line, optional: true, mime: mediaType(t.Attr("type"))}
		p.words.Reset()
	}
}

// mapName matches the usual texts of links to maps.
var mapName = regexp.MustCompile(`(?i)\bReMs?\b|resource ?maps?\b`)

var mapExtensions = []string{".atom", ".rdf", ".jsonld", ".rem", ".ore"}

// endAnchor stores the link of an element "a" if its text, media type or file extension
// is one of a map.
func (p *pageScan) endAnchor() {
	if p.anchor == nil {
		return
	}
	a := *p.anchor
	p.anchor = nil
	u, err := url.Parse(a.uri)
	if err != nil {
		return
	}
	path := strings.ToLower(u.Path)
	named := slices.ContainsFunc(mapExtensions, func(ext string) bool { return strings.HasSuffix(path, ext) })
	if named || slices.Contains(mapTypes, a.mime) || mapName.MatchString(p.words.String()) {
		p.anchors = append(p.anchors, a)
	}
}

var shownURI = regexp.MustCompile(`https?://[^\s<>"'\x60{}|\\^]+`)

func (p *pageScan) text(text string, line int) {
	if len(p.texts) >= maxTexts || !strings.Contains(text, "://") {
		return
	}
	for _, uri := range shownURI.FindAllString(text, maxTexts-len(p.texts)) {
		uri = withoutFragment(strings.TrimRight(uri, ".,;:!?)]"))
		if uri != p.uri {
			p.texts = append(p.texts, lead{uri: uri, way: WayText, page: p.uri, line: line, optional: true})
		}
	}
}

// leads returns the links of the page. Links in the recommended forms come first, so
// that they are followed first.
func (p *pageScan) leads() []lead {
	p.endAnchor()
	return slices.Concat(p.links, p.cited, p.texts, p.anchors)
}

// getRecord returns the GetRecord URL in the query of a gateway's URL (ORE alpha §2.4);
// "" if the query has none. If that URL is not escaped, it extends to the end of the
// query.
func getRecord(uri string) string {
	_, query, ok := strings.Cut(uri, "?")
	if !ok {
		return ""
	}
	for pair := range strings.SplitSeq(query, "&") {
		_, value, _ := strings.Cut(pair, "=")
		if whole, err := url.QueryUnescape(value); err == nil && whole != value && isRecordURI(whole) {
			return whole
		}
	}
	for _, scheme := range []string{"http://", "https://"} {
		if i := strings.Index(query, scheme); i >= 0 && isRecordURI(query[i:]) {
			return query[i:]
		}
	}
	return ""
}

func isRecordURI(uri string) bool {
	u, err := url.Parse(uri)
	return err == nil && isHTTP(uri) && u.Query().Get("verb") == "GetRecord"
}
