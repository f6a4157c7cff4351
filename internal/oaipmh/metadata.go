package oaipmh

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"regexp"
)

// recordEnd matches the end tag of a record of the response, together with what follows
// the tag: another record or the end of the list. So it does not match elements called
// record within the metadata of a record, as MARC has them.
var recordEnd = regexp.MustCompile(`(</(?:[\w.-]+:)?record\s*>)\s*(?:<(?:[\w.-]+:)?(?:record|resumptionToken)[\s/>]|</(?:[\w.-]+:)?(?:ListRecords|GetRecord)\s*>)`)

// fragment has facts about an element in a response.
type fragment struct {
	declares map[string]bool // namespace prefixes that the element declares; "" is the default namespace
	plain    bool            // whether the element or an element in it has no namespace prefix
	end      int64           // the offset in the response at which the element ends
}

// metadata reads the content of a metadata element. If the content is well-formed but
// cannot be used, it sets wrong to the reason.
func (p *parser) metadata(of xml.StartElement, wrong *error) (found []byte, err error) {
	err = p.children(of, func(e xml.StartElement) error {
		at := p.startOf()
		f, err := p.element(&e)
		if err != nil {
			return err
		}
		switch {
		case found != nil:
			*wrong = fmt.Errorf("the metadata has a second element %q: expected one element", cut(e.Name.Local))
		case f.end-at > MaxRecord:
			*wrong = fmt.Errorf("the metadata has %d bytes: expected at most %d", f.end-at, MaxRecord)
		default:
			found = p.standalone(e, at, f)
		}
		return nil
	})
	return found, err
}

// startOf returns the offset at which the start tag begins that was read last.
func (p *parser) startOf() int64 {
	return int64(bytes.LastIndexByte(p.text[:p.offset()-1], '<'))
}

// element reads the rest of an element after its start tag. It checks that start tags
// and end tags match.
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
	f.plain = root.Name.Space == ""
	for open := []xml.Name{root.Name}; len(open) > 0; {
		t, err := p.next()
		if err != nil {
			return f, err
		}
		switch t := t.(type) {
		case xml.StartElement:
			if open = append(open, t.Name); len(open) > maxDepth {
				return f, fmt.Errorf("elements are nested deeper than %d", maxDepth)
			}
			f.plain = f.plain || t.Name.Space == ""
		case xml.EndElement:
			if err := p.ends(open[len(open)-1], t); err != nil {
				return f, err
			}
			open = open[:len(open)-1]
		}
	}
	f.end = p.offset()
	return f, nil
}

// standalone returns an element as a document of its own, with the namespace
// declarations of the enclosing elements. It declares each prefix that occurs anywhere
// in the element, because attributes and texts may use prefixes, too.
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
		if f.declares[prefix] || taken[prefix] || prefix == "" && !f.plain || !bytes.Contains(text, []byte(prefix+":")) && prefix != "" {
			continue
		}
		taken[prefix] = true
		more = append(more, ' ')
		if more = append(more, "xmlns"...); prefix != "" {
			more = append(append(more, ':'), prefix...)
		}
		more = append(more, `="`...)
		var value bytes.Buffer
		_ = xml.EscapeText(&value, []byte(a.Value)) // a Buffer never fails
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
