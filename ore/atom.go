package ore

import (
	"cmp"
	"encoding/xml"
	"strings"
)

// In version 1.0 a Resource Map is an atom:entry. Its links with rel="self",
// "ore:describes" and "ore:aggregates" lead to the map, the Aggregation and the
// aggregated resources. Its elements "updated", "published" and "rights", and "author" in
// "source", describe the map; "title", "author" and "category" describe the Aggregation.
// In the alpha of 2007 a map is an atom:feed: its "id" is the URI of the Aggregation, its
// "author" is that of the map, and each "entry" is an aggregated resource.

type atomLink struct {
	Rel    string `xml:"rel,attr"`
	Href   string `xml:"href,attr"`
	Type   string `xml:"type,attr"`
	Title  string `xml:"title,attr"`
	Length string `xml:"length,attr"`
}

type atomCategory struct {
	Scheme string `xml:"scheme,attr"`
	Term   string `xml:"term,attr"`
}

type atomPerson struct {
	Name string `xml:"http://www.w3.org/2005/Atom name"`
	URI  string `xml:"http://www.w3.org/2005/Atom uri"`
}

// atomEntry is an atom:entry of a feed, or the atom:source of an entry.
type atomEntry struct {
	ID         string         `xml:"http://www.w3.org/2005/Atom id"`
	Title      string         `xml:"http://www.w3.org/2005/Atom title"`
	Updated    string         `xml:"http://www.w3.org/2005/Atom updated"`
	Links      []atomLink     `xml:"http://www.w3.org/2005/Atom link"`
	Categories []atomCategory `xml:"http://www.w3.org/2005/Atom category"`
	Authors    []atomPerson   `xml:"http://www.w3.org/2005/Atom author"`
}

// The map and the Aggregation are blank nodes with these names until the whole document
// was read, because their URIs may be at its end.
const (
	atomMap         = "_: map"
	atomAggregation = "_: aggregation"
)

type atomReader struct {
	d *xml.Decoder
	m *Map
	s scope
	g *graph

	aggregation string // the URI of the Aggregation
	author      string // node whose creators are the authors in the root element: the map or the Aggregation
}

func readAtom(d *xml.Decoder, start *xml.StartElement, m *Map, uri string) error {
	m.Format, m.Feed = FormatAtom, start.Name.Local == "feed"
	r := &atomReader{d: d, m: m, s: newScope(uri).within(start), g: newGraph(), author: atomAggregation}
	if m.Feed {
		r.author = atomMap
	}
	for {
		tok, err := d.Token()
		if err != nil {
			return err
		}
		switch tok := tok.(type) {
		case xml.StartElement:
			if err := r.child(&tok); err != nil {
				return err
			}
		case xml.EndElement:
			return r.end(uri)
		}
	}
}

func (r *atomReader) child(start *xml.StartElement) error {
	if start.Name.Space == nsOREAtom && start.Name.Local == "triples" {
		rdf := rdfReader{d: r.d, g: r.g}
		_, err := rdf.nodes(r.s.within(start))
		return err
	}
	if start.Name.Space != nsAtom {
		return r.d.Skip()
	}
	switch start.Name.Local {
	case "link":
		var l atomLink
		err := r.d.DecodeElement(&l, start)
		r.link(&l)
		return err
	case "category":
		var c atomCategory
		err := r.d.DecodeElement(&c, start)
		r.category(&c)
		return err
	case "author":
		var p atomPerson
		err := r.d.DecodeElement(&p, start)
		r.creators(r.author, p)
		return err
	case "source": // the authors in "source" are the authors of the map (1.0 Atom §4.2.11)
		var e atomEntry
		err := r.d.DecodeElement(&e, start)
		r.creators(atomMap, e.Authors...)
		return err
	case "entry":
		var e atomEntry
		err := r.d.DecodeElement(&e, start)
		r.entry(&e)
		return err
	case "id", "title", "updated", "published", "rights":
		return r.text(start)
	}
	return r.d.Skip()
}

