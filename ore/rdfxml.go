package ore

import (
	"encoding/xml"
	"fmt"
	"net/url"
	"strings"
)

// rdfReader turns RDF/XML into statements. It supports node and property elements,
// property attributes, rdf:li, xml:base and the attributes "about", "ID", "nodeID",
// "resource" and "parseType". It ignores reification and languages.
type rdfReader struct {
	d     *xml.Decoder
	g     *graph
	depth int
}

// scope has the base URL of the relative references in an XML element.
type scope struct{ base *url.URL }

func (s scope) within(start *xml.StartElement) scope {
	for _, a := range start.Attr {
		if a.Name.Space == nsXML && a.Name.Local == "base" && s.base != nil {
			if b, err := s.base.Parse(a.Value); err == nil {
				return scope{b}
			}
		}
	}
	return s
}

// resolve returns the URI of a reference. It returns an invalid reference unchanged.
func (s scope) resolve(ref string) string {
	ref = strings.TrimSpace(ref)
	if s.base == nil {
		return ref
	}
	u, err := s.base.Parse(ref)
	if err != nil {
		return ref
	}
	if ref == "" {
		u.Fragment, u.RawFragment = "", ""
	}
	return u.String()
}

func newScope(uri string) scope {
	u, err := url.Parse(uri)
	if err != nil {
		return scope{}
	}
	return scope{u}
}

func (r *rdfReader) nodes(s scope) ([]string, error) {
	var found []string
	for {
		tok, err := r.d.Token()
		if err != nil {
			return nil, err
		}
		switch tok := tok.(type) {
		case xml.StartElement:
			node, err := r.node(s, &tok)
			if err != nil {
				return nil, err
			}
			found = append(found, node)
		case xml.EndElement:
			return found, nil
		}
	}
}

func (r *rdfReader) deeper() error {
	if r.depth++; r.depth > maxDepth {
		return fmt.Errorf("%w: elements are nested deeper than %d", ErrTooLarge, maxDepth)
	}
	return nil
}

// node reads a node element (RDF/XML §7.2.11). It returns the URI of the node, or the
// name of a blank node.
func (r *rdfReader) node(s scope, start *xml.StartElement) (string, error) {
	if err := r.deeper(); err != nil {
		return "", err
	}
	defer func() { r.depth-- }()
	s = s.within(start)
	subject := r.subject(s, start)
	if name := start.Name.Space + start.Name.Local; name != nsRDF+"Description" {
		r.g.add(subject, nsRDF+"type", name)
	}
	r.attributes(s, subject, start)
	return subject, r.properties(s, subject)
}

func (r *rdfReader) subject(s scope, start *xml.StartElement) string {
	for _, a := range start.Attr {
		if a.Name.Space != nsRDF && a.Name.Space != "" {
			continue
		}
		switch a.Name.Local {
		case "about":
			return s.resolve(a.Value)
		case "ID":
			return s.resolve("#" + a.Value)
		case "nodeID":
			return "_:n" + a.Value
		}
	}
	return r.g.newBlankNode()
}

// attributes adds the statements of the property attributes of an element (RDF/XML
// §2.5).
func (r *rdfReader) attributes(s scope, subject string, start *xml.StartElement) {
	for _, a := range start.Attr {
		switch {
		case a.Name.Space == nsRDF && a.Name.Local == "type":
			r.g.add(subject, nsRDF+"type", s.resolve(a.Value))
		case a.Name.Space == "", a.Name.Space == nsRDF, a.Name.Space == nsXML, a.Name.Space == "xmlns":
		default:
			r.g.literal(subject, a.Name.Space+a.Name.Local, a.Value)
		}
	}
}

func (r *rdfReader) properties(s scope, subject string) error {
	items := 0
	for {
		tok, err := r.d.Token()
		if err != nil {
			return err
		}
		switch tok := tok.(type) {
		case xml.StartElement:
			predicate := tok.Name.Space + tok.Name.Local
			if predicate == nsRDF+"li" {
				items++
				predicate = fmt.Sprintf("%s_%d", nsRDF, items)
			}
			if err := r.property(s, subject, predicate, &tok); err != nil {
				return err
			}
		case xml.EndElement:
			return nil
		}
	}
}

// property reads a property element (RDF/XML §7.2.14).
func (r *rdfReader) property(s scope, subject, predicate string, start *xml.StartElement) error {
	if err := r.deeper(); err != nil {
		return err
	}
	defer func() { r.depth-- }()
	s = s.within(start)
	object, parse := "", ""
	for _, a := range start.Attr {
		switch {
		case a.Name.Space != nsRDF && a.Name.Space != "":
		case a.Name.Local == "resource":
			object = s.resolve(a.Value)
		case a.Name.Local == "nodeID":
			object = "_:n" + a.Value
		case a.Name.Local == "parseType":
			parse = a.Value
		}
	}
	switch {
	case parse == "Resource":
		object = r.g.newBlankNode()
		r.g.add(subject, predicate, object)
		return r.properties(s, object)
	case parse == "Collection":
		return r.collection(s, subject, predicate)
	case object != "":
		r.g.add(subject, predicate, object)
		r.attributes(s, object, start)
		return r.d.Skip()
	}
	return r.content(s, subject, predicate, start, parse != "")
}

// collection adds one statement for each member of a list, because the order of the
// list has no meaning in maps.
func (r *rdfReader) collection(s scope, subject, predicate string) error {
	members, err := r.nodes(s)
	if err != nil {
		return err
	}
	for _, m := range members {
		r.g.add(subject, predicate, m)
	}
	return nil
}

// content reads the text or the node elements in a property element. If literalXML is
// true, it reads only text and ignores tags (rdf:parseType="Literal").
func (r *rdfReader) content(s scope, subject, predicate string, start *xml.StartElement, literalXML bool) error {
	var text strings.Builder
	nodes := 0
	for level := 0; ; {
		tok, err := r.d.Token()
		if err != nil {
			return err
		}
		switch tok := tok.(type) {
		case xml.CharData:
			text.Write(tok)
		case xml.StartElement:
			if literalXML {
				level++
				continue
			}
			node, err := r.node(s, &tok)
			if err != nil {
				return err
			}
			nodes++
			r.g.add(subject, predicate, node)
		case xml.EndElement:
			if level > 0 {
				level--
				continue
			}
			if nodes == 0 {
				r.literal(s, subject, predicate, start, text.String())
			}
			return nil
		}
	}
}

// literal adds the statement of a property element without child elements. Its object
// is the text. If there are property attributes instead of a text, the object is a
// blank node with these attributes.
func (r *rdfReader) literal(s scope, subject, predicate string, start *xml.StartElement, text string) {
	if strings.TrimSpace(text) != "" || !hasProperties(start) {
		r.g.literal(subject, predicate, text)
		return
	}
	object := r.g.newBlankNode()
	r.g.add(subject, predicate, object)
	r.attributes(s, object, start)
}

func hasProperties(start *xml.StartElement) bool {
	for _, a := range start.Attr {
		if a.Name.Space != "" && a.Name.Space != nsRDF && a.Name.Space != nsXML && a.Name.Space != "xmlns" {
			return true
		}
	}
	return false
}
