package where

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/antchfx/xpath"
	"golang.org/x/net/html/charset"
)

const (
	maxRecord = 1 << 20 // the largest length of a record in bytes
	maxDepth  = 200     // the largest depth of nested elements
)

type record struct {
	root     *node
	prefixes map[string]string // maps prefixes to namespaces; a record cannot redefine the well-known prefixes
}

// node is the document, an element or a text.
type node struct {
	kind         xpath.NodeType
	name         xml.Name   // the name of an element, with its namespace
	prefix       string     // the prefix of an element; "" if it is in the default namespace
	standard     string     // the default namespace of the children
	attrs        []xml.Attr // the attributes of an element, except declarations of namespaces
	data         string     // text
	depth        int        // the depth of the node: the number of elements around it
	parent       *node
	first, last  *node // children
	before, next *node // siblings
}

func (n *node) add(child *node) *node {
	child.parent, child.before = n, n.last
	if n.last == nil {
		n.first = child
	} else {
		n.last.next = child
	}
	n.last = child
	return child
}

type parser struct {
	record
	at    *node
	names map[string]string // prefixes by namespace
}

func parseRecord(text []byte) (*record, error) {
	d := xml.NewDecoder(bytes.NewReader(text))
	d.CharsetReader = charset.NewReaderLabel
	root := &node{kind: xpath.RootNode}
	p := &parser{record{root, map[string]string{}}, root, map[string]string{namespaces["xml"]: "xml"}}
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = p.add(token)
		}
		if err != nil {
			return nil, err
		}
	}
	if root.first == nil {
		return nil, errors.New("expected a root element, got none")
	}
	maps.Copy(p.prefixes, namespaces)
	return &p.record, nil
}

func (p *parser) add(token xml.Token) error {
	switch t := token.(type) {
	case xml.StartElement:
		return p.begin(t)
	case xml.EndElement:
		p.at = p.at.parent
	case xml.CharData:
		if p.at.parent != nil {
			p.at.add(&node{kind: xpath.TextNode, data: string(t)})
		} else if len(bytes.TrimSpace(t)) > 0 {
			return errors.New("expected no text outside the root element")
		}
	}
	return nil
}

func (p *parser) begin(t xml.StartElement) error {
	if p.at.parent == nil && p.at.first != nil {
		return errors.New("expected one root element, got several")
	}
	n := p.at.add(&node{kind: xpath.ElementNode, name: t.Name, standard: p.at.standard, depth: p.at.depth + 1})
	if p.at = n; n.depth > maxDepth {
		return fmt.Errorf("expected elements nested at most %d deep", maxDepth)
	}
	for _, a := range t.Attr {
		switch {
		case a.Name.Space == "xmlns":
			p.prefixes[a.Name.Local], p.names[a.Value] = a.Value, a.Name.Local
		case a.Name.Space == "" && a.Name.Local == "xmlns":
			n.standard = a.Value
		default:
			n.attrs = append(n.attrs, a)
		}
	}
	if n.name.Space != n.standard {
		n.prefix = p.names[n.name.Space]
	}
	undeclared := func(space string) bool { return space != "" && p.names[space] == "" }
	if n.name.Space != n.standard && undeclared(n.name.Space) || slices.ContainsFunc(n.attrs, func(a xml.Attr) bool { return undeclared(a.Name.Space) }) {
		return fmt.Errorf("element %s: a prefix in its tag is not declared", n.name.Local)
	}
	return nil
}
