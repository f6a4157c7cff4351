package oaipmh

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// Limits of a response.
const (
	// MaxAnswer is the largest response in bytes, before and after decompression.
	// Client.MaxAnswer can change it.
	MaxAnswer = 64 << 20
	// MaxRecord is the largest length in bytes of the metadata of one record.
	MaxRecord = 16 << 20
	// MaxToken is the largest length in bytes of a resumption token.
	MaxToken = 2 << 10
	// MaxIdentifier is the largest length in bytes of an identifier.
	MaxIdentifier = 1 << 10
	maxDepth      = 256
	maxText       = 64 << 10 // largest length in bytes of the text of an element outside of metadata
	maxSets       = 1000     // largest number of sets that are stored for one record
	maxBad        = 10_000   // largest number of unusable records that are stored for a response
	maxSpaces     = 200      // largest number of namespace declarations around the metadata
)

// Page is one response, which may be a part of a list.
type Page struct {
	URL     string
	Date    time.Time // time of the response (responseDate); zero if unreadable
	Records []Record  // records in the response; in a response to ListIdentifiers they have only headers
	Bad     []BadRecord
	Token   string // resumption token of the response; "" if the list ends here
	Size    int64  // completeListSize: number of records in the whole list; -1 if not stated
	Notes   []Note

	date, request string // texts of the elements "responseDate" and "request"
	identity      *Identity
	formats       []Format
	err           *Error
	hasVerb       bool // whether the response has the element with the name of the verb, such as ListRecords
}

// BadRecord is a record that cannot be used.
type BadRecord struct {
	Identifier string // identifier of the record; "" if unreadable
	Err        error
}

// parser parses a response that was corrected by the function clean. It ignores the
// namespaces of elements outside of metadata, because some servers omit them or write
// wrong ones.
type parser struct {
	text []byte
	d    *xml.Decoder
	base int64 // offset in the response of the first byte that the decoder d reads
	page *Page
	verb Verb
	dirt dirt

	spaces []xml.Attr // namespace declarations of the open elements around the metadata
}

// parse adds the corrections in the parameter d to the Notes of the Page. For a
// protocol error it returns both the Page and the error.
func parse(text []byte, verb Verb, url string, d dirt) (*Page, error) {
	p := parser{text: text, page: &Page{URL: url, Size: -1}, verb: verb, dirt: d}
	p.seek(0)
	if err := p.document(); err != nil {
		return nil, fmt.Errorf("%s: %w", url, err)
	}
	for what, n := range p.dirt {
		p.page.Notes = append(p.page.Notes, Note{url, what, n})
	}
	if p.page.err != nil {
		p.page.err.URL = url
		return p.page, p.page.err
	}
	if !p.page.hasVerb {
		return nil, fmt.Errorf("%s: the response has neither the element %s nor an error", url, verb)
	}
	return p.page, nil
}

func (p *parser) seek(at int64) {
	p.base = at
	p.d = xml.NewDecoder(bytes.NewReader(p.text[at:]))
}

func (p *parser) offset() int64 { return p.base + p.d.InputOffset() }

// nextToken returns the next tag or text. It returns an error for a document type
// declaration, which OAI-PMH does not allow.
func (p *parser) nextToken() (xml.Token, error) {
	for {
		t, err := p.d.RawToken()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, fmt.Errorf("at byte %d of %d: %w", p.offset(), len(p.text), err)
		}
		switch t.(type) {
		case xml.StartElement, xml.EndElement, xml.CharData:
			return t, nil
		case xml.Directive:
			return nil, errors.New("the response has a document type declaration, which OAI-PMH does not allow")
		}
	}
}

func (p *parser) document() error {
	var root xml.StartElement
	for root.Name.Local == "" {
		t, err := p.nextToken()
		if err != nil {
			return err
		}
		start, ok := t.(xml.StartElement)
		if text, isText := t.(xml.CharData); isText && len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		if !ok || start.Name.Local != "OAI-PMH" {
			return fmt.Errorf("expected the element OAI-PMH, found %s", describe(t))
		}
		root = start
	}
	if err := p.addNamespaces(root); err != nil {
		return err
	}
	if p.namespaceOf(root.Name.Space) != Namespace {
		p.dirt["the element OAI-PMH has another namespace than that of version 2.0"]++
	}
	err := p.children(root, p.envelope)
	if rest := bytes.TrimSpace(p.text[p.offset():]); err == nil && len(rest) > 0 {
		p.dirt["there is text after the end of the response"]++
	}
	return err
}

func describe(t xml.Token) string {
	switch t := t.(type) {
	case xml.StartElement:
		return "the element " + strconv.Quote(shorten(t.Name.Local))
	case xml.CharData:
		return "the text " + strconv.Quote(shorten(string(bytes.TrimSpace(t))))
	}
	return "something else"
}

