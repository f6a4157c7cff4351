package source

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// tree writes files below a new directory and returns it as an os.Root's FS.
func tree(t *testing.T, files map[string]string) (string, fs.FS) {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return dir, root.FS()
}

var published = map[string]string{
	"index.html":                            "<h1>museum</h1>",
	"a b.txt":                               "0123456789",
	"sub/index.html":                        "<p>sub</p>",
	"sub/picture":                           "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR",
	".env":                                  "SECRET",
	".git/config":                           "SECRET",
	"sub/.hidden/x":                         "SECRET",
	"state/catalog.db":                      "SECRET",
	".well-known/resourcesync":              "<urlset/>",
	".well-known/other":                     "SECRET",
	"resourcesync/capabilitylist.xml":       "<urlset/>",
	"resourcesync/lists/1/resourcelist.xml": "<urlset/>",
	"resourcesync/changes/1.xml":            "<urlset/>",
	"resourcesync/sets/m/lists/2/resourcelist.xml": "<urlset/>",
}

func get(t *testing.T, h http.Handler, target string, header ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "http://h.example.org/", nil)
	u, err := url.ParseRequestURI(target)
	if err != nil {
		t.Fatalf("target %q: %v", target, err)
	}
	r.URL = u
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func body(t *testing.T, r *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestCat_SRV_02: what is not published is not there, however it is asked for; a
// panic is a 500 that tells nothing.
func TestCat_SRV_02(t *testing.T) {
	dir, site := tree(t, published)
	outside := filepath.Join(t.TempDir(), "outside.txt")
	if err := os.WriteFile(outside, []byte("SECRET"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "link.txt")); err != nil {
		t.Fatal(err)
	}
	makeFIFO(t, filepath.Join(dir, "fifo"))
	h := NewHandler(HandlerOptions{Dirs: []fs.FS{site}, Hidden: []string{"state"}})
	for _, target := range []string{
		"/absent", "/sub", "/sub/absent/", "/.env", "/.git/config", "/.git/", "/sub/.hidden/x", "/.well-known/other", "/.well-known/",
		"/state/catalog.db", "/state/", "/state", "/link.txt", "/fifo", "//a%20b.txt", "/./index.html", "/sub/../index.html",
		"/../outside.txt", "/%2e%2e/outside.txt", "/..%2foutside.txt", "/sub%2findex.html", "/sub%2Findex.html", "/..%5coutside.txt",
		`/..\outside.txt`, "/sub%5c.hidden%5cx", "/index.html%00", "/%00", "/index.html/", "/a b.txt/..", "/%2eenv", "/sub//index.html",
	} {
		r := get(t, h, target)
		if got := body(t, r); r.StatusCode != http.StatusNotFound || strings.Contains(got, "SECRET") {
			t.Errorf("%s: got %d %q, want 404", target, r.StatusCode, got)
		}
	}

	var reported []error
	h = NewHandler(HandlerOptions{Dirs: []fs.FS{panicFS{}}, Report: func(err error) { reported = append(reported, err) }})
	r := get(t, h, "/x")
	if got := body(t, r); r.StatusCode != http.StatusInternalServerError || strings.Contains(got, "goroutine") || strings.Contains(got, "secret reason") {
		t.Errorf("panic: got %d %q, want a 500 that tells nothing", r.StatusCode, got)
	}
	if len(reported) != 1 || !strings.Contains(reported[0].Error(), "secret reason") {
		t.Errorf("panic: reported %v, want the reason", reported)
	}
}

type panicFS struct{}

func (panicFS) Open(string) (fs.File, error) { panic("secret reason") }

func TestOnlyReadingMethodsAreAnswered(t *testing.T) {
	h := NewHandler(HandlerOptions{Dirs: []fs.FS{fstest.MapFS{"x": {Data: []byte("x")}}}})
	for method, want := range map[string]int{
		"GET": 200, "HEAD": 200, "POST": 405, "PUT": 405, "DELETE": 405, "OPTIONS": 405, "TRACE": 405, "PROPFIND": 405,
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, "/x", nil))
		if w.Code != want {
			t.Errorf("%s: got %d, want %d", method, w.Code, want)
		}
		if allow := w.Header().Get("Allow"); want == 405 && allow != "GET, HEAD" {
			t.Errorf("%s: Allow: got %q", method, allow)
		}
	}
}

