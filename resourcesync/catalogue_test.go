package resourcesync

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const (
	open1 = `<urlset xmlns="` + nsSitemap + `" xmlns:rs="` + nsRS + `">`
	list1 = open1 + `<rs:md capability="resourcelist" at="2024-05-01T00:00:00Z"/>`
	url1  = `<url><loc>https://example.org/a</loc></url>`
	end1  = `</urlset>`
)

// wantKind checks that a document is refused for a reason, at a place within it.
func wantKind(t *testing.T, doc string, kind Kind, msg string, opts ...Option) {
	t.Helper()
	_, _, _, err := decode(doc, opts...)
	e, ok := errors.AsType[*DecodeError](err)
	if !ok {
		t.Errorf("%s: got error %v, want a DecodeError", clip(doc), err)
		return
	}
	if !errors.Is(err, kind) || !strings.Contains(err.Error(), msg) {
		t.Errorf("%s:\n got %v\nwant %v: …%s…", clip(doc), err, kind, msg)
	}
	if e.Line < 1 || e.Column < 1 || e.Offset < 0 {
		t.Errorf("%s: no place: %+v", clip(doc), e)
	}
}

func TestCat_PAR_01(t *testing.T) {
	subsets := []string{
		``,
		` SYSTEM "file:///etc/passwd"`,
		` SYSTEM "http://127.0.0.1:1/x.dtd"`,
		` PUBLIC "-//X//Y" "http://127.0.0.1:1/x.dtd"`,
		` [<!ENTITY a "b">]`,
		` [<!ENTITY a SYSTEM "file:///etc/passwd">]`,
		` [<!ENTITY % p SYSTEM "http://127.0.0.1:1/p"> %p;]`,
		` [<!ENTITY a "&b;&b;"><!ENTITY b "&c;&c;"><!ENTITY c "lol">]`,
		` [<!ENTITY a "` + strings.Repeat("x", 50_000) + `">]`,
		` [<!ATTLIST urlset xmlns:rs CDATA #FIXED "x">]`,
	}
	for _, decl := range []string{"", `<?xml version="1.0"?>`, "<!-- c --> <?p i?>"} {
		for _, s := range subsets {
			wantKind(t, decl+"<!DOCTYPE urlset"+s+">"+list1+url1+end1, NotResourceSync, "DTD not allowed")
		}
	}
	wantKind(t, list1+"<!DOCTYPE urlset>"+end1, NotResourceSync, "DTD not allowed")
	wantKind(t, list1+`<url><loc>&a;</loc></url>`+end1, NotWellFormed, `entity "a" is not defined`)
	wantKind(t, list1+`<rs:ln rel="&a;"/>`+end1, NotWellFormed, `entity "a" is not defined`)
	wantKind(t, list1+`<!ENTITY a "b">`+end1, NotWellFormed, "neither a comment")
}

// endless repeats text up to 48 MB.
func endless(before, repeat string) io.Reader {
	return io.MultiReader(strings.NewReader(before), &repeater{text: repeat, left: 48_000_000})
}

type repeater struct {
	text      string
	left, pos int
}

func (r *repeater) Read(p []byte) (int, error) {
	if r.left <= 0 {
		return 0, io.EOF
	}
	n := 0
	for n < len(p) {
		m := copy(p[n:], r.text[r.pos:])
		n += m
		r.pos = (r.pos + m) % len(r.text)
	}
	r.left -= n
	return n, nil
}

