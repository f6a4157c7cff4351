package ore

import (
	"bufio"
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Reader reads Resource Maps. The zero value is usable.
type Reader struct {
	Limits Limits
	// Load loads a JSON-LD context that a map refers to; the context of ORE is built
	// in. If nil, maps with other contexts are refused.
	Load Loader
}

// Read reads the Resource Map in src, from uri, completely. It accepts Atom, RDF/XML
// and JSON-LD, and each of them as the metadata of an OAI-PMH record. The error wraps
// ErrNotMap if src is not a map, ErrTooLarge if it exceeds the Limits, or is that of
// src. For an incomplete document Read returns nothing.
func (r *Reader) Read(uri string, src io.Reader) (*Map, error) {
	in := &bounded{r: src, left: r.Limits.bytes()}
	m, err := r.read(uri, in)
	switch {
	case in.err != nil:
		return nil, fmt.Errorf("read %q: %w", uri, in.err)
	case err != nil:
		return nil, fmt.Errorf("read %q: %w", uri, err)
	}
	return m, nil
}

func (r *Reader) read(uri string, in *bounded) (*Map, error) {
	m := &Map{}
	b := bufio.NewReaderSize(in, sniffed)
	head, err := b.Peek(sniffed)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	switch first(head) {
	case '{', '[':
		in.left = min(in.left, maxJSON-int64(len(head)))
		var text []byte
		if text, err = io.ReadAll(b); err == nil {
			err = readJSON(text, m, uri, r.Load)
		}
	case '<':
		err = r.xml(uri, b, m)
	default:
		err = notMap("neither XML nor JSON")
	}
	if err != nil {
		return nil, err
	}
	return m, m.keep(r.Limits)
}

// sniffed is the number of bytes that identify the format.
const sniffed = 4 << 10

// first returns the first byte that is not white space.
func first(head []byte) byte {
	head = bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\ufeff")), " \t\r\n")
	if len(head) == 0 {
		return 0
	}
	return head[0]
}

// bounded is a reader that returns an error after a number of bytes, and keeps its
// first error.
type bounded struct {
	r    io.Reader
	left int64
	err  error
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.r.Read(p)
	if b.left -= int64(n); b.left < 0 {
		err = ErrTooLarge
	}
	if err != nil && err != io.EOF {
		b.err = err
	}
	return n, err
}

// xml reads a map in XML completely.
func (r *Reader) xml(uri string, src io.Reader, m *Map) error {
	d := newDecoder(src)
	start, err := root(d)
	if err != nil {
		return xmlError(err)
	}
	inside := 0
	if start.Name.Space == nsOAI && start.Name.Local == "OAI-PMH" {
		m.Wrapped = true
		if start, inside, err = unwrap(d); err != nil {
			return xmlError(err)
		}
	}
	switch {
	case start.Name.Space == nsAtom && (start.Name.Local == "entry" || start.Name.Local == "feed"):
		err = readAtom(d, &start, m, uri)
	case start.Name.Space == nsRDF && start.Name.Local == "RDF":
		err = readRDF(d, &start, m, uri)
	default:
		return notMap("its root element is %q", start.Name.Local)
	}
	if err != nil {
		return xmlError(err)
	}
	return xmlError(ended(d, inside))
}

// newDecoder returns a strict decoder of XML in UTF-8.
func newDecoder(src io.Reader) *xml.Decoder {
	d := xml.NewDecoder(src)
	d.CharsetReader = func(name string, r io.Reader) (io.Reader, error) {
		if strings.EqualFold(name, "us-ascii") || strings.EqualFold(name, "ascii") {
			return r, nil
		}
		return nil, fmt.Errorf("the encoding %q is not read, only UTF-8", name)
	}
	return d
}

// root returns the start tag of the root element.
func root(d *xml.Decoder) (xml.StartElement, error) {
	for {
		tok, err := d.Token()
		if err != nil {
			return xml.StartElement{}, err
		}
		if start, ok := tok.(xml.StartElement); ok {
			return start.Copy(), nil
		}
	}
}

// unwrap skips to the metadata of the first record in an OAI-PMH response (OAI-PMH
// §2.5). It returns its start tag and the number of open elements around it.
func unwrap(d *xml.Decoder) (xml.StartElement, int, error) {
	open, within := 1, false
	for {
		tok, err := d.Token()
		if err != nil {
			return xml.StartElement{}, 0, err
		}
		switch tok := tok.(type) {
		case xml.StartElement:
			if within {
				return tok.Copy(), open, nil
			}
			if tok.Name.Local == "error" && tok.Name.Space == nsOAI {
				return xml.StartElement{}, 0, notMap("an OAI-PMH answer with an error instead of a record")
			}
			open++
			within = tok.Name.Space == nsOAI && tok.Name.Local == "metadata"
		case xml.EndElement:
			within = false
			if open--; open == 0 {
				return xml.StartElement{}, 0, notMap("an OAI-PMH answer without metadata")
			}
		}
	}
}

// ended reads to the end of the document, in which open elements are still open.
func ended(d *xml.Decoder, open int) error {
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch tok.(type) {
		case xml.StartElement:
			if open == 0 {
				return notMap("there is a second root element")
			}
			open++
		case xml.EndElement:
			open--
		}
	}
}

// readRDF reads a map in RDF/XML.
func readRDF(d *xml.Decoder, start *xml.StartElement, m *Map, uri string) error {
	m.Format = FormatRDFXML
	r := rdfReader{d: d, g: newGraph()}
	if _, err := r.nodes(newScope(uri).within(start)); err != nil {
		return err
	}
	self, aggregation := r.g.described(uri)
	return r.g.fill(m, uri, self, aggregation)
}

// xmlError reports that a document is not XML, and so not a map.
func xmlError(err error) error {
	var syntax *xml.SyntaxError
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("%w: %w", ErrNotMap, syntax) // the error already names the line
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return notMap("it breaks off")
	}
	return err
}
