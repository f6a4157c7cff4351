package weblink

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

func TestHeader(t *testing.T) {
	tests := []struct {
		name   string
		values []string
		want   []Link
	}{
		{"one", []string{`<https://example.org/caps.xml>; rel="resourcesync"`}, []Link{{Href: "https://example.org/caps.xml", Rels: []string{"resourcesync"}}}},
		{"token value and case", []string{`<a>;REL=ResourceSync;type=text/html`}, []Link{{Href: "a", Rels: []string{"resourcesync"}, Type: "text/html"}}},
		{"several in one value", []string{`<a>; rel="up index", <b>; rel=next`}, []Link{{Href: "a", Rels: []string{"up", "index"}}, {Href: "b", Rels: []string{"next"}}}},
		{"several values", []string{"<a>; rel=x", "<b>; rel=y"}, []Link{{Href: "a", Rels: []string{"x"}}, {Href: "b", Rels: []string{"y"}}}},
		{"commas and semicolons in quotes", []string{`<a,b>; title="one, \"two\"; three"; rel=x, <c>`}, []Link{{Href: "a,b", Rels: []string{"x"}}, {Href: "c"}}},
		{"the first rel counts", []string{"<a>; rel=x; rel=y"}, []Link{{Href: "a", Rels: []string{"x"}}}},
		{"anchor", []string{`<a>; anchor=" /other "; rel=x`}, []Link{{Href: "a", Rels: []string{"x"}, Anchor: "/other"}}},
		{"parameter without value", []string{"<a>; crossorigin; rel=x"}, []Link{{Href: "a", Rels: []string{"x"}}}},
		{"no link", []string{"", "rel=x", "<a", `<a>; rel="x`}, []Link{{Href: "a", Rels: []string{"x"}}}},
	}
	for _, test := range tests {
		if d := cmp.Diff(Header(test.values), test.want); d != "" {
			t.Errorf("%s (-got +want):\n%s", test.name, d)
		}
	}
}

func TestHTML(t *testing.T) {
	tests := []struct {
		name, page string
		want       Page
	}{
		{"head", "<!DOCTYPE html>\n<html><head>\n<LINK REL='ResourceSync  up' href=' caps.xml '/></head><body></body></html>", Page{Links: []Link{{Href: "caps.xml", Rels: []string{"resourcesync", "up"}, Line: 3, Head: true}}}},
		{"body", "<html><head></head><body>\n\n<link rel=x href=a></body>", Page{Links: []Link{{Href: "a", Rels: []string{"x"}, Line: 3}}}},
		{"no tags of head and body", "<title>a</title><link rel=x href=a><p><link rel=y href=b>", Page{Links: []Link{
			{Href: "a", Rels: []string{"x"}, Line: 1, Head: true}, {Href: "b", Rels: []string{"y"}, Line: 1},
		}}},
		{"base and type", `<base href="/b/"><base href="/c/"><link type="a/b" href="&amp;">`, Page{Base: "/b/", Links: []Link{{Href: "&", Type: "a/b", Line: 1, Head: true}}}},
		{"comments and scripts have no links", "<!-- <link rel=x> --><script>'<link rel=y>'</script>", Page{}},
		{"cut", "<link rel=x href=", Page{}},
	}
	for _, test := range tests {
		got, err := HTML(strings.NewReader(test.page))
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		if d := cmp.Diff(got, test.want); d != "" {
			t.Errorf("%s (-got +want):\n%s", test.name, d)
		}
	}
}

func TestHTMLIsBounded(t *testing.T) {
	got, err := HTML(strings.NewReader(strings.Repeat("<link rel=x href=a>", 5000)))
	if err != nil || len(got.Links) != maxLinks {
		t.Errorf("%d links, %v; want %d", len(got.Links), err, maxLinks)
	}
	if _, err := HTML(strings.NewReader("<a " + strings.Repeat("x", 2<<20))); err == nil {
		t.Error("a tag of two megabytes is read")
	}
	trouble := errors.New("disk on fire")
	if _, err := HTML(iotest.ErrReader(trouble)); !errors.Is(err, trouble) {
		t.Errorf("got %v, want the error of the reader", err)
	}
}

func TestResolve(t *testing.T) {
	for _, test := range []struct{ base, href, want string }{
		{"", "caps.xml", "https://example.org/a/caps.xml"},
		{"/b/", "caps.xml", "https://example.org/b/caps.xml"},
		{"https://other.example/", " /x ", "https://other.example/x"},
	} {
		p := Page{Base: test.base}
		if got, err := p.Resolve("https://example.org/a/page.html", test.href); got != test.want || err != nil {
			t.Errorf("Resolve(%q) with base %q = %q, %v; want %q", test.href, test.base, got, err, test.want)
		}
	}
	if got, err := new(Page).Resolve("https://example.org/", "http://[::1"); err == nil {
		t.Errorf("a broken URI is resolved to %q", got)
	}
}

func FuzzHeader(f *testing.F) {
	f.Add(`<a>; rel="x, y"; type=b, <c>`)
	f.Add(`<>;=;"`)
	f.Fuzz(func(t *testing.T, v string) {
		for _, l := range Header([]string{v}) {
			if strings.Contains(l.Href, ">") {
				t.Errorf("href %q of %q", l.Href, v)
			}
		}
	})
}

func TestWalk(t *testing.T) {
	var got []string
	page := "<title>no</title><p>Hello <IMG SRC=a src=b>\n<script>'no'</script><noscript>no</noscript>&amp;<a>x</a>"
	if err := Walk(strings.NewReader(page), func(tag *Tag) {
		got = append(got, fmt.Sprintf("%d %s %q %s", tag.Line, tag.Name, tag.Text, tag.Attr("src")))
	}); err != nil {
		t.Fatal(err)
	}
	want := []string{
		`1 title "" `, `1 p "" `, `1  "Hello " `, `1 img "" a`, `1  "\n" `, `2 script "" `, `2 noscript "" `,
		`2  "&" `, `2 a "" `, `2  "x" `,
	}
	if d := cmp.Diff(got, want); d != "" {
		t.Errorf("(-got +want):\n%s", d)
	}
}
