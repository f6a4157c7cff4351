package resourcesync

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEncoderWrites(t *testing.T) {
	got := string(encode(t, Header{
		Metadata:  Metadata{Capability: CapabilityResourceList, At: mustDatetime(t, "2024-05-01T09:00:00Z")},
		Links:     []Link{{Rel: "up", Href: "https://example.org/caps.xml"}},
		RootAttrs: []Attr{{"http://www.w3.org/2001/XMLSchema-instance", "schemaLocation", "a b"}},
	}, Entry{
		Loc: "https://example.org/?a=1&b='2'", LastMod: mustDatetime(t, "2024-05-01"), ChangeFreq: "daily", Priority: mustPriority(t, "0.5"),
		Metadata: Metadata{Digests: Digests{benchEntry(7).Digests[0]}, Length: Bytes(5), Type: `text/html; charset="utf-8"`},
		Links:    []Link{{Rel: "duplicate", Href: "https://m.example.org/", Pri: 1, Attrs: []Attr{{nsXML, "lang", "de"}, {"urn:x", "y", "<\t>"}}}},
	}, Entry{Loc: "https://example.org/b"}))
	const want = `<?xml version="1.0" encoding="UTF-8"?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/" xmlns:x1="http://www.w3.org/2001/XMLSchema-instance" x1:schemaLocation="a b">
  <rs:ln rel="up" href="https://example.org/caps.xml"/>
  <rs:md capability="resourcelist" at="2024-05-01T09:00:00Z"/>
  <url>
    <loc>https://example.org/?a=1&amp;b='2'</loc>
    <lastmod>2024-05-01</lastmod>
    <changefreq>daily</changefreq>
    <priority>0.5</priority>
    <rs:ln rel="duplicate" href="https://m.example.org/" pri="1" xml:lang="de" xmlns:x2="urn:x" x2:y="&lt;&#9;&gt;"/>
    <rs:md hash="md5:5bb9ebdc7e4f0d0a7ee5d3d5e15ff2e8" length="5" type="text/html; charset=&quot;utf-8&quot;"/>
  </url>
  <url>
    <loc>https://example.org/b</loc>
  </url>
</urlset>
`
	hash := benchEntry(7).Digests[0].String()
	if diff := cmp.Diff(got, strings.Replace(want, "md5:5bb9ebdc7e4f0d0a7ee5d3d5e15ff2e8", hash, 1)); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
	plain := string(encode(t, Header{Root: SitemapIndex}, Entry{Loc: "https://example.org/sitemap-1.xml"}))
	const wantPlain = `<?xml version="1.0" encoding="UTF-8"?>
<sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">
  <sitemap>
    <loc>https://example.org/sitemap-1.xml</loc>
  </sitemap>
</sitemapindex>
`
	if diff := cmp.Diff(plain, wantPlain); diff != "" {
		t.Errorf("plain (-got +want):\n%s", diff)
	}
}

