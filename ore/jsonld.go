package ore

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/piprate/json-gold/ld"
)

// contextJSON is the JSON-LD context of ORE, as we understand it: the terms of the ORE
// vocabulary, Dublin Core and FOAF that maps are written with. It is never fetched.
//
//go:embed context.json
var contextJSON []byte

// contextURIs are the URIs by which maps name the context of ORE.
var contextURIs = map[string]bool{
	"https://w3id.org/ore/context": true, "http://w3id.org/ore/context": true,
	"https://w3id.org/ore/context/": true, "http://w3id.org/ore/context/": true,
	"http://www.openarchives.org/ore/0.9/context": true, "https://www.openarchives.org/ore/0.9/context": true,
	"http://www.openarchives.org/ore/context": true, "https://www.openarchives.org/ore/context": true,
}

const (
	maxContexts = 100     // @context in one document
	maxTerms    = 2_000   // that its contexts define
	maxValues   = 500_000 // objects, lists and values in one document
	maxRemote   = 8       // other contexts that are loaded for one document
)

// Loader loads the JSON-LD context at a URI. An error ends the reading.
type Loader func(uri string) ([]byte, error)

// contexts gives json-gold the contexts that a map names.
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
			return nil, fmt.Errorf("the context %q is not known here, and none is fetched", uri)
		case c.left == 0:
			return nil, fmt.Errorf("%w: it needs more than %d contexts", ErrTooLarge, maxRemote)
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
	if err := c.size.of(doc, 0, false); err != nil {
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
		return nil, errors.New("something follows the end of the document")
	}
	return doc, nil
}

// measure bounds the work that a document can ask for: contexts are processed anew for
// each object that they hold for.
type measure struct{ contexts, terms, values int }

func (m *measure) of(v any, depth int, inContext bool) error {
	if m.values++; m.values > maxValues || depth > maxDepth {
		return fmt.Errorf("%w: more than %d values, or %d within one another", ErrTooLarge, maxValues, maxDepth)
	}
	switch v := v.(type) {
	case []any:
		for _, x := range v {
			if err := m.of(x, depth+1, inContext); err != nil {
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
			}
			if err := m.of(x, depth+1, inContext || k == "@context"); err != nil {
				return err
			}
		}
	}
	if m.contexts > maxContexts || m.terms > maxTerms {
		return fmt.Errorf("%w: more than %d contexts, or %d terms in them", ErrTooLarge, maxContexts, maxTerms)
	}
	return nil
}

// readJSON reads a map in JSON-LD.
func readJSON(text []byte, m *Map, uri string, l Limits, load Loader) error {
	m.Format = FormatJSONLD
	doc, err := parseJSON(text)
	if err != nil {
		return notMap("no JSON: %v", err)
	}
	c := &contexts{load: load, left: maxRemote}
	if err := c.size.of(doc, 0, false); err != nil {
		return err
	}
	if c.size.contexts == 0 && !bytes.Contains(text, []byte(nsORE)) {
		return notMap("JSON without @context")
	}
	g, err := jsonGraph(doc, uri, c)
	if err != nil {
		return err
	}
	if err := g.fill(m, uri); err != nil {
		return err
	}
	return m.keep(l)
}

// jsonGraph returns the statements of a document, of all its graphs.
func jsonGraph(doc any, uri string, c *contexts) (_ *graph, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = notMap("no JSON-LD that can be read: %v", p) // a library reads what strangers wrote
		}
	}()
	o := ld.NewJsonLdOptions(uri)
	o.DocumentLoader, o.Ordered = c, true
	out, err := ld.NewJsonLdProcessor().ToRDF(doc, o)
	if err != nil {
		return nil, jsonError(err)
	}
	data, ok := out.(*ld.RDFDataset)
	if !ok {
		return nil, notMap("no JSON-LD that can be read")
	}
	g := newGraph()
	for _, name := range sortedGraphs(data) {
		for _, q := range data.Graphs[name] {
			object := term{value: q.Object.GetValue(), literal: ld.IsLiteral(q.Object)}
			if err := g.add(q.Subject.GetValue(), q.Predicate.GetValue(), object); err != nil {
				return nil, err
			}
		}
	}
	return g, nil
}

// jsonError keeps the cause of an error that the library has wrapped in its own.
func jsonError(err error) error {
	var le *ld.JsonLdError
	if errors.As(err, &le) {
		if cause, ok := le.Details.(error); ok {
			return fmt.Errorf("read JSON-LD: %s: %w", strings.ToLower(string(le.Code)), cause)
		}
	}
	return notMap("%v", err)
}

func sortedGraphs(data *ld.RDFDataset) []string {
	names := []string{"@default"}
	for name := range data.Graphs {
		if name != "@default" {
			names = append(names, name)
		}
	}
	slices.Sort(names[1:])
	return names
}
