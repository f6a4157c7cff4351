package ore

import (
	"encoding/xml"
	"strconv"
	"strings"
)

// In version 1.0 a Resource Map is an atom:entry. Its links with rel="self",
// ore:describes and ore:aggregates have the URIs of the map, the Aggregation and the
// aggregated resources. The elements atom:updated, published, rights and the author of
// atom:source describe the map; title, author and categories describe the Aggregation;
// oreatom:triples contains further statements in RDF/XML. In the alpha of 2007 a map
// was an atom:feed: atom:id is the Aggregation, each entry is an aggregated resource,
// and the author is that of the map.

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

// atomEntry is an entry of a feed in the alpha, or the atom:source of an entry.
type atomEntry struct {
	ID         string         `xml:"http://www.w3.org/2005/Atom id"`
	Title      string         `xml:"http://www.w3.org/2005/Atom title"`
	Updated    string         `xml:"http://www.w3.org/2005/Atom updated"`
	Links      []atomLink     `xml:"http://www.w3.org/2005/Atom link"`
	Categories []atomCategory `xml:"http://www.w3.org/2005/Atom category"`
	Authors    []atomPerson   `xml:"http://www.w3.org/2005/Atom author"`
}

// atomReader reads an Atom map. It adds the statements of oreatom:triples at the end.
type atomReader struct {
	d     *xml.Decoder
	m     *Map
	s     scope
	l     Limits
	g     *graph
	owner []string // authors of the entry or feed
	made  []string // authors of its atom:source
}

// readAtom reads the map whose root element start has been read.
func readAtom(d *xml.Decoder, start *xml.StartElement, m *Map, uri string, l Limits) error {
	m.Format, m.Feed = FormatAtom, start.Name.Local == "feed"
	r := &atomReader{d: d, m: m, s: newScope(uri).within(start), l: l, g: newGraph()}
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

// child reads a child of the root.
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
		r.owner = appendPerson(r.owner, &p)
		return err
	case "source":
		return r.source(start)
	case "entry":
		return r.entry(start)
	case "id", "title", "updated", "published", "rights":
		return r.text(start)
	}
	return r.d.Skip()
}

func appendPerson(names []string, p *atomPerson) []string {
	name := strings.TrimSpace(p.Name)
	if name == "" {
		name = strings.TrimSpace(p.URI)
	}
	if name == "" {
		return names
	}
	return once(names, name)
}

// text reads a child that contains a text, a time or a URI.
func (r *atomReader) text(start *xml.StartElement) error {
	var text string
	if err := r.d.DecodeElement(&text, start); err != nil {
		return err
	}
	text = strings.TrimSpace(text)
	switch start.Name.Local {
	case "id":
		r.m.ID = text
	case "title":
		r.m.Aggregation.Title = text
	case "updated":
		r.m.Modified = r.m.datetime(text)
	case "published":
		r.m.Created = r.m.datetime(text)
	case "rights":
		r.m.Rights = text
	}
	return nil
}

func (r *atomReader) link(l *atomLink) {
	switch href := r.s.resolve(l.Href); l.Rel {
	case "self":
		if r.m.Self == "" {
			r.m.Self = href
		}
	case nsORE + "describes":
		r.m.Aggregation.URI = href
	case nsORE + "aggregates":
		r.aggregate(Resource{URI: href, Title: l.Title, MediaType: l.Type, Length: length(l.Length)})
	case nsORE + "isDescribedBy":
		r.m.Aggregation.Maps = once(r.m.Aggregation.Maps, href)
	}
}

func length(text string) int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// aggregate adds an aggregated resource. It stores at most one more than allowed, which
// shows that the limit was exceeded.
func (r *atomReader) aggregate(x Resource) {
	if len(r.m.Resources) <= 2*r.l.resources() {
		r.m.Resources = append(r.m.Resources, x)
	}
}

