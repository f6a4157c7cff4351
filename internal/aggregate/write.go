package aggregate

import (
	"cmp"
	"context"
	"encoding/xml"
	"io"
	"iter"
	"slices"
	"strings"
	"time"

	"instep/ore"
	"instep/resourcesync"
	"instep/source"
)

// Names of the documents that list the maps.
const (
	sitemapName = "sitemap.xml"
	atomName    = "maps.atom"
	rssName     = "maps.rss"
)

const (
	maxFeed  = 1_000 // maximum number of maps in a feed, which lists the newest ones
	maxLinks = 100   // maximum number of maps to which an HTML page links
)

const typeAggregation = "http://www.openarchives.org/ore/terms/Aggregation"

// Maps returns the Resource Maps of the members, and the documents that list them.
func (g *Grouping) Maps(ctx context.Context) *source.Maps {
	return &source.Maps{All: g.mapSeq(ctx), Lists: g.lists(), Links: g.links}
}

func (g *Grouping) mapSeq(ctx context.Context) iter.Seq2[source.Map, error] {
	return func(yield func(source.Map, error) bool) {
		if g.tooMany {
			g.o.Note("there are more than %d aggregations, and the rest get no Resource Map: use rules that make fewer aggregations", maxAggregations)
		}
		for of, err := range g.groups(ctx) {
			switch {
			case err != nil:
				yield(source.Map{}, err)
				return
			case !of.fits():
				g.o.Note("aggregation %q has %d resources, more than a Resource Map can hold, so it gets no Resource Map: use rules that make smaller aggregations", of.Name, of.n)
			case !yield(g.resourceMap(of), nil):
				return
			}
		}
	}
}

// resourceMap returns the Resource Map of an Aggregation in Atom, and also in JSON-LD
// unless the JSON-LD map would be too large for programs that read it.
func (g *Grouping) resourceMap(of *group) source.Map {
	m := source.Map{Name: of.Key, Sum: source.Sum(of.sum), Files: []source.MapFile{g.file(of, ore.FormatAtom)}}
	if of.jsonBytes <= maxJSONBytes {
		m.Files = append(m.Files, g.file(of, ore.FormatJSONLD))
	}
	return m
}

var extensions = map[ore.Format]string{ore.FormatAtom: mapExtension, ore.FormatJSONLD: ".jsonld"}

func (g *Grouping) file(of *group, f ore.Format) source.MapFile {
	uri := func(f ore.Format) string { return source.MapURI(g.o.BaseURL, g.o.Set, of.Key+extensions[f]) }
	return source.MapFile{Name: of.Key + extensions[f], Write: func(w io.Writer, changed time.Time) error {
		m := ore.Map{
			URI: uri(f), Creators: []string{g.o.Creator}, Modified: resourcesync.DatetimeOf(changed),
			Aggregation: ore.Aggregation{URI: of.URI(g.o.BaseURL, g.o.Set), Title: of.Title, Types: []string{typeAggregation}},
		}
		if of.Creator != "" {
			m.Aggregation.Creators = []string{of.Creator}
		}
		for _, other := range []ore.Format{ore.FormatAtom, ore.FormatJSONLD} {
			if other != f && (other == ore.FormatAtom || of.jsonBytes <= maxJSONBytes) {
				m.Aggregation.Maps = []string{uri(other)}
			}
		}
		return m.WriteStream(w, f, of.resources)
	}}
}

func (of *group) resources(yield func(*ore.Resource, error) bool) {
	for m, err := range of.members.All() {
		if !yield(&ore.Resource{URI: m.URI, MediaType: m.Type, Modified: m.Modified}, err) || err != nil {
			return
		}
	}
}

func (g *Grouping) lists() []source.MapList {
	return []source.MapList{{Name: sitemapName, Write: g.sitemap}, {Name: atomName, Write: g.atom}, {Name: rssName, Write: g.rss}}
}

func mapFiles(all []source.MapState) iter.Seq2[string, *source.MapState] {
	return func(yield func(string, *source.MapState) bool) {
		for i := range all {
			for _, uri := range all[i].Files {
				if !yield(uri, &all[i]) {
					return
				}
			}
		}
	}
}

func (g *Grouping) sitemap(w io.Writer, all []source.MapState, _ time.Time) error {
	enc, err := resourcesync.NewEncoder(w, resourcesync.Header{})
	if err != nil {
		return err
	}
	for uri, m := range mapFiles(all) {
		if err := enc.Encode(resourcesync.Entry{Loc: uri, LastMod: resourcesync.DatetimeOf(m.Changed)}); err != nil {
			return err
		}
	}
	return enc.Close()
}

func newest(all []source.MapState) []source.MapState {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b source.MapState) int { return cmp.Compare(b.Changed.Unix(), a.Changed.Unix()) })
	return all[:min(len(all), maxFeed)]
}

