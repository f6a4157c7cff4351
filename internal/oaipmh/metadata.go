package oaipmh

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"regexp"
)

// recordEnd matches the end tag of a record and the next tag, which must begin another
// record or end the list. So it does not match the end of a "record" element in
// metadata, such as in MARC.
var recordEnd = regexp.MustCompile(`(</(?:[\w.-]+:)?record\s*>)\s*(?:<(?:[\w.-]+:)?(?:record|resumptionToken)[\s/>]|</(?:[\w.-]+:)?(?:ListRecords|GetRecord)\s*>)`)

type fragment struct {
	declares   map[string]bool // namespace prefixes that the element declares; "" is the default namespace
	unprefixed bool            // whether the element, or an element in it, has no namespace prefix
	end        int64           // offset of the end of the element in the response
}

// metadata reads a "metadata" element. If its content is well-formed but cannot be
// used, it stores the reason in unusable and returns no error, so that reading
// continues after the element.
func (p *parser) metadata(parent xml.StartElement, unusable *error) (found []byte, err error) {
	err = p.children(parent, func(e xml.StartElement) error {
		at := p.startTagOffset()
		f, err := p.element(&e)
		if err != nil {
			return err
		}
		switch {
		case found != nil:
			*unusable = fmt.Errorf("the metadata has a second element %q: expected one element", shorten(e.Name.Local))
		case f.end-at > MaxRecord:
			*unusable = fmt.Errorf("the metadata has %d bytes: expected at most %d", f.end-at, MaxRecord)
		default:
			found = p.standalone(e, at, f)
		}
		return nil
	})
	return found, err
}

func (p *parser) startTagOffset() int64 {
	return int64(bytes.LastIndexByte(p.text[:p.offset()-1], '<'))
}

func (p *parser) element(root *xml.StartElement) (f fragment, err error) {
	f.declares = map[string]bool{}
	for _, a := range root.Attr {
		switch {
		case a.Name.Space == "xmlns":
			f.declares[a.Name.Local] = true
		case a.Name.Space == "" && a.Name.Local == "xmlns":
			f.declares[""] = true
		}
	}
	f.unprefixed = root.Name.Space == ""
	for open := []xml.Name{root.Name}; len(open) > 0; {
		t, err := p.nextToken()
		if err != nil {
			return f, err
		}
		switch t := t.(type) {
		case xml.StartElement:
			if open = append(open, t.Name); len(open) > maxDepth {
				return f, fmt.Errorf("elements are nested deeper than %d", maxDepth)
			}
			f.unprefixed = f.unprefixed || t.Name.Space == ""
		case xml.EndElement:
			if err := p.checkEnd(open[len(open)-1], t); err != nil {
				return f, err
			}
			open = open[:len(open)-1]
		}
	}
	f.end = p.offset()
	return f, nil
}

// standalone returns an element as a document, with copies of the namespace declarations
// of enclosing elements. It copies the declaration of each prefix that occurs anywhere in
// the text, because values of attributes may have prefixes, too.
func (p *parser) standalone(e xml.StartElement, at int64, f fragment) []byte {
	text := p.text[at:f.end]
	var more []byte
	taken := map[string]bool{}
	for i := len(p.spaces) - 1; i >= 0; i-- { // innermost first
		a := p.spaces[i]
		prefix := a.Name.Local
		if a.Name.Space == "" {
			prefix = ""
		}
		if f.declares[prefix] || taken[prefix] || prefix == "" && !f.unprefixed || !bytes.Contains(text, []byte(prefix+":")) && prefix != "" {
			continue
		}
		taken[prefix] = true
		more = append(more, ' ')
		if more = append(more, "xmlns"...); prefix != "" {
			more = append(append(more, ':'), prefix...)
		}
		more = append(more, `="`...)
		var value bytes.Buffer
		_ = xml.EscapeText(&value, []byte(a.Value)) // no error: a write to a Buffer never fails
		more = append(append(more, value.Bytes()...), '"')
	}
	if len(more) == 0 {
		return text
	}
	name := 1 + len(e.Name.Local)
	if e.Name.Space != "" {
		name += len(e.Name.Space) + 1
	}
	return bytes.Join([][]byte{text[:name], more, text[name:]}, nil)
}