func shorten(s string) string {
	if len(s) > 60 {
		return strings.ToValidUTF8(s[:60], "") + "…"
	}
	return s
}

// addNamespaces limits the number of namespace declarations, because each of them is
// looked for in the metadata of each record.
func (p *parser) addNamespaces(e xml.StartElement) error {
	for _, a := range e.Attr {
		if a.Name.Space == "xmlns" || a.Name.Space == "" && a.Name.Local == "xmlns" {
			p.spaces = append(p.spaces, a)
		}
	}
	if len(p.spaces) > maxSpaces {
		return fmt.Errorf("expected at most %d namespace declarations around the metadata, found %d", maxSpaces, len(p.spaces))
	}
	return nil
}

func (p *parser) namespaceOf(prefix string) string {
	for i := len(p.spaces) - 1; i >= 0; i-- {
		if a := p.spaces[i]; a.Name.Space == "xmlns" && a.Name.Local == prefix || prefix == "" && a.Name.Space == "" {
			return a.Value
		}
	}
	return ""
}

// children calls readChild at the start tag of each child element. readChild must read
// up to the end tag of the child. An end tag with a wrong name is an error: otherwise a
// truncated list could look complete.
func (p *parser) children(parent xml.StartElement, readChild func(xml.StartElement) error) error {
	for {
		t, err := p.nextToken()
		if err != nil {
			return err
		}
		switch t := t.(type) {
		case xml.EndElement:
			return p.checkEnd(parent.Name, t)
		case xml.StartElement:
			before := len(p.spaces)
			err := p.addNamespaces(t)
			if err == nil {
				err = readChild(t)
			}
			p.spaces = p.spaces[:before]
			if err != nil {
				return err
			}
		}
	}
}

func (p *parser) checkEnd(name xml.Name, t xml.EndElement) error {
	if name != t.Name {
		return fmt.Errorf("at byte %d: the element %q ends as %q", p.offset(), shorten(name.Local), shorten(t.Name.Local))
	}
	return nil
}

func (p *parser) skip(e xml.StartElement) error {
	for depth := 1; depth > 0; {
		t, err := p.nextToken()
		if err != nil {
			return err
		}
		switch t := t.(type) {
		case xml.StartElement:
			depth++
		case xml.EndElement:
			if depth--; depth == 0 {
				return p.checkEnd(e.Name, t)
			}
		}
	}
	return nil
}

// textOf returns the text of an element. It leaves out tags in the element.
func (p *parser) textOf(e xml.StartElement) (string, error) {
	var b []byte
	for depth := 1; ; {
		t, err := p.nextToken()
		if err != nil {
			return "", err
		}
		switch t := t.(type) {
		case xml.StartElement:
			depth++
		case xml.EndElement:
			if depth--; depth == 0 {
				return strings.TrimSpace(string(b)), p.checkEnd(e.Name, t)
			}
		case xml.CharData:
			if b = append(b, t...); len(b) > maxText {
				return "", fmt.Errorf("expected at most %d bytes in an element outside of metadata, found more", maxText)
			}
		}
	}
}

func (p *parser) envelope(e xml.StartElement) error {
	switch e.Name.Local {
	case "responseDate":
		return p.readText(e, func(s string) { p.page.date, p.page.Date = s, p.parseDatestamp(s, "responseDate").Time })
	case "request":
		return p.readText(e, func(s string) { p.page.request = s })
	case "error":
		code := attr(e, "code")
		return p.readText(e, func(s string) {
			if p.page.err == nil {
				p.page.err = &Error{Code: Code(shorten(code)), Msg: shorten(s)}
			}
		})
	case string(VerbIdentify):
		p.page.identity, p.page.hasVerb = &Identity{}, p.verb == VerbIdentify
		return p.children(e, p.identify)
	case string(VerbFormats), string(VerbSets), string(VerbIdentifiers), string(VerbRecords), string(VerbRecord):
		if e.Name.Local == string(p.verb) {
			p.page.hasVerb = true
		}
		return p.children(e, p.listChild)
	}
	return p.skip(e)
}

func (p *parser) readText(e xml.StartElement, set func(string)) error {
	s, err := p.textOf(e)
	if err == nil {
		set(s)
	}
	return err
}

func attr(e xml.StartElement, name string) string {
	for _, a := range e.Attr {
		if a.Name.Local == name {
			return strings.TrimSpace(a.Value)
		}
	}
	return ""
}

// parseDatestamp parses a datestamp. It also accepts forms that the protocol does not
// allow, and counts them as faults of the repository.
func (p *parser) parseDatestamp(text, element string) Stamp {
	s, strict, err := parseAnyStamp(text)
	switch {
	case err != nil:
		p.dirt[fmt.Sprintf("a %s cannot be read", element)]++
	case !strict:
		p.dirt[fmt.Sprintf("a %s is not in one of the two forms of the protocol", element)]++
	}
	return s
}

