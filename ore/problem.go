package ore

import (
	"fmt"
	"net/mail"
	"net/url"
	"strings"

	"instep/resourcesync"
)

// Problem is a violation of a rule by a document or a response.
type Problem struct {
	Rule    string // id of the rule, as in package lint
	URI     string // URI of the document
	Line    int    // line of the document, from 1; 0 if the problem is not in a line
	Entry   string // URI of the entry or link that has the problem; "" for the whole document
	Message string // description of the problem
}

// Ids of the rules, as in package lint.
const (
	ruleSuperseded    = "ore-superseded"
	ruleBeforeUse     = "ore-discover-before-use"
	ruleOAIIdentifier = "ore-oaipmh-identifier-differs"
	ruleOAIDatestamp  = "ore-oaipmh-datestamp-equals-updated"
	ruleLocSelf       = "ore-sitemap-loc-equals-self"
	ruleLocID         = "ore-sitemap-loc-not-feed-id"
	ruleLastmod       = "ore-sitemap-lastmod-equals-updated"
	ruleScope         = "ore-sitemap-path-scope"
	ruleSeparate      = "ore-feed-separate-from-rem"
	ruleEntryIsMap    = "ore-atom-entry-id-not-rem-uri"
	ruleEntryIsFeed   = "ore-atom-entry-id-not-feed-id"
	ruleEntrySelf     = "ore-atom-entry-link-equals-self"
	ruleEntryUpdated  = "ore-atom-entry-updated-equals"
	ruleItemID        = "ore-rss-link-not-feed-id"
	ruleItemSelf      = "ore-rss-link-equals-self"
	ruleItemUpdated   = "ore-rss-pubdate-equals-updated"
	ruleEnvelope      = "ore-oaipmh-strip-envelope"
	ruleLink          = "ore-html-link-resourcemap"
	ruleIndirect      = "ore-html-link-indirect"
	ruleAttribute     = "ore-html-resourcemap-attribute"
	ruleRel           = "ore-html-rel-resourcemap-uri"
	ruleCite          = "ore-cite-by-new-rem"
	ruleHeader        = "ore-http-link-resourcemap"
	ruleSimpleFile    = "ore-simple-files-not-recommended"
	ruleOnlyMap       = "ore-uri-r-only-rem"
	ruleNegotiated    = "ore-no-conneg-conflation"
	ruleSeeOther      = "ore-no-303-conflation"
	ruleEmbedding     = "ore-non-html-embedding-premature"
	maxProblems       = 100 // largest number of problems that are reported for one rule in one document
)

// problem returns a problem of the document that has the link, at the line of the link.
func (l *lead) problem(rule, format string, args ...any) Problem {
	return Problem{Rule: rule, URI: l.page, Line: l.line, Entry: l.uri, Message: clip(fmt.Sprintf(format, args...))}
}

// identification has the rules for one kind of list of maps: how an entry must name a
// map (the tables of ORE alpha §2). A rule is "" if there is none for this kind of
// list.
type identification struct {
	self, notID, idNotSelf, idNotID, time string
	what, when                            string // words for the URI and for the time of an entry, used in messages
}

var tables = map[Way]identification{
	WaySitemap: {self: ruleLocSelf, notID: ruleLocID, time: ruleLastmod, what: "loc", when: "lastmod"},
	WayAtom:    {self: ruleEntrySelf, idNotSelf: ruleEntryIsMap, idNotID: ruleEntryIsFeed, time: ruleEntryUpdated, what: "the link of the entry", when: "updated"},
	WayRSS:     {self: ruleItemSelf, notID: ruleItemID, time: ruleItemUpdated, what: "the link of the item", when: "pubDate"},
	WayOAIPMH:  {idNotSelf: ruleOAIIdentifier, idNotID: ruleOAIIdentifier, time: ruleOAIDatestamp, when: "datestamp"},
}

