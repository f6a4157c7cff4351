package resourcesync

import (
	"bytes"
	"crypto/sha256"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
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
			Capability: CapabilityChangeList,
			From:       mustDatetime(t, "2024-05-01T00:00:00Z"),
			Attrs:      []Attr{{"https://example.org/ns", "note", "a \"b\" <c> & \n d"}},
		},
		Links: []Link{{Rel: "up", Href: "https://example.org/caps.xml"}},
	}
	entries := []Entry{
		{Loc: "https://example.org/a?x=1&y=2", LastMod: mustDatetime(t, "2024-05"), ChangeFreq: "daily", Priority: mustPriority(t, "0.5")},
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
	if err != nil || len(notes) > 0 {
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