// TestCat_SRV_03: whatever is served can't act on our origin.
func TestCat_SRV_03(t *testing.T) {
	files := map[string]string{"resourcesync/capabilitylist.xml": "<urlset/>"}
	for i := range 1000 {
		files[fmt.Sprintf("hostile/%d.%s", i, []string{"html", "svg", "js", "txt", "bin", "xml", "unknown"}[i%7])] = "<script>alert(1)</script>"
	}
	_, site := tree(t, files)
	h := NewHandler(HandlerOptions{Dirs: []fs.FS{site}})
	for name := range files {
		r := get(t, h, "/"+name)
		csp := r.Header.Get("Content-Security-Policy")
		if r.StatusCode != 200 || r.Header.Get("X-Content-Type-Options") != "nosniff" || len(r.Cookies()) != 0 ||
			!strings.HasPrefix(csp, "sandbox;") || !strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "script-src") ||
			r.Header.Get("Content-Type") == "" {
			t.Errorf("%s: got %d with %v", name, r.StatusCode, r.Header)
		}
	}
	for _, r := range []*http.Response{get(t, h, "/absent"), get(t, NewHandler(HandlerOptions{Dirs: []fs.FS{panicFS{}}}), "/x")} {
		if r.Header.Get("X-Content-Type-Options") != "nosniff" || r.Header.Get("Content-Security-Policy") == "" {
			t.Errorf("%d: got %v", r.StatusCode, r.Header)
		}
	}
}

func TestHeadersOfWhatIsServed(t *testing.T) {
	_, site := tree(t, published)
	h := NewHandler(HandlerOptions{Dirs: []fs.FS{site}})
	link := `</resourcesync/capabilitylist.xml>; rel="resourcesync"`
	for target, want := range map[string]map[string]string{
		"/":                                      {"Content-Type": "text/html", "Cache-Control": cacheNever, "Link": link},
		"/sub/":                                  {"Content-Type": "text/html", "Cache-Control": cacheNever, "Link": link},
		"/a%20b.txt":                             {"Content-Type": "text/plain", "Cache-Control": cacheNever, "Link": link},
		"/sub/picture":                           {"Content-Type": "image/png", "Cache-Control": cacheNever, "Link": link},
		"/.well-known/resourcesync":              {"Content-Type": "application/xml", "Cache-Control": cacheNever, "Link": ""},
		"/resourcesync/changes/1.xml":            {"Content-Type": "application/xml", "Cache-Control": cacheNever, "Link": ""},
		"/resourcesync/capabilitylist.xml":       {"Content-Type": "application/xml", "Cache-Control": cacheNever, "Link": ""},
		"/resourcesync/lists/1/resourcelist.xml": {"Content-Type": "application/xml", "Cache-Control": cacheForever, "Link": ""},
		"/resourcesync/sets/m/lists/2/resourcelist.xml": {"Cache-Control": cacheForever},
	} {
		r := get(t, h, target)
		if r.StatusCode != 200 {
			t.Errorf("%s: got %d", target, r.StatusCode)
		}
		for name, value := range want {
			if got := r.Header.Get(name); got != value {
				t.Errorf("%s: %s: got %q, want %q", target, name, got, value)
			}
		}
	}
}

func TestNoLinkWithoutCapabilityList(t *testing.T) {
	h := NewHandler(HandlerOptions{Dirs: []fs.FS{fstest.MapFS{"x": {}}}})
	if got := get(t, h, "/x").Header.Get("Link"); got != "" {
		t.Errorf("Link: got %q, want none", got)
	}
}

