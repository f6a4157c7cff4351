package source

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// publishedTree is a site of two sets below base, as a Publisher lays it out.
func publishedTree(base string) map[string]string {
	return map[string]string{
		"a.txt":                                      "a",
		"books/b.xml":                                "<b/>",
		"resourcesync/publication.json":              `{"format_version":1,"state":"x","base_url":"` + base + `"}`,
		"resourcesync/description.xml":               describing(base+"resourcesync/capabilitylist.xml", base+"resourcesync/sets/books/capabilitylist.xml"),
		"resourcesync/capabilitylist.xml":            "<urlset/>",
		"resourcesync/resourcelist.xml":              "<urlset/>",
		"sitemap.xml":                                "<urlset/>",
		"resourcesync/sets/books/resourcelist.xml":   "<urlset/>",
		"resourcesync/sets/books/sitemap.xml":        "<urlset/>",
		"resourcesync/sets/books/capabilitylist.xml": "<urlset/>",
	}
}

func describing(lists ...string) string {
	var b strings.Builder
	b.WriteString(`<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/"><rs:md capability="description"/>`)
	for _, uri := range lists {
		fmt.Fprintf(&b, `<url><loc>%s</loc><rs:md capability="capabilitylist"/></url>`, uri)
	}
	b.WriteString("</urlset>")
	return b.String()
}

func overlay(t *testing.T, files map[string]string) []fs.FS {
	t.Helper()
	_, site := tree(t, files)
	return []fs.FS{site}
}

func TestPublishedSiteIsRead(t *testing.T) {
	base := "https://example.org/a/"
	got, err := ReadPublished(overlay(t, publishedTree(base)))
	if err != nil {
		t.Fatal(err)
	}
	want := Published{BaseURL: base, Sets: []PublishedSet{
		{"", base + "resourcesync/capabilitylist.xml", base + "resourcesync/resourcelist.xml", base + "sitemap.xml", ""},
		{"books", base + "resourcesync/sets/books/capabilitylist.xml", base + "resourcesync/sets/books/resourcelist.xml", base + "resourcesync/sets/books/sitemap.xml", ""},
	}}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
	wantRobots := "# for search engines\nSitemap: " + base + "sitemap.xml\nSitemap: " + base + "resourcesync/sets/books/sitemap.xml\n" +
		"# ResourceSync is found without the lines below; only programs that read nothing but robots.txt need them:\n" +
		"# Sitemap: " + base + "resourcesync/resourcelist.xml\n# Sitemap: " + base + "resourcesync/sets/books/resourcelist.xml\n"
	if got := got.Robots(); got != wantRobots {
		t.Errorf("robots.txt: got\n%swant\n%s", got, wantRobots)
	}
	wantHTML := `<link rel="resourcesync" href="` + base + `resourcesync/capabilitylist.xml">` + "\n" +
		`<link rel="resourcesync" href="` + base + `resourcesync/sets/books/capabilitylist.xml">` + "\n"
	if got := got.HTML(); got != wantHTML {
		t.Errorf("HTML: got\n%swant\n%s", got, wantHTML)
	}
}

