// Package feed reads Atom (RFC 4287) and RSS 2.0 feeds entry by entry, with a limit on the
// size of an entry. It reads titles, links and times of entries and skips their content.
package feed

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Kind is the format of a feed.
type Kind string

// The formats that Read reads.
const (
	Atom Kind = "atom"
	RSS  Kind = "rss"
)

// Header contains the fields of the feed itself.
type Header struct {
	Kind    Kind
	ID      string // atom:id; "" in RSS
	Self    string // href of the link with rel="self", unresolved
	Title   string
	Updated string // time as written: RFC 3339 in Atom, RFC 822 in RSS
}

// Entry is an entry of an Atom feed or an item of an RSS feed.
type Entry struct {
	ID      string // atom:id, or guid in RSS
	Title   string
	Updated string // time as written: RFC 3339 in Atom, RFC 822 in RSS
	Links   []Link
	Line    int // the line at which the start tag of the entry begins, from 1
}

// Link is a link of an entry. In RSS it has no relation.
type Link struct {
	Rel  string // relation of the link; "" means "alternate"
	Href string // URI as written, unresolved
	Type string
}

// Link returns the href of the first link with the given relation, or "" if there is none.
// A link without relation counts as "alternate".
func (e *Entry) Link(rel string) string {
	for _, l := range e.Links {
		if l.Rel == rel || rel == "alternate" && l.Rel == "" {
			return l.Href
		}
	}
	return ""
}

const (
	nsAtom = "http://www.w3.org/2005/Atom"

	maxEntry = 1 << 20 // the largest size in bytes of an entry, or of the text between two entries
	maxLinks = 100     // largest number of links of an entry
)

// ErrTooLarge means that an entry is larger than 1 MiB.
var ErrTooLarge = errors.New("an entry of the feed has more than 1 MiB")

// ErrNotFeed means that a document is not a feed.
var ErrNotFeed = errors.New("not a feed")

// Read reads a whole feed and calls the function handle with every entry. The entry is
// valid until handle returns. Read stops at the first error of handle. The error of Read
// wraps ErrNotFeed, ErrTooLarge, an XML syntax error, or the error of src or handle.
// Entries before the error have been handled.
func Read(src io.Reader, handle func(*Entry) error) (Header, error) {
	m := &meter{r: src, remaining: maxEntry}
	r := &reader{d: xml.NewDecoder(m), m: m, handle: handle}
	err := r.read()
	if m.err != nil {
		err = m.err
	}
	if err != nil {
		return r.h, fmt.Errorf("read the feed: %w", err)
	}
	return r.h, nil
}

// meter is a reader that limits the number of bytes of one entry. The caller resets the
// limit at the beginning of each entry.
type meter struct {
	r         io.Reader
	remaining int64
	err       error // first error of r, or ErrTooLarge
}

func (m *meter) Read(p []byte) (int, error) {
	if m.err != nil {
		return 0, m.err
	}
	if m.remaining <= 0 {
		m.err = ErrTooLarge
		return 0, m.err
	}
	n, err := m.r.Read(p)
	m.remaining -= int64(n)
	if err != nil && err != io.EOF {
		m.err = err
	}
	return n, err
}

type reader struct {
	d      *xml.Decoder
	m      *meter
	h      Header
	handle func(*Entry) error
}

func (r *reader) read() error {
	for {
		tok, err := r.d.Token()
		if err != nil {
			return notFeed(err)
		}
		start, ok := tok.(xml.StartElement)
		if !ok {
			continue
		}
		switch {
		case start.Name.Space == nsAtom && start.Name.Local == "feed":
			r.h.Kind = Atom
			return r.children(r.atom)
		case start.Name.Space == "" && start.Name.Local == "rss":
			r.h.Kind = RSS
			return r.children(r.channel)
		}
		return fmt.Errorf("%w: the root element is %q", ErrNotFeed, start.Name.Local)
	}
}

func notFeed(err error) error {
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: the document has no element", ErrNotFeed)
	}
	return fmt.Errorf("%w: %w", ErrNotFeed, err)
}

