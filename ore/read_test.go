package ore

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

var update = flag.Bool("update", false, "write what is read into the fixtures")

const mapsArchive = "testdata/maps.txtar"

func readArchive(t testing.TB, name string) *txtar.Archive {
	t.Helper()
	a, err := txtar.ParseFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestRead: each map is read as the fixtures say.
func TestRead(t *testing.T) {
	a := readArchive(t, mapsArchive)
	for i := 0; i+1 < len(a.Files); i += 2 {
		doc, want := a.Files[i], &a.Files[i+1]
		got := described(t, doc.Name, doc.Data)
		if *update {
			want.Data = []byte(got)
			continue
		}
		if !strings.HasPrefix(want.Name, strings.TrimSuffix(doc.Name, path.Ext(doc.Name))+".") {
			t.Fatalf("%s stands before %s", doc.Name, want.Name)
		}
		if d := cmp.Diff(got, string(want.Data)); d != "" {
			t.Errorf("%s (-got +want):\n%s", doc.Name, d)
		}
	}
	if *update {
		if err := os.WriteFile(mapsArchive, txtar.Format(a), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// described reads a document and writes down what is read.
func described(t testing.TB, name string, text []byte) string {
	t.Helper()
	uri := "https://museum.example.org/maps/" + name
	var r Reader
	m, err := r.Read(uri, iotest.HalfReader(bytes.NewReader(text)))
	if err != nil {
		msg := strings.TrimPrefix(err.Error(), fmt.Sprintf("read %q: ", uri))
		return "error: " + msg + "\n"
	}
	return written(m)
}

func written(m *Map) string {
	var b strings.Builder
	fmt.Fprintf(&b, "map %s (%s", m.URI, m.Format)
	part := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%s%s", name, value)
		}
	}
	flagged := func(name string, on bool) {
		if on {
			b.WriteString(", " + name)
		}
	}
	part(", self ", m.Self)
	part(", id ", m.ID)
	flagged("feed", m.Feed)
	flagged("wrapped", m.Wrapped)
	b.WriteString(")\n")
	var about []string
	add := func(name, value string) {
		if value != "" {
			about = append(about, name+" "+value)
		}
	}
	for _, c := range m.Creators {
		add("by", c)
	}
	add("created", m.Created.String())
	add("modified", m.Modified.String())
	add("rights", m.Rights)
	if len(about) > 0 {
		b.WriteString(strings.Join(about, "; ") + "\n")
	}
	g := &m.Aggregation
	about = []string{"aggregation " + g.URI}
	if g.Title != "" {
		about[0] += fmt.Sprintf(" %q", g.Title)
	}
	for _, t := range g.Types {
		about[0] += " " + t
	}
	for _, c := range g.Creators {
		add("by", c)
	}
	add("created", g.Created.String())
	add("modified", g.Modified.String())
	add("maps", strings.Join(g.Maps, " "))
	b.WriteString(strings.Join(about, "; ") + "\n")
	for i := range m.Resources {
		b.WriteString(resourceLine(&m.Resources[i]))
	}
	for _, n := range m.Notices {
		fmt.Fprintf(&b, "! %s\n", n)
	}
	return b.String()
}

func resourceLine(r *Resource) string {
	words := []string{"-", r.URI}
	if r.Title != "" {
		words = append(words, fmt.Sprintf("%q", r.Title))
	}
	if r.MediaType != "" {
		words = append(words, r.MediaType)
	}
	if r.Length > 0 {
		words = append(words, fmt.Sprint(r.Length))
	}
	words = append(words, r.Types...)
	for _, c := range r.Creators {
		words = append(words, "by "+c)
	}
	if !r.Modified.IsZero() {
		words = append(words, "modified "+r.Modified.String())
	}
	if len(r.Maps) > 0 {
		words = append(append(words, "maps"), r.Maps...)
	}
	return strings.Join(words, " ") + "\n"
}

// TestReadIsBounded: what is too large, too deep or too much to work on is refused.
func TestReadIsBounded(t *testing.T) {
	const head = `<rdf:RDF xmlns:rdf="` + nsRDF + `" xmlns:ore="` + nsORE + `">`
	entry := func(n int) string {
		link := `<link rel="` + nsORE + `aggregates" href="https://museum.example.org/%d"/>`
		var b strings.Builder
		b.WriteString(`<entry xmlns="` + nsAtom + `"><link rel="` + nsORE + `describes" href="https://museum.example.org/x"/>`)
		for i := range n {
			fmt.Fprintf(&b, link, i)
		}
		return b.String() + "</entry>"
	}
	for name, text := range map[string]string{
		"bytes":     head + strings.Repeat("<!-- -->", 1000) + "</rdf:RDF>",
		"depth":     head + strings.Repeat("<rdf:Description><ore:x>", 60) + strings.Repeat("</ore:x></rdf:Description>", 60) + "</rdf:RDF>",
		"resources": entry(11),
		"json":      `{"@context": {}, "@id": "` + strings.Repeat("x", 5000) + `"}`,
		"deep json": `{"@context": {}, "x": ` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + "}",
		"scoped":    `{"@context": {"t": {"@id": "x:t", "@context": {` + terms(100) + `}}}, "@graph": [` + strings.Repeat(`1,`, 100_000) + `1]}`,
		"long URI":  `<entry xmlns="` + nsAtom + `"><link rel="` + nsORE + `describes" href="https://museum.example.org/` + strings.Repeat("x", 10_000) + `"/></entry>`,
		"contexts":  `[` + strings.Repeat(`{"@context": {"x": "y:z"}},`, 101) + `{}]`,
	} {
		r := Reader{Limits: Limits{Bytes: 4000, Resources: 10}}
		if name == "scoped" || name == "long URI" {
			r.Limits.Bytes = 0
		}
		if m, err := r.Read("https://museum.example.org/m", strings.NewReader(text)); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: got %v, %v; want %v", name, m, err, ErrTooLarge)
		}
	}
	r := Reader{Limits: Limits{Bytes: 4000, Resources: 10}}
	if m, err := r.Read("https://museum.example.org/m", strings.NewReader(entry(10))); err != nil || len(m.Resources) != 10 {
		t.Errorf("as many as allowed: got %v, %v", m, err)
	}
}

// TestManyNames: what a map says again and again of one thing costs no more than once, and
// a part of many names is kept.
func TestManyNames(t *testing.T) {
	const n = 50_000
	var types, authors, aggregates strings.Builder
	for i := range n {
		fmt.Fprintf(&types, `<rdf:type rdf:resource="urn:x:%d"/>`, i)
		fmt.Fprintf(&authors, `<author><name>%d</name></author>`, i)
		aggregates.WriteString(`<ore:aggregates rdf:resource="https://museum.example.org/1"/>`)
	}
	rdf := `<rdf:RDF xmlns:rdf="` + nsRDF + `" xmlns:ore="` + nsORE + `"><rdf:Description rdf:about="https://museum.example.org/a">` + aggregates.String() +
		`</rdf:Description><rdf:Description rdf:about="https://museum.example.org/1">` + types.String() + `</rdf:Description></rdf:RDF>`
	m, err := new(Reader).Read("https://museum.example.org/m", strings.NewReader(rdf))
	if err != nil || len(m.Resources) != 1 || len(m.Resources[0].Types) != maxNames {
		t.Errorf("RDF/XML: got %d resources, %v; want one with %d types", len(m.Resources), err, maxNames)
	}
	text := `<rdf:RDF xmlns:rdf="` + nsRDF + `" xmlns:ore="` + nsORE + `" xmlns:dc="` + nsDC + `"><rdf:Description rdf:about="https://museum.example.org/m"><ore:describes rdf:resource="https://museum.example.org/a"/>` +
		strings.Repeat(`<dc:creator rdf:resource="x:y"/>`, n) + `</rdf:Description><rdf:Description rdf:about="x:y">` + strings.Repeat("<dc:x>z</dc:x>", n) + `</rdf:Description></rdf:RDF>`
	begin := time.Now()
	m, err = new(Reader).Read("https://museum.example.org/m", strings.NewReader(text))
	if took := time.Since(begin); err != nil || !slices.Equal(m.Creators, []string{"x:y"}) || took > 15*time.Second {
		t.Errorf("one creator of whom much is said: got %+v, %v after %v", m, err, took)
	}
	atom := `<entry xmlns="` + nsAtom + `"><link rel="` + nsORE + `describes" href="https://museum.example.org/a"/>` + authors.String() + `</entry>`
	m, err = new(Reader).Read("https://museum.example.org/m", strings.NewReader(atom))
	if err != nil || len(m.Aggregation.Creators) != maxNames {
		t.Errorf("Atom: got %+v, %v; want %d creators", m, err, maxNames)
	}
	json := `{"@context": "https://w3id.org/ore/context", "describes": {"@id": "x:a", "aggregates": [` + strings.Repeat(`"https://museum.example.org/1",`, n) + `"https://museum.example.org/1"]}}`
	m, err = new(Reader).Read("https://museum.example.org/m", strings.NewReader(json))
	if err != nil || len(m.Resources) != 1 {
		t.Errorf("JSON-LD: got %+v, %v; want one resource", m, err)
	}
}

// TestGraphsOfJSONLD: statements in named graphs, included nodes, lists and reverse properties count.
func TestGraphsOfJSONLD(t *testing.T) {
	const doc = `{"@context": {"ore": "` + nsORE + `", "g": {"@id": "ore:aggregates", "@container": "@list", "@type": "@id"}},
		"@id": "https://museum.example.org/m", "@graph": [
		{"@id": "https://museum.example.org/a", "g": ["https://museum.example.org/1", "https://museum.example.org/2"],
		 "@reverse": {"ore:isAggregatedBy": {"@id": "https://museum.example.org/3"}, "ore:describes": {"@id": "https://museum.example.org/m"}}}]}`
	m, err := new(Reader).Read("https://museum.example.org/m", strings.NewReader(doc))
	if err != nil || m.Self != "https://museum.example.org/m" || len(m.Resources) != 3 {
		t.Errorf("got %+v, %v; want three resources", m, err)
	}
}

// terms are definitions of a JSON-LD context.
func terms(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"t%d": "x:%d",`, i, i)
	}
	return b.String() + `"last": "x:last"`
}

// TestReadKeepsTheErrorOfItsReader: a map that does not arrive whole is none.
func TestReadKeepsTheErrorOfItsReader(t *testing.T) {
	broken := errors.New("the line is down")
	for _, f := range readArchive(t, mapsArchive).Files {
		if path.Ext(f.Name) == ".want" {
			continue
		}
		half := f.Data[:len(f.Data)/2]
		m, err := new(Reader).Read("https://museum.example.org/m", &failing{bytes.NewReader(half), broken})
		if m != nil || !errors.Is(err, broken) {
			t.Errorf("%s: got %v, %v; want %v", f.Name, m, err, broken)
		}
	}
}

// failing is a reader that fails at its end.
type failing struct {
	r   *bytes.Reader
	err error
}

func (f *failing) Read(p []byte) (int, error) {
	if n, err := f.r.Read(p); err == nil {
		return n, nil
	}
	return 0, f.err
}

// TestContextsAreLoaded: other contexts than that of ORE come from the Loader, a few.
func TestContextsAreLoaded(t *testing.T) {
	const doc = `{"@context": "https://museum.example.org/c", "@id": "https://museum.example.org/m", "d": {"@id": "https://museum.example.org/a", "g": {"@id": "https://museum.example.org/1"}}}`
	const context = `{"@context": {"d": {"@id": "` + nsORE + `describes"}, "g": "` + nsORE + `aggregates"}}`
	r := Reader{Load: func(uri string) ([]byte, error) {
		if uri != "https://museum.example.org/c" {
			t.Errorf("loaded %q", uri)
		}
		return []byte(context), nil
	}}
	m, err := r.Read("https://museum.example.org/m", strings.NewReader(doc))
	if err != nil || m.Aggregation.URI != "https://museum.example.org/a" || len(m.Resources) != 1 {
		t.Errorf("got %+v, %v", m, err)
	}
	n := 0
	r.Load = func(uri string) ([]byte, error) {
		n++
		return fmt.Appendf(nil, `{"@context": ["https://museum.example.org/c%d", {}]}`, n), nil
	}
	if m, err := r.Read("https://museum.example.org/m", strings.NewReader(doc)); !errors.Is(err, ErrTooLarge) || n != maxRemote {
		t.Errorf("endless contexts: got %v, %v after %d, want %v after %d", m, err, n, ErrTooLarge, maxRemote)
	}
	refused := errors.New("refused")
	r.Load = func(string) ([]byte, error) { return nil, refused }
	if _, err := r.Read("https://museum.example.org/m", strings.NewReader(doc)); !errors.Is(err, refused) {
		t.Errorf("got %v, want %v", err, refused)
	}
}