func TestConditionalAndRangeRequests(t *testing.T) {
	dir, site := tree(t, map[string]string{"digits.txt": "0123456789"})
	modified := time.Date(2024, 5, 1, 10, 0, 0, 0, time.UTC)
	if err := os.Chtimes(filepath.Join(dir, "digits.txt"), modified, modified); err != nil {
		t.Fatal(err)
	}
	h := NewHandler(HandlerOptions{Dirs: []fs.FS{site}})
	tag := get(t, h, "/digits.txt").Header.Get("ETag")
	if strings.HasPrefix(tag, "W/") || len(tag) < 3 || tag[0] != '"' {
		t.Fatalf("ETag: got %q, want a strong one", tag)
	}
	before, after := modified.Add(-time.Hour).Format(http.TimeFormat), modified.Add(time.Hour).Format(http.TimeFormat)
	many := "bytes=" + strings.TrimSuffix(strings.Repeat("0-0,", 17), ",")
	for name, c := range map[string]struct {
		header []string
		status int
		body   string
	}{
		"whole":                     {nil, 200, "0123456789"},
		"same tag":                  {[]string{"If-None-Match", tag}, 304, ""},
		"one of several tags":       {[]string{"If-None-Match", `"x", ` + tag}, 304, ""},
		"weak form of the tag":      {[]string{"If-None-Match", "W/" + tag}, 304, ""},
		"another tag":               {[]string{"If-None-Match", `"x"`}, 200, "0123456789"},
		"any tag":                   {[]string{"If-None-Match", "*"}, 304, ""},
		"not modified since":        {[]string{"If-Modified-Since", after}, 304, ""},
		"modified since":            {[]string{"If-Modified-Since", before}, 200, "0123456789"},
		"tag wins over time":        {[]string{"If-None-Match", `"x"`, "If-Modified-Since", after}, 200, "0123456789"},
		"if match":                  {[]string{"If-Match", `"x"`}, 412, ""},
		"if unmodified since":       {[]string{"If-Unmodified-Since", before}, 412, ""},
		"first bytes":               {[]string{"Range", "bytes=0-3"}, 206, "0123"},
		"from the middle":           {[]string{"Range", "bytes=7-"}, 206, "789"},
		"last bytes":                {[]string{"Range", "bytes=-2"}, 206, "89"},
		"beyond the end":            {[]string{"Range", "bytes=20-"}, 416, ""},
		"range of the same tag":     {[]string{"Range", "bytes=7-", "If-Range", tag}, 206, "789"},
		"range of another tag":      {[]string{"Range", "bytes=7-", "If-Range", `"x"`}, 200, "0123456789"},
		"range in an unknown unit":  {[]string{"Range", "lines=1-2"}, 416, ""},
		"more ranges than answered": {[]string{"Range", many}, 200, "0123456789"},
	} {
		r := get(t, h, "/digits.txt", c.header...)
		got := body(t, r)
		if r.StatusCode != c.status || c.body != "" && got != c.body {
			t.Errorf("%s: got %d %q, want %d %q", name, r.StatusCode, got, c.status, c.body)
		}
	}
	two := get(t, h, "/digits.txt", "Range", "bytes=0-0,9-9")
	if two.StatusCode != 206 || !strings.HasPrefix(two.Header.Get("Content-Type"), "multipart/byteranges") {
		t.Errorf("two ranges: got %d %q", two.StatusCode, two.Header.Get("Content-Type"))
	}
}

func TestReplacedFileHasAnotherTag(t *testing.T) {
	dir, site := tree(t, map[string]string{"x": "one"})
	h := NewHandler(HandlerOptions{Dirs: []fs.FS{site}})
	before := get(t, h, "/x").Header.Get("ETag")
	if err := os.WriteFile(filepath.Join(dir, "x"), []byte("other"), 0o644); err != nil {
		t.Fatal(err)
	}
	if after := get(t, h, "/x").Header.Get("ETag"); after == before {
		t.Errorf("got %q for both", after)
	}
}

