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
	// Load loads the JSON-LD contexts to which maps refer, except that of ORE,
	// which is built in. If it is nil, maps with other contexts cannot be read.
	Load Loader
}

// Read reads the Resource Map in src, which has the URL uri. It accepts Atom, RDF/XML
// and JSON-LD, also as the metadata of an OAI-PMH record. The error wraps ErrNotMap if
// src is not a complete map, ErrTooLarge if the map exceeds the Limits, or the error of
// src.
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
		err = notMap("the document is neither XML nor JSON")
	}
	if err != nil {
		return nil, err
	}
	return m, m.keep(r.Limits)
}

// sniffed is the number of bytes by which the format is recognised.
const sniffed = 4 << 10

// first returns the first byte that is not white space; 0 if there is none.
func first(head []byte) byte {
	head = bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\ufeff")), " \t\r\n")
	if len(head) == 0 {
		return 0
	}
	return head[0]
}

// bounded is a reader that returns ErrTooLarge if more than a number of bytes are read.
// It remembers the first error that it has returned.
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

// xml reads a map in XML up to the end of the document.
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
		return notMap("the root element is %q", start.Name.Local)
	}
	if err != nil {
		return xmlError(err)
	}
	return xmlError(ended(d, inside))
}

// newDecoder returns a strict XML decoder that accepts only UTF-8.
func newDecoder(src io.Reader) *xml.Decoder {
	d := xml.NewDecoder(src)
	d.CharsetReader = func(name string, r io.Reader) (io.Reader, error) {
		if strings.EqualFold(name, "us-ascii") || strings.EqualFold(name, "ascii") {
			return r, nil
		}
		return nil, fmt.Errorf("the encoding is %q, but only UTF-8 is supported", name)
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

// unwrap reads an OAI-PMH response up to the metadata of the first record (OAI-PMH §2.5).
// It returns the start tag of the element in the metadata, and the number of elements
// around it that are still open.
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
				return xml.StartElement{}, 0, notMap("the OAI-PMH response has an error instead of a record")
			}
			open++
			within = tok.Name.Space == nsOAI && tok.Name.Local == "metadata"
		case xml.EndElement:
			within = false
			if open--; open == 0 {
				return xml.StartElement{}, 0, notMap("the OAI-PMH response has no metadata")
			}
		}
	}
}

// ended reads the rest of a document, in which the given number of elements are still
// open. It returns an error if the document is not complete, or has more than one root
// element.
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
				return notMap("the document has a second root element")
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

// xmlError returns an error that wraps ErrNotMap for invalid or incomplete XML, and
// other errors unchanged.
func xmlError(err error) error {
	var syntax *xml.SyntaxError
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("%w: %w", ErrNotMap, syntax) // the message of syntax has the line number
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return notMap("it breaks off")
	}
	return err
}