// Elements of an Atom feed (RFC 4287).
type atomFeed struct {
	XMLName xml.Name    `xml:"http://www.w3.org/2005/Atom feed"`
	ID      string      `xml:"id"`
	Title   string      `xml:"title"`
	Updated string      `xml:"updated"`
	Author  atomPerson  `xml:"author"`
	Link    atomLink    `xml:"link"`
	Entries []atomEntry `xml:"entry"`
}

type atomPerson struct {
	Name string `xml:"name"`
}

type atomLink struct {
	Rel  string `xml:"rel,attr"`
	Href string `xml:"href,attr"`
	Type string `xml:"type,attr,omitempty"`
}

type atomEntry struct {
	ID      string   `xml:"id"`
	Title   string   `xml:"title"`
	Updated string   `xml:"updated"`
	Link    atomLink `xml:"link"`
}

// atom writes the Atom feed. The "id" of an entry must differ from the URIs of the map and
// its Aggregation (ORE alpha §2.3).
func (g *Grouping) atom(w io.Writer, all []source.MapState, changed time.Time) error {
	self := source.MapURI(g.o.BaseURL, g.o.Set, atomName)
	f := atomFeed{
		ID: self + "#feed", Title: g.feedTitle(), Updated: resourcesync.DatetimeOf(changed).String(), Author: atomPerson{g.o.Creator},
		Link: atomLink{"self", self, ore.FormatAtom.MediaType()},
	}
	for uri, m := range mapFiles(newest(all)) {
		f.Entries = append(f.Entries, atomEntry{
			ID: uri + "#listed", Title: g.title(m), Updated: resourcesync.DatetimeOf(m.Changed).String(),
			Link: atomLink{"alternate", uri, mediaType(uri)},
		})
	}
	return encode(w, f)
}

// Elements of RSS 2.0.
type rssFeed struct {
	XMLName xml.Name `xml:"rss"`
	Version string   `xml:"version,attr"`
	Channel struct {
		Title       string    `xml:"title"`
		Link        string    `xml:"link"`
		Description string    `xml:"description"`
		Changed     string    `xml:"lastBuildDate"`
		Items       []rssItem `xml:"item"`
	} `xml:"channel"`
}

type rssItem struct {
	Title   string  `xml:"title"`
	Link    string  `xml:"link"`
	GUID    rssGUID `xml:"guid"`
	PubDate string  `xml:"pubDate"`
}

type rssGUID struct {
	Permanent bool   `xml:"isPermaLink,attr"`
	ID        string `xml:",chardata"`
}

// rssTime is the RFC 822 layout with a four-digit year, as RSS 2.0 requires.
const rssTime = "Mon, 02 Jan 2006 15:04:05 GMT"

func (g *Grouping) rss(w io.Writer, all []source.MapState, changed time.Time) error {
	f := rssFeed{Version: "2.0"}
	f.Channel.Title, f.Channel.Description = g.feedTitle(), "Which resources belong together"
	f.Channel.Link, f.Channel.Changed = source.AboutURI(g.o.BaseURL), changed.UTC().Format(rssTime)
	for uri, m := range mapFiles(newest(all)) {
		f.Channel.Items = append(f.Channel.Items, rssItem{g.title(m), uri, rssGUID{false, uri + "#listed"}, m.Changed.UTC().Format(rssTime)})
	}
	return encode(w, f)
}

func encode(w io.Writer, v any) error {
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	if err := e.Encode(v); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func (g *Grouping) feedTitle() string { return "Resource Maps of " + g.o.Title }

func (g *Grouping) title(m *source.MapState) string { return g.sizes[m.Name].Title }

func mediaType(uri string) string {
	for f, extension := range extensions {
		if strings.HasSuffix(uri, extension) {
			return f.MediaType()
		}
	}
	return ""
}

// links returns the link elements for the HTML pages: to the feeds and, if there are at
// most maxLinks maps, to each map (ORE alpha §3.1).
func (g *Grouping) links(all []source.MapState) []source.PageLink {
	links := []source.PageLink{
		{Rel: "alternate", Href: source.MapURI(g.o.BaseURL, g.o.Set, atomName), Type: "application/atom+xml", Title: g.feedTitle()},
		{Rel: "alternate", Href: source.MapURI(g.o.BaseURL, g.o.Set, rssName), Type: "application/rss+xml", Title: g.feedTitle()},
	}
	if len(all) > maxLinks {
		return links
	}
	for i := range all {
		uri := all[i].Files[0]
		links = append(links, source.PageLink{Rel: "resourcemap", Href: uri, Type: mediaType(uri), Title: g.title(&all[i])})
	}
	return links
}
