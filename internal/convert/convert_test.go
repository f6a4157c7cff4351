package convert

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"instep/resourcesync"
)

var update = flag.Bool("update", false, "write what cases expect anew")

// parse makes options of lines such as "up https://example.org/".
func parse(t *testing.T, lines string) Options {
	t.Helper()
	var o Options
	for line := range strings.Lines(lines) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		var err error
		switch name {
		case "up":
			o.Up = value
		case "base-url":
			o.BaseURL, err = url.Parse(value)
		case "at":
			o.At, err = resourcesync.ParseDatetime(value)
		case "from":
			o.From, err = resourcesync.ParseDatetime(value)
		case "dialect":
			for d := resourcesync.Dialect11; d <= resourcesync.DialectResync; d++ {
				if d.String() == value {
					o.Dialect = &d
				}
			}
		default:
			t.Fatalf("option %q", name)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return o
}

// notesOf are the sentences of a Decoder about documents.
func notesOf(docs map[string]string) map[string]bool {
	told := map[string]bool{}
	for _, doc := range docs {
		dec := resourcesync.NewDecoder(strings.NewReader(doc), resourcesync.WithNotes(func(n resourcesync.Note) { told[n.Msg] = true }))
		for range dec.Entries() { // to its end
		}
	}
	return told
}

// result is what became of a document.
type result struct {
	doc       []byte
	decisions []Decision
	report    Report
	err       error
}

func convertBytes(t *testing.T, in []byte, o Options) result {
	t.Helper()
	var r result
	var out bytes.Buffer
	o.Temp = t.TempDir()
	o.Decide = func(d Decision) { r.decisions = append(r.decisions, d) }
	if o.Name == "" {
		o.Name = "in.xml"
	}
	r.report, r.err = Document(context.Background(), bytes.NewReader(in), &out, o)
	r.doc = out.Bytes()
	return r
}

// TestDocumentsOfEveryDialect converts the cases of testdata: in.xml by the options
// in args gives want.xml and the decisions told, or is refused with a sentence.
// Further files are the package that in.xml lies in. What a Decoder has to say beside
// is for its own tests.
func TestDocumentsOfEveryDialect(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("cases: %v %v", files, err)
	}
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) { runCase(t, name) })
	}
}

func runCase(t *testing.T, name string) {
	a, err := txtar.ParseFile(name)
	if err != nil {
		t.Fatal(err)
	}
	pack := fstest.MapFS{}
	parts := map[string]string{}
	for _, f := range a.Files {
		parts[f.Name] = string(f.Data)
		pack[f.Name] = &fstest.MapFile{Data: f.Data}
	}
	o := parse(t, parts["args"])
	o.Open = func(name string) (io.ReadCloser, error) { return pack.Open(name) }
	got := convertBytes(t, []byte(parts["in.xml"]), o)
	refused := ""
	if got.err != nil {
		refused = got.err.Error() + "\n"
		var re *RefusedError
		if !errors.As(got.err, &re) {
			t.Errorf("error: got %T, want a RefusedError", got.err)
		} else if re.Hint != "" {
			refused += "hint: " + re.Hint + "\n"
		}
	}
	notes, decisions := notesOf(parts), ""
	for _, d := range got.decisions {
		if !notes[d.Text] {
			decisions += fmt.Sprintf("%s %s [%s]\n", d.Level, d, d.Rule)
		}
	}
	made := map[string]string{"want.xml": string(got.doc), "decisions": decisions, "refused": refused}
	if *update {
		rewrite(t, name, a, made)
		return
	}
	for file, text := range made {
		if diff := cmp.Diff(strings.Split(text, "\n"), strings.Split(parts[file], "\n")); diff != "" {
			t.Errorf("%s (-got +want):\n%s", file, diff)
		}
	}
	if got.err == nil {
		checkClean(t, got, parts["in.xml"])
	}
}

// rewrite puts what was made into a case.
func rewrite(t *testing.T, name string, a *txtar.Archive, made map[string]string) {
	t.Helper()
	kept := a.Files[:0]
	for _, f := range a.Files {
		if _, ok := made[f.Name]; !ok {
			kept = append(kept, f)
		}
	}
	a.Files = kept
	for _, file := range []string{"want.xml", "decisions", "refused"} {
		if made[file] != "" {
			a.Files = append(a.Files, txtar.File{Name: file, Data: []byte(made[file])})
		}
	}
	if err := os.WriteFile(name, txtar.Format(a), 0o644); err != nil {
		t.Fatal(err)
	}
}

