//go:build unix

package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"
)

// hostile is a Source that says whatever a test wants.
type hostile struct {
	*httptest.Server
	mux *http.ServeMux

	mu   sync.Mutex
	hits map[string]int
}

func newHostile(t *testing.T) *hostile {
	t.Helper()
	h := &hostile{mux: http.NewServeMux(), hits: map[string]int{}}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		h.hits[r.URL.Path]++
		h.mu.Unlock()
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
	h.mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) })
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

// attempt runs the program in this process.
func attempt(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, msg bytes.Buffer
	code = run(args, &out, &msg)
	for name, s := range map[string]string{"standard output": out.String(), "standard error": msg.String()} {
		checkClean(t, name, s)
	}
	return code, out.String(), msg.String()
}

// checkClean checks that text steers no terminal.
func checkClean(t *testing.T, name, s string) {
	t.Helper()
	if !utf8.ValidString(s) {
		t.Errorf("%s is not UTF-8: %q", name, s)
	}
	for _, r := range s {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) {
			t.Errorf("%s holds %U: %q", name, r, s)
			return
		}
	}
}

// sumUp is the summary at the end of JSON output.
func sumUp(t *testing.T, stdout string) summary {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	var s summary
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &s); err != nil {
		t.Fatalf("%v: %s", err, stdout)
	}
	return s
}

// outside returns what lies in dir beside the mirror.
func outside(t *testing.T, dir, mirror string) (found []string) {
	t.Helper()
	items, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range items {
		if i.Name() != mirror {
			found = append(found, i.Name())
		}
	}
	return found
}

func TestHostilePaths(t *testing.T) {
	const body = "evil"
	paths := []string{
		"/../out", "/%2e%2e/out", "/%2E%2E%2Fout", "/a/..%2f..%2fout", "/..%5cout", `/..\out`, "/a/%00b", "/.instep/catalog.db", "/.INSTEP/catalog.db",
		"/%2einstep/store", "/.instep./x", "/.instep%20/x", "/.inst%C3%A9p", "/CON", "/nul.txt", "/aux", "/COM1.xml", "/a./b", "/a /b", "/c:/x", "/a:stream",
		"//etc/passwd", "///", "/", "/.", "/..", "/./x", "/.git/config", "/.bashrc", "/" + strings.Repeat("x", 300), "/" + strings.Repeat("d/", 1000) + "f",
		"/" + strings.Repeat("%2e", 2000), "/?../../out", "/?" + strings.Repeat("q", 8000), "/a%1b%5b2J", "/\u202egnp.exe", "/a\u009b2Jb", "/%ff%fe", "/x#frag", "/~root", "/-rf", "/$(id)",
		"/a", "/A", "/a/b", "/a/b/", "/é", "/e\u0301",
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
			code, stdout, stderr := attempt(t, "sync", h.URL, filepath.Join(dir, "m"), format)
			t.Log(code, stdout, stderr)
			code, stdout, stderr = attempt(t, "audit", h.URL, filepath.Join(dir, "m"), format)
			t.Log(code, stdout, stderr)
			if found := outside(t, dir, "m"); len(found) > 0 {
				t.Errorf("written outside the mirror: %v", found)
			}
		})
	}
}

