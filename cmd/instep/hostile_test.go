//go:build unix

package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"html"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"unicode"
	"unicode/utf8"
)

// hostile is a Source that says whatever a test wants.
type hostile struct {
	*httptest.Server
	mux *http.ServeMux

	mu   sync.Mutex
	hits map[string]int
	over map[string]http.HandlerFunc // answers before mux does
}

func newHostile(t *testing.T) *hostile {
	t.Helper()
	h := &hostile{mux: http.NewServeMux(), hits: map[string]int{}, over: map[string]http.HandlerFunc{}}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		h.hits[r.URL.Path]++
		over := h.over[r.URL.Path]
		h.mu.Unlock()
		if over != nil {
			over(w, r)
			return
		}
		h.mux.ServeHTTP(w, r)
	}))
	t.Cleanup(h.Close)
	return h
}

func (h *hostile) count() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return total(h.hits)
}

// give answers path with body.
func (h *hostile) give(path, body string) {
	h.mux.HandleFunc(path, given(body))
}

// at is the moment of every hostile document.
const at = "2026-01-01T00:00:00Z"

// listed is an entry of a Resource List whose digest is that of body.
func listed(uri, body string) string {
	return fmt.Sprintf(`<url><loc>%s</loc><rs:md hash="sha-256:%x" length="%d"/></url>`, html.EscapeString(uri), sha256.Sum256([]byte(body)), len(body))
}

// entryOf is an entry that names a document of a capability.
func entryOf(uri, capability string) string {
	return fmt.Sprintf(`<url><loc>%s</loc><rs:md capability="%s"/></url>`, html.EscapeString(uri), capability)
}

func urlset(md string, entries ...string) string {
	return `<?xml version="1.0" encoding="UTF-8"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">` +
		`<rs:md ` + md + `/>` + strings.Join(entries, "") + `</urlset>`
}

func index(md string, parts ...string) string {
	var b strings.Builder
	b.WriteString(`<?xml version="1.0" encoding="UTF-8"?><sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/"><rs:md ` + md + `/>`)
	for _, p := range parts {
		fmt.Fprintf(&b, `<sitemap><loc>%s</loc></sitemap>`, html.EscapeString(p))
	}
	return b.String() + `</sitemapindex>`
}

// site makes a Source with one set, whose Resource List is list.
func (h *hostile) site(list string) {
	h.give("/.well-known/resourcesync", urlset(`capability="description"`, entryOf(h.URL+"/caps.xml", "capabilitylist")))
	h.give("/caps.xml", urlset(`capability="capabilitylist"`, entryOf(h.URL+"/list.xml", "resourcelist")))
	h.give("/list.xml", list)
}

const resourceList = `capability="resourcelist" at="` + at + `"`

// replace answers path with h from now on.
func (h *hostile) replace(path string, next http.HandlerFunc) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over[path] = next
}

func given(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }
}

func moved(to string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", to)
		w.WriteHeader(http.StatusFound)
	}
}

func status(code int, mediaType, retryAfter string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", mediaType)
		w.Header().Set("Retry-After", retryAfter)
		w.WriteHeader(code)
	}
}

// endless answers with prefix and then n bytes of fill, or until nobody reads.
func endless(prefix, fill string, n int) http.HandlerFunc {
	chunk := strings.Repeat(fill, max(1, 64<<10/len(fill)))
	return func(w http.ResponseWriter, _ *http.Request) {
		_, err := io.WriteString(w, prefix)
		for i := 0; i < n && err == nil; i += len(chunk) {
			_, err = io.WriteString(w, chunk)
		}
	}
}

type zipWriter struct {
	http.ResponseWriter
	z *gzip.Writer
}

func (w zipWriter) Write(p []byte) (int, error) { return w.z.Write(p) }

func zipped(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		next(zipWriter{w, z}, r)
		_ = z.Close()
	}
}

// raw answers with these bytes and hangs up.
func raw(answer string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		_, _ = io.WriteString(conn, answer)
		_ = conn.Close()
	}
}

// linked is a document with a link at its root.
func linked(rel, uri, doc string) string {
	return strings.Replace(doc, "<rs:md", fmt.Sprintf(`<rs:ln rel="%s" href="%s"/><rs:md`, rel, html.EscapeString(uri)), 1)
}

