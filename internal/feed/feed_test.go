package feed

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

const atomFeed = `<?xml version="1.0" encoding="utf-8"?>
<a:feed xmlns:a="http://www.w3.org/2005/Atom" xmlns:x="urn:x">
  <a:id>urn:x:feed</a:id><a:title>Maps <b xmlns="">of</b> ours</a:title>
  <a:link rel="self" href="https://museum.example.org/maps.atom"/>
  <a:updated>2026-01-06T00:00:00Z</a:updated>
  <x:id>other</x:id>
  <a:entry>
    <a:title>One</a:title><a:link href=" /one.atom " type="application/atom+xml"/><a:link rel="related" href="/two"/>
    <a:id>urn:x:1</a:id><a:updated>2026-01-05T00:00:00Z</a:updated><x:link href="/no"/><a:content><a:id>no</a:id></a:content>
  </a:entry>
  <a:entry><a:link rel="alternate" href="/two.atom"/></a:entry>
</a:feed>`

const rssFeed = `<rss version="2.0" xmlns:a="http://www.w3.org/2005/Atom"><channel>
<title>Maps</title><link>https://museum.example.org/</link><a:link rel="self" href="https://museum.example.org/maps.rss"/>
<pubDate>Tue, 06 Jan 2026 00:00:00 GMT</pubDate>
<item><title>One</title><link> https://museum.example.org/one.atom
</link><guid isPermaLink="false">urn:x:1</guid><pubDate>Mon, 05 Jan 2026 00:00:00 GMT</pubDate><a:link href="/no"/></item>
<item><title>None</title></item>
</channel></rss>`

func readAll(t testing.TB, text string) (Header, []Entry, error) {
	t.Helper()
	var all []Entry
	h, err := Read(iotest.OneByteReader(strings.NewReader(text)), func(e *Entry) error {
		all = append(all, *e)
		return nil
	})
	return h, all, err
}

func TestRead(t *testing.T) {
	for _, test := range []struct {
		name, text string
		header     Header
		entries    []Entry
	}{
		{"atom", atomFeed,
			Header{Kind: Atom, ID: "urn:x:feed", Self: "https://museum.example.org/maps.atom", Title: "Maps  ours", Updated: "2026-01-06T00:00:00Z"},
			[]Entry{
				{ID: "urn:x:1", Title: "One", Updated: "2026-01-05T00:00:00Z", Line: 7, Links: []Link{{Href: "/one.atom", Type: "application/atom+xml"}, {Rel: "related", Href: "/two"}}},
				{Line: 11, Links: []Link{{Rel: "alternate", Href: "/two.atom"}}},
			}},
		{"rss", rssFeed,
			Header{Kind: RSS, Self: "https://museum.example.org/maps.rss", Title: "Maps", Updated: "Tue, 06 Jan 2026 00:00:00 GMT"},
			[]Entry{
				{ID: "urn:x:1", Title: "One", Updated: "Mon, 05 Jan 2026 00:00:00 GMT", Line: 4, Links: []Link{{Href: "https://museum.example.org/one.atom"}}},
				{Title: "None", Line: 6},
			}},
	} {
		h, entries, err := readAll(t, test.text)
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		if d := cmp.Diff(h, test.header); d != "" {
			t.Errorf("%s: header (-got +want):\n%s", test.name, d)
		}
		if d := cmp.Diff(entries, test.entries); d != "" {
			t.Errorf("%s: entries (-got +want):\n%s", test.name, d)
		}
	}
}

func TestLinkOfAnEntry(t *testing.T) {
	e := Entry{Links: []Link{{Rel: "self", Href: "s"}, {Href: "a"}, {Rel: "alternate", Href: "b"}}}
	for rel, want := range map[string]string{"alternate": "a", "self": "s", "via": ""} {
		if got := e.Link(rel); got != want {
			t.Errorf("%s: got %q, want %q", rel, got, want)
		}
	}
}

var errStop = errors.New("enough")

