package ore

import (
	"bufio"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"

	"instep/resourcesync"
)

// Write writes the map as FormatAtom or FormatJSONLD of version 1.0. The same map always
// gives the same bytes. URI and Aggregation.URI are required and must differ; all URIs
// must be absolute. In Atom, a missing ID is derived from the URI.
func (m *Map) Write(w io.Writer, f Format) error {
	return m.WriteStream(w, f, func(yield func(*Resource, error) bool) {
		for i := range m.Resources {
			if !yield(&m.Resources[i], nil) {
				return
			}
		}
	})
}

// WriteStream is like Write, but writes the given resources instead of m.Resources. It
// iterates over the sequence twice, and the sequence must yield the same Resources each
// time. Each Resource is only used until the next one is yielded. A map in Atom is written
// in constant memory, but a map in JSON-LD is built in memory.
func (m *Map) WriteStream(w io.Writer, f Format, resources iter.Seq2[*Resource, error]) error {
	switch {
	case m.URI == "" || m.Aggregation.URI == "":
		return errors.New("write a Resource Map: the map or its Aggregation has no URI")
	case m.URI == m.Aggregation.URI:
		return fmt.Errorf("write a Resource Map: the map and its Aggregation have the same URI, %q", m.URI)
	}
	switch f {
	case FormatAtom:
		return m.writeAtom(w, resources)
	case FormatJSONLD:
		return m.writeJSON(w, resources)
	}
	return fmt.Errorf("write a Resource Map: the format %q is not supported", f)
}

// atomWriter writes XML elements. After an error of w it writes nothing more.
type atomWriter struct {
	w   *bufio.Writer
	err error
}

// tag writes an element with a text. The parameter attrs has the name and then the value
// of each attribute. An attribute with an empty value is omitted.
func (a *atomWriter) tag(indent, name, text string, attrs ...string) {
	a.raw(indent + "<" + name)
	for i := 0; i+1 < len(attrs); i += 2 {
		if attrs[i+1] != "" {
			a.raw(" " + attrs[i] + `="`)
			a.escaped(attrs[i+1])
			a.raw(`"`)
		}
	}
	if text == "" {
		a.raw("/>\n")
		return
	}
	a.raw(">")
	a.escaped(text)
	a.raw("</" + name + ">\n")
}

func (a *atomWriter) raw(s string) {
	if a.err == nil {
		_, a.err = a.w.WriteString(s)
	}
}

func (a *atomWriter) escaped(s string) {
	if a.err == nil {
		a.err = xml.EscapeText(a.w, []byte(s))
	}
}

func (a *atomWriter) optional(indent, name, text string, attrs ...string) {
	if text != "" {
		a.tag(indent, name, text, attrs...)
	}
}

func (a *atomWriter) people(indent string, names []string) {
	for _, n := range names {
		a.raw(indent + "<author>")
		a.tag("", "name", n)
		a.raw(indent + "</author>\n")
	}
}

func (m *Map) writeAtom(w io.Writer, resources iter.Seq2[*Resource, error]) error {
	a := &atomWriter{w: bufio.NewWriter(w)}
	g := &m.Aggregation
	a.raw(xml.Header + `<entry xmlns="` + nsAtom + `" xmlns:oreatom="` + nsOREAtom + `" xmlns:rdf="` + nsRDF +
		`" xmlns:dcterms="` + nsDCTerms + `" xmlns:ore="` + nsORE + `">` + "\n")
	id := m.ID
	if id == "" {
		id = m.URI + "#entry"
	}
	a.tag("  ", "id", id)
	a.tag("  ", "link", "", "rel", "self", "href", m.URI, "type", FormatAtom.MediaType())
	a.tag("  ", "link", "", "rel", nsORE+"describes", "href", g.URI)
	for _, other := range g.Maps {
		a.tag("  ", "link", "", "rel", nsORE+"isDescribedBy", "href", other)
	}
	a.optional("  ", "published", m.Created.String())
	a.optional("  ", "updated", m.Modified.String())
	a.optional("  ", "rights", m.Rights)
	a.optional("  ", "title", g.Title)
	a.people("  ", g.Creators)
	for _, t := range g.Types {
		a.tag("  ", "category", "", "scheme", nsORE, "term", t)
	}
	a.date("created", g.Created)
	a.date("modified", g.Modified)
	if len(m.Creators) > 0 {
		a.raw("  <source>\n")
		a.people("    ", m.Creators)
		a.raw("  </source>\n")
	}
	for r, err := range resources {
		if err != nil {
			return err
		}
		a.tag("  ", "link", "", "rel", nsORE+"aggregates", "href", r.URI, "type", r.MediaType, "title", r.Title, "length", optionalInt(r.Length))
	}
	if err := a.triples(resources); err != nil {
		return err
	}
	a.raw("</entry>\n")
	if a.err != nil {
		return a.err
	}
	return a.w.Flush()
}

