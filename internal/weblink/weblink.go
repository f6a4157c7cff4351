// Package weblink reads links where they stand outside of ResourceSync documents: in
// the Link header of HTTP (RFC 8288), in the link elements of HTML pages (1.1 §6.3.3)
// and in robots.txt (1.1 §6.3.4).
package weblink

import (
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/html"
)

// Link is one link. What it does not have is "".
type Link struct {
	Href string   // as it was written; see Page.Resolve
	Rels []string // relation types, in lower case
	Type string   // media type

	// Of Link headers: what the link is about, if that isn't the resource served
	// (RFC 8288 §3.2).
	Anchor string

	// Of HTML pages:
	Line int  // from 1
	Head bool // it stands in the head of the page
}

// Has reports whether rel is one of the relation types of the link.
func (l *Link) Has(rel string) bool { return slices.Contains(l.Rels, rel) }

func relations(s string) []string { return strings.Fields(strings.ToLower(s)) }

// mostLinks bounds what is read of one page or one response.
const mostLinks = 1_000

// Page is what an HTML page links to.
type Page struct {
	Base  string // href of the base element, "" if there is none
	Links []Link // of link elements, the first 1,000
}

// Resolve returns the whole URI of href on the page at uri; the error says what can't
// be parsed.
func (p *Page) Resolve(uri, href string) (string, error) {
	base, err := url.Parse(uri)
	if err == nil && p.Base != "" {
		base, err = base.Parse(p.Base)
	}
	if err != nil {
		return "", fmt.Errorf("resolve %q: %w", href, err)
	}
	whole, err := base.Parse(strings.TrimSpace(href))
	if err != nil {
		return "", fmt.Errorf("resolve %q: %w", href, err)
	}
	return whole.String(), nil
}

// HTML reads the link elements of a page. A page of any form can be read; the error
// is that of r, or of a single tag longer than a megabyte.
func HTML(r io.Reader) (Page, error) {
	const longest = 1 << 20
	z := html.NewTokenizer(r)
	z.SetMaxBuf(longest)
	p := page{head: true, line: 1}
	for {
		kind := z.Next()
		if kind == html.ErrorToken {
			if err := z.Err(); err != io.EOF {
				return p.Page, fmt.Errorf("read the links of the page: %w", err)
			}
			return p.Page, nil
		}
		lines := strings.Count(string(z.Raw()), "\n")
		switch kind {
		case html.StartTagToken, html.SelfClosingTagToken:
			p.start(z)
		case html.EndTagToken:
			if name, _ := z.TagName(); string(name) == "head" {
				p.head = false
			}
		}
		p.line += lines
	}
}

// page is a Page being read.
type page struct {
	Page
	head bool
	line int
}

// inHead are the elements that do not end the head of a page.
var inHead = map[string]bool{
	"html": true, "head": true, "title": true, "base": true, "link": true, "meta": true,
	"style": true, "script": true, "noscript": true, "template": true,
}

func (p *page) start(z *html.Tokenizer) {
	raw, more := z.TagName()
	name := string(raw)
	if !inHead[name] {
		p.head = false
	}
	if name != "link" && name != "base" {
		return
	}
	l := Link{Line: p.line, Head: p.head}
	for more {
		var k, v []byte
		k, v, more = z.TagAttr()
		switch string(k) {
		case "href":
			l.Href = strings.TrimSpace(string(v))
		case "rel":
			l.Rels = relations(string(v))
		case "type":
			l.Type = string(v)
		}
	}
	switch {
	case name == "base":
		if p.Base == "" {
			p.Base = l.Href
		}
	case len(p.Links) < mostLinks:
		p.Links = append(p.Links, l)
	}
}

// Header reads the values of the Link headers of a response. What does not have the
// form of a link is passed over.
func Header(values []string) []Link {
	var links []Link
	for _, v := range values {
		for v != "" && len(links) < mostLinks {
			var l Link
			var ok bool
			if l, v, ok = headerLink(v); ok {
				links = append(links, l)
			}
		}
	}
	return links
}

// headerLink reads one link of a value, and returns what follows.
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
		v = strings.TrimLeft(v, " \t")
		if v == "" || v[0] != ';' {
			break
		}
		var name, value string
		name, value, v = parameter(v[1:])
		switch strings.ToLower(name) {
		case "rel":
			if !hasRel { // RFC 8288 §3.3: the first one counts
				l.Rels, hasRel = relations(value), true
			}
		case "type":
			l.Type = value
		case "anchor":
			l.Anchor = strings.TrimSpace(value)
		}
	}
	if i := strings.IndexByte(v, ','); i >= 0 {
		return l, v[i+1:], true
	}
	return l, "", true
}

// parameter reads name=value, the value quoted or not, and returns what follows.
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