func TestCat_PAR_02(t *testing.T) {
	var storm strings.Builder
	for i := range 64 {
		fmt.Fprintf(&storm, ` xmlns:n%d="urn:%d"`, i, i)
	}
	for _, c := range []struct {
		name, before, repeat string
		want                 string
	}{
		{"depth", list1, "<a>", "nested deeper than 32"},
		{"attributes", list1 + "<a ", `b="" `, "a tag, text, comment or processing instruction is longer than 65536 bytes"},
		{"token: name", list1 + "<", "a", "longer than 65536"},
		{"token: value", list1 + `<a b="`, "c", "longer than 65536"},
		{"token: text", list1, "c", "longer than 65536"},
		{"token: loc", list1 + "<url><loc>https://example.org/", "<!-- --> c", "longer than 65536"},
		{"token: CDATA", list1 + "<url><loc><![CDATA[", "c", "longer than 65536"},
		{"token: comment", list1 + "<!-- ", "c", "longer than 65536"},
		{"token: instruction", list1 + "<?p ", "c", "longer than 65536"},
		{"namespaces", list1 + "<url>", "<a" + storm.String() + "/>", "more than 10000 elements"},
		{"foreign elements", list1 + "<url>", "<a/>", "more than 10000 elements"},
		{"foreign bytes", list1 + "<url>", `<a xmlns="urn:x">` + strings.Repeat("b", 60_000) + "</a>", "take more than 1048576 bytes"},
		{"foreign bytes of the root", list1, url1 + `<a xmlns="urn:x">` + strings.Repeat("b", 60_000) + "</a>", "take more than 1048576 bytes"},
		{"foreign elements of the root", list1, "<a/>", "more than 10000 elements"},
		{"links", list1, `<rs:ln rel="up" href="https://example.org/"/>`, "more than 10000 rs:ln"},
		{"bytes of links", list1, `<rs:ln rel="up" href="https://example.org/` + strings.Repeat("a", 8000) + `"/>`, "take more than 2097152 bytes"},
		{"bytes of the links of an entry", list1 + "<url>", `<rs:ln rel="up" href="https://example.org/" a="` + strings.Repeat("b", 60_000) + `"/>`, "take more than 2097152 bytes"},
		{"CDATA sections", list1 + "<url><loc>", "<![CDATA[" + strings.Repeat("c", 60_000) + "]]>", "longer than 65536"},
		{"CDATA sections of others", list1 + `<a xmlns="urn:x">`, "<![CDATA[" + strings.Repeat("c", 60_000) + "]]>", "longer than 65536"},
		{"metadata of an entry", list1 + "<url>", `<rs:md x="" y="" z=""/>`, "larger than 33554432 bytes"},
		{"modified of a feed", `<feed xmlns="` + nsAtom + `" xmlns:rs="` + nsDLib + `" rs:type="` + nsDLib + `changelist">`, "<updated>2013</updated>", "larger than 33554432 bytes"},
		{"elements in a loc", list1 + "<url><loc>", "<a/>", "more than 10000 elements"},
		{"entries", list1, url1, "more than 100000 entries"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var after, before runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			var err error
			d := NewDecoder(endless(c.before, c.repeat), WithLimits(Limits{Bytes: 32 << 20, Entries: 100_000}))
			for _, err = range d.Entries() {
			}
			runtime.GC() // garbage does not count: on a busy machine it is collected late
			runtime.ReadMemStats(&after)
			runtime.KeepAlive(d)
			e, ok := errors.AsType[*DecodeError](err)
			if !ok || e.Kind != LimitReached || !strings.Contains(e.Msg, c.want) {
				t.Errorf("got %v, want a limit: %s", err, c.want)
			}
			if got := int64(after.HeapAlloc) - int64(before.HeapAlloc); got > 8<<20 {
				t.Errorf("the decoder holds %d bytes", got)
			}
		})
	}

	var many strings.Builder
	for i := range 65 {
		fmt.Fprintf(&many, ` a%d=""`, i)
	}
	wantKind(t, list1+"<x"+many.String()+"/>"+end1, LimitReached, "more than 64 attributes")
	wantKind(t, list1+"<a"+storm.String()+"><b"+storm.String()+"/>", LimitReached, "more than 128 prefixes are declared at once")
	wantKind(t, list1+url1+url1+end1, LimitReached, "more than 1 entries", WithLimits(Limits{Entries: 1}))
	wantKind(t, list1+url1+end1, LimitReached, "larger than 100 bytes", WithLimits(Limits{Bytes: 100}))
	wantKind(t, list1+`<url><loc>https://example.org/`+strings.Repeat("a", 9000)+`</loc></url>`+end1, BadEntry, "at most 8192")
	const link = `<rs:ln rel="up" href="https://example.org/"/>`
	linked := list1 + link + strings.Repeat("<url><loc>https://example.org/a</loc>"+link+"</url>", 2) + end1
	if _, _, _, err := decode(linked, WithLimits(Limits{LinkBytes: len(link)})); err != nil {
		t.Errorf("links of exactly the limit in each place: %v", err)
	}
	wantKind(t, linked, LimitReached, fmt.Sprintf("more than %d bytes", len(link)-1), WithLimits(Limits{LinkBytes: len(link) - 1}))
	if _, _, _, err := decode(list1+url1+end1, WithLimits(Limits{Bytes: int64(len(list1 + url1 + end1))})); err != nil {
		t.Errorf("a document of exactly the limit: %v", err)
	}
}