func many(n int, each func(i int) string) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = each(i)
	}
	return all
}

// said is how a command ended and what it said.
type said struct {
	code           int
	stdout, stderr string
}

// attempt runs the program in this process.
func attempt(t *testing.T, args ...string) said {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := run(args, &stdout, &stderr)
	checkClean(t, "standard output", stdout.String(), slices.Contains(args, "--json"))
	checkClean(t, "standard error", stderr.String(), false)
	return said{code, stdout.String(), stderr.String()}
}

// checkClean checks that text steers no terminal.
func checkClean(t *testing.T, name, s string, records bool) {
	t.Helper()
	if !utf8.ValidString(s) {
		t.Errorf("%s is not UTF-8: %q", name, s)
	}
	for _, r := range s {
		steers := unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)
		if r != '\n' && r != '\t' && steers {
			t.Errorf("%s holds %U: %q", name, r, s)
			return
		}
	}
}

// beside returns what lies beside path in its directory.
func beside(t *testing.T, path string) (found []string) {
	t.Helper()
	items, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range items {
		if i.Name() != filepath.Base(path) {
			found = append(found, i.Name())
		}
	}
	return found
}

// TestHostilePaths mirrors URIs that mean to end elsewhere than below the mirror, in
// its state, or on the terminal.
func TestHostilePaths(t *testing.T) {
	const body = "evil"
	paths := []string{
		"/../out", "/%2e%2e/out", "/%2E%2E%2Fout", "/a/..%2f..%2fout", "/..%5cout", `/..\out`, "/a/%00b", "/a%0d%0aX:y",
		"/.instep/catalog.db", "/.INSTEP/catalog.db", "/%2einstep/store", "/.instep./x", "/.instep%20/x", "/.inst%C3%A9p",
		"/CON", "/nul.txt", "/aux", "/COM1.xml", "/a./b", "/a /b", "/c:/x", "/a:stream", "//etc/passwd", "///", "/", "/.", "/..", "/./x",
		"/.git/config", "/.bashrc", "/~root", "/-rf", "/$(id)", "/" + strings.Repeat("x", 300), "/" + strings.Repeat("d/", 1000) + "f",
		"/" + strings.Repeat("%2e", 2000), "/?../../out", "/?" + strings.Repeat("q", 8000), "/a%1b%5b2J", "/%ff%fe", "/x#frag",
		"/a", "/A", "/a/b", "/a/b/", "/\u00e9", "/e\u0301", "/\u202egnp.exe", "/a\u009b2Jb",
	}
	for _, format := range []string{"--json", "--verbose"} {
		t.Run(format, func(t *testing.T) {
			h := newHostile(t)
			h.give("/", body)
			var entries []string
			for _, p := range paths {
				entries = append(entries, listed(h.URL+p, body))
			}
			h.site(urlset(resourceList, entries...))
			dir := t.TempDir()
			mirror := filepath.Join(dir, "m")
			for _, command := range []string{"sync", "audit", "sync"} {
				o := attempt(t, command, h.URL, mirror, format)
				if o.code != 0 {
					t.Errorf("%s: exit code %d\n%s%s", command, o.code, o.stdout, o.stderr)
				}
			}
			if n := len(listTree(mirror)); n != len(paths) {
				t.Errorf("files: got %d, want %d", n, len(paths))
			}
			if found := beside(t, mirror); len(found) > 0 {
				t.Errorf("written outside the mirror: %v", found)
			}
		})
	}
}

