package ore

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/piprate/json-gold/ld"
)

// contextJSON is our version of the JSON-LD context of ORE, with the terms of ORE, Dublin
// Core and FOAF that occur in maps. The original on the web is never fetched.
//
//go:embed context.json
var contextJSON []byte

var contextURIs = map[string]bool{
	"https://w3id.org/ore/context": true, "http://w3id.org/ore/context": true,
	"https://w3id.org/ore/context/": true, "http://w3id.org/ore/context/": true,
	"http://www.openarchives.org/ore/0.9/context": true, "https://www.openarchives.org/ore/0.9/context": true,
	"http://www.openarchives.org/ore/context": true, "https://www.openarchives.org/ore/context": true,
}

const (
	maxContexts = 100     // largest number of contexts in one document
	maxTerms    = 2_000   // largest number of terms in the contexts of one document
	maxValues   = 500_000 // largest number of objects, lists and values in one document
	maxScoped   = 200_000 // largest number of terms times values, if the terms of a document have contexts of their own; at this limit, the expansion takes seconds
	maxRemote   = 8       // largest number of contexts that are loaded for one document
)

// Loader loads the JSON-LD context at a URI. If it returns an error, the map cannot be
// read.
type Loader func(uri string) ([]byte, error)

// contexts loads the JSON-LD contexts of a map, and limits their number and size.
type contexts struct {
	load Loader
	left int
	size measure
}

// LoadDocument implements ld.DocumentLoader.
func (c *contexts) LoadDocument(uri string) (*ld.RemoteDocument, error) {
	text := contextJSON
	if !contextURIs[uri] {
		switch {
		case c.load == nil:
			return nil, fmt.Errorf("the context %q is not built in, and contexts are not fetched", uri)
		case c.left == 0:
			return nil, fmt.Errorf("%w: the map refers to more than %d contexts", ErrTooLarge, maxRemote)
		}
		c.left--
		var err error
		if text, err = c.load(uri); err != nil {
			return nil, fmt.Errorf("load the context %q: %w", uri, err)
		}
	}
	doc, err := parseJSON(text)
	if err != nil {
		return nil, fmt.Errorf("read the context %q: %w", uri, err)
	}
	if err := c.size.count(doc, 0, false); err != nil {
		return nil, err
	}
	return &ld.RemoteDocument{DocumentURL: uri, Document: doc}, nil
}

func parseJSON(text []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(text, []byte("\ufeff"))))
	d.UseNumber()
	var doc any
	if err := d.Decode(&doc); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("there is text after the end of the JSON document")
	}
	return doc, nil
}

// measure counts the parts of a document that make its expansion slow. The library
// json-gold processes a context again for each object to which the context applies. A
// context inside the definition of a term (JSON-LD 1.1 §4.1.8) may apply to all
// objects.
type measure struct{ contexts, scoped, terms, values int }

func (m *measure) count(v any, depth int, inContext bool) error {
	if m.values++; m.values > maxValues || depth > maxDepth {
		return fmt.Errorf("%w: the JSON has more than %d values, or values nested deeper than %d", ErrTooLarge, maxValues, maxDepth)
	}
	switch v := v.(type) {
	case []any:
		for _, x := range v {
			if err := m.count(x, depth+1, inContext); err != nil {
				return err
			}
		}
	case map[string]any:
		if inContext {
			m.terms += len(v)
		}
		for k, x := range v {
			if k == "@context" {
				m.contexts++
				if inContext {
					m.scoped++
				}
			}
			if err := m.count(x, depth+1, inContext || k == "@context"); err != nil {
				return err
			}
		}
	}
	if m.scoped > 0 && m.terms*m.values > maxScoped {
		return fmt.Errorf("%w: contexts inside terms may apply to too many objects", ErrTooLarge)
	}
	if m.contexts > maxContexts || m.terms > maxTerms {
		return fmt.Errorf("%w: the document has more than %d contexts, or more than %d terms in its contexts", ErrTooLarge, maxContexts, maxTerms)
	}
	return nil
}

func readJSON(text []byte, m *Map, uri string, load Loader) error {
	m.Format = FormatJSONLD
	doc, err := parseJSON(text)
	if err != nil {
		return notMap("no JSON: %v", err)
	}
	c := &contexts{load: load, left: maxRemote}
	if err := c.size.count(doc, 0, false); err != nil {
		return err
	}
	if c.size.contexts == 0 && !bytes.Contains(text, []byte(nsORE)) {
		return notMap("JSON without @context")
	}
	g, err := jsonGraph(doc, uri, c)
	if err != nil {
		return err
	}
	self, aggregation := g.findMap(uri)
	return g.fill(m, uri, self, aggregation)
}

func jsonGraph(doc any, uri string, c *contexts) (_ *graph, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = notMap("the JSON-LD cannot be expanded: %v", p) // the library json-gold may panic on untrusted input
		}
	}()
	o := ld.NewJsonLdOptions(uri)
	o.DocumentLoader, o.Ordered = c, true
	// json-gold could also convert the document to RDF, but it compares each value of a
	// property with all others, which takes quadratic time.
	nodes, err := ld.NewJsonLdProcessor().Expand(doc, o)
	if err != nil {
		return nil, jsonError(err)
	}
	e := expanded{newGraph()}
	for _, n := range nodes {
		if node, ok := n.(map[string]any); ok {
			e.node(node)
		}
	}
	return e.graph, nil
}

// expanded converts expanded JSON-LD (JSON-LD API §5.1) to statements. It merges all
// graphs of the document, and makes one statement for each element of a list.
type expanded struct{ *graph }

func (e expanded) node(node map[string]any) string {
	id, _ := node["@id"].(string)
	if id == "" {
		id = e.newBlankNode()
	}
	for _, key := range slices.Sorted(maps.Keys(node)) {
		values, _ := node[key].([]any)
		switch key {
		case "@id", "@index":
		case "@type":
			for _, t := range values {
				if uri, ok := t.(string); ok {
					e.add(id, nsRDF+"type", uri)
				}
			}
		case "@reverse":
			e.reverse(id, node[key])
		default:
			e.values(id, key, values)
		}
	}
	return id
}

// values adds a statement for each value of a property, and the statements about nodes
// in the values. The properties @graph and @included only contain nodes and give no
// statements themselves.
func (e expanded) values(id, property string, values []any) {
	for _, v := range values {
		value, ok := v.(map[string]any)
		if !ok {
			continue
		}
		if list, ok := value["@list"].([]any); ok {
			e.values(id, property, list)
			continue
		}
		if text, ok := value["@value"]; ok {
			e.literal(id, property, fmt.Sprint(text))
		} else {
			e.add(id, property, e.node(value))
		}
	}
}

// reverse adds the statements under @reverse. Their object is the node with the given
// id.
func (e expanded) reverse(id string, properties any) {
	all, _ := properties.(map[string]any)
	for _, property := range slices.Sorted(maps.Keys(all)) {
		values, _ := all[property].([]any)
		for _, v := range values {
			if node, ok := v.(map[string]any); ok {
				e.add(e.node(node), property, id)
			}
		}
	}
}

// jsonError unwraps an error of json-gold, so that errors.Is finds an error of the
// Loader.
func jsonError(err error) error {
	var le *ld.JsonLdError
	if errors.As(err, &le) {
		if cause, ok := le.Details.(error); ok {
			return fmt.Errorf("read JSON-LD: %s: %w", strings.ToLower(string(le.Code)), cause)
		}
	}
	return notMap("%v", err)
}