// Namespaces are compared for each pair of attributes: that takes no longer when their
// URIs are long and differ at the end only.
func TestCat_PAR_02_names(t *testing.T) {
	took := func(uri string) time.Duration {
		var attrs strings.Builder
		for i := range 32 {
			fmt.Fprintf(&attrs, ` p:a%d="" q:a%d=""`, i, i)
		}
		root := strings.Replace(open1, ">", ` xmlns:p="`+uri+`1" xmlns:q="`+uri+`2">`, 1)
		doc := root + strings.Repeat("<url><loc>https://example.org/</loc><a"+attrs.String()+"/></url>", 1000) + end1
		best := time.Hour
		for range 10 { // the best of them is the one that the machine did not interrupt
			begin := time.Now()
			if _, entries, _, err := decode(doc); err != nil || len(entries) != 1000 {
				t.Fatalf("got %d entries, %v", len(entries), err)
			}
			best = min(best, time.Since(begin))
		}
		return best
	}
	short, long := took("urn:"), took("urn:"+strings.Repeat("x", 30_000))
	if long > 10*short {
		t.Errorf("with long URIs %v, with short ones %v", long, short)
	}
}

func zip(t testing.TB, s string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, s); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestCat_PAR_03(t *testing.T) {
	doc := list1 + url1 + end1
	packed := zip(t, doc)
	for name, good := range map[string]string{
		"one member": packed, "two members": zip(t, doc[:40]) + zip(t, doc[40:]), "an empty member": packed + zip(t, ""),
	} {
		if _, entries, _, err := decode(good); err != nil || len(entries) != 1 {
			t.Errorf("%s: got %d entries, %v", name, len(entries), err)
		}
	}
	for n := 2; n < len(packed); n++ {
		if _, _, _, err := decode(packed[:n]); !errors.Is(err, Incomplete) {
			t.Errorf("gzip cut after %d of %d bytes: got %v, want it incomplete", n, len(packed), err)
		}
	}
	for i := len(packed) - 8; i < len(packed); i++ { // checksum and size
		flipped := []byte(packed)
		flipped[i] ^= 1
		wantKind(t, string(flipped), Incomplete, "gzip")
	}
	wantKind(t, packed+"x", Incomplete, "gzip")
	wantKind(t, packed+"\x00\x00", Incomplete, "gzip")
	wantKind(t, packed+doc, Incomplete, "gzip")
	wantKind(t, packed+zip(t, "x"), Incomplete, "after the end of the root element")
	wantKind(t, packed+packed, Incomplete, "a second root element")
	wantKind(t, zip(t, packed), NotResourceSync, "gzip twice")
	wantKind(t, zip(t, ""), NotResourceSync, "empty")

	// Members without content, one after the other for as long as somebody reads.
	for name, member := range map[string]string{"at the start": zip(t, ""), "after a document": packed} {
		var err error
		for _, err = range NewDecoder(endless(member, zip(t, "")), WithLimits(Limits{Bytes: 100_000})).Entries() {
		}
		if e, ok := errors.AsType[*DecodeError](err); !ok || e.Kind != LimitReached {
			t.Errorf("empty members %s: got %v, want the limit", name, err)
		}
	}

	// 48 MB that are 48 KB on the wire: no more than the limit is ever unpacked.
	bomb := zip(t, list1+strings.Repeat(" ", 48_000_000)+end1)
	wantKind(t, bomb, LimitReached, "larger than 1000000 bytes", WithLimits(Limits{Bytes: 1_000_000}))
}

