package scan

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"instep/fetch"
	"instep/resourcesync"
)

// What a server says of its bytes ends up in lists: what none can say is the failure of
// that resource, else it would stop every publication.
func TestHeadersThatNoListCanSayFailTheResource(t *testing.T) {
	for name, header := range map[string]http.Header{
		"no UTF-8":        {"Content-Encoding": {"\xff"}},
		"long encoding":   {"Content-Encoding": {strings.Repeat("gzip, ", 9000)}},
		"long type":       {"Content-Type": {"text/" + strings.Repeat("x", 60_000)}},
		"good: no type":   {"Content-Type": {"text/\xff"}},
		"good: year 0":    {"Last-Modified": {"Sat, 01 Jan 0000 00:00:00 GMT"}},
		"good: year 9999": {"Last-Modified": {"Fri, 31 Dec 9999 23:59:59 GMT"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.put("/a", "1", "/b", "2")
			s.header = map[string]http.Header{"/b": header}
			f := newList(t, func(*fetch.Client) Listing {
				return listed(Listed{URI: s.URL + "/a", URL: s.URL + "/a"}, Listed{URI: s.URL + "/b", URL: s.URL + "/b"})
			})
			f.trust(s)
			if r := f.scan(); r.Created == 2 != strings.HasPrefix(name, "good") {
				t.Errorf("got %+v", r)
			}
			for r, err := range f.Facts.Members(t.Context(), f.Set) {
				if err != nil {
					t.Fatal(err)
				}
				enc, err := resourcesync.NewEncoder(io.Discard, checkHeader)
				if err != nil {
					t.Fatal(err)
				}
				if err := enc.Encode(resourcesync.Entry{Loc: r.URI, LastMod: r.LastMod, Metadata: resourcesync.Metadata{Length: r.Length, Digests: r.Digests, Type: r.Type, Encoding: r.Encoding}}); err != nil {
					t.Errorf("recorded what no list can say: %v", err)
				}
			}
		})
	}
}

// A Source whose clock was ahead for once is believed again when it is right.
func TestAListOfTheFutureDoesNotShutOutThoseOfThePresent(t *testing.T) {
	s := newSite(t)
	rsSite(s, "2999-01-01T00:00:00Z", rsEntry("/a", "1"))
	f := newList(t, func(c *fetch.Client) Listing { return Source{Client: c, URI: s.URL}.List })
	expect(t, f.scan(), 1, 0, 0, 0)
	rsSite(s, time.Now().Add(time.Hour).UTC().Format(time.RFC3339), rsEntry("/a", "2"))
	expect(t, f.scan(), 0, 1, 0, 0)
}

// A part may begin after the index does (1.1 §10.2).
func TestAnIndexThatIsOlderThanItsPartsIsReadAgain(t *testing.T) {
	s := newSite(t)
	rsSite(s, "2024-01-01T00:00:00Z", "")
	s.put("/list.xml", `<sitemapindex `+rsNamespace+`><rs:ln rel="up" href="BASE/cap.xml"/><rs:md capability="resourcelist" at="2024-01-01T00:00:00Z"/>`+
		`<sitemap><loc>BASE/1.xml</loc></sitemap></sitemapindex>`,
		"/1.xml", `<urlset `+rsNamespace+`><rs:ln rel="up" href="BASE/cap.xml"/><rs:md capability="resourcelist" at="2024-01-01T00:03:00Z"/>`+rsEntry("/a", "1")+`</urlset>`)
	f := newList(t, func(c *fetch.Client) Listing { return Source{Client: c, URI: s.URL}.List })
	expect(t, f.scan(), 1, 0, 0, 0)
	expect(t, f.scan(), 0, 0, 0, 1)
}

// A text that is no list of URLs, such as the page of a server that is being mended,
// says nothing of what is gone.
func TestAPageInPlaceOfURLsDeletesNothing(t *testing.T) {
	s := newSite(t)
	s.put("/list.txt", "BASE/a\nBASE/b\n", "/a", "1", "/b", "2")
	f := newList(t, func(c *fetch.Client) Listing { return URLs{Client: c, At: s.URL + "/list.txt"}.List })
	f.MaxDelete = everything(t)
	expect(t, f.scan(), 2, 0, 0, 0)
	before := f.members()
	s.put("/list.txt", "<html>\n<p>Not now.\n</html>\n")
	if _, err := f.Plan(t.Context()); !errors.Is(err, ErrListing) {
		t.Errorf("Plan = %v, want ErrListing", err)
	}
	same(t, "members", f.members(), before)
}

// A line that is no URI may have been meant to be any.
func TestALineThatIsNoURIIsDoubt(t *testing.T) {
	s := newSite(t)
	s.put("/list.txt", "BASE/a\nBASE/b\n", "/a", "1", "/b", "2")
	f := newList(t, func(c *fetch.Client) Listing { return URLs{Client: c, At: s.URL + "/list.txt"}.List })
	f.MaxDelete = everything(t)
	expect(t, f.scan(), 2, 0, 0, 0)
	s.put("/list.txt", "BASE/a\nb\n")
	expect(t, f.scan(), 0, 0, 0, 1)
}

func TestARowWithoutItsNameIsDoubt(t *testing.T) {
	db := newSQLite(t)
	db.exec(t, "CREATE TABLE o (uri, path)")
	q := db.query
	q.SQL = "SELECT 7 AS uri, 'a' AS path"
	for e, err := range q.List(t.Context(), time.Time{}) {
		if err == nil || e.URI != "" {
			t.Errorf("got %q, %v; want an error without a URI", e.URI, err)
		}
	}
}
