package ore

import (
	"net/url"
	"regexp"
	"slices"
	"strings"

	"instep/internal/weblink"
)

// Way is the way by which a Resource Map was found.
type Way string

// Values of Way. The last two are discouraged (ORE alpha §5).
const (
	WayGiven       Way = "given"          // the URI given to the search
	WaySitemap     Way = "sitemap"        // a Sitemap that lists maps, ORE alpha §2.2
	WayAtom        Way = "atom"           // an Atom feed that lists maps, §2.3
	WayRSS         Way = "rss"            // an RSS feed that lists maps, §2.3
	WayOAIPMH      Way = "oai-pmh"        // a record of an OAI-PMH repository, §2.1
	WayLink        Way = "html-link"      // link rel="resourcemap", §3.1
	WayIndirect    Way = "html-indirect"  // a link in a page to which another page links with rel="indirectresourcemap", §3.1
	WayAttribute   Way = "html-attribute" // the attribute resourcemap of an a or img element, §3.2
	WayRel         Way = "html-rel"       // rel="resourcemap=URI" on an a element, §3.2
	WayText        Way = "html-text"      // a URI in the visible text of a page, §3.4
	WayHeader      Way = "link-header"    // Link: rel="resourcemap", §4.1
	WayAggregation Way = "aggregation"    // a link to an Aggregation, whose URI leads to the map (1.0 Discovery §1.2)
	WayMap         Way = "resource-map"   // a link to this map in another map
	WaySimpleFile  Way = "simple-file"    // a page that lists maps, §5.1
	WayConflated   Way = "conflated-uri"  // a URI that returns the map or an HTML page, depending on the request, §5.2
)

// Discouraged reports whether the ORE alpha advises against this way of publishing a
// map.
func (w Way) Discouraged() bool { return w == WaySimpleFile || w == WayConflated }

// goal is what a lead (a URI that may lead to a map) promises about its target.
type goal uint8

const (
	toMap         goal = iota // a Resource Map
	toPage                    // a page, or another resource, whose links lead to a map
	toListing                 // a feed, a Sitemap or an OAI-PMH repository
	toAggregation             // an Aggregation, whose URI leads to its map
)

// lead is a URI that may lead to a map.
type lead struct {
	uri   string
	way   Way
	goal  goal
	page  string // the URI of the document in which the lead is
	line  int
	depth int // the number of links from the given URI to this one

	maybe    bool   // whether the target need not be a map, so that it is no problem if it is not
	indirect bool   // whether the link has rel="indirectresourcemap" and leads to another page
	id       string // the id of the map in a list of maps: its atom:id, or its OAI-PMH identifier
	updated  string // the time of the map in a list of maps, as it is written there
	mime     string // the media type that the link states for the map
	site     string // for a Sitemap that robots.txt names: the URL of the site, below which the Sitemap may list URLs
	cites    string // the resource for which the page names the map: the target of the a or img element; the map should aggregate it
}

const (
	relMap      = "resourcemap"
	relIndirect = "indirectresourcemap"

	maxAnchors = 100     // largest number of links in one page that are followed because they look like links to maps
	maxTexts   = 50      // largest number of URIs in the text of one page that are followed
	maxLeads   = 10_000  // largest number of leads in one document
	maxPage    = 4 << 20 // largest number of bytes that are read of one page
)

// relMaps are the link relations of ORE 1.0 that lead to a map, and relAggregations
// those that lead to an Aggregation.
var (
	relMaps         = []string{relMap, strings.ToLower(nsORE + "isDescribedBy")}
	relAggregations = []string{"aggregation", strings.ToLower(nsORE + "isAggregatedBy")}
)

// mapTypes are media types of maps.
var mapTypes = []string{"application/atom+xml", "application/rdf+xml", "application/ld+json"}

// size estimates how much memory a lead needs, in bytes.
func (l *lead) size() int64 {
	const frame = 250
	return int64(frame + len(l.uri) + len(l.id) + len(l.updated) + len(l.cites) + len(l.mime))
}

