package resourcesync

import (
	"errors"
	"io"
	"iter"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/rogpeppe/go-internal/txtar"
)

// kinds are the documents of testdata/kinds.txtar by name.
func kinds(t testing.TB) iter.Seq2[string, string] {
	t.Helper()
	a, err := txtar.ParseFile("testdata/kinds.txtar")
	if err != nil {
		t.Fatal(err)
	}
	return func(yield func(string, string) bool) {
		for _, f := range a.Files {
			if !yield(strings.TrimSuffix(f.Name, ".xml"), string(f.Data)) {
				return
			}
		}
	}
}

func TestEveryKindOfDocument(t *testing.T) {
	for name, doc := range kinds(t) {
		t.Run(name, func(t *testing.T) {
			header, entries, notes, err := decode(doc, WithTolerance(Strict))
			if err != nil {
				t.Fatalf("%v, notes %v", err, notes)
			}
			want, index := strings.CutSuffix(name, "-index")
			switch name {
			case "sitemap", "unusual":
			case "sitemapindex":
				index = true
			default:
				want = strings.TrimSuffix(want, "-closed")
				if string(header.Capability) != want || !header.Capability.Known() {
					t.Errorf("capability: got %q, want %q", header.Capability, want)
				}
			}
			if (header.Root == SitemapIndex) != index {
				t.Errorf("root: got %v", header.Root)
			}
			written := encode(t, header, entries...)
			header2, entries2, notes, err := decode(string(written), WithTolerance(Strict))
			if err != nil {
				t.Fatalf("written again: %v, notes %v\n%s", err, notes, written)
			}
			if diff := cmp.Diff(header2, header, exact); diff != "" {
				t.Errorf("header (-again +first):\n%s", diff)
			}
			if diff := cmp.Diff(entries2, entries, exact, cmpopts.IgnoreFields(Entry{}, "Line")); diff != "" {
				t.Errorf("entries (-again +first):\n%s", diff)
			}
		})
	}
}

// readAll reads a document with a Decoder of r.
func readAll(r io.Reader) (entries []Entry, err error) {
	for e, err := range NewDecoder(r).Entries() {
		if err != nil {
			return entries, err
		}
		entries = append(entries, e)
	}
	return entries, nil
}

func TestTheSizeOfReadsDoesNotMatter(t *testing.T) {
	for name, doc := range kinds(t) {
		want, err := readAll(strings.NewReader(doc))
		if err != nil {
			t.Fatal(err)
		}
		padded := strings.Replace(doc, "<rs:md", strings.Repeat(" ", firstBuffer-len(doc)/2)+"<rs:md", 1)
		for what, r := range map[string]io.Reader{
			"one byte":          iotest.OneByteReader(strings.NewReader(doc)),
			"half":              iotest.HalfReader(strings.NewReader(doc)),
			"error with data":   iotest.DataErrReader(strings.NewReader(doc)),
			"over a buffer end": strings.NewReader(padded),
		} {
			got, err := readAll(r)
			if err != nil {
				t.Errorf("%s, %s: %v", name, what, err)
			}
			if diff := cmp.Diff(got, want, exact); diff != "" {
				t.Errorf("%s, %s (-got +want):\n%s", name, what, diff)
			}
		}
	}
}

// TestLines checks the line of an entry that lies far behind the first buffer.
func TestLines(t *testing.T) {
	const n = 3000
	doc := list1 + strings.Repeat("\n<url>\r\n<loc>https://example.org/a</loc>\n\n</url>", n) + "\n<url></url>\n" + end1
	line := 2
	var last *DecodeError
	for e, err := range NewDecoder(strings.NewReader(doc)).Entries() {
		if e.Line != line {
			t.Fatalf("got line %d, want %d", e.Line, line)
		}
		line += 4
		last, _ = errors.AsType[*DecodeError](err)
	}
	want := DecodeError{Kind: BadEntry, Line: 4*n + 2, Column: 1, Offset: int64(strings.Index(doc, "<url></url>")), Rule: "entry-loc-required", Msg: "the entry has no loc"}
	if last == nil || *last != want {
		t.Errorf("got %+v, want %+v", last, want)
	}
	wantKind(t, list1+"\n\n  <url>\n <a></b>", NotWellFormed, "line 4, column 5")
	wantKind(t, list1+"\n\n  <url x='1' x='2'>", NotWellFormed, "line 3, column 3")
	wantKind(t, list1+"\n<url y='1'\n x='&'/>", NotWellFormed, "line 3, column 5")
	wantKind(t, list1+"\n<url>\n\n & </url>", NotWellFormed, "line 4, column 2")
}

func TestEntriesCanBeTakenUpAgain(t *testing.T) {
	d := NewDecoder(strings.NewReader(open1 + url1 + url1 + `<rs:md capability="changelist"/>` + url1 + end1))
	if h, err := d.Header(); err != nil || h.Capability != "" {
		t.Errorf("before the first entry: got %v, %v", h, err)
	}
	n := 0
	for range 4 {
		for _, err := range d.Entries() {
			if err != nil {
				t.Fatal(err)
			}
			n++
			break
		}
	}
	if h, err := d.Header(); n != 3 || err != nil || h.Capability != CapabilityChangeList {
		t.Errorf("got %d entries, header %v, %v", n, h, err)
	}
}

func TestAnErrorStays(t *testing.T) {
	d := NewDecoder(strings.NewReader(list1 + url1 + "<"))
	for range 2 {
		var last error
		for _, last = range d.Entries() {
		}
		if !errors.Is(last, Incomplete) {
			t.Errorf("Entries: got %v", last)
		}
	}
	if h, err := d.Header(); !errors.Is(err, Incomplete) || h.Capability != "" {
		t.Errorf("Header: got %v, %v", h, err)
	}
}