func TestEncoderRefuses(t *testing.T) {
	entry := func(change func(e *Entry)) Entry {
		e := Entry{Loc: "https://example.org/a"}
		change(&e)
		return e
	}
	ln := func(l Link) Entry { return entry(func(e *Entry) { e.Links = []Link{l} }) }
	md := func(m Metadata) Entry { return entry(func(e *Entry) { e.Metadata = m }) }
	attr := func(a Attr) Entry { return md(Metadata{Attrs: []Attr{a}}) }
	for _, c := range []struct {
		field string
		entry Entry
	}{
		{"loc", Entry{}},
		{"loc", Entry{Loc: "relative"}},
		{"loc", Entry{Loc: "//example.org/"}},
		{"loc", Entry{Loc: "https:"}},
		{"loc", Entry{Loc: "1https://example.org/"}},
		{"loc", Entry{Loc: "https://example.org/a b"}},
		{"loc", Entry{Loc: "https://example.org/\n"}},
		{"loc", Entry{Loc: "https://example.org/é"}},
		{"loc", Entry{Loc: "https://example.org/\xff"}},
		{"loc", Entry{Loc: "https://example.org/%zz"}},
		{"loc", Entry{Loc: "https://example.org/%2"}},
		{"loc", Entry{Loc: "https://example.org/<a>"}},
		{"changefreq", entry(func(e *Entry) { e.ChangeFreq = "often" })},
		{"change", md(Metadata{Change: "moved"})},
		{"capability", md(Metadata{Capability: "resourceList"})},
		{"type", md(Metadata{Type: "html"})},
		{"type", md(Metadata{Type: "text/html; charset=\x01"})},
		{"type", md(Metadata{Type: "a b/c"})},
		{"type", md(Metadata{Type: "text/html; a=b "})},
		{"encoding", md(Metadata{Encoding: "\xff"})},
		{"encoding", md(Metadata{Encoding: " gzip"})},
		{"path", md(Metadata{Path: "a"})},
		{"path", md(Metadata{Path: "/a/../b"})},
		{"path", md(Metadata{Path: "//a"})},
		{"path", md(Metadata{Path: "/a/"})},
		{"path", md(Metadata{Path: `/a\b`})},
		{"path", md(Metadata{Path: "/\ufffe"})},
		{"rel", ln(Link{Href: "https://example.org/"})},
		{"href", ln(Link{Rel: "up"})},
		{"href", ln(Link{Rel: "up", Href: "x"})},
		{"pri", ln(Link{Rel: "duplicate", Href: "https://example.org/", Pri: -1})},
		{"pri", ln(Link{Rel: "duplicate", Href: "https://example.org/", Pri: 1_000_000})},
		{"attribute", attr(Attr{"", "etag", "x"})},
		{"attribute", attr(Attr{nsRS, "length", "x"})},
		{"attribute", attr(Attr{nsXMLNS, "length", "x"})},
		{"attribute", md(Metadata{Attrs: []Attr{{"urn:x", "a", "1"}, {"urn:x", "a", "2"}}})},
		{"attribute", attr(Attr{"urn:x", "a:b", "x"})},
		{"attribute", attr(Attr{"urn:x", "", "x"})},
		{"attribute", attr(Attr{"urn:x", "1", "x"})},
		{"foreign", entry(func(e *Entry) { e.Foreign = "text" })},
		{"foreign", entry(func(e *Entry) { e.Foreign = "<a/>" })},
		{"foreign", entry(func(e *Entry) { e.Foreign = `<loc xmlns="` + nsSitemap + `"/>` })},
		{"foreign", entry(func(e *Entry) { e.Foreign = `<rs:md xmlns:rs="` + nsRS + `"/>` })},
		{"foreign", entry(func(e *Entry) { e.Foreign = `<x:a/>` })},
		{"foreign", entry(func(e *Entry) { e.Foreign = `<a xmlns="urn:x">` })},
		{"foreign", entry(func(e *Entry) { e.Foreign = `<a xmlns="urn:x"/></x>` })},
		{"foreign", entry(func(e *Entry) { e.Foreign = `<a xmlns="urn:x"/></x><x>` })},
		{"foreign", entry(func(e *Entry) { e.Foreign = `<a xmlns="urn:x"/></url><url><a xmlns="urn:x"/>` })},
		{"foreign", entry(func(e *Entry) { e.Foreign = `<a xmlns="urn:x">&b;</a>` })},
		{"foreign", entry(func(e *Entry) { e.Foreign = "<a xmlns='urn:x'>\x00</a>" })},
		{"foreign", entry(func(e *Entry) { e.Foreign = "<!DOCTYPE a><a xmlns='urn:x'/>" })},
		{"note", attr(Attr{"urn:x", "note", "\x00"})},
	} {
		var b bytes.Buffer
		enc, err := NewEncoder(&b, benchHeader())
		if err != nil {
			t.Fatal(err)
		}
		before := enc.Bytes()
		err = enc.Encode(c.entry)
		if err == nil || !strings.Contains(err.Error(), ": "+c.field+" ") {
			t.Errorf("%+v: got %v, want an error that names %s", c.entry, err, c.field)
		}
		if enc.Bytes() != before || enc.Count() != 0 {
			t.Errorf("%+v: something was written", c.entry)
		}
		if err := errors.Join(enc.Encode(Entry{Loc: "https://example.org/"}), enc.Close()); err != nil {
			t.Errorf("after an error: %v", err)
		}
		if _, entries, _, err := decode(b.String(), WithTolerance(Strict)); err != nil || len(entries) != 1 {
			t.Errorf("after an error: %d entries, %v", len(entries), err)
		}
	}
	for what, h := range map[string]Header{
		"links without capability":    {Links: []Link{{Rel: "up", Href: "https://example.org/"}}},
		"metadata without capability": {Metadata: Metadata{At: mustDatetime(t, "2024")}},
		"capability in capitals":      {Metadata: Metadata{Capability: "ResourceList"}},
		"no such root":                {Root: 2},
		"a root attribute of ours":    {RootAttrs: []Attr{{nsRS, "a", "b"}}},
	} {
		if _, err := NewEncoder(io.Discard, h); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	enc, err := NewEncoder(io.Discard, Header{})
	if err != nil {
		t.Fatal(err)
	}
	if err := enc.Encode(md(Metadata{Length: Bytes(1)})); err == nil {
		t.Error("metadata in a plain sitemap: no error")
	}
	if err := enc.Encode(ln(Link{Rel: "up", Href: "https://example.org/"})); err == nil {
		t.Error("a link in a plain sitemap: no error")
	}
}

func TestEncoderIsFullAtItsEntries(t *testing.T) {
	enc, err := NewEncoder(io.Discard, benchHeader(), WithMaxEntries(3))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		err := enc.Encode(benchEntry(i))
		if want := i >= 3; errors.Is(err, ErrFull) != want || !want && err != nil {
			t.Errorf("entry %d: got %v", i, err)
		}
	}
	if enc.Count() != 3 {
		t.Errorf("got %d entries", enc.Count())
	}
	for _, n := range []int{0, -1, MaxEntries, MaxEntries + 1} {
		enc, err := NewEncoder(io.Discard, benchHeader(), WithMaxEntries(n))
		if err != nil {
			t.Fatal(err)
		}
		for range MaxEntries {
			if err := enc.Encode(Entry{Loc: "https://example.org/"}); err != nil {
				t.Fatal(err)
			}
		}
		if err := enc.Encode(Entry{Loc: "https://example.org/"}); !errors.Is(err, ErrFull) {
			t.Errorf("limit %d: entry 50,001: got %v", n, err)
		}
	}
}

