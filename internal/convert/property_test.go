package convert

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/rogpeppe/go-internal/txtar"
	"pgregory.net/rapid"

	"instep/resourcesync"
)

// checkAny checks what holds whatever is converted: the result is clean and
// converts to itself, or nothing is written and the error has a reason.
func checkAny(t fataler, in []byte, o Options) {
	t.Helper()
	var out bytes.Buffer
	left := int64(0)
	o.Name = "any"
	o.Decide = func(d Decision) {
		if d.Text == "" || d.Level != Info && d.Level != Warning && d.Level != Error {
			t.Fatalf("decision: %#v", d)
		}
		if d.Level == Error {
			left++
		}
	}
	rep, err := Document(context.Background(), bytes.NewReader(in), &out, o)
	var re *RefusedError
	switch {
	case err != nil && (!errors.As(err, &re) || re.Msg == ""):
		t.Fatalf("refused without a reason: %v\n%s", err, in)
	case err != nil && out.Len() > 0:
		t.Fatalf("refused, but %d bytes were written: %v", out.Len(), err)
	case err != nil:
		return
	case rep.LeftOut != left:
		t.Fatalf("left out: got %d, told of %d", rep.LeftOut, left)
	}
	checkClean(t, result{doc: out.Bytes(), report: rep}, string(in))
}

// What generated documents are made of: what the standard says, what dialects and
// Sources say, and what nobody should.
var (
	someSpaces       = []string{"http://www.openarchives.org/rs/terms/", "http://www.openarchives.org/rs/", "http://www.openarchives.org/rs/terms"}
	someCapabilities = []string{
		"resourcelist", "resourcedump", "resourcedump-manifest", "changelist", "changedump", "changedump-manifest", "capabilitylist", "description",
		"resourcelist-archive", "resourcedump-archive", "changelist-archive", "changedump-archive", "resourceList", "of-our-own", "Of Our Own", "",
	}
	someURIs   = []string{"https://reef.example.org/a", "https://reef.example.org/a?x=1&amp;y", "a/b", "/ä ö", "", " https://reef.example.org/b ", "urn:x:y", "http:", "https://reef.example.org/%zz%41", "://", "https://reef.example.org/&#x202e;"}
	someRels   = []string{"up", "index", "top", "resourcesync", "describedBy", "duplicate", "alternate", "http://www.openarchives.org/rs/terms/patch", "", "self"}
	someValues = map[string][]string{
		"at": someTimes, "completed": someTimes, "from": someTimes, "until": someTimes, "datetime": someTimes, "modified": someTimes,
		"change": {"created", "updated", "deleted", "Updated", "moved", ""}, "length": {"0", "17", "-1", "many", ""},
		"hash": {"md5:0123456789abcdef0123456789abcdef", "md5:ASNFZ4mrze8BI0VniavN7w==", "crc32:00 sha-1:x", ""},
		"type": {"text/html", "application/json-patch", "html", "text/html; charset=utf-8"}, "encoding": {"gzip", " "},
		"path": {"/a", "a", "/b", "/c", "/a/../b", `\a`, "//a", "/"}, "etag": {"7"}, "rs:hash": {"md5:0123456789abcdef0123456789abcdef"},
		"xml:lang": {"en"}, "x:y": {"z", "&#10;"}, "pri": {"1", "0"},
	}
	someAttrs = []string{"at", "completed", "from", "until", "datetime", "modified", "change", "length", "hash", "type", "encoding", "path", "etag", "rs:hash", "xml:lang", "x:y", "pri"}
)

// drawAttrs draws attributes, each at most once.
func drawAttrs(t *rapid.T, most int) string {
	s := ""
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(someAttrs), 0, most, rapid.ID).Draw(t, "attributes") {
		s += fmt.Sprintf(" %s=%q", name, rapid.SampledFrom(someValues[name]).Draw(t, name))
	}
	return s
}

func drawLink(t *rapid.T) string {
	return fmt.Sprintf("<rs:ln rel=%q href=%q%s/>\n", rapid.SampledFrom(someRels).Draw(t, "rel"), rapid.SampledFrom(someURIs).Draw(t, "href"), drawAttrs(t, 2))
}