// TestHostileSources syncs from Sources that break the rules; each has to end by
// itself, with the right exit code, without a word on the terminal that is not ours.
func TestHostileSources(t *testing.T) {
	const body = "hello"
	open := strings.TrimSuffix(urlset(resourceList), "</urlset>")
	const huge = 1 << 40
	tests := map[string]struct {
		setup func(h *hostile)
		code  int
		want  string // in what is said
		hits  int    // at most: discovery, list, resource, and once more the list; 0: any
	}{
		"endless spaces": {func(h *hostile) { h.mux.HandleFunc("/", endless(" ", " ", huge)) }, 1, "no ResourceSync document", 3},
		"gzip bomb":      {func(h *hostile) { h.site(""); h.replace("/list.xml", zipped(endless(open, " ", 210<<20))) }, 1, "larger than", 3},
		"endless list": {func(h *hostile) {
			h.site("")
			h.replace("/list.xml", endless(open, "<!-- "+strings.Repeat("x", 30_000)+" -->", huge))
		}, 1, "at most 209715200 bytes", 3},
		"depth":             {func(h *hostile) { h.site(open + strings.Repeat("<a>", 100_000)) }, 1, "nested deeper", 3},
		"attributes":        {func(h *hostile) { h.site(open + "<url " + strings.Repeat(`a="b" `, 100_000)) }, 1, "limit reached", 3},
		"a long URI":        {func(h *hostile) { h.site(open + "<url><loc>" + strings.Repeat("a", 1<<20)) }, 1, "limit reached", 3},
		"entities":          {func(h *hostile) { h.site(`<!DOCTYPE x [<!ENTITY a "aaaa">]><urlset>&a;</urlset>`) }, 1, "DTD", 3},
		"changes as a list": {func(h *hostile) { h.site(urlset(`capability="changelist" from="`+at+`"`, listed(h.URL+"/x", body))) }, 1, `"changelist" where "resourcelist"`, 3},
		"a set as a list": {func(h *hostile) {
			h.site("")
			h.replace("/caps.xml", given(urlset(resourceList, listed(h.URL+"/x", body))))
		}, 1, `expected a document with capability "capabilitylist"`, 2},
		"an index of itself": {func(h *hostile) { h.site(index(resourceList, h.URL+"/list.xml")) }, 1, "index inside an index", 4},
		"a circle up":        {func(h *hostile) { h.give("/", linked("up", h.URL+"/", urlset(resourceList))) }, 1, "circle", 3},
		"a wall":             {func(h *hostile) { h.mux.HandleFunc("/", status(http.StatusForbidden, "text/html", "")) }, 5, "if it blocks programs", 3},
		"come back in an age": {func(h *hostile) {
			h.mux.HandleFunc("/", status(http.StatusServiceUnavailable, "", "99999999999999999999"))
		}, 5, "again in 1d", 1},
		"a page for everything": {func(h *hostile) { h.give("/", "<!doctype html><html>\x1b]0;x\a\x1b[2J</html>") }, 1, "a web page", 3},
		"a status of its own":   {func(h *hostile) { h.mux.HandleFunc("/", raw("HTTP/1.1 999 X\x1b[2J\r\nContent-Length: 0\r\n\r\n")) }, 5, "(999)", 4},
		"too busy for resources": {func(h *hostile) {
			h.mux.HandleFunc("/", status(http.StatusTooManyRequests, "", "31536000"))
			h.site(urlset(resourceList, many(200, func(i int) string { return listed(fmt.Sprintf("%s/%d", h.URL, i), body) })...))
		}, 5, "try again after 24h", 3 + 8},
		"another body": {func(h *hostile) { h.give("/x", "evil!"); h.site(urlset(resourceList, listed(h.URL+"/x", body))) }, 4, "sha-256 differs", 5},
		"an endless body": {func(h *hostile) {
			h.mux.HandleFunc("/x", endless("x", "x", huge))
			h.site(urlset(resourceList, listed(h.URL+"/x", body)))
		}, 4, "expected 5, got more", 5},
		"a lie about the length": {func(h *hostile) {
			h.mux.HandleFunc("/x", raw("HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\nhello"))
			h.site(urlset(resourceList, listed(h.URL+"/x", body)))
		}, 4, "the server sends 500", 5},
		"control characters": {func(h *hostile) {
			h.site(urlset(resourceList, "<url><loc>http://a\u009b/\n\ninstep: all is fine\u202e</loc></url>", "<url><loc>%zz\u009b</loc></url>"))
		}, 1, "has a control character", 3},
		"a capability that steers": {func(h *hostile) { h.site(urlset("capability=\"x&#10;Status: IN SYNC\u009b\"")) }, 1, "where \"resourcelist\" was promised", 3},
		"9,000 lists without a kind": {func(h *hostile) {
			h.site("")
			h.mux.HandleFunc("/d/", given(urlset("")))
			h.replace("/caps.xml", given(urlset(`capability="capabilitylist"`, many(9000, func(i int) string { return fmt.Sprintf("<url><loc>%s/d/%d</loc></url>", h.URL, i) })...)))
		}, 1, "more notices", 9002},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHostile(t)
			tt.setup(h)
			mirror := filepath.Join(t.TempDir(), "m")
			o := attempt(t, "sync", h.URL, mirror)
			if o.code != tt.code || !strings.Contains(o.stdout+o.stderr, tt.want) {
				t.Errorf("exit code %d, want %d and %q\n%.2000s%.2000s", o.code, tt.code, tt.want, o.stdout, o.stderr)
			}
			if strings.Contains(o.stdout, "IN SYNC") {
				t.Errorf("standard output: %s", o.stdout)
			}
			if n := h.count(); tt.hits > 0 && n > tt.hits {
				t.Errorf("requests: got %d, want at most %d", n, tt.hits)
			}
			if files := listTree(mirror); o.code == 4 && len(files) > 0 {
				t.Errorf("stored: %v", files)
			}
		})
	}
}

