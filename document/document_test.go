package document_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"instep/document"
	"instep/fetch"
	"instep/internal/spool"
	"instep/resourcesync"
)

const begin = `<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">`

// list is a Resource List of these locs.
func list(locs ...string) string {
	var b strings.Builder
	b.WriteString(begin + `<rs:md capability="resourcelist" at="2020-01-01T00:00:00Z"/>`)
	for _, loc := range locs {
		fmt.Fprintf(&b, "<url><loc>%s</loc></url>", loc)
	}
	return b.String() + "</urlset>"
}

// answers is a Fetcher that answers any request.
type answers struct{ fetch.Response }

func (a answers) Document(context.Context, string, int64, fetch.Validators) (*fetch.Response, error) {
	return &a.Response, nil
}

func answer(body io.Reader) answers {
	return answers{fetch.Response{
		URL: "http://example.org/sets/list.xml", Body: io.NopCloser(body),
		Header: http.Header{"Date": {"Fri, 03 Jan 2020 00:00:00 GMT"}, "Last-Modified": {"Thu, 02 Jan 2020 00:00:00 GMT"}},
	}}
}

func locs(t *testing.T, d *document.Document) (all []string) {
	t.Helper()
	for e, err := range d.Entries() {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e.Loc)
	}
	return all
}

func TestDocumentIsReadAnyNumberOfTimes(t *testing.T) {
	text := list("a", "/b", "https://elsewhere.example.org/c", "")
	r := document.Reader{From: answer(strings.NewReader(text)), Spool: t.TempDir()}
	d, err := r.Read(t.Context(), "http://example.org/list")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	want := []string{"http://example.org/sets/a", "http://example.org/b", "https://elsewhere.example.org/c"}
	for range 2 {
		if got := locs(t, d); !slices.Equal(got, want) {
			t.Errorf("entries: got %q, want %q", got, want)
		}
		if raw, err := io.ReadAll(d.Raw()); string(raw) != text || err != nil {
			t.Errorf("raw bytes: got %q, %v", raw, err)
		}
	}
	if d.URI != "http://example.org/list" || d.Base.String() != "http://example.org/sets/list.xml" || d.Bad != 1 {
		t.Errorf("got %q from %q with %d bad entries, want http://example.org/list from sets/list.xml with 1", d.URI, d.Base, d.Bad)
	}
	if d.Header.Capability != resourcesync.CapabilityResourceList || d.Served.Day() != 3 || d.Modified.Day() != 2 {
		t.Errorf("got capability %q, sent %s, modified %s", d.Header.Capability, d.Served, d.Modified)
	}
}

func TestHeaderIsThatOfTheEnd(t *testing.T) {
	text := begin + `<url><loc>http://example.org/a</loc></url><rs:md capability="changelist"/></urlset>`
	d, err := (&document.Reader{From: answer(strings.NewReader(text)), Once: true}).Read(t.Context(), "u")
	if err != nil || d.Header.Capability != resourcesync.CapabilityChangeList {
		t.Fatalf("got %+v, %v; want the capability after the entries", d, err)
	}
}