func TestReadFails(t *testing.T) {
	none := func(*Entry) error { return nil }
	for name, test := range map[string]struct {
		text string
		each func(*Entry) error
		want error
	}{
		"page":         {"<html><p></html>", none, ErrNotFeed},
		"empty":        {"", none, ErrNotFeed},
		"text":         {"hello", none, ErrNotFeed},
		"no feed":      {"<feed/>", none, ErrNotFeed},
		"large entry":  {`<rss><channel><item><title>` + strings.Repeat("x", maxEntry+8192) + `</title></item></channel></rss>`, none, ErrTooLarge},
		"large header": {`<rss><channel><title>` + strings.Repeat("x", maxEntry+8192), none, ErrTooLarge},
		"stopped":      {rssFeed, func(*Entry) error { return errStop }, errStop},
	} {
		if _, err := Read(strings.NewReader(test.text), test.each); !errors.Is(err, test.want) {
			t.Errorf("%s: got %v, want %v", name, err, test.want)
		}
	}
	if _, entries, err := readAll(t, rssFeed[:len(rssFeed)-30]); err == nil || len(entries) != 1 {
		t.Errorf("a feed that breaks off: got %d entries, %v", len(entries), err)
	}
	if _, err := Read(io.MultiReader(strings.NewReader(rssFeed[:100]), iotest.ErrReader(errStop)), none); !errors.Is(err, errStop) {
		t.Errorf("got %v, want %v", err, errStop)
	}
}

// TestManyEntries: a feed may be longer than memory; only one entry is held.
func TestManyEntries(t *testing.T) {
	const n = 5_000
	item := `<item><link>https://museum.example.org/x</link><description>` + strings.Repeat("x", 1000) + `</description></item>`
	src := io.MultiReader(strings.NewReader("<rss><channel>"), io.LimitReader(&repeated{text: item}, int64(n*len(item))), strings.NewReader("</channel></rss>"))
	got := 0
	if _, err := Read(src, func(*Entry) error { got++; return nil }); err != nil || got != n {
		t.Errorf("got %d entries, %v; want %d", got, err, n)
	}
}

// repeated reads a text again and again.
type repeated struct {
	text string
	at   int
}

func (r *repeated) Read(p []byte) (int, error) {
	n := copy(p, r.text[r.at:])
	r.at = (r.at + n) % len(r.text)
	return n, nil
}

// atomOf writes a feed as it was read.
func atomOf(h Header, entries []Entry) string {
	var b strings.Builder
	field := func(name, text string) {
		if text != "" {
			fmt.Fprintf(&b, "<%s>%s</%s>", name, escaped(text), name)
		}
	}
	fmt.Fprintf(&b, `<feed xmlns=%q>`, nsAtom)
	field("id", h.ID)
	field("title", h.Title)
	field("updated", h.Updated)
	if h.Self != "" {
		fmt.Fprintf(&b, `<link rel="self" href="%s"/>`, escaped(h.Self))
	}
	for _, e := range entries {
		b.WriteString("<entry>")
		field("id", e.ID)
		field("title", e.Title)
		field("updated", e.Updated)
		for _, l := range e.Links {
			fmt.Fprintf(&b, `<link rel="%s" href="%s" type="%s"/>`, escaped(l.Rel), escaped(l.Href), escaped(l.Type))
		}
		b.WriteString("</entry>")
	}
	return b.String() + "</feed>"
}

func escaped(s string) string {
	var b bytes.Buffer
	_ = xml.EscapeText(&b, []byte(s)) // a Buffer never fails
	return b.String()
}

// FuzzRead: no feed makes the reader fail otherwise than by an error, and what is read can
// be written and read again.
func FuzzRead(f *testing.F) {
	f.Add(atomFeed)
	f.Add(rssFeed)
	f.Fuzz(func(t *testing.T, text string) {
		var entries []Entry
		h, err := Read(strings.NewReader(text), func(e *Entry) error { entries = append(entries, *e); return nil })
		if err != nil {
			return
		}
		var again []Entry
		h2, err := Read(strings.NewReader(atomOf(h, entries)), func(e *Entry) error { again = append(again, *e); return nil })
		if err != nil {
			t.Fatalf("read again: %v", err)
		}
		h.Kind = Atom
		for i := range entries {
			entries[i].Line = 0
		}
		for i := range again {
			again[i].Line = 0
		}
		if d := cmp.Diff(h2, h) + cmp.Diff(again, entries); d != "" {
			t.Errorf("(-got +want):\n%s", d)
		}
	})
}
