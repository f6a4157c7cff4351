package destination_test

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"instep/destination"
	"instep/resourcesync"
)

// URIs that differ in their query only are resources of their own.
func TestQuirk_40(t *testing.T) {
	s := newSource(t)
	s.offer("/list.xml", "")
	s.answer("/oai", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "record %s", r.URL.RawQuery) })
	queries := []string{"verb=GetRecord&id=1", "verb=GetRecord&id=2", "verb=getrecord&id=1"}
	var entries []string
	for _, q := range queries {
		entries = append(entries, `<url><loc>`+s.uri("/oai?")+strings.ReplaceAll(q, "&", "&amp;")+`</loc></url>`)
	}
	s.raw("/list.xml", `capability="resourcelist" at="`+at(0).String()+`"`, "", entries...)
	m := newMirror(t, s)
	m.mustSync(destination.Baseline, 0, 3, 0, 0)
	var got []string
	for _, body := range m.files() {
		got = append(got, strings.TrimPrefix(body, "record "))
	}
	if slices.Sort(got); !slices.Equal(got, queries) {
		t.Errorf("records held: got %q, want %q", got, queries)
	}
}

// A loc is fetched as it is written.
func TestQuirk_41(t *testing.T) {
	s := newSource(t)
	s.offer("/list.xml", "")
	var entries, want []string
	for loc, line := range map[string]string{
		"/q/a%253Db": "/q/a%253Db", "/q/a%3Db": "/q/a%3Db", "/q/caf\u00e9": "/q/caf%C3%A9", "/q/\u00e9%2Fx": "/q/%C3%A9%2Fx", "/q/a b": "/q/a%20b",
	} {
		entries = append(entries, `<url><loc>`+s.uri(loc)+`</loc></url>`)
		want = append(want, line)
	}
	for _, path := range []string{"/q/a%3Db", "/q/a=b", "/q/caf\u00e9", "/q/\u00e9/x", "/q/a b"} {
		s.answer(path, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.RequestURI) })
	}
	s.raw("/list.xml", `capability="resourcelist" at="`+at(0).String()+`"`, "", entries...)
	m := newMirror(t, s)
	m.mustSync(destination.Baseline, 0, 5, 0, 0)
	var got []string
	for _, body := range m.files() {
		got = append(got, body)
	}
	slices.Sort(got)
	if slices.Sort(want); !slices.Equal(got, want) {
		t.Errorf("request lines: got %q, want %q", got, want)
	}
}