func TestScratchSources(t *testing.T) {
	const body = "hello"
	big := func(prefix, fill string, n int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(prefix))
			chunk := []byte(strings.Repeat(fill, 64<<10/len(fill)))
			for i := 0; i < n; i += len(chunk) {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		}
	}
	gz := func(prefix, fill string, n int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			defer z.Close()
			_, _ = z.Write([]byte(prefix))
			chunk := []byte(strings.Repeat(fill, 64<<10/len(fill)))
			for i := 0; i < n; i += len(chunk) {
				if _, err := z.Write(chunk); err != nil {
					return
				}
			}
		}
	}
	open := strings.TrimSuffix(urlset(resourceList), "</urlset>")
	other := newHostile(t)
	other.give("/part.xml", urlset(resourceList, listed(other.URL+"/x", body)))
	other.give("/list.xml", urlset(resourceList, listed(other.URL+"/x", body)))
	other.give("/", body)
	ohost := strings.TrimPrefix(other.URL, "http://")
	tests := map[string]struct {
		setup    func(h *hostile) (src string)
		args     []string
		redirect bool
	}{
		"whitespace bomb at well-known": {setup: func(h *hostile) string { h.mux.HandleFunc("/", big(" ", " ", 200<<20)); return h.URL }},
		"gzip bomb at well-known":       {setup: func(h *hostile) string { h.mux.HandleFunc("/", gz(" ", " ", 400<<20)); return h.URL }},
		"gzip bomb in list": {setup: func(h *hostile) string {
			h.site("")
			h.mux.HandleFunc("/l2", gz(open, " ", 400<<20))
			h.give("/caps2.xml", urlset(`capability="capabilitylist"`, entryOf(h.URL+"/l2", "resourcelist")))
			return h.URL + "/caps2.xml"
		}},
		"100 MB list":    {setup: func(h *hostile) string { h.mux.HandleFunc("/l2", big(open, " ", 101<<20)); return h.URL + "/l2" }},
		"depth bomb":     {setup: func(h *hostile) string { h.site(open + strings.Repeat("<a>", 1_000_000)); return h.URL }},
		"attribute bomb": {setup: func(h *hostile) string { h.site(open + "<url " + strings.Repeat(`a="b" `, 1_000_000)); return h.URL }},
		"long token":     {setup: func(h *hostile) string { h.site(open + "<url><loc>" + strings.Repeat(`a`, 50<<20)); return h.URL }},
		"doctype": {setup: func(h *hostile) string {
			h.site(`<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><urlset>&b;</urlset>`)
			return h.URL
		}},
		"list of changes": {setup: func(h *hostile) string {
			h.site(urlset(`capability="changelist" from="`+at+`"`, listed(h.URL+"/x", body)))
			return h.URL
		}},
		"caps is list": {setup: func(h *hostile) string {
			h.give("/.well-known/resourcesync", urlset(`capability="description"`, entryOf(h.URL+"/list.xml", "capabilitylist")))
			h.give("/list.xml", urlset(resourceList, listed(h.URL+"/x", body)))
			return h.URL
		}},
		"index lists itself": {setup: func(h *hostile) string { h.site(index(resourceList, h.URL+"/list.xml")); return h.URL }},
		"index same part 20000x": {setup: func(h *hostile) string {
			h.give("/p.xml", urlset(resourceList, listed(h.URL+"/x", body)))
			h.give("/x", body)
			h.site(index(resourceList, strings.Fields(strings.Repeat(h.URL+"/p.xml ", 20000))...))
			return h.URL
		}},
		"index part foreign": {setup: func(h *hostile) string { h.site(index(resourceList, other.URL+"/part.xml")); return h.URL }, args: []string{"--allow-private", ohost}},
		"index part relative+file": {setup: func(h *hostile) string {
			h.site(index(resourceList, "part.xml", "file:///etc/passwd", "http://169.254.169.254/latest", "http://[::ffff:169.254.169.254]/", "http://2852039166/", "http://0x7f.1/", "http://localhost:1/"))
			return h.URL
		}},
		"list foreign": {setup: func(h *hostile) string {
			h.site("")
			h.give("/c2", urlset(`capability="capabilitylist"`, entryOf(other.URL+"/list.xml", "resourcelist")))
			return h.URL + "/c2"
		}, args: []string{"--allow-private", ohost}},
		"caps foreign": {setup: func(h *hostile) string {
			h.give("/.well-known/resourcesync", urlset(`capability="description"`, entryOf(other.URL+"/caps.xml", "capabilitylist")))
			return h.URL
		}, args: []string{"--allow-private", ohost}},
		"resource foreign": {setup: func(h *hostile) string {
			h.site(urlset(resourceList, listed(other.URL+"/x", body), listed("file:///etc/passwd", body), listed("http://169.254.169.254/", body), listed("gopher://x/", body), listed("http://u:p@"+strings.TrimPrefix(h.URL, "http://")+"/x", body)))
			return h.URL
		}, args: []string{"--allow-private", ohost}},
		"resource redirect foreign": {setup: func(h *hostile) string {
			h.mux.Handle("/x", http.RedirectHandler(other.URL+"/x", 302))
			h.mux.Handle("/y", http.RedirectHandler("file:///etc/passwd", 302))
			h.mux.Handle("/z", http.RedirectHandler("http://169.254.169.254/", 302))
			h.mux.Handle("/loop", http.RedirectHandler("/loop", 302))
			h.site(urlset(resourceList, listed(h.URL+"/x", body), listed(h.URL+"/y", body), listed(h.URL+"/z", body), listed(h.URL+"/loop", body)))
			return h.URL
		}, args: []string{"--allow-private", ohost, "--allow-origin", "http://169.254.169.254"}},
		"allow metadata": {setup: func(h *hostile) string {
			h.site(urlset(resourceList, listed("http://169.254.169.254/", body)))
			return h.URL
		}, args: []string{"--allow-private", "169.254.169.254:80", "--allow-origin", "http://169.254.169.254"}},
		"503 absurd": {setup: func(h *hostile) string {
			h.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Retry-After", "99999999999999999999")
				w.WriteHeader(503)
			})
			return h.URL
		}},
		"429 absurd on resources": {setup: func(h *hostile) string {
			h.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Retry-After", "31536000")
				w.WriteHeader(429)
			})
			var e []string
			for i := range 200 {
				e = append(e, listed(fmt.Sprintf("%s/r%d", h.URL, i), body))
			}
			h.site(urlset(resourceList, e...))
			return h.URL
		}},
		"bot wall everywhere": {setup: func(h *hostile) string {
			h.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/html")
				w.WriteHeader(403)
				_, _ = w.Write([]byte("<html>no</html>"))
			})
			return h.URL
		}},
		"html 200 everywhere": {setup: func(h *hostile) string { h.give("/", "<!doctype html><html>\x1b[2J</html>"); return h.URL }},
		"wrong hash": {setup: func(h *hostile) string {
			h.give("/", "evil!")
			h.site(urlset(resourceList, listed(h.URL+"/x", body)))
			return h.URL
		}},
		"same uri two hashes": {setup: func(h *hostile) string {
			h.give("/", body)
			h.site(urlset(resourceList, listed(h.URL+"/x", body), listed(h.URL+"/x", "other"), listed(h.URL+"/x", body)))
			return h.URL
		}},
		"endless body": {setup: func(h *hostile) string {
			h.mux.HandleFunc("/x", big("x", "x", 1<<40))
			h.site(urlset(resourceList, listed(h.URL+"/x", body)))
			return h.URL
		}},
		"ansi in link texts": {setup: func(h *hostile) string {
			h.site(urlset(resourceList+` x="&#x9b;2J"`, "<url><loc>http://a\u009b/\n\ninstep: all is fine\u202e</loc></url>", "<url><loc>%zz\u009b</loc></url>"))
			return h.URL
		}},
		"caps uri newline": {setup: func(h *hostile) string {
			h.give("/.well-known/resourcesync", urlset(`capability="description"`, "<url><loc>"+h.URL+"/caps&#10;instep: done\u009b</loc><rs:md capability=\"capabilitylist\"/></url>"))
			return h.URL
		}},
		"list capability ansi": {setup: func(h *hostile) string { h.site(urlset("capability=\"x&#10;Status: IN SYNC\u009b\"")); return h.URL }},
		"redirect well-known to foreign": {setup: func(h *hostile) string {
			h.mux.Handle("/", http.RedirectHandler(other.URL+"/list.xml", 301))
			return h.URL
		}, args: []string{"--allow-private", ohost}},
		"location with control": {setup: func(h *hostile) string {
			h.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
				c, _, _ := w.(http.Hijacker).Hijack()
				fmt.Fprintf(c, "HTTP/1.1 302 X\u009b\r\nLocation: http://a\u009b\x1b[2J/\r\n\r\n")
				c.Close()
			})
			return h.URL
		}},
		"status text": {setup: func(h *hostile) string {
			h.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
				c, _, _ := w.(http.Hijacker).Hijack()
				fmt.Fprintf(c, "HTTP/1.1 999 X\x1b[2J\r\nContent-Length: 0\r\n\r\n")
				c.Close()
			})
			return h.URL
		}},
		"1xx flood": {setup: func(h *hostile) string {
			h.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
				c, _, _ := w.(http.Hijacker).Hijack()
				defer c.Close()
				for {
					if _, err := fmt.Fprintf(c, "HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n"); err != nil {
						return
					}
				}
			})
			return h.URL
		}},
		"cl short": {setup: func(h *hostile) string {
			h.mux.HandleFunc("/x", func(w http.ResponseWriter, r *http.Request) {
				c, _, _ := w.(http.Hijacker).Hijack()
				fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\nhello")
				c.Close()
			})
			h.site(urlset(resourceList, listed(h.URL+"/x", body)))
			return h.URL
		}},
		"up to foreign": {setup: func(h *hostile) string {
			h.give("/l", strings.Replace(urlset(resourceList, listed(h.URL+"/x", body)), "<rs:md", `<rs:ln rel="up" href="`+other.URL+`/caps"/><rs:md`, 1))
			h.give("/x", body)
			return h.URL + "/l"
		}, args: []string{"--allow-private", ohost}},
		"no capability 9000 entries": {setup: func(h *hostile) string {
			h.give("/.well-known/resourcesync", urlset(`capability="description"`, entryOf(h.URL+"/c", "capabilitylist")))
			h.mux.HandleFunc("/d/", func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(urlset(""))) })
			var e []string
			for i := range 9000 {
				e = append(e, fmt.Sprintf("<url><loc>%s/d/%d</loc></url>", h.URL, i))
			}
			h.give("/c", urlset(`capability="capabilitylist"`, e...))
			return h.URL
		}},
		"20000 parts": {setup: func(h *hostile) string {
			h.mux.HandleFunc("/d/", func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(urlset(resourceList))) })
			var e []string
			for i := range 20000 {
				e = append(e, fmt.Sprintf("%s/d/%d", h.URL, i))
			}
			h.site(index(resourceList, e...))
			return h.URL
		}},
		"bad entries 100000": {setup: func(h *hostile) string {
			h.give("/.well-known/resourcesync", urlset(`capability="description"`, strings.Repeat("<url></url>", 99999)))
			return h.URL
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			h := newHostile(t)
			before := other.count()
			dir := t.TempDir()
			src := tt.setup(h)
			begin := time.Now()
			o := instep(t, append([]string{"sync", src, filepath.Join(dir, "m")}, tt.args...)...)
			msgs := ""
			for i, r := range o.records {
				if i < 8 {
					msgs += fmt.Sprintf("\n   %s %s %.300s %.150s", r.Type, r.URI, r.Message, r.Hint)
				}
			}
			checkClean(t, "stderr", o.stderr)
			b, _ := json.Marshal(o.summary)
			t.Logf("code %d took %v peak %d MB hits %d foreign %d records %d stderr %d\n %s%s", o.code, time.Since(begin).Round(time.Millisecond), o.peak>>20, h.count(), other.count()-before, len(o.records), len(o.stderr), b, msgs)
		})
	}
}
