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
	// Load loads the JSON-LD contexts of maps, except the context of ORE, which is built
	// in. If Load is nil, maps with other contexts cannot be read.
	Load Loader
}

// Read reads the Resource Map in src, which has the URL uri. It accepts Atom, RDF/XML and
// JSON-LD, also in an OAI-PMH record. The error wraps ErrNotMap if src is not a complete
// map, ErrTooLarge if the map exceeds the Limits, or an error that src returned.
func (r *Reader) Read(uri string, src io.Reader) (*Map, error) {
	in := &limitedReader{r: src, left: r.Limits.bytes()}
	m, err := r.read(uri, in)
	switch {
	case in.err != nil:
		return nil, fmt.Errorf("read %q: %w", uri, in.err)
	case err != nil:
		return nil, fmt.Errorf("read %q: %w", uri, err)
	}
	return m, nil
}

func (r *Reader) read(uri string, in *limitedReader) (*Map, error) {
	m := &Map{}
	b := bufio.NewReaderSize(in, formatBytes)
	head, err := b.Peek(formatBytes)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	switch firstByte(head) {
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
	return m, m.checkResources(r.Limits)
}

// formatBytes is the number of bytes at the start of a document that are read to
// recognise the format.
const formatBytes = 4 << 10

// firstByte skips white space. It returns 0 if head has no other bytes.
func firstByte(head []byte) byte {
	head = bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\ufeff")), " \t\r\n")
	if len(head) == 0 {
		return 0
	}
	return head[0]
}

// limitedReader returns ErrTooLarge after too many bytes. It stores its first error,
// because parsers may hide the error.
type limitedReader struct {
	r    io.Reader
	left int64
	err  error
}

func (b *limitedReader) Read(p []byte) (int, error) {
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
	return xmlError(readRest(d, inside))
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

// unwrap reads an OAI-PMH response up to the metadata of the first record (OAI-PMH
// §2.5). It returns the first start tag in the metadata, and the number of elements
// that are still open outside of this tag.
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

// readRest reads the rest of a document, in which the given number of elements are
// open. It returns an error if the document is incomplete or has a second root element.
func readRest(d *xml.Decoder, open int) error {
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

func readRDF(d *xml.Decoder, start *xml.StartElement, m *Map, uri string) error {
	m.Format = FormatRDFXML
	r := rdfReader{d: d, g: newGraph()}
	if _, err := r.nodes(newScope(uri).within(start)); err != nil {
		return err
	}
	self, aggregation := r.g.findMap(uri)
	return r.g.fill(m, uri, self, aggregation)
}

// xmlError wraps ErrNotMap around an error about invalid or incomplete XML.
func xmlError(err error) error {
	var syntax *xml.SyntaxError
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("%w: %w", ErrNotMap, syntax)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return notMap("it breaks off")
	}
	return err
}