func (p *parser) identify(e xml.StartElement) error {
	i := p.page.identity
	return p.readText(e, func(s string) {
		switch e.Name.Local {
		case "repositoryName":
			i.Name = s
		case "adminEmail":
			i.Emails = append(i.Emails, s)
		case "earliestDatestamp":
			i.Earliest = p.parseDatestamp(s, "earliestDatestamp")
		case "deletedRecord":
			i.Deleted = DeletedRecord(strings.ToLower(s))
		case "granularity":
			i.Days = !strings.Contains(strings.ToLower(s), "t")
		}
	})
}

// listChild reads a child of the element that contains the list, such as ListRecords.
func (p *parser) listChild(e xml.StartElement) error {
	switch e.Name.Local {
	case "record":
		return p.record(e)
	case "header":
		return p.bareHeader(e)
	case "metadataFormat":
		return p.format(e)
	case "resumptionToken":
		if n, err := strconv.ParseInt(attr(e, "completeListSize"), 10, 64); err == nil && n >= 0 {
			p.page.Size = n
		}
		return p.readText(e, func(s string) { p.page.Token = s })
	}
	return p.skip(e)
}

func (p *parser) format(parent xml.StartElement) error {
	var f Format
	err := p.children(parent, func(e xml.StartElement) error {
		return p.readText(e, func(text string) {
			switch e.Name.Local {
			case "metadataPrefix":
				f.Prefix = text
			case "schema":
				f.Schema = text
			case "metadataNamespace":
				f.Namespace = text
			}
		})
	})
	p.page.formats = append(p.page.formats, f)
	return err
}

// bareHeader reads a header outside of a record, as in a response to ListIdentifiers.
func (p *parser) bareHeader(e xml.StartElement) error {
	var r Record
	if err := p.header(e, &r.Header); err != nil {
		return err
	}
	p.addRecord(r, nil)
	return nil
}

func (p *parser) header(e xml.StartElement, h *Header) error {
	h.Deleted = attr(e, "status") == "deleted"
	return p.children(e, func(e xml.StartElement) error {
		return p.readText(e, func(s string) {
			switch e.Name.Local {
			case "identifier":
				h.Identifier = s
			case "datestamp":
				h.Datestamp = p.parseDatestamp(s, "datestamp")
			case "setSpec":
				if s != "" && len(h.Sets) < maxSets {
					h.Sets = append(h.Sets, s)
				}
			}
		})
	})
}

// record reads a record. If the record is not well-formed, reading continues after the
// record.
func (p *parser) record(parent xml.StartElement) error {
	begin := p.offset()
	var r Record
	var unusable error
	some := false
	err := p.children(parent, func(e xml.StartElement) error {
		switch e.Name.Local {
		case "header":
			return p.header(e, &r.Header)
		case "metadata":
			some = true
			var err error
			r.Metadata, err = p.metadata(e, &unusable)
			return err
		}
		return p.skip(e)
	})
	if err != nil {
		end := recordEnd.FindSubmatchIndex(p.text[begin:])
		if end == nil {
			return err
		}
		p.addBad(r.Identifier, err)
		p.seek(begin + int64(end[3]))
		return nil
	}
	switch {
	case r.Deleted && some:
		p.dirt["a deleted record has metadata"]++
		r.Metadata, unusable = nil, nil
	case !r.Deleted && unusable == nil && r.Metadata == nil:
		unusable = errors.New("the record has no metadata")
	}
	p.addRecord(r, unusable)
	return nil
}

// addRecord adds a record to the page. If unusable is an error, it adds the record to
// those that cannot be used.
func (p *parser) addRecord(r Record, unusable error) {
	switch {
	case r.Identifier == "":
		unusable = errors.New("the record has no identifier")
	case len(r.Identifier) > MaxIdentifier:
		unusable = fmt.Errorf("the identifier has %d bytes: expected at most %d", len(r.Identifier), MaxIdentifier)
		r.Identifier = ""
	}
	if unusable != nil {
		p.addBad(r.Identifier, unusable)
		return
	}
	p.page.Records = append(p.page.Records, r)
}

// addBad stores no more than maxBad records, and one without an identifier, which stands for
// the others.
func (p *parser) addBad(identifier string, err error) {
	switch n := len(p.page.Bad); {
	case n > maxBad:
		return
	case n == maxBad:
		identifier, err = "", fmt.Errorf("more than %d records of the response cannot be used; this one: %w", maxBad, err)
	}
	p.page.Bad = append(p.page.Bad, BadRecord{identifier, fmt.Errorf("%s: record %q: %w", p.page.URL, shorten(identifier), err)})
}