func TestCat_PAR_04(t *testing.T) {
	for _, c := range []struct {
		doc  string
		kind Kind
		msg  string
	}{
		{"", NotResourceSync, "empty"},
		{" \n", NotResourceSync, "empty"},
		{"\xef\xbb\xbf", NotResourceSync, "empty"},
		{"<!-- c -->", NotResourceSync, "no root element"},
		{"<!DOCTYPE html><html></html>", NotResourceSync, "HTML"},
		{"<!doctype HTML PUBLIC \"x\"><html></html>", NotResourceSync, "HTML"},
		{"<html><body></body></html>", NotResourceSync, "HTML"},
		{"\n<HTML>", NotResourceSync, "HTML"},
		{`{"error": "not found"}`, NotResourceSync, "JSON"},
		{`[1]`, NotResourceSync, "JSON"},
		{"PK\x03\x04", NotResourceSync, "ZIP"},
		{"%PDF-1.7", NotResourceSync, "PDF"},
		{"Not found", NotResourceSync, `begins with "Not found"`},
		{"<feed xmlns=\"http://www.w3.org/2005/Atom\"/>", NotResourceSync, "this is an Atom feed"},
		{`<rss version="2.0"/>`, NotResourceSync, "this is an RSS feed"},
		{`<resync/>`, NotResourceSync, "the root element is <resync>"},
		{"<urlset/>", NotResourceSync, `urlset is in namespace ""`},
		{`<urlset xmlns="` + nsRS + `"/>`, NotResourceSync, "urlset is in namespace"},
		{`<x:urlset xmlns="` + nsSitemap + `" xmlns:x="urn:x"/>`, NotResourceSync, "urlset is in namespace"},
		{open1 + `<md xmlns="http://www.openarchives.org/rs/0.5/" capability="resourcelist"/>` + end1, NotResourceSync, "draft"},
		{list1 + url1 + end1 + list1 + end1, Incomplete, "a second root element"},
		{list1 + url1 + end1 + "x", Incomplete, `"x" after the end`},
		{list1 + url1 + end1 + "<!--", Incomplete, "ends within"},
		{list1 + url1 + end1 + "</urlset>", NotWellFormed, "no element is open"},
		{list1 + url1 + end1 + `<?xml version="1.0"?>` + list1 + end1, Incomplete, "a second XML declaration"},
		{list1 + url1, Incomplete, "before </urlset>"},
		{list1 + "<url><loc>https://example.org/a</loc>", Incomplete, "before </urlset>"},
		{list1 + "<url></loc></url>" + end1, NotWellFormed, `end tag "loc" where </url> was expected`},
		{list1 + "<url></urlset>", NotWellFormed, `end tag "urlset" where </url> was expected`},
		{list1 + "\xff" + end1, NotWellFormed, "not a character"},
		{list1 + "\x00" + end1, NotWellFormed, "not a character"},
		{list1 + "\xed\xa0\x80" + end1, NotWellFormed, "not a character"},
		{list1 + "\uffff" + end1, NotWellFormed, "not a character"},
		{list1 + end1 + "\xe2\x82", Incomplete, "the last character is incomplete"},
		{`<?xml version="1.0" encoding="us-ascii"?>` + list1 + "é" + end1, NotWellFormed, "not a character"},
		{`<?xml version="1.0" encoding="koi8-r"?>` + list1 + end1, NotWellFormed, `encoding "koi8-r" is not supported`},
		{`<?xml version="1.1"?>` + list1 + end1, NotWellFormed, "expected 1.0"},
	} {
		wantKind(t, c.doc, c.kind, c.msg)
	}
	cut := errors.New("connection lost")
	_, err := NewDecoder(io.MultiReader(strings.NewReader(list1), errReader{cut})).Header()
	if !errors.Is(err, cut) || !errors.Is(err, Incomplete) {
		t.Errorf("a reader that fails: got %v", err)
	}
	if _, err := NewDecoder(errReader{cut}).Header(); !errors.Is(err, cut) || !errors.Is(err, Incomplete) {
		t.Errorf("a reader that fails at once: got %v", err)
	}
	if _, err := NewDecoder(errReader{nil}).Header(); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("a reader that returns nothing: got %v", err)
	}
}