func drawEntry(t *rapid.T, el string) string {
	s := "<" + el + "><loc>" + rapid.SampledFrom(someURIs).Draw(t, "loc") + "</loc>"
	if rapid.Bool().Draw(t, "has lastmod") {
		s += "<lastmod>" + rapid.SampledFrom(someTimes).Draw(t, "lastmod") + "</lastmod>"
	}
	if rapid.Bool().Draw(t, "has md") {
		s += "<rs:md"
		if rapid.IntRange(0, 3).Draw(t, "has capability") == 0 {
			s += fmt.Sprintf(" capability=%q", rapid.SampledFrom(someCapabilities).Draw(t, "capability"))
		}
		s += drawAttrs(t, 6) + "/>"
	}
	for range rapid.IntRange(0, 2).Draw(t, "links") {
		s += drawLink(t)
	}
	if rapid.IntRange(0, 5).Draw(t, "has foreign") == 0 {
		s += "<x:note rs:y='1'>&amp;<x:deep/></x:note>"
	}
	return s + "</" + el + ">\n"
}

// drawDocument draws the text of a document in the form of a sitemap.
func drawDocument(t *rapid.T) string {
	root, el := "urlset", "url"
	if rapid.IntRange(0, 3).Draw(t, "index") == 0 {
		root, el = "sitemapindex", "sitemap"
	}
	var parts []string
	if rapid.IntRange(0, 9).Draw(t, "has md") > 0 {
		parts = append(parts, fmt.Sprintf("<rs:md capability=%q%s/>\n", rapid.SampledFrom(someCapabilities).Draw(t, "capability"), drawAttrs(t, 4)))
	}
	for range rapid.IntRange(0, 2).Draw(t, "links") {
		parts = append(parts, drawLink(t))
	}
	for range rapid.IntRange(0, 6).Draw(t, "entries") {
		parts = append(parts, drawEntry(t, el))
	}
	if rapid.Bool().Draw(t, "mixed") {
		parts = rapid.Permutation(parts).Draw(t, "order")
	}
	return fmt.Sprintf("<%s xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\" xmlns:rs=%q xmlns:x=\"https://example.org/ns\">\n%s</%s>\n",
		root, rapid.SampledFrom(someSpaces).Draw(t, "namespace"), strings.Join(parts, ""), root)
}

func TestAnyDocumentBecomesCleanOrIsRefusedWithAReason(t *testing.T) {
	whole := parse(t, "up https://reef.example.org/capabilitylist.xml\nat 2024-01-01T00:00:00Z\nfrom 2024-01-01T00:00:00Z\nbase-url https://reef.example.org/")
	whole.Temp = t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		o := Options{Temp: whole.Temp}
		if rapid.IntRange(0, 3).Draw(t, "given") > 0 {
			o = whole
		}
		if rapid.IntRange(0, 3).Draw(t, "as 1.0") == 0 {
			d := resourcesync.Dialect10
			o.Dialect = &d
		}
		checkAny(t, []byte(drawDocument(t)), o)
	})
}

func FuzzDocument(f *testing.F) {
	names, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range txtar.Parse(text).Files {
			f.Add(file.Data)
		}
	}
	temp := f.TempDir()
	at, err := resourcesync.ParseDatetime("2024-01-01T00:00:00Z")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		checkAny(t, in, Options{Temp: temp, Up: "https://reef.example.org/up", At: at, From: at})
	})
}

