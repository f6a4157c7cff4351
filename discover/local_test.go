package discover_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"instep/discover"
	"instep/fetch"
	"instep/resourcesync"
)

const localNS = `xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/"`

// localDoc is a document that links up and names others.
func localDoc(capability, up string, names ...string) *fstest.MapFile {
	var b strings.Builder
	fmt.Fprintf(&b, "<urlset %s>", localNS)
	if up != "" {
		fmt.Fprintf(&b, `<rs:ln rel="up" href="%s"/>`, up)
	}
	fmt.Fprintf(&b, `<rs:md capability="%s" at="2026-03-01T12:00:00Z"/>`, capability)
	for i := 0; i < len(names); i += 2 {
		fmt.Fprintf(&b, `<url><loc>%s</loc><rs:md capability="%s"/></url>`, names[i], names[i+1])
	}
	b.WriteString("</urlset>")
	return &fstest.MapFile{Data: []byte(b.String())}
}

// findLocal finds the Source of a name in a directory; no server may be asked.
func findLocal(t *testing.T, files fstest.MapFS, name string) (*discover.Source, *discover.Local, error) {
	t.Helper()
	c, err := fetch.New(fetch.Options{MaxRetries: -1, Observe: func(e fetch.Event) { t.Errorf("a request was sent: %s", e.URL) }})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	l, err := discover.OpenLocal(files, "DIR", name)
	if err != nil {
		return nil, nil, err
	}
	src, err := discover.Find(t.Context(), discover.Finder{Client: c.WithCache(l)}, l.URI)
	return src, l, err
}

func TestLocalDocumentsHaveTheURIsByWhichTheyLinkEachOther(t *testing.T) {
	const site = "https://museum.example.org"
	published := fstest.MapFS{
		"resourcesync/description.xml":                localDoc("description", "", site+"/a/resourcesync/capabilitylist.xml", "capabilitylist", site+"/a/resourcesync/sets/prints/capabilitylist.xml", "capabilitylist"),
		"resourcesync/capabilitylist.xml":             localDoc("capabilitylist", site+"/a/resourcesync/description.xml", site+"/a/resourcesync/lists/1/list.xml", "resourcelist"),
		"resourcesync/sets/prints/capabilitylist.xml": localDoc("capabilitylist", site+"/a/resourcesync/description.xml", "lists/1/list.xml", "resourcelist"),
		"resourcesync/lists/1/list.xml":               localDoc("resourcelist", site+"/a/resourcesync/capabilitylist.xml"),
		"resourcesync/sets/prints/lists/1/list.xml":   localDoc("resourcelist", site+"/a/resourcesync/sets/prints/capabilitylist.xml"),
		"alone.xml":   localDoc("resourcelist", ""),
		"sent.xml":    localDoc("resourcelist", site+"/elsewhere/capabilitylist.xml"),
		"part%20.xml": localDoc("resourcelist", ""),
	}
	for name, want := range map[string]struct{ uri, description, sets string }{
		".":                            {site + "/a/resourcesync/description.xml", site + "/a/resourcesync/description.xml", "[" + site + "/a/resourcesync/lists/1/list.xml " + site + "/a/resourcesync/sets/prints/lists/1/list.xml]"},
		"resourcesync/description.xml": {site + "/a/resourcesync/description.xml", site + "/a/resourcesync/description.xml", "[" + site + "/a/resourcesync/lists/1/list.xml " + site + "/a/resourcesync/sets/prints/lists/1/list.xml]"},
		"resourcesync/sets/prints/capabilitylist.xml": {site + "/a/resourcesync/sets/prints/capabilitylist.xml", site + "/a/resourcesync/description.xml", "[" + site + "/a/resourcesync/sets/prints/lists/1/list.xml]"},
		"resourcesync/lists/1/list.xml":               {site + "/a/resourcesync/lists/1/list.xml", site + "/a/resourcesync/description.xml", "[" + site + "/a/resourcesync/lists/1/list.xml]"},
		"alone.xml":                                   {discover.NoHost + "alone.xml", "", "[" + discover.NoHost + "alone.xml]"},
		"sent.xml":                                    {site + "/elsewhere/sent.xml", "", "[" + site + "/elsewhere/sent.xml]"},
		"part%20.xml":                                 {discover.NoHost + "part%2520.xml", "", "[" + discover.NoHost + "part%2520.xml]"},
	} {
		t.Run(name, func(t *testing.T) {
			src, l, err := findLocal(t, published, name)
			if err != nil {
				t.Fatal(err)
			}
			var lists []string
			for _, s := range src.Sets {
				lists = append(lists, s.ResourceLists...)
			}
			if got := fmt.Sprint(lists); l.URI != want.uri || src.Description != want.description || got != want.sets || src.Requests != 0 {
				t.Errorf("got %s of %s with %s\nwant %s of %s with %s", l.URI, src.Description, got, want.uri, want.description, want.sets)
			}
		})
	}
}

