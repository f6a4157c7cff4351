// Package weblink reads links that are not in ResourceSync documents: in the Link
// header of HTTP (RFC 8288), in link elements of HTML pages (1.1 §6.3.3), and in
// robots.txt (1.1 §6.3.4).
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

// Link is a link. A field is "" if the link has no such attribute.
type Link struct {
	Href string   // the target as it is written in the link; see Page.Resolve
	Rels []string // the relation types of the link, in lower case
	Type string   // media type

	// Anchor is the URI from which a link in a Link header starts, if that is not the
	// URI of the response (RFC 8288 §3.2).
	Anchor string

	Datetime string // the "datetime" attribute of a link to a Memento (RFC 7089 §2.2)

	Line int  // line of the link in its HTML page, from 1
	Head bool // whether the link is in the head of its HTML page
}

// Has reports whether the link has the given relation type.
func (l *Link) Has(rel string) bool { return slices.Contains(l.Rels, rel) }

func relations(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Fields(strings.ToLower(s))
}

// maxLinks is the largest number of links that are read from a page or from Link
// headers.
const maxLinks = 1_000

// Page has the links in an HTML page.
type Page struct {
	Base  string // the href of the base element; "" if the page has no base element
	Links []Link // the link elements of the page, at most 1,000
}

// Resolve returns the absolute URI of the reference href on the page, whose own URI is
// uri. It returns an error if the reference cannot be parsed.
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

// HTML reads the link elements of a page. It accepts any text as HTML. All errors come
// from r, except the error for a tag that is longer than 1 MiB.
func HTML(r io.Reader) (Page, error) {
	var p Page
	err := Walk(r, func(t *Tag) {
		switch {
		case t.Name == "base" && p.Base == "":
			p.Base = strings.TrimSpace(t.Attr("href"))
		case t.Name == "link" && len(p.Links) < maxLinks:
			p.Links = append(p.Links, Link{
				Href: strings.TrimSpace(t.Attr("href")), Rels: relations(t.Attr("rel")), Type: t.Attr("type"),
				Line: t.Line, Head: t.Head,
			})
		}
	})
	return p, err
}

// Tag is a start tag of an HTML page, or a text between two tags.
type Tag struct {
	Name string // the name of the element in lower case; "" for a text
	Text string // a text between two tags that a browser would show
	Line int    // line of the tag or text in the page, from 1
	Head bool   // whether the tag or text is in the head of the page

	attrs [][2]string
}

// Attr returns the value of an attribute, or "" if the tag has no such attribute. If
// the tag repeats an attribute, the first value counts, as in HTML.
func (t *Tag) Attr(name string) string {
	for _, a := range t.attrs {
		if a[0] == name {
			return a[1]
		}
	}
	return ""
}

// hiddenElements are the elements whose text browsers do not show.
var hiddenElements = map[string]bool{"script": true, "style": true, "title": true, "template": true, "noscript": true}

// Walk calls visit with each start tag and each text of a page, in order. The Tag may
// be used only until visit returns. The errors are the same as for HTML.
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
			if kind == html.StartTagToken && hiddenElements[t.Name] {
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

// headElements are the elements that may be in the head of a page. The head ends before
// the first other element.
var headElements = map[string]bool{
	"html": true, "head": true, "title": true, "base": true, "link": true, "meta": true,
	"style": true, "script": true, "noscript": true, "template": true,
}

func (t *Tag) start(z *html.Tokenizer) {
	raw, more := z.TagName()
	t.Name, t.Text, t.attrs = string(raw), "", t.attrs[:0]
	if !headElements[t.Name] {
		t.Head = false
	}
	for more {
		var k, v []byte
		k, v, more = z.TagAttr()
		t.attrs = append(t.attrs, [2]string{string(k), string(v)})
	}
}

// Header parses the values of a response's Link headers. It skips invalid parts.
func Header(values []string) []Link {
	var links []Link
	for _, v := range values {
		links = append(links, Parse(v, maxLinks-len(links))...)
	}
	return links
}

// Parse parses links in the value of a Link header. It also accepts a document of type
// application/link-format, which may contain line breaks (RFC 6690 §2). It returns at
// most limit links and skips invalid parts.
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

// headerLink parses the first link in the value of a Link header, and returns the rest
// of the value.
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
			if !hasRel { // only the first "rel" parameter counts (RFC 8288 §3.3)
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

// parameter parses one parameter of a link, in the form name=value with or without
// quotes, and returns the rest of the text.
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
