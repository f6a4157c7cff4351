package resourcesync

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/rogpeppe/go-internal/txtar"
	"pgregory.net/rapid"
)

// exact compares the value types of this package with ==.
var exact = cmpopts.EquateComparable(Datetime{}, Digest{}, Length{}, Priority{})

func mustDatetime(t testing.TB, s string) Datetime {
	t.Helper()
	d, err := ParseDatetime(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func mustPriority(t testing.TB, s string) Priority {
	t.Helper()
	p, err := ParsePriority(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func encode(t testing.TB, h Header, entries ...Entry) []byte {
	t.Helper()
	var b bytes.Buffer
	enc, err := NewEncoder(&b, h)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if err := enc.Encode(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := enc.Close(); err != nil {
		t.Fatal(err)
	}
	if enc.Bytes() != int64(b.Len()) || enc.Count() != len(entries) {
		t.Errorf("Bytes and Count: got %d and %d, want %d and %d", enc.Bytes(), enc.Count(), b.Len(), len(entries))
	}
	return b.Bytes()
}

// decode reads a document to its end; notes are those of Rule and Line.
func decode(doc string, opts ...Option) (h Header, entries []Entry, notes []Note, err error) {
	opts = append([]Option{WithNotes(func(n Note) { notes = append(notes, n) })}, opts...)
	d := NewDecoder(strings.NewReader(doc), opts...)
	for e, entryErr := range d.Entries() {
		if entryErr != nil {
			return Header{}, entries, notes, entryErr
		}
		entries = append(entries, e)
	}
	h, err = d.Header()
	return h, entries, notes, err
}

func TestRoundTrip(t *testing.T) {
	sum := sha256.Sum256([]byte("hello"))
	digest, _ := NewDigest(SHA256, sum[:])
	header := Header{
		Root: URLSet,
		Metadata: Metadata{
			Capability: CapabilityChangeDumpManifest,
			From:       mustDatetime(t, "2024-05-01T00:00:00Z"),
			Attrs:      []Attr{{"https://example.org/ns", "note", "a \"b\" <c> & \n d"}},
		},
		Links: []Link{{Rel: "up", Href: "https://example.org/caps.xml"}},
	}
	entries := []Entry{
		{Loc: "https://example.org/a?x=1&y=2", Metadata: Metadata{Change: Created, Path: "/a"}, LastMod: mustDatetime(t, "2024-05"), ChangeFreq: "daily", Priority: mustPriority(t, "0.5")},
		{Loc: "https://example.org/b", Metadata: Metadata{
			Change: Updated, Datetime: mustDatetime(t, "2024-05-01T10:00:00.125+02:00"),
			Digests: Digests{digest}, Length: Bytes(0), Type: "text/html; charset=\"utf-8\"", Encoding: "gzip", Path: "/b/ü.html",
		}, Links: []Link{{Rel: "duplicate", Href: "https://mirror.example.org/b", Pri: 7, Modified: mustDatetime(t, "2024"), Length: Bytes(5)}}},
		{Loc: "https://example.org/c", Metadata: Metadata{Change: Deleted}},
	}
	doc := encode(t, header, entries...)
	if again := encode(t, header, entries...); !bytes.Equal(doc, again) {
		t.Error("the same values gave different bytes")
	}
	gotHeader, got, notes, err := decode(string(doc), WithTolerance(Strict))
	if err != nil {
		t.Fatalf("decode: %v, notes %v\n%s", err, notes, doc)
	}
	if diff := cmp.Diff(gotHeader, header, exact); diff != "" {
		t.Errorf("header (-got +want):\n%s", diff)
	}
	if diff := cmp.Diff(got, entries, exact, cmpopts.IgnoreFields(Entry{}, "Line")); diff != "" {
		t.Errorf("entries (-got +want):\n%s", diff)
	}
	if got[1].Line == 0 {
		t.Error("an entry read has no line")
	}
}

// TestFixturesAreWrittenOrRefusedByARule writes what was read of the documents of
// testdata. What can be written is read as the same; what can't be, as it is no
// document of 1.1, is refused by a rule that says why.
func TestFixturesAreWrittenOrRefusedByARule(t *testing.T) {
	archives, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range archives {
		a, err := txtar.ParseFile(name)
		if err != nil {
			t.Fatal(err)
		}
		written, refused := 0, 0
		for _, f := range a.Files {
			h, entries, _, err := decode(string(f.Data))
			if err != nil {
				continue // it is there to be refused when read
			}
			why := writeAndRead(t, document{h, entries})
			if why == nil {
				written++
				continue
			}
			refused++
			if e, ok := errors.AsType[*EncodeError](why); !ok || e.Rule == "" {
				t.Errorf("%s, %s: got %v, want a rule", name, f.Name, why)
			}
		}
		t.Logf("%s: %d documents written, %d refused by a rule", name, written, refused)
		if filepath.Base(name) == "kinds.txtar" && (refused > 0 || written != len(a.Files)) {
			t.Errorf("%s: %d of %d documents written", name, written, len(a.Files))
		}
	}
}

// writeAndRead writes a document and reads it again; the error is that of writing.
func writeAndRead(t *testing.T, d document) error {
	t.Helper()
	written, err := tryEncode(d)
	if err != nil {
		return err
	}
	d.Header.Dialect = Dialect11
	got := decodeDocument(t, string(written))
	if diff := cmp.Diff(got, d, exact, cmpopts.IgnoreFields(Entry{}, "Line"), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("written and read again (-got +want):\n%s\n%s", diff, written)
	}
	return nil
}

// documentCount is how many generated documents a test reads: INSTEP_DOCUMENTS if
// it is set, as make documents does.
func documentCount(t testing.TB, normally int) int {
	t.Helper()
	s := os.Getenv("INSTEP_DOCUMENTS")
	if s == "" {
		return normally
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		t.Fatalf("INSTEP_DOCUMENTS=%q: expected a number from 1", s)
	}
	return n
}

// TestGeneratedDocumentsSurviveTheRoundTrip writes documents of all kinds, reads
// them, and writes what was read: values and bytes are the same.
func TestGeneratedDocumentsSurviveTheRoundTrip(t *testing.T) {
	want := documentCount(t, 3_000)
	documents, forms := 0, make(map[string]int)
	for documents < want && !t.Failed() {
		rapid.Check(t, func(rt *rapid.T) {
			doc := genDocument().Draw(rt, "document")
			written := encodeDocument(rt, doc)
			form := rapid.SampledFrom(wireForms).Draw(rt, "form")
			wire, ok := form.of(string(written))
			if !ok {
				form, wire = wireForms[0], string(written)
			}
			got := decodeDocument(rt, wire)
			if diff := cmp.Diff(got, doc, exact, cmpopts.IgnoreFields(Entry{}, "Line"), cmpopts.EquateEmpty()); diff != "" {
				rt.Fatalf("as %s (-got +want):\n%s\n%s", form.name, diff, written)
			}
			if again := encodeDocument(rt, got); !bytes.Equal(again, written) {
				rt.Fatalf("other bytes when written again:\n%s\ninstead of\n%s", again, written)
			}
			documents++
			forms[form.name]++
		})
	}
	t.Logf("%d documents read and written again: %v", documents, forms)
	for _, f := range wireForms {
		if forms[f.name] == 0 && documents >= 1_000 && !t.Failed() {
			t.Errorf("no document was read as %s", f.name)
		}
	}
}

// tryEncode writes a document; the error is the first that the Encoder has.
func tryEncode(d document, opts ...EncoderOption) ([]byte, error) {
	var b bytes.Buffer
	enc, err := NewEncoder(&b, d.Header, opts...)
	if err != nil {
		return nil, err
	}
	for _, e := range d.Entries {
		if err := enc.Encode(e); err != nil {
			return nil, err
		}
	}
	err = enc.Close()
	return b.Bytes(), err
}

func encodeDocument(t rapid.TB, d document, opts ...EncoderOption) []byte {
	b, err := tryEncode(d, opts...)
	if err != nil {
		t.Fatalf("%v\n%+v", err, d)
	}
	return b
}

// decodeDocument reads a document in which nothing has to be tolerated.
func decodeDocument(t rapid.TB, wire string) document {
	h, entries, _, err := decode(wire, WithTolerance(Strict))
	if err != nil {
		t.Fatalf("%v\n%s", err, wire)
	}
	return document{h, entries}
}

// wireForm is a way in which a document may come: compressed or in another encoding.
type wireForm struct {
	name string
	of   func(doc string) (wire string, ok bool)
}

var wireForms = []wireForm{
	{"utf-8", func(doc string) (string, bool) { return doc, true }},
	{"utf-8 with byte order mark", func(doc string) (string, bool) { return "\ufeff" + doc, true }},
	{"gzip", func(doc string) (string, bool) {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, err := w.Write([]byte(doc))
		ok := err == nil && w.Close() == nil
		return b.String(), ok
	}},
	{"utf-16, big end first", func(doc string) (string, bool) {
		return "\xfe\xff" + toUTF16(declareEncoding(doc, "utf-16"), true), true
	}},
	{"utf-16, little end first", func(doc string) (string, bool) {
		return "\xff\xfe" + toUTF16(declareEncoding(doc, "utf-16"), false), true
	}},
	{"us-ascii", oneByteForm("us-ascii", func(r rune) (byte, bool) { return byte(r), r < 0x80 })},
	{"iso-8859-1", oneByteForm("iso-8859-1", func(r rune) (byte, bool) { return byte(r), r < 0x100 })},
	{"windows-1252", oneByteForm("windows-1252", func(r rune) (byte, bool) {
		if r == '€' {
			return 0x80, true
		}
		return byte(r), r < 0x80 || r >= 0xa0 && r < 0x100
	})},
}

func declareEncoding(doc, name string) string {
	return strings.Replace(doc, `encoding="UTF-8"`, `encoding="`+name+`"`, 1)
}

// oneByteForm writes characters that the encoding lacks as references; names can't
// be written so.
func oneByteForm(name string, encode func(rune) (byte, bool)) func(string) (string, bool) {
	return func(doc string) (string, bool) {
		var b strings.Builder
		for _, r := range declareEncoding(doc, name) {
			if c, ok := encode(r); ok {
				b.WriteByte(c)
			} else {
				fmt.Fprintf(&b, "&#%d;", r)
			}
		}
		return b.String(), name != "us-ascii" || !strings.Contains(doc, "größe")
	}
}