// Relative URIs are those of the place the document came from.
func TestQuirk_42(t *testing.T) {
	s := newSource(t)
	s.put("/data/1", []byte("one"))
	s.put("/data/2", []byte("two"))
	s.put("/3", []byte("three"))
	s.offer("/list", "/data/changes.xml")
	s.answer("/list", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/data/index.xml", http.StatusFound) })
	s.put("/data/index.xml", []byte(`<sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">`+
		`<rs:md capability="resourcelist" at="`+at(0).String()+`"/><sitemap><loc>part.xml</loc></sitemap></sitemapindex>`))
	s.raw("/data/part.xml", `capability="resourcelist" at="`+at(0).String()+`"`, "", `<url><loc>1</loc></url>`, `<url><loc>./2</loc></url>`, `<url><loc>/3</loc></url>`)
	s.raw("/data/changes.xml", `capability="changelist" from="`+at(0).String()+`"`, "")
	m := newMirror(t, s)
	met := m.quirks()
	m.mustSync(destination.Baseline, 0, 3, 0, 0)
	wantQuirk(t, met, resourcesync.QuirkRelativeURI)
	m.wantFiles("/data/1", "/data/2", "/3")
	s.raw("/data/changes.xml", `capability="changelist" from="`+at(0).String()+`"`, "", `<url><loc>../3</loc><rs:md change="deleted" datetime="`+at(1).String()+`"/></url>`)
	m.mustSync(destination.Incremental, 0, 0, 0, 1)
	m.wantFiles("/data/1", "/data/2")
}

// What a URI says of places that are none of a mirror stays inside it.
func TestQuirk_44(t *testing.T) {
	s := newSource(t)
	s.offer("/list.xml", "")
	var entries []string
	for i, path := range []string{"/../../outside", "/a/%2e%2e/%2e%2e/outside", `/..\..\outside`, "/%5c%5cserver%5cshare", "/C:/outside", "/con", "/nul.txt", "/.instep/catalog.db"} {
		entries = append(entries, `<url><loc>`+s.uri(path)+`</loc></url>`)
		for _, served := range []string{path, strings.NewReplacer("%2e", ".", "%5c", `\`).Replace(path)} {
			s.answer(served, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, i) })
		}
	}
	s.raw("/list.xml", `capability="resourcelist" at="`+at(0).String()+`"`, "", entries...)
	m := newMirror(t, s)
	m.mustSync(destination.Baseline, 0, int64(len(entries)), 0, 0)
	files := m.files()
	if len(files) != len(entries) {
		t.Errorf("files in the mirror: got %v, want all %d", files, len(entries))
	}
	if around, err := filepath.Glob(filepath.Join(filepath.Dir(m.dir), "*")); err != nil || len(around) != 1 {
		t.Errorf("beside the mirror: got %v, %v; want nothing", around, err)
	}
}

// Of a resource that is listed twice the last entry counts, and it counts once.
func TestQuirk_45(t *testing.T) {
	s := newSource(t)
	s.offer("/list.xml", "")
	p := s.fill(10)
	wrong := `<url><loc>` + s.uri("/r/1") + `</loc><rs:md length="99999"/></url>`
	entries := s.rawEntries(p...)
	entries = append([]string{entries[1], wrong, entries[3]}, entries...)
	s.raw("/list.xml", `capability="resourcelist" at="`+at(0).String()+`"`, "", entries...)
	m := newMirror(t, s)
	met := m.quirks()
	m.mustSync(destination.Baseline, 0, 10, 0, 0)
	wantQuirk(t, met, resourcesync.QuirkListedTwice)
	if got := s.asked("/r/"); got != 10 {
		t.Errorf("resources asked for: got %d, want each once", got)
	}
	m.mustSync(destination.Baseline, 10, 0, 0, 0)
	if v := m.audit(); v[destination.VerdictSame] != 10 || len(v) != 1 {
		t.Errorf("audit: got %v, want 10 the same", v)
	}
}

// Bytes that are not those the list describes replace nothing and stop nothing else.
func TestQuirk_50(t *testing.T) {
	s := newSource(t)
	s.offer("/list.xml", "")
	p := s.fill(10)
	s.list(0, p...)
	m := newMirror(t, s)
	m.mustSync(destination.Baseline, 0, 10, 0, 0)
	before := m.files()
	s.put("/r/1", []byte("the bytes before the Source wrapped them"))
	s.put("/r/2", []byte("changed"))
	s.list(1, p...)
	s.put("/r/1", []byte("<wrapped>the bytes before the Source ...</>"))
	rep, err := m.sync()
	var mismatch *resourcesync.MismatchError
	if err != nil || rep.Failed != 1 || rep.Updated != 1 || !errors.As(rep.Failures[0].Err, &mismatch) {
		t.Fatalf("got %+v, %v; want one failed by a mismatch and one updated", rep, err)
	}
	if got := m.files()["/r/1"]; got != before["/r/1"] {
		t.Errorf("held: got %q, want what was held before", got)
	}
}

func gzipped(b []byte) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, _ = z.Write(b)
	_ = z.Close()
	return out.Bytes()
}

func deflated(b []byte) []byte {
	var out bytes.Buffer
	z := zlib.NewWriter(&out)
	_, _ = z.Write(b)
	_ = z.Close()
	return out.Bytes()
}

// Of a body that is sent in a content coding either form may be the one described.
func TestQuirk_51(t *testing.T) {
	text := []byte(strings.Repeat("a text that is worth it ", 100))
	for name, tt := range map[string]struct {
		coding          string
		sent, described []byte
		chunked         bool
		want            []byte // nil: it fails
	}{
		"as sent":                  {"gzip", gzipped(text), gzipped(text), false, gzipped(text)},
		"decoded":                  {"gzip", gzipped(text), text, false, text},
		"decoded, no length":       {"x-gzip", gzipped(text), text, true, text},
		"deflate":                  {"deflate", deflated(text), text, true, text},
		"neither":                  {"gzip", gzipped(text), []byte("something else"), true, nil},
		"not what the coding says": {"gzip", text[1:], text, true, nil},
		"cut":                      {"gzip", gzipped(text)[:40], text, true, nil},
		"an unknown coding":        {"br", gzipped(text), text, true, nil},
		"no coding":                {"identity", gzipped(text), text, true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSource(t)
			s.offer("/list.xml", "")
			s.put("/text", tt.described)
			s.list(0, "/text")
			s.answer("/text", func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Encoding", tt.coding)
				if tt.chunked {
					w.(http.Flusher).Flush()
				}
				_, _ = w.Write(tt.sent)
			})
			m := newMirror(t, s)
			met := m.quirks()
			rep, err := m.sync()
			if err != nil {
				t.Fatal(err)
			}
			got, held := m.files()["/text"]
			if held != (tt.want != nil) || got != string(tt.want) {
				t.Fatalf("held: got %.40q, want %.40q; %v", got, tt.want, rep.Failures)
			}
			if tt.want != nil {
				wantQuirk(t, met, resourcesync.QuirkContentCoding)
			}
		})
	}
}

// What the list says that it is sent in surprises nobody.
func TestAnnouncedContentCodingIsKeptWithoutAWord(t *testing.T) {
	body := gzipped([]byte("text"))
	s := newSource(t)
	s.offer("/list.xml", "")
	s.put("/text", body)
	announced := s.entry("/text")
	announced.Encoding = "gzip"
	s.doc("/list.xml", head(resourcesync.CapabilityResourceList, func(h *resourcesync.Header) { h.At = at(0) }), announced)
	s.answer("/text", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(body)
	})
	m := newMirror(t, s)
	met := m.quirks()
	if _, err := m.sync(); err != nil {
		t.Fatal(err)
	}
	if got := m.files()["/text"]; got != string(body) {
		t.Errorf("held: got %q", got)
	}
	if len(*met) > 0 {
		t.Errorf("quirks: got %v, want none", *met)
	}
}

// A bomb in a content coding ends where the listed length does.
func TestQuirk_51_bomb(t *testing.T) {
	s := newSource(t)
	s.offer("/list.xml", "")
	s.put("/text", []byte("small"))
	s.list(0, "/text")
	bomb := gzipped(make([]byte, 20<<20))
	s.answer("/text", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(bomb)
	})
	m := newMirror(t, s)
	if rep, err := m.sync(); err != nil || rep.Failed != 1 {
		t.Errorf("got %+v, %v; want it failed", rep, err)
	}
}

// TestStrayPercentIsFetched: a URI with a percent sign that begins no escape is asked for
// with that sign escaped, held under the URI that the list has, and followed like any.
func TestStrayPercentIsFetched(t *testing.T) {
	s := newSource(t)
	s.offer("/list.xml", "/changes.xml")
	stray := func(doc string) { s.put(doc, bytes.ReplaceAll(s.body(doc), []byte("100%25"), []byte("100%"))) }
	write := func(n int, body string) {
		s.put("/d/100%.txt", []byte(body))
		s.list(n, "/d/100%.txt")
		stray("/list.xml")
	}
	write(0, "all of it")
	s.changes(0)
	s.answer("/d/100%.txt", func(w http.ResponseWriter, r *http.Request) {
		if r.RequestURI != "/d/100%25.txt" {
			t.Errorf("asked for %q", r.RequestURI)
		}
		_, _ = w.Write(s.body("/d/100%.txt"))
	})
	m := newMirror(t, s)
	m.mustSync(destination.Baseline, 0, 1, 0, 0)
	if got := m.files(); len(got) != 1 || got["/d/100%.txt"] != "all of it" {
		t.Errorf("held: %q", got)
	}
	if !m.verified("/d/100%.txt") {
		t.Error("not held under the URI of the list")
	}
	write(1, "more")
	s.changes(0, s.change(1, resourcesync.Updated, "/d/100%.txt"))
	stray("/changes.xml")
	m.mustSync(destination.Incremental, 0, 0, 1, 0)
	if v := m.audit(); v[destination.VerdictSame] != 1 || len(v) != 1 {
		t.Errorf("audit: %v", v)
	}
}