// check returns the contradictions between a map and the link or the entry of a list that
// leads to the map.
func (l *lead) check(m *Map) []Problem {
	var found []Problem
	tell := func(rule, format string, args ...any) {
		if rule != "" {
			found = append(found, l.problem(rule, format, args...))
		}
	}
	t := tables[l.way]
	isID := func(uri string) bool { return uri != "" && (uri == m.ID || uri == m.Aggregation.URI) }
	gateway := getRecord(l.uri) != ""
	switch {
	case gateway: // the URL of a gateway is not compared, because the map cannot state it
	case m.Self == "":
		tell(t.self, "the map %q has no self link; expected one that is equal to %s", l.uri, t.what)
	case m.Self != l.uri:
		tell(t.self, "%s is %q, and the self link of the map is %q", t.what, l.uri, m.Self)
	}
	if isID(l.uri) {
		tell(t.notID, "%s is the id of the Aggregation or of the map's feed, not the URI of the map: %q", t.what, l.uri)
	}
	if l.id != "" && l.id == m.Self && (t.idNotSelf != ruleEntryIsMap || l.id != l.uri) {
		tell(t.idNotSelf, "the id by which the map is listed is the URI of the map: %q", l.id)
	}
	if isID(l.id) {
		tell(t.idNotID, "the id by which the map is listed is the id of the Aggregation or of the map's feed: %q", l.id)
	}
	if p := l.checkTime(m, t); p != nil {
		found = append(found, *p)
	}
	return append(found, l.checkLink(m)...)
}

// checkTime returns a problem if a list and a map state different times of the last
// change. If the times have different precision, the lower precision is used for both.
func (l *lead) checkTime(m *Map, t identification) *Problem {
	if t.time == "" || l.updated == "" || m.Modified.IsZero() {
		return nil
	}
	d, err := l.time()
	if err != nil {
		p := l.problem(t.time, "%s is %q, which is not a valid time: %v", t.when, l.updated, err)
		return &p
	}
	if d.Before(m.Modified) || d.After(m.Modified) {
		p := l.problem(t.time, "%s is %s, and the map was updated %s", t.when, l.updated, m.Modified)
		return &p
	}
	return nil
}

func (l *lead) time() (resourcesync.Datetime, error) {
	if l.way != WayRSS {
		return resourcesync.ParseDatetime(strings.TrimSpace(l.updated))
	}
	t, err := mail.ParseDate(l.updated)
	if err != nil {
		return resourcesync.Datetime{}, err
	}
	return resourcesync.DatetimeOf(t), nil
}

// checkLink returns the contradictions between a map and the attributes of a link to the
// map.
func (l *lead) checkLink(m *Map) []Problem {
	var found []Problem
	tell := func(rule, format string, args ...any) { found = append(found, l.problem(rule, format, args...)) }
	rule := map[Way]string{WayLink: ruleLink, WayIndirect: ruleLink, WayHeader: ruleHeader}[l.way]
	switch want := m.Format.MediaType(); {
	case rule == "":
	case l.mime == "":
		tell(rule, "the link to the map has no type; expected type=%q", want)
	case l.mime != want:
		tell(rule, "the link to the map has type=%q; expected type=%q", l.mime, want)
	}
	if l.cites != "" && !m.Aggregates(l.cites) {
		tell(ruleCite, "the map does not aggregate %q, so it is not clear why the page cites the map; a map of the page itself could aggregate this resource", l.cites)
	}
	return found
}

// checkCite returns a problem if a page names a map in a way that ORE discourages.
func (l *lead) checkCite() (Problem, bool) {
	switch l.way {
	case WayAttribute:
		return l.problem(ruleAttribute, "the attribute resourcemap is not part of HTML, so it is only a hint"), true
	case WayRel:
		return l.problem(ruleRel, "the URI of the map is in the attribute rel, which few programs search for URIs"), true
	}
	return Problem{}, false
}

// inScope reports whether a Sitemap at base may list uri: both have the same scheme and
// host, and uri is in or below the directory of the Sitemap (ORE alpha §2.2).
func inScope(base, uri string) bool {
	b, err := url.Parse(base)
	if err != nil || b.Host == "" {
		return true
	}
	u, err := url.Parse(uri)
	if err != nil || u.Host == "" {
		return true // no problem of this rule: another rule reports invalid URIs
	}
	dir := b.Path[:strings.LastIndexByte("/"+b.Path, '/')]
	dir = strings.TrimSuffix(dir, "/") + "/"
	path := u.Path
	if path == "" {
		path = "/"
	}
	return strings.EqualFold(u.Scheme, b.Scheme) && strings.EqualFold(u.Host, b.Host) && strings.HasPrefix(path, dir)
}