type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) { return 0, r.err }

func TestCat_PAR_05(t *testing.T) {
	const good = "<loc>https://example.org/a</loc>"
	for _, c := range []struct{ name, doc string }{
		{"prefixed", `<s:urlset xmlns:s="` + nsSitemap + `" xmlns:t="` + nsRS + `"><t:md capability="resourcelist"/><s:url><s:loc>https://example.org/a</s:loc><t:md length="5"/></s:url></s:urlset>`},
		{"foreign loc", open1 + `<rs:md capability="resourcelist"/><url>` + good + `<i:loc xmlns:i="urn:image">https://evil.example/</i:loc><rs:md length="5"/></url></urlset>`},
		{"loc inside a foreign element", open1 + `<rs:md capability="resourcelist"/><url><x xmlns="urn:x"><loc xmlns="` + nsSitemap + `">https://evil.example/</loc></x>` + good + `<rs:md length="5"/></url></urlset>`},
		{"rs bound to something else within", open1 + `<rs:md capability="resourcelist"/><url>` + good + `<rs:md xmlns:rs="urn:x" length="6"/><rs:md length="5"/></url></urlset>`},
		{"md of no namespace", open1 + `<rs:md capability="resourcelist"/><url>` + good + `<md xmlns="" length="6"/><rs:md length="5"/></url></urlset>`},
		{"md of the sitemap namespace", open1 + `<rs:md capability="resourcelist"/><url>` + good + `<md length="6"/><rs:md length="5"/></url></urlset>`},
		{"default namespace is that of ResourceSync", `<s:urlset xmlns:s="` + nsSitemap + `" xmlns="` + nsRS + `"><md capability="resourcelist"/><s:url><s:loc>https://example.org/a</s:loc><loc>https://evil.example/</loc><md length="5"/></s:url></s:urlset>`},
		{"attributes of other namespaces", open1 + `<rs:md capability="resourcelist" xmlns:x="urn:x" x:capability="changelist"/><url>` + good + `<rs:md x:length="6" xmlns:x="urn:x" length="5"/></url></urlset>`},
		{"url in a foreign element", open1 + `<rs:md capability="resourcelist"/><x xmlns:u="` + nsSitemap + `" xmlns="urn:x"><u:url><u:loc>https://evil.example/</u:loc></u:url></x><url>` + good + `<rs:md length="5"/></url></urlset>`},
		{"namespace written with a reference", `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0&#46;9" xmlns:rs="` + nsRS + `"><rs:md capability="resourcelist"/><url>` + good + `<rs:md length="5"/></url></urlset>`},
		{"alias without slash", strings.ReplaceAll(open1, "/terms/", "/terms") + `<rs:md capability="resourcelist"/><url>` + good + `<rs:md length="5"/></url></urlset>`},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, entries, _, err := decode(c.doc)
			if err != nil {
				t.Fatal(err)
			}
			if h.Capability != CapabilityResourceList || len(entries) != 1 || entries[0].Loc != "https://example.org/a" || entries[0].Length != Bytes(5) {
				t.Errorf("got %+v and %+v", h, entries)
			}
		})
	}
	_, entries, notes, err := decode(list1 + `<url><loc>https://example.org/a</loc><rs:md rs:length="5"/></url>` + end1)
	if err != nil || len(notes) != 1 || notes[0].Rule != "rs-attr-no-prefix" || entries[0].Length.Known() {
		t.Errorf("rs:length: got %+v, notes %+v, %v", entries, notes, err)
	}
	for doc, msg := range map[string]string{
		list1 + `<x:y/>` + end1:                                     `prefix "x" is not declared`,
		list1 + `<y x:z=""/>` + end1:                                `prefix "x" is not declared`,
		list1 + `<y xmlns:x=""/>` + end1:                            "declared with an empty namespace",
		list1 + `<y xmlns:xml="urn:x"/>` + end1:                     "can't be declared",
		list1 + `<y xmlns:x="` + nsXML + `"/>` + end1:               "can't be declared",
		list1 + `<y xmlns:xmlns="urn:x"/>` + end1:                   "can't be declared",
		list1 + `<y a="" a=""/>` + end1:                             `attribute "a" is given twice`,
		list1 + `<y xmlns:p="urn:x" xmlns:p="urn:y"/>` + end1:       `given twice`,
		list1 + `<y xmlns:p="u" xmlns:q="u" p:a="" q:a=""/>` + end1: `given twice in one namespace`,
		list1 + `<a:b:c/>` + end1:                                   "expected",
		list1 + `<:a/>` + end1:                                      "expected a name",
		list1 + `<a:/>` + end1:                                      "expected a name",
	} {
		wantKind(t, doc, NotWellFormed, msg)
	}
}

