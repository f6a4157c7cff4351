//go:build unix

package main

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// liar is a Source by hand: a Capability List, a Resource List and what they name.
type liar struct {
	*httptest.Server

	mu     sync.Mutex // guards the rest
	at     string
	bodies map[string]string // by path
	listed []string          // entries of the Resource List
}

func newLiar(t *testing.T) *liar {
	t.Helper()
	l := &liar{at: "2026-03-01T12:00:00Z", bodies: map[string]string{}}
	l.Server = httptest.NewServer(l)
	t.Cleanup(l.Close)
	return l
}

const liarDocument = `<?xml version="1.0" encoding="UTF-8"?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">%s</urlset>
`

func (l *liar) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch body, there := l.bodies[r.URL.Path]; {
	case there:
		_, _ = fmt.Fprint(out, body)
	case r.URL.Path == "/capabilitylist.xml":
		_, _ = fmt.Fprintf(out, liarDocument, `<rs:md capability="capabilitylist"/><url><loc>`+l.URL+`/resourcelist.xml</loc><rs:md capability="resourcelist"/></url>`)
	case r.URL.Path == "/resourcelist.xml":
		_, _ = fmt.Fprintf(out, liarDocument, `<rs:ln rel="up" href="`+l.URL+`/capabilitylist.xml"/><rs:md capability="resourcelist" at="`+l.at+`"/>`+strings.Join(l.listed, ""))
	default:
		http.NotFound(out, r)
	}
}

// entry is what a list says of bytes that are listed at loc.
func entry(loc, body string) string {
	return fmt.Sprintf(`<url><loc>%s</loc><rs:md hash="sha-256:%x" length="%d"/></url>`, loc, sha256.Sum256([]byte(body)), len(body))
}

// offer serves a body and lists it.
func (l *liar) offer(path, body string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bodies[path] = body
	l.listed = append(l.listed, entry(l.URL+path, body))
}

// later changes what the Source says.
func (l *liar) later(at string, change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at = at
	change()
}

func mustHold(t *testing.T, name, want string) {
	t.Helper()
	if got, err := os.ReadFile(name); err != nil || string(got) != want {
		t.Errorf("%s holds %q, %v; want %q", filepath.Base(name), got, err, want)
	}
}

// mustExit fails unless the run ended with a code and some record says something.
func mustExit(t *testing.T, o outcome, code int, says string) {
	t.Helper()
	said := slices.ContainsFunc(o.records, func(r record) bool { return strings.Contains(r.URI+" "+r.Message, says) })
	if o.code != code || !said {
		t.Errorf("exit code %d, want %d and a record that says %q", o.code, code, says)
	}
}

// What the reference client believes: each of these is refused, said and told by the exit code.
func TestFourLiesAreRefused(t *testing.T) {
	t.Run("a body that is not the one listed", func(t *testing.T) {
		l, dir := newLiar(t), filepath.Join(t.TempDir(), "mirror")
		l.offer("/one.txt", "the good copy")
		mustDo(t, "sync", l.URL+"/capabilitylist.xml", dir)
		l.later("2026-03-02T12:00:00Z", func() {
			l.bodies["/one.txt"] = "short"
			l.listed = []string{fmt.Sprintf(`<url><loc>%s/one.txt</loc><rs:md hash="md5:%032x" length="99999"/></url>`, l.URL, 1)}
		})
		o := instep(t, "sync", l.URL+"/capabilitylist.xml", dir)
		mustExit(t, o, 4, l.URL+"/one.txt")
		mustHold(t, filepath.Join(dir, "one.txt"), "the good copy")
	})
	t.Run("a URI that climbs out of the directory", func(t *testing.T) {
		l, parent := newLiar(t), t.TempDir()
		dir := filepath.Join(parent, "a", "mirror")
		const climber = "climbed out"
		for _, path := range []string{"/../../climber.txt", "/%2e%2e/%2e%2e/climber2.txt", "/..%2f..%2fclimber3.txt", `/..\..\climber4.txt`} {
			l.offer(path, climber)
		}
		l.later(l.at, func() { l.bodies["/climber.txt"], l.bodies["/climber2.txt"] = climber, climber })
		l.offer("/good.txt", "good")
		instep(t, "sync", l.URL+"/capabilitylist.xml", dir)
		mustHold(t, filepath.Join(dir, "good.txt"), "good")
		for path := range listTree(parent) {
			if strings.Contains(path, "climber") && !strings.HasPrefix(path, "a/mirror/") {
				t.Errorf("outside of the mirror: %s", path)
			}
		}
	})
	t.Run("a list cut from 1,000 to 1", func(t *testing.T) {
		l, dir := newLiar(t), filepath.Join(t.TempDir(), "mirror")
		for i := range 1000 {
			l.offer(fmt.Sprintf("/%04d.txt", i), fmt.Sprint("number ", i))
		}
		mustDo(t, "sync", l.URL+"/capabilitylist.xml", dir)
		l.later("2026-03-02T12:00:00Z", func() { l.listed = l.listed[:1] })
		o := instep(t, "sync", l.URL+"/capabilitylist.xml", dir)
		mustExit(t, o, 6, "999 deletions withheld")
		if n := len(listTree(dir)); n < 1000 {
			t.Errorf("%d files are left of 1,000", n)
		}
	})
	t.Run("in step, although it is not", func(t *testing.T) {
		l, dir := newLiar(t), filepath.Join(t.TempDir(), "mirror")
		l.offer("/one.txt", "one")
		l.offer("/two.txt", "two")
		l.later(l.at, func() { delete(l.bodies, "/two.txt") })
		o := instep(t, "sync", l.URL+"/capabilitylist.xml", dir)
		mustExit(t, o, 4, l.URL+"/two.txt")
		if o.Status == "in-sync" {
			t.Errorf("status %q without two.txt", o.Status)
		}
		mustExit(t, instep(t, "audit", l.URL+"/capabilitylist.xml", dir), 3, "")
		l.later(l.at, func() { l.bodies["/two.txt"] = "two" })
		mustDo(t, "sync", l.URL+"/capabilitylist.xml", dir)
		mustDo(t, "audit", l.URL+"/capabilitylist.xml", dir)
	})
}
