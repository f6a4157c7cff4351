//go:build unix

package main

import (
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
)

// attacker is a site with a Resource Map that aggregates what the attacker likes.
func attacker(t *testing.T, members ...string) (url string) {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/map.atom" {
			fmt.Fprintf(w, "resource %s", r.URL.EscapedPath())
			return
		}
		w.Header().Set("Content-Type", "application/atom+xml")
		fmt.Fprint(w, `<entry xmlns="http://www.w3.org/2005/Atom"><link rel="http://www.openarchives.org/ore/terms/describes" href="/map.atom#a"/>`)
		for _, m := range members {
			fmt.Fprintf(w, `<link rel="http://www.openarchives.org/ore/terms/aggregates" href="%s"/>`, m)
		}
		fmt.Fprint(w, `</entry>`)
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}

// filesBelow are the files below a directory, without those of our own.
func filesBelow(t *testing.T, dir string) (found []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, path)
		if err == nil && !d.IsDir() && !strings.Contains(rel, ".instep/") {
			found = append(found, filepath.ToSlash(rel))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestSyncOREStaysInItsDirectory: whatever a map aggregates, nothing is written beside the
// mirror nor in the place of its state, and nothing private is asked.
func TestSyncOREStaysInItsDirectory(t *testing.T) {
	private := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a private address was asked") }))
	defer private.Close()
	url := attacker(t,
		"/good.txt", "/../up.txt", "/a/../../../up2.txt", "/%2e%2e/%2e%2e/up3.txt", "/..%2f..%2fup4.txt", "/a%2f..%2f..%2fup5.txt", `/..\..\up6.txt`, "/..%5c..%5cup7.txt",
		"/.instep/catalog.db", "/.instep/marker", "/.INSTEP/marker", "/%2einstep/lock", "/a%00b", "/con", "/a:b", "/C:/x", "//evil.invalid/x", "/"+strings.Repeat("d/", 3000)+"x", "/"+strings.Repeat("n", 300),
		"file:///etc/passwd", "data:text/plain,x", "javascript:alert(1)", "urn:x:y", "ftp://127.0.0.1/x", "/map.atom", "/map.atom#a", "/map.atom?x",
		private.URL+"/secret", strings.Replace(private.URL, "127.0.0.1", "[::ffff:127.0.0.1]", 1)+"/secret", strings.Replace(private.URL, "127.0.0.1", "localhost", 1)+"/secret",
		"http://169.254.169.254/latest/meta-data", "http://[fd00::1]/x", "http://0/x", "http://2130706433/x", "http://user:pw@127.0.0.1/x")
	dir := t.TempDir()
	mirror := filepath.Join(dir, "in", "the", "mirror")
	o := instep(t, "sync", "--ore", url+"/map.atom", mirror)
	if o.code != 4 || !strings.Contains(messages(o), "6 aggregated resources have no http or https URI") {
		t.Errorf("exit code %d, %s", o.code, messages(o))
	}
	good := false
	for _, name := range filesBelow(t, dir) {
		if !strings.HasPrefix(name, "in/the/mirror/") {
			t.Errorf("wrote %q", name)
		}
		good = good || name == "in/the/mirror/good.txt"
		if first, _, _ := strings.Cut(strings.TrimPrefix(name, "in/the/mirror/"), "/"); strings.EqualFold(first, ".instep") {
			t.Errorf("wrote %q in the place of the state", name)
		}
	}
	if !good {
		t.Error("what is good did not come")
	}
	if o := instep(t, "audit", "--quick", url+"/map.atom", mirror); o.code == 1 {
		t.Errorf("the mirror cannot be read any more: %s", messages(o))
	}
}

// TestSyncOREIsBounded: maps without end, in number or in size, end the run, and what is held
// stays as it is.
func TestSyncOREIsBounded(t *testing.T) {
	hostile := ""
	mux := http.NewServeMux()
	entry := func(w http.ResponseWriter, n string) {
		w.Header().Set("Content-Type", "application/atom+xml")
		fmt.Fprintf(w, `<entry xmlns="http://www.w3.org/2005/Atom"><link rel="http://www.openarchives.org/ore/terms/describes" href="/%s#a"/>`, n)
	}
	aggregate := func(w http.ResponseWriter, uri string) {
		fmt.Fprintf(w, `<link rel="http://www.openarchives.org/ore/terms/aggregates" href="%s"/>`, uri)
	}
	mux.HandleFunc("/good.txt", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "good") })
	mux.HandleFunc("/map.atom", func(w http.ResponseWriter, _ *http.Request) {
		entry(w, "map.atom")
		switch hostile {
		case "chain":
			fmt.Fprint(w, `<link rel="http://www.openarchives.org/ore/terms/isDescribedBy" href="/chain/1"/>`)
		case "members":
			for i := range 200_000 {
				aggregate(w, fmt.Sprint("/m/", i))
			}
		case "bytes":
			for range 70 {
				_, _ = w.Write([]byte(strings.Repeat(" ", 1<<20)))
			}
		case "fan":
			for i := range 30_000 {
				fmt.Fprintf(w, `<link rel="http://www.openarchives.org/ore/terms/isDescribedBy" href="/none/%d"/>`, i)
			}
		case "cut":
			fmt.Fprint(w, "<link")
			return
		}
		aggregate(w, "/good.txt")
		fmt.Fprint(w, "</entry>")
	})
	mux.HandleFunc("/chain/{n}", func(w http.ResponseWriter, r *http.Request) {
		entry(w, r.URL.Path[1:])
		fmt.Fprintf(w, `<link rel="http://www.openarchives.org/ore/terms/isDescribedBy" href="/chain/%s1"/></entry>`, r.PathValue("n"))
	})
	s := httptest.NewServer(mux)
	defer s.Close()
	mirror := filepath.Join(t.TempDir(), "mirror")
	if o := instep(t, "sync", "--ore", s.URL+"/map.atom", mirror); o.code != 0 {
		t.Fatalf("exit code %d, %s", o.code, messages(o))
	}
	for _, hostile = range []string{"chain", "members", "bytes", "fan", "cut"} {
		o := instep(t, "sync", s.URL+"/map.atom", mirror)
		if got := filesBelow(t, mirror); o.code == 0 || len(got) != 1 || got[0] != "good.txt" {
			t.Errorf("%s: exit code %d, files %q, %s", hostile, o.code, got, messages(o))
		}
	}
}