func TestOverlayAndPrefix(t *testing.T) {
	h := NewHandler(HandlerOptions{
		Dirs: []fs.FS{
			fstest.MapFS{"both.txt": {Data: []byte("content")}, "resourcesync": {Mode: fs.ModeDir}},
			fstest.MapFS{"both.txt": {Data: []byte("documents")}, "resourcesync/capabilitylist.xml": {Data: []byte("list")}},
		},
		Prefix: "/mus eum/",
	})
	for target, want := range map[string]string{
		"/mus%20eum/both.txt":                        "content",
		"/mus%20eum/resourcesync/capabilitylist.xml": "list",
	} {
		if got := body(t, get(t, h, target)); got != want {
			t.Errorf("%s: got %q, want %q", target, got, want)
		}
	}
	if r := get(t, h, "/both.txt"); r.StatusCode != 404 {
		t.Errorf("outside of the prefix: got %d, want 404", r.StatusCode)
	}
	want := `</mus%20eum/resourcesync/capabilitylist.xml>; rel="resourcesync"`
	if got := get(t, h, "/mus%20eum/both.txt").Header.Get("Link"); got != want {
		t.Errorf("Link: got %q, want %q", got, want)
	}
}

func TestReadPublicationInfo(t *testing.T) {
	s := newSite(t)
	s.fill(1)
	s.p.BaseURL = testBase + "a%20b/"
	s.publish(s.first())
	_, site := tree(t, map[string]string{"resourcesync/publication.json": read(t, s.bucket, "resourcesync/publication.json")})
	got, err := ReadPublicationInfo(site)
	if err != nil {
		t.Fatal(err)
	}
	want := PublicationInfo{Format: 1, State: s.p.UUID, BaseURL: testBase + "a%20b/"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := got.Prefix(); got != "/a b/" {
		t.Errorf("Prefix: got %q", got)
	}
	if _, err := ReadPublicationInfo(fstest.MapFS{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no publication: got %v, want ErrNotExist", err)
	}
	for _, bad := range []string{"", "{}", `{"format_version":2,"base_url":"http://h.example.org/"}`, `{"format_version":1,"base_url":"file:///"}`} {
		if _, err := ReadPublicationInfo(fstest.MapFS{infoKey: {Data: []byte(bad)}}); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

// TestSlowReaderIsCutOff: the clock of the handler lies in the past, so that the
// deadline of a piece has passed as soon as the socket is full.
func TestSlowReaderIsCutOff(t *testing.T) {
	big := bytes.Repeat([]byte("x"), 64<<20)
	var stopped error
	done := make(chan struct{})
	h := NewHandler(HandlerOptions{
		Dirs: []fs.FS{fstest.MapFS{"big.bin": {Data: big}}},
		Now:  func() time.Time { return time.Now().Add(-chunkTime + 50*time.Millisecond) },
	})
	addr := serve(t, NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(done)
		h.ServeHTTP(&errorKeeper{w, &stopped}, r)
	})))
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "GET /big.bin HTTP/1.1\r\nHost: h.example.org\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReaderSize(c, 16).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	<-done // without a deadline the handler would never return
	if !errors.Is(stopped, os.ErrDeadlineExceeded) {
		t.Errorf("writing ended with %v, want the deadline", stopped)
	}
}

// errorKeeper keeps the error that ended writing.
type errorKeeper struct {
	http.ResponseWriter
	err *error
}

func (w *errorKeeper) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *errorKeeper) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	if err != nil {
		*w.err = err
	}
	return n, err
}

func serve(t *testing.T, srv *http.Server) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		srv.Serve(l)
	}()
	t.Cleanup(func() {
		srv.Close()
		<-ended
	})
	return l.Addr().String()
}

func FuzzHandlerPath(f *testing.F) {
	for _, seed := range []string{"/", "/a", "/../x", "/%2e%2e/x", "/a%5cb", "/.env", "/sub/..;/x", "/\x00"} {
		f.Add(seed)
	}
	dir := fstest.MapFS{}
	for name, content := range published {
		dir[name] = &fstest.MapFile{Data: []byte(content)}
	}
	h := NewHandler(HandlerOptions{Dirs: []fs.FS{dir}, Hidden: []string{"state"}})
	f.Fuzz(func(t *testing.T, target string) {
		u, err := url.ParseRequestURI(target)
		if err != nil {
			t.Skip("no request target")
		}
		r := httptest.NewRequest(http.MethodGet, "http://h.example.org/", nil)
		r.URL = u
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if strings.Contains(w.Body.String(), "SECRET") || w.Code == http.StatusInternalServerError {
			t.Errorf("%q: got %d %q", target, w.Code, w.Body)
		}
	})
}
