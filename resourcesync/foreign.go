package resourcesync

import (
	"errors"
	"strings"
)

// foreignWriter writes elements of other vocabularies so that they have the same
// meaning in any document, as in exclusive canonical XML. It declares each prefix on
// the element that uses the prefix, leaves out comments, and writes CDATA sections as
// text.
type foreignWriter struct {
	b        []byte
	declared []binding // namespace declarations that were written and are in scope
	outer    []int     // number of declarations in scope outside of each open element
	names    []string  // names of the open elements
}

func (d *Decoder) keepForeign() error {
	w := &d.kept
	w.declared, w.outer, w.names = w.declared[:0], w.outer[:0], w.names[:0]
	w.start(&d.s)
	for depth := len(d.s.opens); len(d.s.opens) >= depth; {
		d.s.collect, d.s.text = true, d.s.text[:0]
		empty := d.s.pendingEnd
		tok, err := d.s.next()
		d.s.collect = false
		if err != nil {
			return err
		}
		w.b, _ = appendEscaped(w.b, string(d.s.text), false)
		if tok == tokStart {
			if err := d.countForeign(); err != nil {
				return err
			}
			w.start(&d.s)
		} else {
			w.end(empty)
		}
		if len(w.b) > d.s.lim.ForeignBytes {
			return d.fail(LimitReached, "elements of other vocabularies take more than %d bytes", d.s.lim.ForeignBytes)
		}
	}
	return nil
}

func (w *foreignWriter) start(s *scanner) {
	el := &s.elem
	w.outer = append(w.outer, len(w.declared))
	w.names = append(w.names, string(el.name))
	w.b = append(append(w.b, '<'), el.name...)
	w.declare(el.name[:el.colon], el.uri)
	for i := range s.attrs {
		if a := &s.attrs[i]; a.colon > 0 {
			w.declare(a.name[:a.colon], a.uri)
		}
	}
	for i := range s.attrs {
		w.attr(string(s.attrs[i].name), string(s.attrs[i].value))
	}
	if !s.pendingEnd {
		w.b = append(w.b, '>')
	}
}

// declare writes the namespace declaration of a prefix, unless it is already in scope.
func (w *foreignWriter) declare(prefix []byte, uri string) {
	if uri == nsXML {
		return
	}
	for i := len(w.declared) - 1; i >= 0; i-- {
		if r := &w.declared[i]; r.prefix == string(prefix) {
			if r.uri == uri {
				return
			}
			break
		}
	}
	w.declared = append(w.declared, binding{prefix: string(prefix), uri: uri})
	name := "xmlns"
	if len(prefix) > 0 {
		name = "xmlns:" + string(prefix)
	}
	w.attr(name, uri)
}

func (w *foreignWriter) attr(name, value string) {
	w.b = append(append(append(w.b, ' '), name...), `="`...)
	w.b, _ = appendEscaped(w.b, value, true) // no error is possible, because the value was read from XML
	w.b = append(w.b, '"')
}

// end writes "/>" if the innermost element was read in the form <x/>, and otherwise an
// end tag.
func (w *foreignWriter) end(empty bool) {
	last := len(w.names) - 1
	if empty {
		w.b = append(w.b, "/>"...)
	} else {
		w.b = append(append(append(w.b, "</"...), w.names[last]...), '>')
	}
	w.declared, w.outer, w.names = w.declared[:w.outer[last]], w.outer[:last], w.names[:last]
}

// foreignChecker checks XML that an Encoder copies into a document.
type foreignChecker struct{ s scanner }

// check returns an error unless the XML can be part of a document: it must consist of whole
// elements that declare the prefixes they use, in namespaces of other vocabularies.
func (c *foreignChecker) check(xml string) error {
	const before, after = `<x xmlns="` + nsSitemap + `">`, `</x>`
	c.s = scanner{
		window: window{src: strings.NewReader(before + xml + after), limit: int64(len(before) + len(xml) + len(after)), line: 1, buf: c.s.buf},
		lim:    Limits{}.withDefaults(),
	}
	c.s.lim.Token = len(xml) + len(before)
	for {
		top := len(c.s.opens) == 1
		c.s.collect, c.s.text = true, c.s.text[:0]
		tok, err := c.s.next()
		if e, ok := errors.AsType[*DecodeError](err); ok {
			return errors.New(e.Msg)
		}
		switch {
		case tok == tokEOF:
			return nil
		case top && len(trimSpace(c.s.text)) > 0:
			return errors.New("expected elements and no text between them")
		case top && tok == tokStart && c.s.elem.space != spaceForeign:
			return errors.New("expected elements in the namespace of another vocabulary")
		}
	}
}