// linked returns the leads (URIs that may lead to a map) in a link element of a page or
// in a Link header field. The href of the link must be absolute.
func linked(l *weblink.Link, way Way, page string) []lead {
	base := lead{uri: l.Href, way: way, page: page, line: l.Line, mime: mediaType(l.Type)}
	switch {
	case l.Has(relIndirect):
		base.goal, base.indirect = toPage, true
	case hasAny(l, relMaps):
	case hasAny(l, relAggregations):
		base.goal, base.way = toAggregation, WayAggregation
	case l.Has("collection"):
		base.goal, base.way, base.maybe = toAggregation, WayAggregation, true
	case l.Has("describedby") && slices.Contains(mapTypes, base.mime):
		base.maybe = true
	case way == WayLink && l.Has("alternate") && isFeedType(base.mime), way == WayLink && l.Has("sitemap"):
		base.goal, base.maybe = toListing, true
	default:
		return nil
	}
	return []lead{base}
}

func hasAny(l *weblink.Link, rels []string) bool { return slices.ContainsFunc(rels, l.Has) }

func isFeedType(mime string) bool {
	return mime == "application/atom+xml" || mime == "application/rss+xml"
}

// mediaType returns a media type without parameters, in lower case.
func mediaType(s string) string {
	s, _, _ = strings.Cut(s, ";")
	return strings.ToLower(strings.TrimSpace(s))
}

// pageScan collects the leads (URIs that may lead to a map) in an HTML page.
type pageScan struct {
	uri  string
	page weblink.Page // the HTML page, which knows its base URL

	links, cited, texts, anchors []lead

	anchor *lead // the lead in the a element whose text is being read; nil outside such elements
	words  strings.Builder
}

// tag collects the leads in the next piece of a page: a tag, or the text between two
// tags.
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

// whole makes a reference in the page an absolute URI. It returns "" if the URI cannot be
// fetched.
func (p *pageScan) whole(ref string) string {
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
	l := weblink.Link{Href: p.whole(t.Attr("href")), Rels: strings.Fields(strings.ToLower(t.Attr("rel"))), Type: t.Attr("type"), Line: t.Line}
	if l.Href != "" && len(p.links) < maxLeads {
		p.links = append(p.links, linked(&l, WayLink, p.uri)...)
	}
}

// element collects the leads in an a or img element. An attribute of the element can name
// a map. That map should aggregate the resource to which the element links.
func (p *pageScan) element(t *weblink.Tag) {
	p.endAnchor()
	target := p.whole(t.Attr("href"))
	if t.Name == "img" {
		target = p.whole(t.Attr("src"))
	}
	cite := func(ref string, way Way) {
		if uri := p.whole(ref); uri != "" && len(p.cited) < maxLeads {
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
		p.anchor = &lead{uri: target, way: WaySimpleFile, page: p.uri, line: t.Line, maybe: true, mime: mediaType(t.Attr("type"))}
		p.words.Reset()
	}
}

// mapName matches texts that are usual in links to maps.
var mapName = regexp.MustCompile(`(?i)\bReMs?\b|resource ?maps?\b`)

// mapExtensions are usual extensions of the file names of maps.
var mapExtensions = []string{".atom", ".rdf", ".jsonld", ".rem", ".ore"}

// endAnchor is called at the end of an a element. If the element looks like a link to a
// map, it stores the lead.
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

// text collects the URIs in visible text.
func (p *pageScan) text(text string, line int) {
	if len(p.texts) >= maxTexts || !strings.Contains(text, "://") {
		return
	}
	for _, uri := range shownURI.FindAllString(text, maxTexts-len(p.texts)) {
		uri = withoutFragment(strings.TrimRight(uri, ".,;:!?)]"))
		if uri != p.uri {
			p.texts = append(p.texts, lead{uri: uri, way: WayText, page: p.uri, line: line, maybe: true})
		}
	}
}

// leads returns all leads of the page in the order in which to follow them: the
// recommended ways come first.
func (p *pageScan) leads() []lead {
	p.endAnchor()
	return slices.Concat(p.links, p.cited, p.texts, p.anchors)
}

// getRecord returns the URI of an OAI-PMH GetRecord request that is part of the query of
// a gateway's URI (ORE alpha §2.4). It returns "" if uri is not the URI of a gateway. The
// inner URI is either escaped, or unescaped and then extends to the end of the query.
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