func (r *atomReader) creators(node string, people ...atomPerson) {
	for _, p := range people {
		r.g.literal(node, nsDCTerms+"creator", cmp.Or(strings.TrimSpace(p.Name), strings.TrimSpace(p.URI)))
	}
}

func (r *atomReader) text(start *xml.StartElement) error {
	var text string
	if err := r.d.DecodeElement(&text, start); err != nil {
		return err
	}
	switch start.Name.Local {
	case "id":
		r.m.ID = strings.TrimSpace(text)
	case "title":
		r.g.literal(atomAggregation, nsDCTerms+"title", text)
	case "updated":
		r.g.literal(atomMap, nsDCTerms+"modified", text)
	case "published":
		r.g.literal(atomMap, nsDCTerms+"created", text)
	case "rights":
		r.g.literal(atomMap, nsDCTerms+"rights", text)
	}
	return nil
}

func (r *atomReader) link(l *atomLink) {
	switch href := r.s.resolve(l.Href); l.Rel {
	case "self":
		r.m.Self = cmp.Or(r.m.Self, href)
	case nsORE + "describes":
		r.aggregation = href
	case nsORE + "aggregates":
		r.aggregate(href, l.Title, l)
	case nsORE + "isDescribedBy":
		r.g.add(atomAggregation, nsORE+"isDescribedBy", href)
	}
}

func (r *atomReader) aggregate(uri, title string, l *atomLink) {
	r.g.add(atomAggregation, nsORE+"aggregates", uri)
	r.g.literal(uri, nsDCTerms+"title", title)
	r.g.literal(uri, nsDCTerms+"format", l.Type)
	r.g.literal(uri, nsDCTerms+"extent", l.Length)
}

func (r *atomReader) category(c *atomCategory) {
	switch t := typeOf(c); {
	case c.Scheme == nsOREAtom+"modified":
		r.g.literal(atomAggregation, nsDCTerms+"modified", c.Term)
	case c.Scheme == nsOREAtom+"created":
		r.g.literal(atomAggregation, nsDCTerms+"created", c.Term)
	case t != "" && t != nsORE+"ResourceMap":
		r.g.add(atomAggregation, nsRDF+"type", t)
	}
}

// typeOf returns the URI of the type in an atom:category; "" if the category is not a
// type.
func typeOf(c *atomCategory) string {
	switch {
	case c.Scheme == nsORE && !strings.Contains(c.Term, ":"):
		return nsORE + c.Term
	case c.Scheme == nsORE, strings.Contains(c.Term, "://"):
		return c.Term
	}
	return ""
}

func (r *atomReader) entry(e *atomEntry) {
	uri := ""
	for i := range e.Links {
		if l := &e.Links[i]; uri == "" && (l.Rel == "" || l.Rel == "alternate") {
			uri = r.s.resolve(l.Href)
			r.aggregate(uri, e.Title, l)
		}
	}
	if uri == "" {
		r.m.notice("the entry %q has no link to a resource", strings.TrimSpace(e.ID))
		return
	}
	for _, l := range e.Links {
		if l.Rel == nsORE+"isDescribedBy" || l.Rel == "resourcemap" {
			r.g.add(uri, nsORE+"isDescribedBy", r.s.resolve(l.Href))
		}
	}
	for i := range e.Categories {
		if t := typeOf(&e.Categories[i]); t != "" {
			r.g.add(uri, nsRDF+"type", t)
		}
	}
	r.creators(uri, e.Authors...)
	r.g.literal(uri, nsDCTerms+"modified", e.Updated)
}

func (r *atomReader) end(uri string) error {
	if r.aggregation == "" {
		if !r.m.Feed {
			return notMap("the Atom entry has no link with rel=%q", nsORE+"describes")
		}
		r.aggregation = r.m.ID
	}
	r.g.rename(atomMap, cmp.Or(r.m.Self, uri))
	r.g.rename(atomAggregation, r.aggregation)
	return r.g.fill(r.m, uri, r.m.Self, r.aggregation)
}
