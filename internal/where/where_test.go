package where

import (
	"crypto/md5"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"instep/fetch"
	"instep/resourcesync"
)

const sample = `<?xml version="1.0"?>
<r xmlns="https://example.org/r" xmlns:m="https://example.org/m" xmlns:dc="https://example.org/notdc">
  <title> Bruges </title><m:title kind="short">B=1</m:title><!--no text-->
  <x:subject xmlns:x="http://purl.org/dc/elements/1.1/"><![CDATA[maps]]> of towns</x:subject>
  <dc:subject>other</dc:subject>
</r>`

func TestConditions(t *testing.T) {
	r, err := parseRecord([]byte(sample))
	if err != nil {
		t.Fatal(err)
	}
	for condition, want := range map[string]bool{
		"//title=Bruges":                  true,
		"//title= Bruges ":                true,
		"//title=Bruge":                   false,
		"//title":                         true,
		"//title=":                        false,
		"/r/m:title=B=1":                  true,
		"//m:title/@kind=short":           true,
		`//m:title[@kind='a=b']=B=1`:      false,
		`//m:title[@kind="short"]=B=1`:    true,
		`//m:title[@kind="long"]`:         false,
		"//dc:subject=maps of towns":      true,
		"//dc:subject/text()":             true,
		"//dc:subject=other":              false,
		"//none:title":                    false,
		"//mods:title":                    false,
		"//comment()":                     false,
		"//@xmlns":                        false,
		"(//title | //m:title)[2]=B=1":    true,
		"//*[count(*)>2]":                 true,
		"//*[starts-with(.,'maps')]":      true,
		"/*/*[last()]=other":              true,
		"//title/following-sibling::*[1]": true,
	} {
		c, err := parseCondition(condition)
		if err != nil {
			t.Errorf("%s: %v", condition, err)
			continue
		}
		if got, err := c.holds(r, &work{left: maxWork}); err != nil || got != want {
			t.Errorf("%s: got %v, %v, want %v", condition, got, err, want)
		}
	}
	for _, condition := range []string{"", "=x", "//a[", "count(//a)", "1=1", "//dc:*", "$x", strings.Repeat("/a", maxCondition)} {
		if _, err := parseCondition(condition); err == nil {
			t.Errorf("%.20s: it was taken", condition)
		}
	}
}

func TestWhatIsNoRecord(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":         "",
		"no XML":          "<p>no end",
		"two roots":       "<a/><b/>",
		"text after":      "<a/>text",
		"a prefix":        "<a><b:c/></a>",
		"an entity":       `<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>`,
		"too deep":        strings.Repeat("<a>", maxDepth+1) + strings.Repeat("</a>", maxDepth+1),
		"another charset": `<?xml version="1.0" encoding="none"?><a/>`,
	} {
		if _, err := parseRecord([]byte(text)); err == nil {
			t.Errorf("%s: it was taken", name)
		}
	}
}

// The work on a hostile record is bounded, whatever the expression.
func TestWorkIsBounded(t *testing.T) {
	for name, text := range map[string]string{
		"elements": "<a>" + strings.Repeat("<a/>", maxRecord/4-4) + "</a>",
		"texts":    "<a>" + strings.Repeat("x<!---->", maxRecord/8-4) + "</a>",
		"depths":   "<r>" + strings.Repeat(strings.Repeat("<a>", maxDepth-1)+strings.Repeat("</a>", maxDepth-1), maxRecord/7/maxDepth) + "</r>",
	} {
		r, err := parseRecord([]byte(text))
		if err != nil {
			t.Fatal(name, err)
		}
		for _, path := range []string{"//*[//*='x']", "//*[/*='x']", "//*[preceding::a='x']", "//node()[count(//node()) = 1]", "//a//a//a//a[.='x']"} {
			c, err := parseCondition(path)
			if err != nil {
				t.Fatal(err)
			}
			w := &work{left: maxWork}
			if _, err := c.holds(r, w); err != nil && !errors.Is(err, errWork) {
				t.Errorf("%s: %s: %v", name, path, err)
			}
			if name == "elements" && path == "//*[/*='x']" && w.left >= 0 {
				t.Errorf("%s: %s: %d steps left, want none", name, path, w.left)
			}
		}
	}
}

