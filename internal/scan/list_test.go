package scan

import (
	"context"
	"crypto/md5"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"instep/blob"
	"instep/fetch"
	"instep/internal/catalog"
	"instep/resourcesync"
)

// site is a web site; what it has is by path.
type site struct {
	*httptest.Server
	mu       sync.Mutex
	pages    map[string]string
	header   map[string]http.Header
	requests []string // path and status, in order
}

func newSite(t *testing.T) *site {
	s := &site{pages: map[string]string{}, header: map[string]http.Header{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text, ok := s.pages[r.URL.Path]
	status := http.StatusOK
	etag := fmt.Sprintf("%q", fmt.Sprintf("%x", md5.Sum([]byte(text))))
	for name, values := range s.header[r.URL.Path] {
		w.Header()[name] = values
	}
	switch {
	case !ok:
		status = http.StatusNotFound
	case s.header[r.URL.Path] == nil:
		w.Header().Set("ETag", etag)
		if r.Header.Get("If-None-Match") == etag {
			status = http.StatusNotModified
		}
	}
	s.requests = append(s.requests, fmt.Sprintf("%s %d", r.URL.Path, status))
	w.WriteHeader(status)
	if status == http.StatusOK {
		_, _ = io.WriteString(w, text)
	}
}

// put sets pages: path, text and so on.
func (s *site) put(pairs ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := 0; i < len(pairs); i += 2 {
		s.pages[pairs[i]] = strings.ReplaceAll(pairs[i+1], "BASE", s.URL)
	}
}

// asked returns the requests since the last call.
func (s *site) asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.requests
	s.requests = nil
	return all
}

// listFixture is a List with a catalog of its own.
type listFixture struct {
	*List
	catalog *catalog.Catalog
	t       *testing.T
}

func newList(t *testing.T, listing func(*fetch.Client) Listing) *listFixture {
	c, set := newCatalog(t)
	client, err := fetch.New(fetch.Options{MaxRetries: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return &listFixture{t: t, catalog: c, List: &List{Listing: listing(client), Client: client,
		Deps: Deps{BaseURL: base, Facts: c.Facts, Seen: c.Publisher, Set: set, Workers: 2, Spool: t.TempDir(), Now: time.Now}}}
}

// trust lets the site be fetched, though its address is private.
func (f *listFixture) trust(s *site) {
	f.t.Helper()
	if err := f.Client.TrustSource(f.t.Context(), s.URL); err != nil {
		f.t.Fatal(err)
	}
}

func (f *listFixture) scan() Result {
	f.t.Helper()
	p, err := f.Plan(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	defer func() {
		if err := p.Close(); err != nil {
			f.t.Error(err)
		}
	}()
	r, err := f.Apply(f.t.Context(), p)
	if err != nil {
		f.t.Fatal(err)
	}
	return r
}

// members are the resources with the first of their digests, by URI.
func (f *listFixture) members() map[string]string {
	f.t.Helper()
	all := map[string]string{}
	for r, err := range f.Facts.Members(f.t.Context(), f.Set) {
		if err != nil {
			f.t.Fatal(err)
		}
		all[r.URI] = r.Digests.String()
	}
	return all
}

func digestOf(text string) string { return fmt.Sprintf("sha-256:%x", sha256.Sum256([]byte(text))) }

func sitemapOf(locs ...string) string {
	return `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">` + strings.Join(locs, "") + `</urlset>`
}

func loc(path, lastmod string) string {
	if lastmod != "" {
		lastmod = "<lastmod>" + lastmod + "</lastmod>"
	}
	return "<url><loc>BASE" + path + "</loc>" + lastmod + "</url>"
}

const rsNamespace = `xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/"`

func TestSitemapIsFetchedOnceAndThenWhenItSaysSo(t *testing.T) {
	s := newSite(t)
	s.put("/map.xml", sitemapOf(loc("/a", "2020-01-01"), loc("/b", "2020-01-02"), loc("/c", "")), "/a", "one", "/b", "two", "/c", "three")
	f := newList(t, func(c *fetch.Client) Listing { return Sitemap{Client: c, At: s.URL + "/map.xml"}.List })
	expect(t, f.scan(), 3, 0, 0, 0)
	same(t, "members", f.members(), map[string]string{
		s.URL + "/a": digestOf("one"), s.URL + "/b": digestOf("two"), s.URL + "/c": digestOf("three"),
	})
	s.asked()

	expect(t, f.scan(), 0, 0, 0, 3)
	same(t, "requests of an idle scan", s.asked(), []string{"/map.xml 200", "/c 304"})

	s.put("/map.xml", sitemapOf(loc("/a", "2020-02-01"), loc("/b", "2020-02-02"), loc("/c", "")), "/a", "one, again")
	expect(t, f.scan(), 0, 1, 0, 2)
	s.asked()
	s.put("/map.xml", sitemapOf(loc("/a", "2020-02-01"), loc("/b", "2020-02-02")))
	expect(t, f.scan(), 0, 0, 1, 2)
	same(t, "requests when one is gone", s.asked(), []string{"/map.xml 200"})
}

func TestALastmodOfTodayIsNotBelieved(t *testing.T) {
	s := newSite(t)
	s.put("/map.xml", sitemapOf(loc("/a", time.Now().UTC().Format(time.DateOnly))), "/a", "morning")
	f := newList(t, func(c *fetch.Client) Listing { return Sitemap{Client: c, At: s.URL + "/map.xml"}.List })
	expect(t, f.scan(), 1, 0, 0, 0)
	s.put("/a", "evening")
	expect(t, f.scan(), 0, 1, 0, 0)
}

// What is not read as a whole takes nothing away.
func TestDoubtfulListingDeletesNothing(t *testing.T) {
	index := `<sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><sitemap><loc>BASE/1.xml</loc></sitemap><sitemap><loc>BASE/2.xml</loc></sitemap></sitemapindex>`
	for name, breakIt := range map[string]func(s *site){
		"a part is cut":     func(s *site) { s.put("/2.xml", sitemapOf(loc("/b", ""))[:90]) },
		"a part is gone":    func(s *site) { delete(s.pages, "/2.xml") },
		"a part is no list": func(s *site) { s.put("/2.xml", "<html><body>Not now.</body></html>") },
		"a part of another origin": func(s *site) {
			s.put("/index.xml", strings.Replace(index, "BASE/2.xml", "http://example.org/2.xml", 1))
		},
		"an entry has no URI": func(s *site) { s.put("/2.xml", sitemapOf("<url><loc></loc></url>")) },
		"a part is a Change List": func(s *site) {
			s.put("/2.xml", `<urlset `+rsNamespace+`><rs:md capability="changelist" from="2020-01-01T00:00:00Z"/></urlset>`)
		},
		"a resource gives no answer": func(s *site) { delete(s.pages, "/b") },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.put("/index.xml", index, "/1.xml", sitemapOf(loc("/a", "")), "/2.xml", sitemapOf(loc("/b", "")), "/a", "1", "/b", "2")
			f := newList(t, func(c *fetch.Client) Listing { return Sitemap{Client: c, At: s.URL + "/index.xml"}.List })
			f.MaxDelete = everything(t)
			expect(t, f.scan(), 2, 0, 0, 0)
			before := f.members()
			breakIt(s)
			if r := f.scan(); r.Failures.Count == 0 || r.Deleted != 0 {
				t.Errorf("result %+v, want a failure and no deletion", r)
			}
			same(t, "members", f.members(), before)
		})
	}
}

func TestAListingThatCannotBeReadChangesNothing(t *testing.T) {
	s := newSite(t)
	f := newList(t, func(c *fetch.Client) Listing { return Sitemap{Client: c, At: s.URL + "/map.xml"}.List })
	if _, err := f.Plan(t.Context()); !errors.Is(err, ErrListing) || !errors.Is(err, fetch.NotFound) {
		t.Errorf("Plan = %v, want ErrListing for something not found", err)
	}
}

func TestShortListingIsHeldByTheGuard(t *testing.T) {
	s := newSite(t)
	s.put("/list.txt", "# ours\nBASE/a\n\nBASE/b\r\nBASE/c\n", "/a", "1", "/b", "2", "/c", "3")
	f := newList(t, func(c *fetch.Client) Listing { return URLs{Client: c, At: s.URL + "/list.txt"}.List })
	expect(t, f.scan(), 3, 0, 0, 0)
	s.put("/list.txt", "BASE/a\n")
	p, err := f.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var refused *GuardError
	if _, err := f.Apply(t.Context(), p); !errors.As(err, &refused) || refused.Deletes != 2 {
		t.Errorf("Apply = %v, want a guard that holds 2 deletions", err)
	}
}

func TestURLsThatCannotBeFetchedAreToldByLine(t *testing.T) {
	s := newSite(t)
	s.put("/list.txt", "BASE/a\nfile:///etc/passwd\nhttp://user:secret@example.org/\nhttp://169.254.169.254/x\n", "/a", "1")
	f := newList(t, func(c *fetch.Client) Listing { return URLs{Client: c, At: s.URL + "/list.txt"}.List })
	r := f.scan()
	expect(t, r, 1, 0, 0, 0)
	var got []string
	for _, e := range r.Failures.First {
		got = append(got, fmt.Sprint(strings.Contains(e.Error(), "line"), errors.Is(e, fetch.Refused), strings.Contains(e.Err.Error(), "secret")))
	}
	same(t, "failures", got, []string{"true true false", "true true false", "false true false"})
}

// rsSite is a Source with a Resource List of a moment.
func rsSite(s *site, at, entries string) {
	s.put("/.well-known/resourcesync", `<urlset `+rsNamespace+`><rs:md capability="description"/><url><loc>BASE/cap.xml</loc><rs:md capability="capabilitylist"/></url></urlset>`,
		"/cap.xml", `<urlset `+rsNamespace+`><rs:ln rel="up" href="BASE/.well-known/resourcesync"/><rs:md capability="capabilitylist"/><url><loc>BASE/list.xml</loc><rs:md capability="resourcelist"/></url></urlset>`,
		"/list.xml", `<urlset `+rsNamespace+`><rs:ln rel="up" href="BASE/cap.xml"/><rs:md capability="resourcelist" at="`+at+`"/>`+entries+`</urlset>`)
}

func rsEntry(path, text string) string {
	return fmt.Sprintf(`<url><loc>BASE%s</loc><rs:md hash="%s" length="%d" type="text/plain"/></url>`, path, digestOf(text), len(text))
}

func TestSourceIsDescribedAgainWithoutFetchingWhatItDescribes(t *testing.T) {
	s := newSite(t)
	rsSite(s, "2024-01-01T00:00:00Z", rsEntry("/a", "1")+rsEntry("/b", "2"))
	f := newList(t, func(c *fetch.Client) Listing { return Source{Client: c, URI: s.URL}.List })
	expect(t, f.scan(), 2, 0, 0, 0)
	same(t, "members", f.members(), map[string]string{s.URL + "/a": digestOf("1"), s.URL + "/b": digestOf("2")})
	for _, r := range s.asked() {
		if strings.HasPrefix(r, "/a ") || strings.HasPrefix(r, "/b ") {
			t.Errorf("request %s of a resource whose digest is given", r)
		}
	}
	rsSite(s, "2024-01-02T00:00:00Z", rsEntry("/a", "1")+rsEntry("/b", "changed"))
	expect(t, f.scan(), 0, 1, 0, 1)

	t.Run("never back", func(t *testing.T) {
		before := f.members()
		rsSite(s, "2024-01-01T00:00:00Z", rsEntry("/a", "1")+rsEntry("/b", "2"))
		if _, err := f.Plan(t.Context()); !errors.Is(err, ErrListing) || !strings.Contains(err.Error(), "older") {
			t.Errorf("Plan of an older list = %v, want ErrListing that says so", err)
		}
		same(t, "members", f.members(), before)
	})
	t.Run("without a moment", func(t *testing.T) {
		rsSite(s, "", rsEntry("/a", "1"))
		if _, err := f.Plan(t.Context()); !errors.Is(err, ErrListing) {
			t.Errorf("Plan of a list without at = %v, want ErrListing", err)
		}
	})
}

func TestBytesThatAreNotThoseListedAreNotRecorded(t *testing.T) {
	s := newSite(t)
	s.put("/a", "a page that says: later")
	l := func(_ *fetch.Client) Listing {
		return listed(Listed{URI: s.URL + "/a", URL: s.URL + "/a", Length: resourcesync.Bytes(3)})
	}
	f := newList(t, l)
	f.trust(s)
	r := f.scan()
	expect(t, r, 0, 0, 0, 0)
	var mismatch *resourcesync.MismatchError
	if r.Failures.Count != 1 || !errors.As(r.Failures.First[0], &mismatch) {
		t.Errorf("failures %+v, want a mismatch", r.Failures.First)
	}
}

func listed(all ...Listed) Listing {
	return func(context.Context, time.Time) iter.Seq2[Listed, error] {
		return func(yield func(Listed, error) bool) {
			for _, e := range all {
				if !yield(e, nil) {
					return
				}
			}
		}
	}
}

func TestFetchedBytesAreKept(t *testing.T) {
	s := newSite(t)
	s.put("/a", "bytes", "/elsewhere", "more")
	f := newList(t, func(*fetch.Client) Listing {
		return listed(Listed{URI: s.URL + "/a", URL: s.URL + "/a"}, Listed{URI: s.URL + "/b", URL: s.URL + "/elsewhere"})
	})
	f.trust(s)
	keep := blob.NewMem()
	f.Keep = keep
	expect(t, f.scan(), 2, 0, 0, 0)
	for _, text := range []string{"bytes", "more"} {
		d, err := resourcesync.ParseDigest(digestOf(text))
		if err != nil {
			t.Fatal(err)
		}
		got, err := blob.ReadAll(t.Context(), keep, KeepKey(d), 100)
		if err != nil || string(got) != text {
			t.Errorf("kept %q, %v; want %q", got, err, text)
		}
	}
	for r, err := range f.Facts.Members(t.Context(), f.Set) {
		if err != nil {
			t.Fatal(err)
		}
		body, err := f.Open(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(body)
		if d := digestOf(string(text)); err != nil || d != r.Digests.String() {
			t.Errorf("Open(%q) gives %q, %v; want what has %s", r.URI, text, err, r.Digests)
		}
		body.Close()
	}
	if _, err := f.Open(t.Context(), catalog.Resource{URI: s.URL + "/gone", Path: s.URL + "/gone"}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Open of what is gone = %v, want fs.ErrNotExist", err)
	}
}

func TestListedFilesAreReadFromTheDirectory(t *testing.T) {
	d := setUp(t, "x.txt", "y.txt", ".secret")
	row := func(uri, path string) Listed { return Listed{URI: base + uri, Path: path} }
	f := newList(t, func(*fetch.Client) Listing {
		return listed(row("1", "x.txt"), row("2", "y.txt"), row("3", ".secret"), row("4", "../up"), row("5", "none"), row("6", "x.txt"))
	})
	f.Tree = d.Tree
	r := f.scan()
	expect(t, r, 3, 0, 0, 0)
	if r.Failures.Count != 3 {
		t.Errorf("%d failures %v, want 3", r.Failures.Count, r.Failures.First)
	}
	x, y := digestOf("content of x.txt"), digestOf("content of y.txt")
	same(t, "members", f.members(), map[string]string{base + "1": x, base + "2": y, base + "6": x})
	d.write("y.txt", "new")
	expect(t, f.scan(), 0, 1, 0, 2)
}

func TestAHostOutOfReachEndsTheScan(t *testing.T) {
	s := newSite(t)
	var all []Listed
	for i := range 3 * outageAfter {
		uri := fmt.Sprintf("%s/%d", s.URL, i)
		all = append(all, Listed{URI: uri, URL: uri})
	}
	f := newList(t, func(*fetch.Client) Listing { return listed(all...) })
	f.trust(s)
	s.Close()
	p, err := f.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if _, err := f.Apply(t.Context(), p); !errors.Is(err, fetch.Temporary) {
		t.Errorf("Apply = %v, want a temporary failure", err)
	}
}