// category reads a category: a type, or a time of the Aggregation.
func (r *atomReader) category(c *atomCategory) {
	a := &r.m.Aggregation
	switch c.Scheme {
	case nsOREAtom + "modified":
		a.Modified = r.m.datetime(c.Term)
		return
	case nsOREAtom + "created":
		a.Created = r.m.datetime(c.Term)
		return
	}
	if t := typeOf(c); t != "" && t != nsORE+"ResourceMap" {
		a.Types = once(a.Types, t)
	}
}

// typeOf returns the type URI of a category; "" if the category is not a type.
func typeOf(c *atomCategory) string {
	switch {
	case c.Scheme == nsORE && !strings.Contains(c.Term, ":"):
		return nsORE + c.Term
	case c.Scheme == nsORE, strings.Contains(c.Term, "://"):
		return c.Term
	}
	return ""
}

// source reads atom:source, which describes the map (1.0 Atom §4.2.11).
func (r *atomReader) source(start *xml.StartElement) error {
	var e atomEntry
	if err := r.d.DecodeElement(&e, start); err != nil {
		return err
	}
	for i := range e.Authors {
		r.made = appendPerson(r.made, &e.Authors[i])
	}
	return nil
}

// entry reads an entry of a feed, which is an aggregated resource.
func (r *atomReader) entry(start *xml.StartElement) error {
	var e atomEntry
	if err := r.d.DecodeElement(&e, start); err != nil {
		return err
	}
	x := Resource{Title: strings.TrimSpace(e.Title), Modified: r.m.datetime(e.Updated)}
	for _, l := range e.Links {
		switch {
		case (l.Rel == "" || l.Rel == "alternate") && x.URI == "":
			x.URI, x.MediaType, x.Length = r.s.resolve(l.Href), l.Type, length(l.Length)
		case l.Rel == nsORE+"isDescribedBy" || l.Rel == "resourcemap":
			x.Maps = once(x.Maps, r.s.resolve(l.Href))
		}
	}
	for i := range e.Categories {
		if t := typeOf(&e.Categories[i]); t != "" {
			x.Types = once(x.Types, t)
		}
	}
	for i := range e.Authors {
		x.Creators = appendPerson(x.Creators, &e.Authors[i])
	}
	if x.URI == "" {
		r.m.notice("the entry %q has no link to a resource", strings.TrimSpace(e.ID))
		return nil
	}
	r.aggregate(x)
	return nil
}

// end combines the elements and the triples.
func (r *atomReader) end(uri string) error {
	m := r.m
	m.URI = uri
	if m.Self != "" {
		m.URI = m.Self
	}
	a := &m.Aggregation
	if m.Feed {
		if a.URI == "" {
			a.URI = m.ID
		}
		m.Creators = r.owner
	} else {
		m.Creators, a.Creators = r.made, r.owner
		if a.URI == "" {
			return notMap("an Atom entry without a link with rel=%q", nsORE+"describes")
		}
	}
	r.triples()
	return r.g.err
}

// triples adds those statements of oreatom:triples that the elements lack.
func (r *atomReader) triples() {
	m, g := r.m, r.g
	var also Aggregation
	also.URI = m.Aggregation.URI
	g.describe(m, &also)
	m.Aggregation.Types = union(m.Aggregation.Types, also.Types)
	m.Aggregation.Maps = union(m.Aggregation.Maps, also.Maps)
	m.Aggregation.Creators = union(m.Aggregation.Creators, also.Creators)
	m.Creators = union(m.Creators, g.creators(m.URI))
	done := map[string]bool{} // the first statement about a resource is used
	for i := range m.Resources {
		x := &m.Resources[i]
		if _, ok := g.about[x.URI]; !ok || done[x.URI] {
			continue
		}
		done[x.URI] = true
		more := g.resource(m, x.URI)
		x.Types, x.Maps, x.Creators = union(x.Types, more.Types), union(x.Maps, more.Maps), union(x.Creators, more.Creators)
		if x.Title == "" {
			x.Title = more.Title
		}
		if x.MediaType == "" {
			x.MediaType = more.MediaType
		}
		if x.Modified.IsZero() {
			x.Modified = more.Modified
		}
	}
}

// union appends the elements of b that are not in a.
func union(a, b []string) []string {
	for _, s := range b {
		a = once(a, s)
	}
	return a
}
