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
	// MaxAnswer is the largest response in bytes, before and after decompression, if
	// Client.MaxAnswer is not set.
	MaxAnswer = 64 << 20
	// MaxRecord is the largest metadata of one record in bytes.
	MaxRecord = 16 << 20
	// MaxToken is the longest resumption token that is accepted, in bytes.
	MaxToken = 2 << 10
	// MaxIdentifier is the longest identifier that is accepted, in bytes.
	MaxIdentifier = 1 << 10
	maxDepth      = 256
	maxText       = 64 << 10 // longest text in an element outside of metadata, in bytes
	maxSets       = 1000     // largest number of sets of one record that are stored
)

// Page is one response, which may be a part of a list.
type Page struct {
	URL     string
	Date    time.Time // time of the response (responseDate); zero if unreadable
	Records []Record  // records in the response; those of ListIdentifiers have only headers
	Bad     []BadRecord
	Token   string // resumption token; "" in the last response of a list
	Size    int64  // number of records in the whole list (completeListSize); -1 if it is missing
	Notes   []Note

	date, request string // the texts of the elements responseDate and request
	identity      *Identity
	formats       []Format
	err           *Error
	listed        bool // whether the response has the element that is named after the verb
}

// BadRecord is a record in a response that cannot be used.
type BadRecord struct {
	Identifier string // identifier of the record; "" if it is unreadable
	Err        error
}

// parser parses a response that the function clean has corrected. It ignores the
// namespaces of elements in the envelope, which some servers omit or write wrongly.
type parser struct {
	text []byte
	d    *xml.Decoder
	base int64 // the offset in text at which d began to read
	page *Page
	verb Verb
	dirt dirt

	spaces []xml.Attr // the namespace declarations of open elements in the envelope
}

// parse parses the response to a request with a verb. It adds the corrections that are
// counted in d to the Notes of the Page.
func parse(text []byte, verb Verb, url string, d dirt) (*Page, error) {
	p := parser{text: text, page: &Page{URL: url, Size: -1}, verb: verb, dirt: d}
	p.begin(0)
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
	if !p.page.listed {
		return nil, fmt.Errorf("%s: the response has neither the element %s nor an error", url, verb)
	}
	return p.page, nil
}

// begin makes the parser continue at an offset in the text.
func (p *parser) begin(at int64) {
	p.base = at
	p.d = xml.NewDecoder(bytes.NewReader(p.text[at:]))
}

func (p *parser) offset() int64 { return p.base + p.d.InputOffset() }

// next returns the next tag or text. A document type declaration is an error, because
// no OAI-PMH response has one.
func (p *parser) next() (xml.Token, error) {
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
		t, err := p.next()
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
	p.declared(root)
	if p.spaceOf(root.Name.Space) != Namespace {
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
		return "the element " + strconv.Quote(cut(t.Name.Local))
	case xml.CharData:
		return "the text " + strconv.Quote(cut(string(bytes.TrimSpace(t))))
	}
	return "something else"
}

// cut shortens a text that is quoted in a message.
func cut(s string) string {
	if len(s) > 60 {
		return strings.ToValidUTF8(s[:60], "") + "…"
	}
	return s
}

// declared stores the namespace declarations of an element.
func (p *parser) declared(e xml.StartElement) {
	for _, a := range e.Attr {
		if a.Name.Space == "xmlns" || a.Name.Space == "" && a.Name.Local == "xmlns" {
			p.spaces = append(p.spaces, a)
		}
	}
}

// spaceOf returns the namespace of a prefix; "" if it is undeclared.
func (p *parser) spaceOf(prefix string) string {
	for i := len(p.spaces) - 1; i >= 0; i-- {
		if a := p.spaces[i]; a.Name.Space == "xmlns" && a.Name.Local == prefix || prefix == "" && a.Name.Space == "" {
			return a.Value
		}
	}
	return ""
}

// children calls the function do for each child of an open element, and reads the end
// tag of the element. do must read the whole child. An end tag with another name is an
// error: without it, an incomplete list could look complete.
func (p *parser) children(of xml.StartElement, do func(xml.StartElement) error) error {
	for {
		t, err := p.next()
		if err != nil {
			return err
		}
		switch t := t.(type) {
		case xml.EndElement:
			return p.ends(of.Name, t)
		case xml.StartElement:
			before := len(p.spaces)
			p.declared(t)
			err := do(t)
			p.spaces = p.spaces[:before]
			if err != nil {
				return err
			}
		}
	}
}

// ends returns an error unless an end tag has the name of the open element.
func (p *parser) ends(name xml.Name, t xml.EndElement) error {
	if name != t.Name {
		return fmt.Errorf("at byte %d: the element %q ends as %q", p.offset(), cut(name.Local), cut(t.Name.Local))
	}
	return nil
}

// skip reads an open element to its end.
func (p *parser) skip(e xml.StartElement) error {
	for depth := 1; depth > 0; {
		t, err := p.next()
		if err != nil {
			return err
		}
		switch t := t.(type) {
		case xml.StartElement:
			depth++
		case xml.EndElement:
			if depth--; depth == 0 {
				return p.ends(e.Name, t)
			}
		}
	}
	return nil
}

// textOf returns the text in an open element, which it reads to its end.
func (p *parser) textOf(e xml.StartElement) (string, error) {
	var b []byte
	for depth := 1; ; {
		t, err := p.next()
		if err != nil {
			return "", err
		}
		switch t := t.(type) {
		case xml.StartElement:
			depth++
		case xml.EndElement:
			if depth--; depth == 0 {
				return strings.TrimSpace(string(b)), p.ends(e.Name, t)
			}
		case xml.CharData:
			if b = append(b, t...); len(b) > maxText {
				return "", fmt.Errorf("expected at most %d bytes in an element outside of metadata, found more", maxText)
			}
		}
	}
}