// longChangeList is a Change List of n entries, newest first, each of about size
// bytes.
func longChangeList(n, size int) io.Reader {
	const head = `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">
<rs:ln rel="up" href="https://reef.example.org/capabilitylist.xml"/><rs:md capability="changelist" from="2024-01-01T00:00:00Z"/>
`
	pad := strings.Repeat("x", max(size-120, 0))
	i := n
	entries := readerFunc(func(p []byte) (int, error) {
		if i == 0 {
			return 0, io.EOF
		}
		i--
		return copy(p, fmt.Sprintf("<url><loc>https://reef.example.org/%s%d</loc><rs:md change=\"updated\" datetime=\"2024-01-02T%02d:%02d:%02dZ\"/></url>\n", pad, i, i/3600, i/60%60, i%60)), nil
	})
	return io.MultiReader(strings.NewReader(head), entries, strings.NewReader("</urlset>\n"))
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestAFullListIsTurnedRoundByWayOfATemporaryFile(t *testing.T) {
	var out bytes.Buffer
	rep, err := Document(context.Background(), longChangeList(resourcesync.MaxEntries, 0), &out, Options{Name: "long", Temp: t.TempDir()})
	if err != nil || rep.Entries != resourcesync.MaxEntries {
		t.Fatalf("got %d entries and %v, want %d", rep.Entries, err, resourcesync.MaxEntries)
	}
	i := 0
	for e, err := range resourcesync.NewDecoder(&out, resourcesync.WithTolerance(resourcesync.Strict)).Entries() {
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("https://reef.example.org/%d", i); e.Loc != want {
			t.Fatalf("entry %d: got %s, want %s", i, e.Loc, want)
		}
		i++
	}
}

func TestWhatIsTooLargeForOneDocumentIsRefusedWithItsCount(t *testing.T) {
	for name, c := range map[string]struct {
		in   io.Reader
		rule string
		want string
	}{
		"entries": {longChangeList(resourcesync.MaxEntries+7, 0), "limit-50000-items", "50007 entries"},
		"bytes":   {longChangeList(40_000, 1300), "limit-50mb", "of its 40000 entries"},
	} {
		var out bytes.Buffer
		_, err := Document(context.Background(), c.in, &out, Options{Name: "long", Temp: t.TempDir()})
		var re *RefusedError
		if !errors.As(err, &re) || re.Rule != c.rule || re.Hint == "" || !strings.Contains(re.Msg, c.want) || out.Len() > 0 {
			t.Errorf("%s: got %v and %d bytes, want rule %s, %q and none", name, err, out.Len(), c.rule, c.want)
		}
	}
}

func TestConversionEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	stopped := errors.New("stopped")
	in := io.TeeReader(longChangeList(20_000, 0), &after{n: 1 << 20, do: func() { cancel(stopped) }})
	var out bytes.Buffer
	if _, err := Document(ctx, in, &out, Options{Name: "long", Temp: t.TempDir()}); !errors.Is(err, stopped) || out.Len() > 0 {
		t.Errorf("got %v and %d bytes, want %v and none", err, out.Len(), stopped)
	}
}

// after calls do when n bytes were written to it.
type after struct {
	n  int
	do func()
}

func (a *after) Write(p []byte) (int, error) {
	if a.n -= len(p); a.n <= 0 {
		a.do()
	}
	return len(p), nil
}

func TestErrorsOfReaderAndWriterAreToldAsTheyAre(t *testing.T) {
	broken := errors.New("broken")
	_, err := Document(context.Background(), iotest.ErrReader(broken), io.Discard, Options{Name: "list.xml"})
	if !errors.Is(err, broken) || !strings.HasPrefix(err.Error(), "list.xml:1:1: ") {
		t.Errorf("reader: got %v, want %v of list.xml", err, broken)
	}
	_, err = Document(context.Background(), longChangeList(3, 0), failingWriter{broken}, Options{Name: "list.xml"})
	if !errors.Is(err, broken) {
		t.Errorf("writer: got %v, want %v", err, broken)
	}
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

func TestGzipIsWrittenAndReadAndAlwaysTheSame(t *testing.T) {
	var plain, once, twice bytes.Buffer
	for _, c := range []struct {
		out  *bytes.Buffer
		gzip bool
	}{{&plain, false}, {&once, true}, {&twice, true}} {
		rep, err := Document(context.Background(), longChangeList(100, 0), c.out, Options{Gzip: c.gzip})
		if err != nil || rep.Bytes != int64(c.out.Len()) {
			t.Fatalf("got %v, %d bytes told of, %d written", err, rep.Bytes, c.out.Len())
		}
	}
	if !bytes.Equal(once.Bytes(), twice.Bytes()) {
		t.Error("the same document compresses to other bytes")
	}
	var back bytes.Buffer
	if _, err := Document(context.Background(), &once, &back, Options{}); err != nil || !bytes.Equal(back.Bytes(), plain.Bytes()) {
		t.Errorf("converted from gzip: %v, %d bytes, want the %d of the other", err, back.Len(), plain.Len())
	}
}