// served is a server of records, and counts the requests.
func served(t *testing.T) (c *fetch.Client, base string, requests *atomic.Int64) {
	requests = new(atomic.Int64)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		switch r.URL.Path {
		case "/record", "/same":
			_, _ = io.WriteString(w, sample)
		case "/page":
			_, _ = io.WriteString(w, "<p>maintenance")
		case "/endless":
			for {
				if _, err := io.WriteString(w, strings.Repeat("<a/>", 1<<12)); err != nil {
					return
				}
			}
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)
	c, err := fetch.New(fetch.Options{MaxRetries: -1, AllowPrivate: []string{strings.TrimPrefix(s.URL, "http://")}})
	if err != nil {
		t.Fatal(err)
	}
	return c, s.URL, requests
}

func digest(t *testing.T, of string) resourcesync.Digests {
	ds, err := resourcesync.ParseDigests(fmt.Sprintf("md5:%x sha-256:%x", md5.Sum([]byte(of)), sha256.Sum256([]byte(of))))
	if err != nil {
		t.Fatal(err)
	}
	return ds
}

func TestSelects(t *testing.T) {
	c, base, requests := served(t)
	conditions, err := Parse([]string{"//title=Bruges", "//m:title"})
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		link    resourcesync.Link
		selects bool
		failed  string
	}{
		"a record":             {link: resourcesync.Link{Href: "/record"}, selects: true},
		"a proved one":         {link: resourcesync.Link{Href: "/record", Digests: digest(t, sample), Length: resourcesync.Bytes(int64(len(sample)))}, selects: true},
		"of other bytes":       {link: resourcesync.Link{Href: "/record", Digests: digest(t, "other")}, failed: "md5"},
		"of another length":    {link: resourcesync.Link{Href: "/record", Length: resourcesync.Bytes(5)}, failed: "length"},
		"none":                 {link: resourcesync.Link{Href: "/none"}, failed: "404"},
		"not XML":              {link: resourcesync.Link{Href: "/page"}, failed: "not well-formed XML"},
		"not XML, as listed":   {link: resourcesync.Link{Href: "/page", Digests: digest(t, "<p>maintenance")}},
		"endless":              {link: resourcesync.Link{Href: "/endless"}, failed: "expected at most 1048576 bytes"},
		"too long by its link": {link: resourcesync.Link{Href: "/record", Length: resourcesync.Bytes(maxRecord + 1)}, failed: "expected at most 1048576"},
	} {
		tt.link.Href = base + tt.link.Href
		w := New(c, conditions)
		for range 2 { // the second answer is remembered
			ok, err := w.Selects(t.Context(), tt.link)
			if ok != tt.selects || (err != nil) != (tt.failed != "") || err != nil && !strings.Contains(err.Error(), tt.failed) {
				t.Errorf("%s: got %v, %v, want %v, %q", name, ok, err, tt.selects, tt.failed)
			}
		}
	}
	before := requests.Load()
	w := New(c, conditions)
	for i := range 100 {
		href := base + [...]string{"/record", "/same"}[i%2]
		if ok, err := w.Selects(t.Context(), resourcesync.Link{Href: href, Digests: digest(t, sample)}); !ok || err != nil {
			t.Fatal(ok, err)
		}
		if ok, err := w.Selects(t.Context(), resourcesync.Link{Href: base + "/record"}); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	if n := requests.Load() - before; n != 1 {
		t.Errorf("got %d requests for one record, want 1", n)
	}
}

// What is remembered of records does not grow with the number and length of their URIs.
func TestSeenIsBounded(t *testing.T) {
	w := New(nil, nil)
	for i := range 20_000 {
		uri := fmt.Sprint(i, strings.Repeat("x", 8000))
		w.store(uri, answer{err: withURI(uri, errors.New("gone"))})
	}
	size := 0
	for uri, a := range w.seen {
		size += len(uri) + len(a.err.Error())
	}
	if size > maxSeenBytes || size < maxSeenBytes/100 {
		t.Errorf("got %d bytes, want at most %d", size, maxSeenBytes)
	}
}