// envelope reads a child of the root element, OAI-PMH.
func (p *parser) envelope(e xml.StartElement) error {
	switch e.Name.Local {
	case "responseDate":
		return p.into(e, func(s string) { p.page.date, p.page.Date = s, p.stamp(s, "responseDate").Time })
	case "request":
		return p.into(e, func(s string) { p.page.request = s })
	case "error":
		code := attr(e, "code")
		return p.into(e, func(s string) {
			if p.page.err == nil {
				p.page.err = &Error{Code: Code(cut(code)), Msg: cut(s)}
			}
		})
	case string(VerbIdentify):
		p.page.identity, p.page.listed = &Identity{}, p.verb == VerbIdentify
		return p.children(e, p.identify)
	case string(VerbFormats), string(VerbSets), string(VerbIdentifiers), string(VerbRecords), string(VerbRecord):
		if e.Name.Local == string(p.verb) {
			p.page.listed = true
		}
		return p.children(e, p.item)
	}
	return p.skip(e)
}

func (p *parser) into(e xml.StartElement, to func(string)) error {
	s, err := p.textOf(e)
	if err == nil {
		to(s)
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

// stamp parses the datestamp in an element. An unreadable or unusual datestamp counts
// as a fault of the repository.
func (p *parser) stamp(text, element string) Stamp {
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
	return p.into(e, func(s string) {
		switch e.Name.Local {
		case "repositoryName":
			i.Name = s
		case "adminEmail":
			i.Emails = append(i.Emails, s)
		case "earliestDatestamp":
			i.Earliest = p.stamp(s, "earliestDatestamp")
		case "deletedRecord":
			i.Deleted = DeletedRecord(strings.ToLower(s))
		case "granularity":
			i.Days = !strings.Contains(strings.ToLower(s), "t")
		}
	})
}

// item reads a child of the element that is named after the verb.
func (p *parser) item(e xml.StartElement) error {
	switch e.Name.Local {
	case "record":
		return p.record(e)
	case "header":
		return p.bare(e)
	case "metadataFormat":
		return p.format(e)
	case "resumptionToken":
		if n, err := strconv.ParseInt(attr(e, "completeListSize"), 10, 64); err == nil && n >= 0 {
			p.page.Size = n
		}
		return p.into(e, func(s string) { p.page.Token = s })
	}
	return p.skip(e)
}

func (p *parser) format(of xml.StartElement) error {
	var f Format
	err := p.children(of, func(e xml.StartElement) error {
		return p.into(e, func(text string) {
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

// bare reads a header that is not in a record, as in a response to ListIdentifiers.
func (p *parser) bare(e xml.StartElement) error {
	var r Record
	if err := p.header(e, &r.Header); err != nil {
		return err
	}
	p.keep(r, nil)
	return nil
}

func (p *parser) header(e xml.StartElement, h *Header) error {
	h.Deleted = attr(e, "status") == "deleted"
	return p.children(e, func(e xml.StartElement) error {
		return p.into(e, func(s string) {
			switch e.Name.Local {
			case "identifier":
				h.Identifier = s
			case "datestamp":
				h.Datestamp = p.stamp(s, "datestamp")
			case "setSpec":
				if s != "" && len(h.Sets) < maxSets {
					h.Sets = append(h.Sets, s)
				}
			}
		})
	})
}

// record reads a record. If the record is not well-formed, reading continues after its
// end tag.
func (p *parser) record(of xml.StartElement) error {
	begin := p.offset()
	var r Record
	var wrong error
	some := false
	err := p.children(of, func(e xml.StartElement) error {
		switch e.Name.Local {
		case "header":
			return p.header(e, &r.Header)
		case "metadata":
			some = true
			var err error
			r.Metadata, err = p.metadata(e, &wrong)
			return err
		}
		return p.skip(e)
	})
	if err != nil {
		end := recordEnd.FindSubmatchIndex(p.text[begin:])
		if end == nil {
			return err
		}
		p.bad(r.Identifier, err)
		p.begin(begin + int64(end[3]))
		return nil
	}
	switch {
	case r.Deleted && some:
		p.dirt["a deleted record has metadata"]++
		r.Metadata, wrong = nil, nil
	case !r.Deleted && wrong == nil && r.Metadata == nil:
		wrong = errors.New("the record has no metadata")
	}
	p.keep(r, wrong)
	return nil
}

// keep adds a record to the page. If wrong is not nil, it is the reason why the record
// cannot be used, and keep adds it to the field Bad of the page.
func (p *parser) keep(r Record, wrong error) {
	switch {
	case r.Identifier == "":
		wrong = errors.New("the record has no identifier")
	case len(r.Identifier) > MaxIdentifier:
		wrong = fmt.Errorf("the identifier has %d bytes: expected at most %d", len(r.Identifier), MaxIdentifier)
		r.Identifier = ""
	}
	if wrong != nil {
		p.bad(r.Identifier, wrong)
		return
	}
	p.page.Records = append(p.page.Records, r)
}

func (p *parser) bad(identifier string, err error) {
	p.page.Bad = append(p.page.Bad, BadRecord{identifier, fmt.Errorf("%s: record %q: %w", p.page.URL, cut(identifier), err)})
}