func TestForeignSitemapIsNotTakenForOurs(t *testing.T) {
	files := publishedTree("https://example.org/")
	files["resourcesync/sitemap.xml"] = "<urlset/>"
	got, err := ReadPublished(overlay(t, files))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := got.Sets[0].Sitemap, "https://example.org/resourcesync/sitemap.xml"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestSetsOfASourceDescription(t *testing.T) {
	const base = "https://example.org/"
	many := make([]string, 300)
	for i := range many {
		many[i] = fmt.Sprintf("%sresourcesync/sets/s%d/capabilitylist.xml", base, i)
	}
	for name, c := range map[string]struct {
		description string
		sets        int
		fails       bool
	}{
		"of another host":   {describing("https://other.example.org/resourcesync/capabilitylist.xml"), 0, false},
		"at another place":  {describing(base + "elsewhere/capabilitylist.xml"), 0, false},
		"leading out":       {describing(base + "resourcesync/sets/../capabilitylist.xml"), 0, false},
		"more than we name": {describing(many...), maxNamedSets, false},
		"cut":               {describing(many[:1]...)[:200], 0, true},
		"index":             {`<sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><sitemap><loc>https://example.org/resourcesync/description-00001.xml</loc></sitemap></sitemapindex>`, 0, false},
	} {
		files := publishedTree(base)
		files["resourcesync/description.xml"] = c.description
		got, err := ReadPublished(overlay(t, files))
		if len(got.Sets) != c.sets || (err != nil) != c.fails {
			t.Errorf("%s: got %d sets, %v, want %d", name, len(got.Sets), err, c.sets)
		}
	}
	if _, err := ReadPublished([]fs.FS{fstest.MapFS{}}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing published: got %v, want ErrNotExist", err)
	}
}

func TestResourceLinksToEachSetThatCoversIt(t *testing.T) {
	dirs := overlay(t, publishedTree("https://example.org/"))
	one := `</resourcesync/capabilitylist.xml>; rel="resourcesync"`
	two := `</resourcesync/sets/books/capabilitylist.xml>; rel="resourcesync"`
	inBooks := func(path string) bool { return strings.HasPrefix(path, "books/") }
	for name, c := range map[string]struct {
		sets   []ServedSet
		target string
		want   []string
	}{
		"described":           {nil, "/a.txt", []string{one, two}},
		"configured, in one":  {[]ServedSet{{Name: ""}, {"books", inBooks}}, "/a.txt", []string{one}},
		"configured, in both": {[]ServedSet{{Name: ""}, {"books", inBooks}}, "/books/b.xml", []string{one, two}},
		"not yet published":   {[]ServedSet{{Name: "coming"}}, "/a.txt", nil},
		"no set at all":       {[]ServedSet{}, "/a.txt", nil},
		"a document of ours":  {nil, "/resourcesync/sets/books/resourcelist.xml", nil},
	} {
		r := get(t, NewHandler(HandlerOptions{Dirs: dirs, Sets: c.sets}), c.target)
		if diff := cmp.Diff(r.Header["Link"], c.want); diff != "" {
			t.Errorf("%s: (-got +want):\n%s", name, diff)
		}
	}
}

func TestNewSetIsLinkedOnceItIsDescribed(t *testing.T) {
	files := publishedTree("https://example.org/")
	both := files["resourcesync/description.xml"]
	files["resourcesync/description.xml"] = describing("https://example.org/resourcesync/capabilitylist.xml")
	dir, site := tree(t, files)
	h := NewHandler(HandlerOptions{Dirs: []fs.FS{site}})
	if got := len(get(t, h, "/a.txt").Header["Link"]); got != 1 {
		t.Errorf("before: got %d links, want 1", got)
	}
	if err := os.WriteFile(filepath.Join(dir, "resourcesync", "description.xml"), []byte(both), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := len(get(t, h, "/a.txt").Header["Link"]); got != 2 {
		t.Errorf("after: got %d links, want 2", got)
	}
}

func TestRobotsAreMadeWhereNobodyWroteThem(t *testing.T) {
	made := "User-agent: *\nAllow: /\n\nSitemap: "
	withFile := publishedTree("https://example.org/")
	withFile["robots.txt"] = "User-agent: x\n"
	for name, c := range map[string]struct {
		files  map[string]string
		prefix string
		status int
		want   string // how the body begins
	}{
		"none there":              {publishedTree("https://example.org/"), "", 200, made + "https://example.org/sitemap.xml\n"},
		"somebody's":              {withFile, "", 200, "User-agent: x\n"},
		"site below a path":       {publishedTree("https://example.org/a/"), "/a/", 200, made + "https://example.org/a/sitemap.xml\n"},
		"nothing published":       {map[string]string{"a.txt": "a"}, "", 404, ""},
		"file is not at the root": {withFile, "/a/", 200, made},
	} {
		r := get(t, NewHandler(HandlerOptions{Dirs: overlay(t, c.files), Prefix: c.prefix}), "/robots.txt")
		if got := body(t, r); r.StatusCode != c.status || !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: got %d\n%s\nwant %d %q", name, r.StatusCode, got, c.status, c.want)
		}
	}
}

// Bytes that lie there encoded are sent as they are, by range too: what is listed
// describes them.
func TestEncodedFileIsSentAsItLies(t *testing.T) {
	files := publishedTree("https://example.org/")
	files["data.csv.gz"] = "0123456789"
	h := NewHandler(HandlerOptions{Dirs: overlay(t, files), Label: func(path string) Label {
		return Label{Type: "text/csv", Encoding: "gzip"}
	}})
	for name, c := range map[string]struct {
		header []string
		status int
		want   map[string]string
		body   string
	}{
		"whole":        {nil, 200, map[string]string{"Content-Type": "text/csv", "Content-Encoding": "gzip", "Vary": "Accept-Encoding", "Content-Length": "10"}, "0123456789"},
		"range":        {[]string{"Range", "bytes=2-4"}, 206, map[string]string{"Content-Encoding": "gzip", "Content-Length": "3", "Content-Range": "bytes 2-4/10"}, "234"},
		"beyond":       {[]string{"Range", "bytes=20-"}, 416, map[string]string{"Content-Encoding": ""}, ""},
		"another":      {[]string{"If-Match", `"of before"`}, 412, map[string]string{"Content-Length": ""}, ""},
		"not modified": {[]string{"If-None-Match", "*"}, 304, map[string]string{"Content-Length": "", "Content-Encoding": ""}, ""},
	} {
		r := get(t, h, "/data.csv.gz", c.header...)
		got := body(t, r)
		if r.StatusCode != c.status || c.body != "" && got != c.body {
			t.Errorf("%s: got %d %q, want %d %q", name, r.StatusCode, got, c.status, c.body)
		}
		for key, want := range c.want {
			if got := r.Header.Get(key); got != want {
				t.Errorf("%s: %s: got %q, want %q", name, key, got, want)
			}
		}
	}
	if r := get(t, h, "/resourcesync/capabilitylist.xml"); r.Header.Get("Content-Encoding") != "" || r.Header.Get("Content-Type") != "application/xml" {
		t.Errorf("a document of ours: got %v", r.Header)
	}
}

func TestHeadSaysTheLengthOfAnEncodedFile(t *testing.T) {
	_, site := tree(t, map[string]string{"x.gz": "0123456789"})
	srv := NewServer(NewHandler(HandlerOptions{
		Dirs: []fs.FS{site}, Now: time.Now, Label: func(string) Label { return Label{Encoding: "gzip"} },
	}))
	client := &http.Client{Transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true}}
	r, err := client.Head("http://" + serve(t, srv) + "/x.gz")
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	if r.ContentLength != 10 || r.Header.Get("Content-Encoding") != "gzip" || r.Header.Get("Content-Type") != "application/gzip" {
		t.Errorf("got length %d, %v", r.ContentLength, r.Header)
	}
}

