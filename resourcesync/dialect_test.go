package resourcesync

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

// dump is what was read as text: one line for the document, then one for each
// link, entry and note. Absent values are left out.
func dump(h Header, entries []Entry, notes []Note) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s%s\n", h.Dialect, h.Kind(), dumpMetadata(&h.Metadata))
	dumpLinks(&b, h.Links)
	dumpForeign(&b, h.Foreign)
	for _, e := range entries {
		fmt.Fprintf(&b, "%s%s%s\n", e.Loc, field("lastmod", e.LastMod), dumpMetadata(&e.Metadata))
		dumpLinks(&b, e.Links)
		dumpForeign(&b, e.Foreign)
	}
	for _, n := range notes {
		fmt.Fprintf(&b, "note: line %d: quirk %d %s: %s\n", n.Line, n.Quirk, n.Rule, n.Msg)
	}
	return b.String()
}

func dumpMetadata(m *Metadata) string {
	s := field("capability", m.Capability) + field("at", m.At) + field("completed", m.Completed) +
		field("from", m.From) + field("until", m.Until) + field("change", m.Change) + field("datetime", m.Datetime)
	return s + dumpFile(m.Path, m.Type, m.Encoding, m.Digests, m.Length, m.Attrs)
}

func dumpLinks(b *strings.Builder, links []Link) {
	for _, l := range links {
		s := field("modified", l.Modified) + dumpFile(l.Path, l.Type, l.Encoding, l.Digests, l.Length, l.Attrs)
		if l.Pri != 0 {
			s += fmt.Sprintf(" pri=%d", l.Pri)
		}
		fmt.Fprintf(b, "  %s %s%s\n", l.Rel, l.Href, s)
	}
}

func dumpFile(path, mediaType, encoding string, ds Digests, length Length, attrs []Attr) string {
	size, _ := length.MarshalText()
	s := field("path", path) + field("type", mediaType) + field("encoding", encoding) + field("hash", ds) + field("length", string(size))
	for _, a := range attrs {
		s += field("@"+strings.TrimPrefix(a.Space+":"+a.Name, ":"), a.Value)
	}
	return s
}

func dumpForeign(b *strings.Builder, xml string) {
	if xml != "" {
		fmt.Fprintf(b, "  foreign: %s\n", xml)
	}
}

func field(name string, value any) string {
	if s := fmt.Sprint(value); s != "" {
		return fmt.Sprintf(" %s=%s", name, s)
	}
	return ""
}

// TestDialects reads each document of testdata/dialects.txtar and compares it with
// what stands beside it.
func TestDialects(t *testing.T) {
	a, err := txtar.ParseFile("testdata/dialects.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(a.Files); i += 2 {
		doc, want := a.Files[i], a.Files[i+1]
		name := strings.TrimSuffix(doc.Name, ".xml")
		if want.Name != name+".read" {
			t.Fatalf("%s is followed by %s", doc.Name, want.Name)
		}
		t.Run(name, func(t *testing.T) {
			var opts []Option
			if strings.HasPrefix(name, "1.0/") {
				opts = append(opts, AsDialect(Dialect10))
			}
			h, entries, notes, err := decode(string(doc.Data), opts...)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.Split(dump(h, entries, notes), "\n"), strings.Split(string(want.Data), "\n")); diff != "" {
				t.Errorf("-got +want:\n%s\n%s", diff, dump(h, entries, notes))
			}
			if dialect, _, _ := strings.Cut(name, "/"); h.Dialect.String() != dialect {
				t.Errorf("dialect: got %s, want %s", h.Dialect, dialect)
			}
			_, _, _, err = decode(string(doc.Data), append(opts, WithTolerance(Strict))...)
			if errors.Is(err, Refused) == (len(opts) > 0) {
				t.Errorf("strict: got %v", err)
			}
			_, _, notes, _ = decode(string(doc.Data), AsDialect(h.Dialect))
			bad := slices.ContainsFunc(notes, func(n Note) bool { return !n.Legal })
			if _, _, _, err := decode(string(doc.Data), WithTolerance(Strict), AsDialect(h.Dialect)); errors.Is(err, Refused) != bad {
				t.Errorf("strict, but asked for: %v, notes %v", err, notes)
			}
			if bad != strings.HasSuffix(name, "without-md") {
				t.Errorf("asked for: notes %v", notes)
			}
			for n := range doc.Data[:strings.LastIndex(string(doc.Data), "</")+4] {
				if _, _, _, err := decode(string(doc.Data[:n]), opts...); err == nil {
					t.Errorf("cut after %d bytes: read as complete", n)
				}
			}
		})
	}
}