func TestCat_PAR_06(t *testing.T) {
	const good = "<loc>https://example.org/b</loc>"
	for body, msg := range map[string]string{
		"":                        "no loc",
		"<lastmod>2024</lastmod>": "no loc",
		"<loc/>":                  "loc is empty",
		"<loc> \n </loc>":         "loc is empty",
		"<loc><b>https://example.org/c</b></loc>": "contains elements",
		good + "<loc>https://example.org/c</loc>": "two loc",
		good + good: "two loc",
		good + `<rs:md length="1" type="text/plain"/><rs:md length="2"/>`:         "two rs:md with different values of length",
		good + `<rs:md change="created"/><rs:md change="deleted"/>`:               "two rs:md with different values of change",
		good + `<rs:md at="2026-01-01T00:00:00Z"/><rs:md at="2026-01-02"/>`:       "two rs:md with different values of at",
		good + `<rs:md x:a="1" xmlns:x="urn:x"/><rs:md y:a="2" xmlns:y="urn:x"/>`: "two rs:md with different values of a",
		"<loc>https://example.org/&#10;x</loc>":                                   "control character",
		"<loc>https://example.org/&#127;</loc>":                                   "control character",
	} {
		doc := list1 + url1 + "\n<url>" + body + "</url>" + url1 + end1
		wantKind(t, doc, BadEntry, msg)

		// The loop may go on, and the document is read to its end.
		d := NewDecoder(strings.NewReader(doc))
		good, bad := 0, 0
		for e, err := range d.Entries() {
			switch {
			case err == nil && e.Loc == "https://example.org/a":
				good++
			case errors.Is(err, BadEntry) && cmp.Equal(e, Entry{Line: 2}, exact):
				bad++
			default:
				t.Errorf("%s: got %+v, %v", body, e, err)
			}
		}
		if h, err := d.Header(); err != nil || h.Capability != CapabilityResourceList || good != 2 || bad != 1 {
			t.Errorf("%s: got %d good and %d bad entries, header %v, %v", body, good, bad, h, err)
		}
	}
	h, _, notes, err := decode(list1 + `<rs:md capability="changelist"/>` + url1 + end1)
	if err != nil || h.Capability != CapabilityResourceList || len(notes) != 1 || notes[0].Rule != "root-md-single" {
		t.Errorf("two rs:md of the root: got %v, notes %v, %v", h, notes, err)
	}
	wantKind(t, list1+`<rs:md capability="changelist"/>`+end1, Refused, "root-md-single", WithTolerance(Strict))

	// What a document is for is never lost, wherever it stands: who asked for a
	// Resource List can tell that a Change List came.
	for _, c := range []Capability{CapabilityResourceList, CapabilityChangeList, CapabilityResourceDump, CapabilityChangeDump} {
		md := `<rs:md capability="` + string(c) + `"/>`
		for _, doc := range []string{open1 + md + url1 + end1, open1 + url1 + md + end1, open1 + url1 + md + url1 + end1} {
			if h, _, _, err := decode(doc); err != nil || h.Capability != c {
				t.Errorf("%s: got capability %q, %v", doc, h.Capability, err)
			}
		}
	}
	if h, entries, _, err := decode(open1 + url1 + end1); err != nil || h.Capability != "" || len(entries) != 1 {
		t.Errorf("no rs:md: got %+v, %v", h, err)
	}
}