func TestPackagesAndTheirKin(t *testing.T) {
	forever := []string{
		"resourcesync/lists/7/resourcelist.xml", "resourcesync/dumps/7/00001.zip", "resourcesync/dumps/7/00001-manifest.xml",
		"resourcesync/sets/a/changedumps/9/00001.zip", "resourcesync/sets/a/dumps/9/resourcedump.xml",
	}
	never := []string{
		"resourcesync/changedumps/12.xml", "resourcesync/changes/12.xml", "resourcesync/resourcelist.xml", "resourcesync/archives/changelist-archive.xml",
		"resourcesync/changedump-index.xml", "lists/7/resourcelist.xml", "dumps/7/00001.zip",
	}
	files := map[string]string{}
	for _, key := range append(append([]string(nil), forever...), never...) {
		files[key] = "x"
	}
	h := NewHandler(HandlerOptions{Dirs: overlay(t, files)})
	for want, keys := range map[string][]string{cacheForever: forever, cacheNever: never} {
		for _, key := range keys {
			r := get(t, h, "/"+key)
			if got := r.Header.Get("Cache-Control"); got != want {
				t.Errorf("%s: got %q, want %q", key, got, want)
			}
			if got := r.Header.Get("Content-Type"); strings.HasSuffix(key, ".zip") && got != "application/zip" {
				t.Errorf("%s: got %q", key, got)
			}
		}
	}
}