// children calls readChild for each child element. readChild must read up to the end tag
// of the element.
func (r *reader) children(readChild func(*xml.StartElement) error) error {
	for {
		r.m.remaining = maxEntry
		tok, err := r.d.Token()
		if err != nil {
			return err
		}
		switch tok := tok.(type) {
		case xml.StartElement:
			if err := readChild(&tok); err != nil {
				return err
			}
		case xml.EndElement:
			return nil
		}
	}
}

func (r *reader) atom(start *xml.StartElement) error {
	if start.Name.Space != nsAtom {
		return r.d.Skip()
	}
	switch start.Name.Local {
	case "entry":
		return r.entry(&Entry{}, (*reader).atomField)
	case "link":
		l := linkOf(start)
		if l.Rel == "self" {
			r.h.Self = l.Href
		}
	case "id":
		return r.text(&r.h.ID)
	case "title":
		return r.text(&r.h.Title)
	case "updated":
		return r.text(&r.h.Updated)
	}
	return r.d.Skip()
}

// channel reads a child of the element rss, which is normally the element channel.
func (r *reader) channel(start *xml.StartElement) error {
	if start.Name.Space != "" || start.Name.Local != "channel" {
		return r.d.Skip()
	}
	return r.children(func(start *xml.StartElement) error {
		switch name := start.Name; {
		case name.Space == nsAtom && name.Local == "link":
			if l := linkOf(start); l.Rel == "self" {
				r.h.Self = l.Href
			}
		case name.Space != "":
		case name.Local == "item":
			return r.entry(&Entry{}, (*reader).rssField)
		case name.Local == "title":
			return r.text(&r.h.Title)
		case name.Local == "lastBuildDate", name.Local == "pubDate" && r.h.Updated == "":
			return r.text(&r.h.Updated)
		}
		return r.d.Skip()
	})
}

func (r *reader) entry(e *Entry, field func(*reader, *Entry, *xml.StartElement) error) error {
	e.Line, _ = r.d.InputPos()
	for {
		tok, err := r.d.Token()
		if err != nil {
			return err
		}
		switch tok := tok.(type) {
		case xml.StartElement:
			if err := field(r, e, &tok); err != nil {
				return err
			}
		case xml.EndElement:
			return r.handle(e)
		}
	}
}

func (r *reader) atomField(e *Entry, start *xml.StartElement) error {
	if start.Name.Space != nsAtom {
		return r.d.Skip()
	}
	switch start.Name.Local {
	case "id":
		return r.text(&e.ID)
	case "title":
		return r.text(&e.Title)
	case "updated":
		return r.text(&e.Updated)
	case "link":
		if len(e.Links) < maxLinks {
			e.Links = append(e.Links, linkOf(start))
		}
	}
	return r.d.Skip()
}

func (r *reader) rssField(e *Entry, start *xml.StartElement) error {
	if start.Name.Space != "" {
		return r.d.Skip()
	}
	switch start.Name.Local {
	case "guid":
		return r.text(&e.ID)
	case "title":
		return r.text(&e.Title)
	case "pubDate":
		return r.text(&e.Updated)
	case "link":
		var l Link
		if err := r.text(&l.Href); err != nil {
			return err
		}
		if l.Href != "" && len(e.Links) < maxLinks {
			e.Links = append(e.Links, l)
		}
		return nil
	}
	return r.d.Skip()
}

// text reads the text of an element without the text of its children.
func (r *reader) text(into *string) error {
	var b strings.Builder
	for {
		tok, err := r.d.Token()
		if err != nil {
			return err
		}
		switch tok := tok.(type) {
		case xml.CharData:
			b.Write(tok)
		case xml.StartElement:
			if err := r.d.Skip(); err != nil {
				return err
			}
		case xml.EndElement:
			*into = strings.TrimSpace(b.String())
			return nil
		}
	}
}

func linkOf(start *xml.StartElement) Link {
	var l Link
	for _, a := range start.Attr {
		if a.Name.Space != "" {
			continue
		}
		switch a.Name.Local {
		case "rel":
			l.Rel = a.Value
		case "href":
			l.Href = strings.TrimSpace(a.Value)
		case "type":
			l.Type = a.Value
		}
	}
	return l
}