// checkClean checks that a result is read strictly, converts to itself, and that the
// report says what is in it.
func checkClean(t fataler, got result, in string) {
	t.Helper()
	h, entries, err := readStrictly(got.doc)
	if err != nil {
		t.Fatalf("the result is not clean: %v\n%s\nmade of\n%s", err, got.doc, in)
	}
	if got.report.Entries != entries || got.report.Header.Kind() != h.Kind() || got.report.Bytes != int64(len(got.doc)) {
		t.Fatalf("report: got %d entries, %s, %d bytes; the document has %d, %s, %d",
			got.report.Entries, got.report.Header.Kind(), got.report.Bytes, entries, h.Kind(), len(got.doc))
	}
	var again bytes.Buffer
	d := resourcesync.Dialect11 // what it is now; lastmod alone could be read as 1.0 once more
	rep, err := Document(context.Background(), bytes.NewReader(got.doc), &again, Options{Name: "again", Dialect: &d})
	if err != nil {
		t.Fatalf("convert the result: %v\n%s", err, got.doc)
	}
	if again.String() != string(got.doc) || rep.LeftOut > 0 {
		t.Fatalf("the result converts to something else (-again +first):\n%s", cmp.Diff(strings.Split(again.String(), "\n"), strings.Split(string(got.doc), "\n")))
	}
}

// fataler is what a test and a property have in common.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

// readStrictly reads a document that has nothing in it that 1.1 does not allow.
func readStrictly(doc []byte) (h resourcesync.Header, entries int64, err error) {
	dec := resourcesync.NewDecoder(bytes.NewReader(doc), resourcesync.WithTolerance(resourcesync.Strict))
	for _, err := range dec.Entries() {
		if err != nil {
			return h, entries, err
		}
		entries++
	}
	h, err = dec.Header()
	return h, entries, err
}

func TestAPartThatIsMissingFromThePackageIsRefusedWithItsCause(t *testing.T) {
	in := `<sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/">
  <rs:md capability="resourcedump-manifest"/><sitemap><loc>gone.xml</loc></sitemap></sitemapindex>`
	pack := fstest.MapFS{}
	got := convertBytes(t, []byte(in), Options{Open: func(name string) (io.ReadCloser, error) { return pack.Open(name) }})
	if !errors.Is(got.err, fs.ErrNotExist) || len(got.doc) > 0 {
		t.Errorf("got %v and %d bytes, want %v and none", got.err, len(got.doc), fs.ErrNotExist)
	}
}

func TestWhatADecoderTellsIsAmongTheDecisions(t *testing.T) {
	const in = `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">
<rs:ln rel="up" href="https://reef.example.org/capabilitylist.xml"/>
<rs:md capability="ResourceList" at="2024"/>
<url>
<rs:md hash="md5:ASNFZ4mrze8BI0VniavN7w== crc32:00" etag="7"/>
<loc>https://reef.example.org/a</loc>
</url>
</urlset>`
	got := convertBytes(t, []byte(in), Options{})
	if got.err != nil {
		t.Fatal(got.err)
	}
	levels := map[string]Level{}
	decided := int64(0)
	for _, d := range got.decisions {
		levels[d.Rule] = d.Level
		if d.Level != Info {
			decided++
		}
	}
	want := map[string]Level{
		"root-capability-case": Warning, "hash-hex-digest": Warning,
		"hash-algorithm-unknown": Warning, // legal, but it is not written
		"ext-attr-prefix":        Warning, // decided here, and told once
	}
	for rule, level := range levels {
		if level == Info { // which of what is unusual but legal is told may grow
			delete(levels, rule)
		}
	}
	if diff := cmp.Diff(levels, want); diff != "" || got.report.Decisions != decided || decided != int64(len(want)) {
		t.Errorf("%d decisions, %d counted, want %d (-got +want):\n%s", decided, got.report.Decisions, len(want), diff)
	}
}
