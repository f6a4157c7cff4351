package ore

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"path"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"instep/resourcesync"
)

// same compares the parts of a map that every format has.
var same = cmp.Options{
	cmpopts.IgnoreFields(Map{}, "ID", "Format", "Feed", "Wrapped", "Notices", "Self"),
	cmpopts.EquateEmpty(),
	cmp.Comparer(func(a, b resourcesync.Datetime) bool { return a == b }),
}

// readMaps reads the maps of the fixtures that can be read.
func readMaps(t testing.TB) map[string]*Map {
	t.Helper()
	all := map[string]*Map{}
	for _, f := range readArchive(t, mapsArchive).Files {
		if path.Ext(f.Name) == ".want" {
			continue
		}
		if m, err := new(Reader).Read("https://museum.example.org/maps/"+f.Name, bytes.NewReader(f.Data)); err == nil {
			all[f.Name] = m
		}
	}
	if len(all) < 5 {
		t.Fatalf("only %d maps can be read", len(all))
	}
	return all
}

// TestRoundTrip: what is written is read as it was, in every format.
func TestRoundTrip(t *testing.T) {
	for name, m := range readMaps(t) {
		for _, f := range []Format{FormatAtom, FormatJSONLD} {
			text := write(t, m, f)
			got, err := new(Reader).Read(m.URI, bytes.NewReader(text))
			if err != nil {
				t.Fatalf("%s as %s: %v\n%s", name, f, err, text)
			}
			if d := cmp.Diff(got, m, same); d != "" {
				t.Errorf("%s as %s (-got +want):\n%s\n%s", name, f, d, text)
			}
			if again := write(t, got, f); !bytes.Equal(again, text) {
				t.Errorf("%s as %s is written otherwise the second time", name, f)
			}
		}
		got, err := new(Reader).Read(m.URI, strings.NewReader(rdfOf(m)))
		if err != nil {
			t.Fatalf("%s as RDF/XML: %v", name, err)
		}
		if d := cmp.Diff(got, m, same); d != "" {
			t.Errorf("%s as RDF/XML (-got +want):\n%s", name, d)
		}
	}
}

func write(t testing.TB, m *Map, f Format) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := m.Write(&b, f); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// rdfOf writes a map in RDF/XML, each statement by itself.
func rdfOf(m *Map) string {
	var b strings.Builder
	b.WriteString(`<rdf:RDF xmlns:rdf="` + nsRDF + `" xmlns:dcterms="` + nsDCTerms + `" xmlns:ore="` + nsORE + `">`)
	text := func(s string) string {
		var e bytes.Buffer
		_ = xml.EscapeText(&e, []byte(s)) // a Buffer never fails
		return e.String()
	}
	say := func(about, property, value string) {
		if value != "" {
			fmt.Fprintf(&b, "<rdf:Description rdf:about=%q><%s>%s</%s></rdf:Description>\n", text(about), property, text(value), property)
		}
	}
	link := func(about, property, to string) {
		fmt.Fprintf(&b, "<rdf:Description rdf:about=%q><%s rdf:resource=%q/></rdf:Description>\n", text(about), property, text(to))
	}
	node := func(about, title string, types, creators, maps []string, created, modified resourcesync.Datetime) {
		say(about, "dcterms:title", title)
		for _, t := range types {
			link(about, "rdf:type", t)
		}
		for _, c := range creators {
			say(about, "dcterms:creator", c)
		}
		for _, o := range maps {
			link(about, "ore:isDescribedBy", o)
		}
		say(about, "dcterms:created", created.String())
		say(about, "dcterms:modified", modified.String())
	}
	g := &m.Aggregation
	link(m.URI, "ore:describes", g.URI)
	node(m.URI, "", nil, m.Creators, nil, m.Created, m.Modified)
	say(m.URI, "dcterms:rights", m.Rights)
	node(g.URI, g.Title, g.Types, g.Creators, g.Maps, g.Created, g.Modified)
	for i := range m.Resources {
		r := &m.Resources[i]
		link(g.URI, "ore:aggregates", r.URI)
		node(r.URI, r.Title, r.Types, r.Creators, r.Maps, resourcesync.Datetime{}, r.Modified)
		say(r.URI, "dcterms:format", r.MediaType)
		say(r.URI, "dcterms:extent", optionalInt(r.Length))
	}
	return b.String() + "</rdf:RDF>"
}

// TestWriteRefuses: a map that nobody could read is not written.
func TestWriteRefuses(t *testing.T) {
	for name, m := range map[string]Map{
		"no URI":         {Aggregation: Aggregation{URI: "https://museum.example.org/a"}},
		"no Aggregation": {URI: "https://museum.example.org/m"},
		"one URI":        {URI: "https://museum.example.org/m", Aggregation: Aggregation{URI: "https://museum.example.org/m"}},
	} {
		if err := m.Write(new(bytes.Buffer), FormatAtom); err == nil {
			t.Errorf("%s: written", name)
		}
	}
	m := Map{URI: "https://museum.example.org/m", Aggregation: Aggregation{URI: "https://museum.example.org/a"}}
	if err := m.Write(new(bytes.Buffer), FormatRDFXML); err == nil {
		t.Error("RDF/XML: written")
	}
}

// FuzzRead: no document makes the reader fail otherwise than by an error, and what can
// be read can be written and read again.
func FuzzRead(f *testing.F) {
	for _, file := range readArchive(f, mapsArchive).Files {
		if path.Ext(file.Name) != ".want" {
			f.Add(file.Data)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		r := Reader{Limits: Limits{Bytes: 1 << 20, Resources: 100}}
		m, err := r.Read("https://museum.example.org/m", bytes.NewReader(text))
		if err != nil {
			if m != nil {
				t.Errorf("got a map and %v", err)
			}
			return
		}
		if m.URI == "" || m.Aggregation.URI == "" || len(m.Resources) > 100 {
			t.Errorf("got %+v", m)
		}
		var b bytes.Buffer
		if m.Write(&b, FormatAtom) != nil {
			return
		}
		again, err := new(Reader).Read(m.URI, &b)
		if err != nil {
			t.Fatalf("what was written can't be read: %v", err)
		}
		if again.Aggregation.URI == "" || len(again.Resources) != len(m.Resources) {
			t.Errorf("got %d resources, want %d", len(again.Resources), len(m.Resources))
		}
	})
}

// FuzzInspect: no document makes the inspection fail otherwise than by an error.
func FuzzInspect(f *testing.F) {
	for _, file := range readArchive(f, "testdata/site.txtar").Files {
		_, body, _ := bytes.Cut(file.Data, []byte("\n\n"))
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		problems, _ := Inspect("https://museum.example.org/x", "text/html", bytes.NewReader(text))
		for _, p := range problems {
			if p.Rule == "" || p.Message == "" {
				t.Errorf("got %+v", p)
			}
		}
	})
}