func TestCat_PAR_07(t *testing.T) {
	sha := "sha-256:" + abc[3].hex
	for _, c := range []struct {
		attr  string // of the rs:md of an entry
		want  string // of the values, as written again; "" if absent
		quirk Quirk
		rule  string // "" if there is nothing to note
	}{
		{`hash="` + sha + `"`, sha, 0, ""},
		{`hash="SHA-256:` + strings.ToUpper(abc[3].hex) + `"`, sha, QuirkHashSpelling, ""},
		{`hash="sha-256:` + strings.ToUpper(abc[3].hex) + `"`, sha, 0, ""},
		{`hash="SHA256:` + abc[3].hex + `"`, sha, QuirkHashSpelling, "hash-algorithm-unknown"},
		{`hash="sha-256:ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0"`, sha, QuirkHashBase64, "hash-hex-digest"},
		{"hash=\"md5:" + abc[0].hex + "\n\t" + sha + `"`, "md5:" + abc[0].hex + " " + sha, 0, ""},
		{"hash=\"md5:" + abc[0].hex + "&#10;" + sha + `"`, "md5:" + abc[0].hex + " " + sha, QuirkHashSpace, "hash-algorithm-token"},
		{"hash=\"sha-\n256:" + abc[3].hex + `"`, "", 0, "hash-algorithm-token hash-algorithm-unknown"},
		{`hash="sha-256:` + abc[0].hex + `"`, "", 0, "hash-digest-length"},
		{`hash="sha-256:` + strings.Repeat("g", 64) + `"`, "", 0, "hash-hex-digest"},
		{`hash="crc32:00000000"`, "", 0, "hash-algorithm-unknown"},
		{`hash="` + abc[3].hex + `"`, "", 0, "hash-algorithm-token"},
		{`hash=""`, "", QuirkEmptyValue, "hash-algorithm-token"},
		{`length="0"`, "0", 0, ""},
		{`length=" 12&#10;"`, "12", 0, ""},
		{`length="9223372036854775807"`, "9223372036854775807", 0, ""},
		{`length="9223372036854775808"`, "", 0, "length-integer"},
		{`length="-1"`, "", 0, "length-integer"},
		{`length="+1"`, "", 0, "length-integer"},
		{`length="1_000"`, "", 0, "length-integer"},
		{`length="0x10"`, "", 0, "length-integer"},
		{`length="1.0"`, "", 0, "length-integer"},
		{`length="1e3"`, "", 0, "length-integer"},
		{`length="12 KB"`, "", 0, "length-integer"},
		{`length=""`, "", QuirkEmptyValue, "length-integer"},
		{`datetime="2024-05-01"`, "2024-05-01", QuirkDatePartial, "datetime-utc-recommended"},
		{`datetime="2024-05-01T09:00:00+02:00"`, "2024-05-01T09:00:00+02:00", QuirkDatetimeZone, "datetime-utc-recommended"},
		{`datetime="9999-12-31T23:59:59Z"`, "9999-12-31T23:59:59Z", 0, ""},
		{`datetime="2024-05-01T09:00:00"`, "2024-05-01T09:00:00Z", QuirkDatetimeZone, "datetime-w3cdtf"},
		{`datetime="2024-05-01 09:00:00.25"`, "2024-05-01T09:00:00.25Z", QuirkDatetimeZone, "datetime-w3cdtf"},
		{`datetime="2024-05-01T09:00:60Z"`, "", 0, "datetime-w3cdtf"},
		{`datetime="10000-01-01"`, "", 0, "datetime-w3cdtf"},
		{`datetime="now"`, "", 0, "datetime-w3cdtf"},
		{`datetime=""`, "", QuirkEmptyValue, "datetime-w3cdtf"},
		{`change="updated"`, "updated", 0, ""},
		{`change="Updated"`, "updated", 0, "change-values"},
		{`change="moved"`, "", 0, "change-values"},
		{`change=""`, "", QuirkEmptyValue, "change-values"},
		{`path="a/b"`, "a/b", QuirkPath, "path-leading-slash"},
		{`path="/a/b "`, "/a/b ", 0, ""},
		{`type="text/html"`, "text/html", 0, ""},
	} {
		doc := list1 + "\n<url><loc>https://example.org/a</loc>\n<rs:md " + c.attr + "/></url>" + url1 + end1
		_, entries, notes, err := decode(doc)
		if err != nil || len(entries) != 2 {
			t.Errorf("%s: the document did not go on: %d entries, %v", c.attr, len(entries), err)
			continue
		}
		m := entries[0].Metadata
		length, _ := m.Length.MarshalText()
		got := m.Digests.String() + string(length) + m.Datetime.String() + string(m.Change) + m.Path + m.Type
		if got != c.want {
			t.Errorf("%s: got %q, want %q", c.attr, got, c.want)
		}
		var rules []string
		for _, n := range notes {
			rules = append(rules, n.Rule)
			if n.Quirk != c.quirk || n.Line != 3 || n.Msg == "" {
				t.Errorf("%s: note %+v, want quirk %d on line 3", c.attr, n, c.quirk)
			}
		}
		if diff := cmp.Diff(strings.Join(rules, " "), c.rule); diff != "" {
			t.Errorf("%s: rules (-got +want):\n%s", c.attr, diff)
		}
		_, _, _, err = decode(doc, WithTolerance(Strict))
		refused := slices.ContainsFunc(notes, func(n Note) bool { return !n.Legal })
		if errors.Is(err, Refused) != refused {
			t.Errorf("%s: strict: got %v, want refused: %v", c.attr, err, refused)
		}
	}
	for pri, want := range map[string]int{
		"1": 1, "007": 7, "999999": 999999, "0": 0, "1000000": 0, "999,999": 0, "-1": 0, "1.5": 0, "": 0, "99999999999999999999": 0,
	} {
		_, entries, notes, err := decode(list1 + `<url><loc>https://example.org/a</loc><rs:ln rel="duplicate" href="https://m.example.org/a" pri="` + pri + `"/></url>` + end1)
		if err != nil || entries[0].Links[0].Pri != want || len(notes) == 1 != (want == 0) {
			t.Errorf("pri %q: got %+v, notes %v, %v", pri, entries, notes, err)
		}
	}
}