func (a *atomWriter) date(name string, d resourcesync.Datetime) {
	if !d.IsZero() {
		a.tag("  ", "category", "", "scheme", nsOREAtom+name, "term", d.String())
	}
}

func optionalInt(n int64) string {
	if n <= 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// triples writes what Atom links cannot express about resources, such as their creators,
// as RDF statements.
func (a *atomWriter) triples(all iter.Seq2[*Resource, error]) error {
	begun := false
	for r, err := range all {
		if err != nil {
			return err
		}
		if len(r.Types)+len(r.Creators)+len(r.Maps) == 0 && r.Modified.IsZero() {
			continue
		}
		if !begun {
			a.raw("  <oreatom:triples>\n")
			begun = true
		}
		a.raw(`    <rdf:Description rdf:about="`)
		a.escaped(r.URI)
		a.raw("\">\n")
		for _, t := range r.Types {
			a.tag("      ", "rdf:type", "", "rdf:resource", t)
		}
		for _, c := range r.Creators {
			a.tag("      ", "dcterms:creator", c)
		}
		a.optional("      ", "dcterms:modified", r.Modified.String())
		for _, other := range r.Maps {
			a.tag("      ", "ore:isDescribedBy", "", "rdf:resource", other)
		}
		a.raw("    </rdf:Description>\n")
	}
	if begun {
		a.raw("  </oreatom:triples>\n")
	}
	return nil
}

// jsonNode is a node of a map in JSON-LD. Its keys are terms of the ORE context.
type jsonNode struct {
	Context    string     `json:"@context,omitempty"`
	ID         string     `json:"@id"`
	Types      []string   `json:"@type,omitempty"`
	Title      string     `json:"title,omitempty"`
	Creators   []string   `json:"creator,omitempty"`
	Created    string     `json:"created,omitempty"`
	Modified   string     `json:"modified,omitempty"`
	Rights     string     `json:"rights,omitempty"`
	Format     string     `json:"format,omitempty"`
	Extent     string     `json:"extent,omitempty"`
	Maps       []string   `json:"isDescribedBy,omitempty"`
	Describes  *jsonNode  `json:"describes,omitempty"`
	Aggregates []jsonNode `json:"aggregates,omitempty"`
}

func (m *Map) writeJSON(w io.Writer, resources iter.Seq2[*Resource, error]) error {
	g := &m.Aggregation
	doc := jsonNode{
		Context: "https://w3id.org/ore/context", ID: m.URI, Types: []string{"ResourceMap"},
		Creators: m.Creators, Created: m.Created.String(), Modified: m.Modified.String(), Rights: m.Rights,
		Describes: &jsonNode{
			ID: g.URI, Types: shortTypes(g.Types), Title: g.Title, Creators: g.Creators,
			Created: g.Created.String(), Modified: g.Modified.String(), Maps: g.Maps,
		},
	}
	for r, err := range resources {
		if err != nil {
			return err
		}
		doc.Describes.Aggregates = append(doc.Describes.Aggregates, jsonNode{
			ID: r.URI, Types: shortTypes(r.Types), Title: r.Title, Creators: r.Creators, Modified: r.Modified.String(),
			Format: r.MediaType, Extent: optionalInt(r.Length), Maps: r.Maps,
		})
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(&doc)
}

func shortTypes(types []string) []string {
	var short []string
	for _, t := range types {
		if name, ok := strings.CutPrefix(t, nsORE); ok && (name == "Aggregation" || name == "AggregatedResource") {
			t = name
		}
		short = append(short, t)
	}
	return short
}