// What documents name outside of their directory is neither read nor asked for.
func TestLocalDocumentsLeadNowhereElse(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(dir, "outside.xml")
	inside := filepath.Join(dir, "docs")
	if err := os.Mkdir(inside, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(outside, localDoc("resourcelist", "").Data, 0o600); err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a server was asked") }))
	defer srv.Close()
	caps := localDoc("capabilitylist", "https://museum.example.org/description.xml",
		"../outside.xml", "resourcelist", "file://"+outside, "resourcelist", "https://museum.example.org/%2e%2e/outside.xml", "resourcelist",
		srv.URL+"/list.xml", "resourcelist", "https://museum.example.org/link.xml", "resourcelist", "https://museum.example.org/", "resourcelist")
	if err := os.WriteFile(filepath.Join(inside, "capabilitylist.xml"), caps.Data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(inside, "link.xml")); err != nil {
		t.Skipf("SKIPPED: no symbolic links here: %v", err)
	}
	root, err := os.OpenRoot(inside)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	l, err := discover.OpenLocal(root.FS(), inside, ".")
	if err != nil {
		t.Fatal(err)
	}
	c, err := fetch.New(fetch.Options{MaxRetries: -1, AllowPrivate: []string{srv.Listener.Addr().String()}, AllowOrigins: []string{srv.URL}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c = c.WithCache(l)
	for _, uri := range []string{
		"https://museum.example.org/link.xml", "https://museum.example.org/../outside.xml", "https://museum.example.org/%2e%2e/outside.xml",
		"https://museum.example.org/", "https://museum.example.org", "https://museum.example.org/capabilitylist.xml?x", "https://museum.example.org/absent.xml",
		"http://museum.example.org/capabilitylist.xml", srv.URL + "/list.xml",
	} {
		if _, err := c.Document(t.Context(), uri, 0, fetch.Validators{}); !errors.Is(err, fetch.NotFound) {
			t.Errorf("%s: got %v, want it not found", uri, err)
		}
	}
	if _, err := c.Document(t.Context(), "file://"+outside, 0, fetch.Validators{}); !errors.Is(err, fetch.Refused) {
		t.Errorf("a file: URI: got %v, want it refused", err)
	}
	src, err := discover.Find(t.Context(), discover.Finder{Client: c, AllowOrigins: []string{srv.URL}}, l.URI)
	if err != nil {
		t.Fatal(err)
	}
	if got := src.Sets[0].URI; got != l.URI {
		t.Errorf("set: got %s, want %s", got, l.URI)
	}
}

func TestLocalDocumentsThatAreNone(t *testing.T) {
	files := fstest.MapFS{"page.html": {Data: []byte("<html><title>x</title></html>")}, "sub/x": {Data: []byte("x")}}
	for name, want := range map[string]error{".": fs.ErrNotExist, "absent.xml": fs.ErrNotExist, "page.html": resourcesync.NotResourceSync, "sub": nil} {
		if _, _, err := findLocal(t, files, name); err == nil || want != nil && !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", name, err, want)
		}
	}
}