func TestCat_PAR_08(t *testing.T) {
	// A decoder keeps URIs as they are; it only drops what could do harm in a
	// request or a file name whoever uses it.
	for _, uri := range []string{
		"relative/path", "//example.org/x", "https://user:secret@example.org/", "https://bücher.example/", "file:///etc/passwd",
		"gsiftp://example.org/x", "javascript:alert(1)", "https://example.org/%2f..%2F", "https://example.org/#fragment",
		"https://example.org/a b", "https://example.org/%253D", "https://example.org/?a=1&amp;b=2",
	} {
		want := strings.ReplaceAll(uri, "&amp;", "&")
		_, entries, _, err := decode(list1 + "<url><loc>\n  " + uri + "\t</loc><rs:ln rel='alternate' href=' " + uri + " '/></url>" + end1)
		if err != nil || entries[0].Loc != want || entries[0].Link("alternate") != want {
			t.Errorf("%s: got %+v, %v", uri, entries, err)
		}
	}
	for _, uri := range []string{
		"https://example.org/&#13;&#10;Host: evil", "https://example.org/&#9;x", "https://example.org/&#127;",
		"https://example.org/" + strings.Repeat("a", 100_000/2),
	} {
		wantKind(t, list1+"<url><loc>"+uri+"</loc></url>"+end1, BadEntry, "loc ")
		_, entries, notes, err := decode(list1 + `<url><loc>https://example.org/a</loc><rs:ln rel="alternate" href="` + uri + `"/></url>` + end1)
		if err != nil || len(entries[0].Links) != 0 || len(notes) != 1 {
			t.Errorf("%s: got links %v, notes %v, %v", clip(uri), entries, notes, err)
		}
	}
}