func TestFileKeepsWhatIsWritten(t *testing.T) {
	name := filepath.Join(t.TempDir(), "list.xml")
	if err := os.WriteFile(name, []byte(list("a")), 0o600); err != nil {
		t.Fatal(err)
	}
	r := document.Reader{From: document.Opener(func(_ context.Context, name string) (io.ReadCloser, error) { return os.Open(name) })}
	d, err := r.Read(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if got := locs(t, d); d.Base != nil || !slices.Equal(got, []string{"a"}) {
		t.Errorf("got %q, relative to %v; want a, relative to nothing", got, d.Base)
	}
	if _, err := r.Read(t.Context(), name+"x"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: got %v, want the error of Open", err)
	}
}

func TestDocumentCountsWholeOrNotAtAll(t *testing.T) {
	broken := errors.New("the line is dead")
	text := list("http://example.org/a")
	page := "<!DOCTYPE html><html><title>Just a moment</title>"
	limits := document.Reader{Head: 1 << 10, Limit: 1 << 20, Once: true}
	for _, test := range []struct {
		name     string
		reader   document.Reader
		body     io.Reader
		transfer error
		is       error
		headless bool
		page     bool
	}{
		{name: "cut", body: strings.NewReader(text[:len(text)-1]), is: resourcesync.Incomplete},
		{name: "cut in the header", body: strings.NewReader(begin[:60]), is: resourcesync.Incomplete, headless: true},
		{name: "broken off", body: io.MultiReader(strings.NewReader(text[:len(text)-20]), iotest.ErrReader(broken)), transfer: broken, is: broken},
		{name: "broken off after its end", body: io.MultiReader(strings.NewReader(text), iotest.ErrReader(broken)), transfer: broken, is: broken},
		{name: "page", body: strings.NewReader(page), is: resourcesync.NotResourceSync, headless: true, page: true},
		{name: "late header", reader: limits, body: strings.NewReader(begin + strings.Repeat("<!-- nothing -->", 10_000)), is: document.ErrNoHead, headless: true},
		{name: "too long", reader: limits, body: strings.NewReader(list(strings.Repeat("http://example.org/a</loc></url><url><loc>", 30_000))), is: resourcesync.Incomplete},
		{name: "too long to be kept", reader: document.Reader{Limit: 1 << 10}, body: strings.NewReader(list(strings.Repeat("a</loc></url><url><loc>", 1_000))), is: spool.ErrLimit, transfer: spool.ErrLimit, headless: true},
		{name: "no place for it", reader: document.Reader{Spool: "/nonexistent"}, body: strings.NewReader(text + strings.Repeat(" ", 1<<20)), is: os.ErrNotExist, transfer: os.ErrNotExist},
		{name: "strict", reader: document.Reader{Strict: true}, body: strings.NewReader(" " + text), is: resourcesync.Refused, headless: true},
		{name: "limits of the decoder", reader: document.Reader{Limits: resourcesync.Limits{Entries: 1}}, body: strings.NewReader(list("http://example.org/a", "http://example.org/b")), is: resourcesync.LimitReached},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := test.reader
			r.From = answer(test.body)
			d, err := r.Read(t.Context(), "u")
			var bad *document.Error
			if d != nil || !errors.As(err, &bad) {
				t.Fatalf("got %v, %v; want an Error", d, err)
			}
			if !errors.Is(err, test.is) || !errors.Is(bad.Transfer, test.transfer) || bad.Headless != test.headless || (bad.Page() != nil) != test.page {
				t.Errorf("got %v (transfer %v, headless %t, page %v)", err, bad.Transfer, bad.Headless, bad.Page())
			}
			if !strings.HasPrefix(err.Error(), "u: ") {
				t.Errorf("got %q, want the URI first", err)
			}
		})
	}
}

func TestEnoughIsAskedBeforeTheFirstEntry(t *testing.T) {
	for _, test := range []struct {
		name, text string
		md         bool
	}{
		{"in the header", list("a"), true},
		{"after the entries", begin + `<url><loc>a</loc></url><rs:md capability="changelist"/></urlset>`, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := document.Reader{From: answer(strings.NewReader(strings.TrimSuffix(test.text, "</urlset>"))), Once: true}
			r.Enough = func(_ *document.Document, md bool) bool {
				if md != test.md {
					t.Errorf("got %t, want %t", md, test.md)
				}
				return true
			}
			if _, err := r.Read(t.Context(), "u"); err != nil {
				t.Errorf("the rest was read: %v", err)
			}
		})
	}
}

func TestEntryEndsTheReading(t *testing.T) {
	enough := errors.New("enough")
	var seen []string
	r := document.Reader{From: answer(strings.NewReader(list("a", "", "b", "c"))), Once: true}
	r.Entry = func(_ *document.Document, e *resourcesync.Entry, err error) error {
		if err != nil {
			seen = append(seen, fmt.Sprintf("bad in line %d", e.Line))
			return nil
		}
		if seen = append(seen, e.Loc); e.Loc == "b" {
			return enough
		}
		return nil
	}
	_, err := r.Read(t.Context(), "u")
	var bad *document.Error
	if !errors.As(err, &bad) || bad.Err != enough || !slices.Equal(seen, []string{"a", "bad in line 1", "b"}) {
		t.Errorf("got %q and %v, want all up to b, as written", seen, err)
	}
}