// TestHostileOrigins names the neighbours of a Source in every slot for a URI, and
// the addresses nobody should ask. They are listening, and must not be asked.
func TestHostileOrigins(t *testing.T) {
	const body = "hello"
	other := newHostile(t)
	other.give("/", body)
	neighbour := strings.TrimPrefix(other.URL, "http://")
	targets := []string{
		other.URL + "/x", "http://169.254.169.254/latest", "http://[::ffff:169.254.169.254]/", "http://[64:ff9b::a9fe:a9fe]/",
		"http://2852039166/", "file:///etc/passwd", "gopher://" + neighbour + "/", "http://user:password@" + neighbour + "/x", "//" + neighbour + "/x",
	}
	slots := map[string]func(h *hostile, uri string){
		"description": func(h *hostile, uri string) {
			h.replace("/.well-known/resourcesync", given(urlset(`capability="description"`, entryOf(uri, "capabilitylist"))))
		},
		"list": func(h *hostile, uri string) {
			h.replace("/caps.xml", given(urlset(`capability="capabilitylist"`, entryOf(uri, "resourcelist"))))
		},
		"resource": func(h *hostile, uri string) { h.replace("/list.xml", given(urlset(resourceList, listed(uri, body)))) },
		"up": func(h *hostile, uri string) {
			h.replace("/.well-known/resourcesync", given(linked("up", uri, urlset(resourceList))))
		},
		"redirect of a document": func(h *hostile, uri string) { h.replace("/list.xml", moved(uri)) },
		"redirect of a resource": func(h *hostile, uri string) {
			h.mux.HandleFunc("/x", moved(uri))
			h.replace("/list.xml", given(urlset(resourceList, listed(h.URL+"/x", body))))
		},
	}
	for slot, set := range slots {
		for _, target := range targets {
			t.Run(slot+" "+target, func(t *testing.T) {
				h := newHostile(t)
				h.site("")
				set(h, target)
				mirror := filepath.Join(t.TempDir(), "m")
				o := attempt(t, "sync", h.URL, mirror, "--allow-private", neighbour)
				if o.code == 0 && slot != "up" { // a list may stand alone
					t.Errorf("exit code 0\n%s%s", o.stdout, o.stderr)
				}
				if n := other.count(); n > 0 {
					t.Fatalf("the neighbour was asked %d times", n)
				}
				if files := listTree(mirror); slices.Contains(slices.Collect(maps.Keys(files)), "x") {
					t.Errorf("stored: %v", files)
				}
			})
		}
	}
}

