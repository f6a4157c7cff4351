// Package weblink reads links outside of ResourceSync documents: in the Link header of HTTP
// (RFC 8288), in the link elements of HTML pages (1.1 §6.3.3) and in robots.txt (1.1
// §6.3.4).
package weblink

import (
	"bytes"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/html"
)

// Link is one link. An absent attribute is "".
type Link struct {
	Href string   // target as written; see Page.Resolve
	Rels []string // relation types, in lower case
	Type string   // media type

	// Anchor is the subject of a link in a Link header, if the subject is not the served
	// resource (RFC 8288 §3.2).
	Anchor string

	Datetime string // datetime attribute of a link to a Memento (RFC 7089 §2.2)

	// Of HTML pages:
	Line int  // from 1
	Head bool // in HTML pages: the link is in the head
}

// Has reports whether rel is one of the relation types of the link.
func (l *Link) Has(rel string) bool { return slices.Contains(l.Rels, rel) }

func relations(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Fields(strings.ToLower(s))
}

// mostLinks bounds the number of links read from one page or response.
const mostLinks = 1_000

// Page has the links of an HTML page.
type Page struct {
	Base  string // href of the base element; "" if there is none
	Links []Link // link elements, at most 1,000
}

// Resolve returns the absolute URI of a reference on the page at uri. It returns an error
// if the reference cannot be parsed.
func (p *Page) Resolve(uri, href string) (string, error) {
	base, err := url.Parse(uri)
	if err == nil && p.Base != "" {
		base, err = base.Parse(p.Base)
	}
	if err == nil {
		base, err = base.Parse(strings.TrimSpace(href))
	}
	if err != nil {
		return "", fmt.Errorf("resolve %q: %w", href, err)
	}
	return base.String(), nil
}

// HTML reads the link elements of a page. It accepts any text as a page. The only errors
// are those of r, and one for a tag longer than 1 MiB.
func HTML(r io.Reader) (Page, error) {
	var p Page
	err := Walk(r, func(t *Tag) {
		switch {
		case t.Name == "base" && p.Base == "":
			p.Base = strings.TrimSpace(t.Attr("href"))
		case t.Name == "link" && len(p.Links) < mostLinks:
			p.Links = append(p.Links, Link{
				Href: strings.TrimSpace(t.Attr("href")), Rels: relations(t.Attr("rel")), Type: t.Attr("type"),
				Line: t.Line, Head: t.Head,
			})
		}
	})
	return p, err
}

// Tag is a start tag of an HTML page, or a piece of text.
type Tag struct {
	Name string // element name in lower case; "" for text
	Text string // text that is visible on the page
	Line int    // from 1
	Head bool   // in the head of the page

	attrs [][2]string
}

// Attr returns the value of an attribute, or "" if the tag lacks the attribute. If an
// attribute is repeated, the first value counts, as in HTML.
func (t *Tag) Attr(name string) string {
	for _, a := range t.attrs {
		if a[0] == name {
			return a[1]
		}
	}
	return ""
}

// unseen has the elements whose text browsers do not show.
var unseen = map[string]bool{"script": true, "style": true, "title": true, "template": true, "noscript": true}

// Walk calls visit with the start tags and the text of a page, in order. The Tag is valid
// until visit returns. The errors are those of HTML.
func Walk(r io.Reader, visit func(*Tag)) error {
	const longest = 1 << 20
	z := html.NewTokenizer(r)
	z.SetMaxBuf(longest)
	t := Tag{Head: true, Line: 1}
	hidden := ""
	for {
		kind := z.Next()
		if kind == html.ErrorToken {
			if err := z.Err(); err != io.EOF {
				return fmt.Errorf("read the links of the page: %w", err)
			}
			return nil
		}
		lines := bytes.Count(z.Raw(), []byte{'\n'})
		switch kind {
		case html.StartTagToken, html.SelfClosingTagToken:
			t.start(z)
			if kind == html.StartTagToken && unseen[t.Name] {
				hidden = t.Name
			}
			visit(&t)
		case html.EndTagToken:
			name, _ := z.TagName()
			if string(name) == "head" {
				t.Head = false
			}
			if string(name) == hidden {
				hidden = ""
			}
		case html.TextToken:
			if hidden == "" {
				t.Name, t.attrs, t.Text = "", t.attrs[:0], string(z.Text())
				visit(&t)
			}
		}
		t.Line += lines
	}
}

// inHead has the elements that may be in the head of a page. Any other element ends the
// head.
var inHead = map[string]bool{
	"html": true, "head": true, "title": true, "base": true, "link": true, "meta": true,
	"style": true, "script": true, "noscript": true, "template": true,
}

func (t *Tag) start(z *html.Tokenizer) {
	raw, more := z.TagName()
	t.Name, t.Text, t.attrs = string(raw), "", t.attrs[:0]
	if !inHead[t.Name] {
		t.Head = false
	}
	for more {
		var k, v []byte
		k, v, more = z.TagAttr()
		t.attrs = append(t.attrs, [2]string{string(k), string(v)})
	}
}

// Header parses the values of Link headers. It skips invalid parts.
func Header(values []string) []Link {
	var links []Link
	for _, v := range values {
		links = append(links, Parse(v, mostLinks-len(links))...)
	}
	return links
}

// Parse parses the links in the value of a Link header, or in a document of type
// application/link-format, which may contain line breaks (RFC 6690 §2). It returns at most
// limit links and skips invalid parts.
func Parse(text string, limit int) (links []Link) {
	for text != "" && len(links) < limit {
		var l Link
		var ok bool
		if l, text, ok = headerLink(text); ok {
			links = append(links, l)
		}
	}
	return links
}

// headerLink parses the first link of a Link header, and returns the rest of the header.
func headerLink(v string) (l Link, rest string, ok bool) {
	_, v, found := strings.Cut(v, "<")
	if !found {
		return l, "", false
	}
	l.Href, v, found = strings.Cut(v, ">")
	if !found {
		return l, "", false
	}
	l.Href = strings.TrimSpace(l.Href)
	hasRel := false
	for {
		v = strings.TrimLeft(v, " \t\r\n")
		if v == "" || v[0] != ';' {
			break
		}
		var name, value string
		name, value, v = parameter(v[1:])
		switch strings.ToLower(name) {
		case "rel":
			if !hasRel { // the first rel counts (RFC 8288 §3.3)
				l.Rels, hasRel = relations(value), true
			}
		case "type":
			l.Type = value
		case "datetime":
			l.Datetime = value
		case "anchor":
			l.Anchor = strings.TrimSpace(value)
		}
	}
	if i := strings.IndexByte(v, ','); i >= 0 {
		return l, v[i+1:], true
	}
	return l, "", true
}

// parameter parses one parameter of a link, name=value with or without quotes, and returns
// the rest of the text.
func parameter(v string) (name, value, rest string) {
	i := strings.IndexAny(v, "=;,")
	if i < 0 {
		return strings.TrimSpace(v), "", ""
	}
	name = strings.TrimSpace(v[:i])
	if v[i] != '=' {
		return name, "", v[i:]
	}
	v = strings.TrimLeft(v[i+1:], " \t")
	if !strings.HasPrefix(v, `"`) {
		end := strings.IndexAny(v, ";,")
		if end < 0 {
			end = len(v)
		}
		return name, strings.TrimSpace(v[:end]), v[end:]
	}
	var b strings.Builder
	for i = 1; i < len(v) && v[i] != '"'; i++ {
		if v[i] == '\\' && i+1 < len(v) {
			i++
		}
		b.WriteByte(v[i])
	}
	return name, b.String(), v[min(i+1, len(v)):]
}