// An entry costs what its texts take, whether or not somebody looks at it.
func TestEntryCostsNoMemoryOfItsOwn(t *testing.T) {
	const entries = 1000
	text := list(slices.Repeat([]string{"http://example.org/a"}, entries)...)
	take := func(look func(*document.Document, *resourcesync.Entry, error) error) float64 {
		return testing.AllocsPerRun(5, func() {
			r := document.Reader{From: answer(strings.NewReader(text)), Once: true, Entry: look}
			if _, err := r.Read(t.Context(), "u"); err != nil {
				t.Fatal(err)
			}
		})
	}
	decoded := testing.AllocsPerRun(5, func() {
		for _, err := range resourcesync.NewDecoder(strings.NewReader(text)).Entries() {
			if err != nil {
				t.Fatal(err)
			}
		}
	})
	n := 0
	for name, look := range map[string]func(*document.Document, *resourcesync.Entry, error) error{
		"unseen": nil,
		"seen":   func(_ *document.Document, e *resourcesync.Entry, err error) error { n += len(e.Loc); return err },
	} {
		if got := take(look); got > decoded+entries/10 {
			t.Errorf("%s: got %v allocations for %d entries, want no more than the decoder makes, %v", name, got, entries, decoded)
		}
	}
}

func TestNotesOfADocumentThatCannotBeUsed(t *testing.T) {
	var notes resourcesync.NoteTally
	r := document.Reader{From: answer(strings.NewReader(" " + list("a")[:220])), Notes: &notes, Once: true}
	if _, err := r.Read(t.Context(), "u"); err == nil {
		t.Fatal("a document that is cut was read")
	}
	for n := range notes.All() {
		if n.Quirk == resourcesync.QuirkSpaceFirst {
			return
		}
	}
	t.Error("no note of the space before the declaration")
}

func TestFetcherSaysWhatCameOfIt(t *testing.T) {
	c, err := fetch.New(fetch.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = (&document.Reader{From: c}).Read(t.Context(), "gopher://example.org/")
	var fe *fetch.Error
	if !errors.As(err, &fe) || errors.As(err, new(*document.Error)) {
		t.Errorf("got %v, want the error of the Fetcher as it is", err)
	}
}

func TestAbsolute(t *testing.T) {
	base, err := url.Parse("http://example.org/sets/list.xml")
	if err != nil {
		t.Fatal(err)
	}
	d := document.Document{Base: base}
	for loc, want := range map[string]string{
		"a%20b": "http://example.org/sets/a%20b", "100%": "http://example.org/sets/100%25", "": "",
		"HTTP://x.example.org/%": "HTTP://x.example.org/%", "file:///a": "file:///a", "http://[": "http://[", ":": ":",
	} {
		if got := d.Absolute(loc); got != want {
			t.Errorf("%q: got %q, want %q", loc, got, want)
		}
	}
}

// EThOS has 654,832 entries in one document of 88 MB: there is room for that, and for more if
// somebody asks for it.
func TestBoundsOfADocument(t *testing.T) {
	text := list(strings.Repeat("http://example.org/a</loc></url><url><loc>", 120_000))
	d, err := (&document.Reader{From: answer(strings.NewReader(text)), Once: true}).Read(t.Context(), "u")
	if err != nil || d.Bad != 1 {
		t.Errorf("120,000 entries: got %+v, %v", d, err)
	}
	r := document.Reader{From: answer(strings.NewReader(text)), Once: true, Limits: resourcesync.Limits{Entries: 100_000}}
	if _, err := r.Read(t.Context(), "u"); !errors.Is(err, resourcesync.LimitReached) || !strings.Contains(err.Error(), "--max-document") {
		t.Errorf("beyond the bound: got %v, want the flag that raises it", err)
	}
	for bytes, want := range map[int64]int{1: 1_000_000, fetch.MaxDocument: 1_000_000, 5 * fetch.MaxDocument: 5_000_000} {
		if got := document.EntriesWithin(bytes); got != want {
			t.Errorf("%d bytes: got %d entries, want %d", bytes, got, want)
		}
	}
}