// TestHostileLists damages the Resource List of a Source in many ways after a
// baseline: whatever the damage, nothing is deleted.
func TestHostileLists(t *testing.T) {
	const n = 40
	h := newHostile(t)
	entries := many(n, func(i int) string {
		uri := fmt.Sprintf("%s/f%d", h.URL, i)
		return listed(uri, uri)
	})
	h.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, h.URL+r.URL.Path) })
	whole := urlset(resourceList, entries...)
	h.site(whole)
	dir := filepath.Join(t.TempDir(), "m")
	if o := attempt(t, "sync", h.URL, dir); o.code != 0 {
		t.Fatalf("baseline: exit code %d\n%s", o.code, o.stderr)
	}
	later := strings.NewReplacer(at, "2026-02-02T00:00:00Z")
	shapes := []string{
		later.Replace(urlset(resourceList)), later.Replace(urlset(resourceList, entries[0])), later.Replace(urlset(resourceList, entries[:n/2-1]...)),
		later.Replace(index(resourceList)), later.Replace(index(resourceList, h.URL+"/none.xml")),
		strings.ReplaceAll(later.Replace(whole), "<loc>", "<lox>"), strings.Replace(later.Replace(whole), "</urlset>", "", 1), later.Replace(whole) + "<urlset>",
		later.Replace(urlset(resourceList, slices.Repeat([]string{"<url></url>"}, n)...)), urlset(`capability="capabilitylist"`), "", "<html></html>", whole[:0],
	}
	for i := 10; i < len(whole); i += 97 {
		shapes = append(shapes, later.Replace(whole[:i]))
	}
	for i, shape := range shapes {
		h.replace("/list.xml", given(shape))
		o := attempt(t, "sync", h.URL, dir)
		if o.code == 0 {
			t.Errorf("shape %d: exit code 0 for %.200q\n%s%s", i, shape, o.stdout, o.stderr)
		}
		if got := len(listTree(dir)); got != n {
			t.Fatalf("shape %d: %d of %d files left after %.200q", i, got, n, shape)
		}
	}
	h.replace("/list.xml", given(later.Replace(whole)))
	if o := attempt(t, "sync", h.URL, dir); o.code != 0 {
		t.Errorf("the Source is whole again: exit code %d\n%s%s", o.code, o.stdout, o.stderr)
	}
	if o := attempt(t, "audit", h.URL, dir); o.code != 0 {
		t.Errorf("audit: exit code %d\n%s", o.code, o.stdout)
	}
}

// TestPlantedFiles puts links and special files where resources of the mirror lie.
func TestPlantedFiles(t *testing.T) {
	const body = "hello"
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.Mkdir(outside, 0o755); err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(outside, "secret")
	if err := os.WriteFile(secret, []byte("keep"), 0o644); err != nil {
		t.Fatal(err)
	}
	plants := map[string]func(path string) error{
		"link to a file":      func(p string) error { return os.Symlink(secret, p) },
		"link to a directory": func(p string) error { return os.Symlink(outside, p) },
		"link to nothing":     func(p string) error { return os.Symlink(filepath.Join(outside, "new"), p) },
		"hard link":           func(p string) error { return os.Link(secret, p) },
		"FIFO":                func(p string) error { return syscall.Mkfifo(p, 0o644) },
		"directory":           func(p string) error { return os.MkdirAll(filepath.Join(p, "x"), 0o755) },
	}
	for name, plant := range plants {
		t.Run(name, func(t *testing.T) {
			h := newHostile(t)
			now := body
			h.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, now) })
			h.site(urlset(resourceList, listed(h.URL+"/d/x", now), listed(h.URL+"/y", now)))
			dir := filepath.Join(t.TempDir(), "m")
			if o := attempt(t, "sync", h.URL, dir); o.code != 0 {
				t.Fatalf("baseline: exit code %d\n%s", o.code, o.stderr)
			}
			for _, path := range []string{"d", "y"} {
				full := filepath.Join(dir, path)
				if err := errors.Join(os.RemoveAll(full), plant(full)); err != nil {
					t.Fatal(err)
				}
			}
			if o := attempt(t, "audit", h.URL, dir); o.code != 3 {
				t.Errorf("audit: exit code %d, want 3\n%s%s", o.code, o.stdout, o.stderr)
			}
			now = "changed"
			h.replace("/list.xml", given(strings.ReplaceAll(urlset(resourceList, listed(h.URL+"/d/x", now), listed(h.URL+"/y", now)), at, "2026-02-02T00:00:00Z")))
			o := attempt(t, "sync", h.URL, dir)
			if o.code != 0 && o.code != 4 {
				t.Errorf("sync: exit code %d\n%s%s", o.code, o.stdout, o.stderr)
			}
			if got, err := os.ReadFile(secret); err != nil || string(got) != "keep" {
				t.Errorf("outside: got %q, %v", got, err)
			}
			if found := beside(t, secret); len(found) > 0 {
				t.Errorf("written outside: %v", found)
			}
		})
	}
}