// counter counts what is written.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

func TestEncoderIsFullAtItsBytes(t *testing.T) {
	var written counter
	enc, err := NewEncoder(&written, benchHeader())
	if err != nil {
		t.Fatal(err)
	}
	big := Entry{Loc: "https://example.org/" + strings.Repeat("a", 3_000)}
	for err == nil {
		err = enc.Encode(big)
	}
	if !errors.Is(err, ErrFull) || enc.Count() >= MaxEntries {
		t.Fatalf("after %d entries: %v", enc.Count(), err)
	}
	// Fill what is left to the byte: an entry is its Loc and what stands around it.
	left := MaxBytes - int(enc.Bytes())
	around := len("  <url>\n    <loc></loc>\n  </url>\n")
	exact := Entry{Loc: "https://example.org/" + strings.Repeat("b", left-around-len("https://example.org/"))}
	tooLong := Entry{Loc: exact.Loc + "b"}
	if err := enc.Encode(tooLong); !errors.Is(err, ErrFull) {
		t.Errorf("one byte too many: got %v", err)
	}
	if err := enc.Encode(exact); err != nil {
		t.Errorf("the last byte: got %v", err)
	}
	if err := enc.Close(); err != nil {
		t.Fatal(err)
	}
	if enc.Bytes() != MaxBytes || int64(written) != MaxBytes {
		t.Errorf("got %d bytes, %d written", enc.Bytes(), written)
	}
	if err := enc.Encode(exact); err == nil || errors.Is(err, ErrFull) {
		t.Errorf("after Close: got %v", err)
	}
	if err := enc.Close(); err == nil {
		t.Error("closed twice without an error")
	}
}

func TestEncoderTellsOfAnEntryThatFitsNowhere(t *testing.T) {
	enc, err := NewEncoder(io.Discard, benchHeader())
	if err != nil {
		t.Fatal(err)
	}
	err = enc.Encode(Entry{Loc: "https://example.org/" + strings.Repeat("a", MaxBytes)})
	if err == nil || errors.Is(err, ErrFull) {
		t.Errorf("got %v, want an error that no further document helps against", err)
	}
}

func TestEncoderPassesWriteErrorsOn(t *testing.T) {
	full := errors.New("disk full")
	enc, err := NewEncoder(failWriter{full}, benchHeader())
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		err = enc.Encode(benchEntry(1))
	}
	if !errors.Is(err, full) {
		t.Errorf("Encode: got %v", err)
	}
	if err := enc.Close(); !errors.Is(err, full) {
		t.Errorf("Close: got %v", err)
	}
}

type failWriter struct{ err error }

func (w failWriter) Write([]byte) (int, error) { return 0, w.err }

// TestEncoderGivesTheSameBytesInEveryProcess writes the same documents in two other
// processes, which have other addresses and another order of maps.
func TestEncoderGivesTheSameBytesInEveryProcess(t *testing.T) {
	const variable = "INSTEP_PRINT_DOCUMENTS"
	want := sumOfDocuments(t)
	if os.Getenv(variable) != "" {
		fmt.Printf("sum %s\n", want)
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		cmd := exec.CommandContext(t.Context(), self, "-test.run", "^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), variable+"=1")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if got, _, _ := strings.Cut(string(out), "\n"); got != "sum "+want {
			t.Errorf("another process: got %q, want %q", got, "sum "+want)
		}
	}
}

// sumOfDocuments is the SHA-256 of generated documents of every kind, compressed
// and not, and of a Series.
func sumOfDocuments(t *testing.T) string {
	t.Helper()
	h := sha256.New()
	kinds := make(map[docKind]bool)
	for seed := 0; seed < 100 || len(kinds) < len(docKinds); seed++ {
		doc := genDocument().Example(seed)
		kinds[docKind{doc.Header.Root, doc.Header.Capability}] = true
		h.Write(encodeDocument(t, doc))
		h.Write(encodeDocument(t, doc, WithGzip()))
	}
	s, begun := newShelf(), 0
	series := Series{Header: resourceListHeader(t), URI: s.uri, Create: s.create, MaxEntries: 10, Gzip: true}
	if _, err := series.Encode(numbered(35, resource, &begun)); err != nil {
		t.Fatal(err)
	}
	for _, uri := range s.order {
		h.Write(s.documents[uri])
	}
	return hex.EncodeToString(h.Sum(nil))
}
