//go:build unix

package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNoSettingShowsAPassword: settings that name a password are stored with the mirror, and shown
// by report and by later runs without it.
func TestNoSettingShowsAPassword(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	writeFiles(t, "site", map[string]string{"one.txt": "one"})
	srv := httptest.NewServer(http.FileServer(http.Dir("site")))
	defer srv.Close()
	mustDo(t, "publish", "site", "--base-url", srv.URL+"/")
	mustDo(t, "sync", srv.URL+"/", "mirror", "--exclude", "https://me:secret@museum.example.org/*", "--exclude", srv.URL+"/x?api_key=secret&page=1")
	for _, args := range [][]string{{"report", "mirror"}, {"report", "mirror", "--json"}, {"report", "mirror", "--format", "html", "--out", "report.html"}, {"sync", "-v", srv.URL + "/", "mirror"},
		{"publish", "-n", "site", "--base-url", srv.URL + "/", "--zip", "https://me:secret@museum.example.org/x.zip"}} {
		mustHide(t, args, "report.html") // only one of the commands writes it
	}
	source := srv.URL + "/resourcesync/capabilitylist.xml?token=secret"
	for _, form := range []string{"html", "json", "csv"} {
		mustHide(t, []string{"audit", source, "mirror", "--exclude", "https://me:secret@museum.example.org/*", "--report", "audit." + form}, "audit."+form)
	}
	records, err := filepath.Glob("mirror/.instep/runs/*")
	if err != nil || len(records) < 4 {
		t.Fatalf("records %q, %v", records, err)
	}
	mustHide(t, []string{"report", "mirror"}, records...)
}

// TestNoPasswordOfAFileOrServer has passwords that no argument names.
func TestNoPasswordOfAFileOrServer(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	writeFiles(t, "site", map[string]string{"one.txt": "one"})
	for name, config := range map[string]string{
		"from.yaml": "base_url: http://127.0.0.1:1/\nsets:\n- from:\n    sitemap: https://127.0.0.1:1/x.xml?key=secret-1234567890\n",
		"sql.yaml":  "base_url: http://127.0.0.1:1/\nsets:\n- from:\n    sql:\n      postgres: postgres://me:se/secret@127.0.0.1:1/db\n      query: select 1\n",
		"base.yaml": "base_url: https://me:secret@museum.example.org/\n",
		"odd.yaml":  "base_url: https://me:se/secret@museum.example.org/\n",
		"odd2.yaml": "base_url: [https://me:secret@museum.example.org/]\n",
		"key.yaml":  "https://me:secret@museum.example.org/: 1\n",
		"one.yaml":  "base_url: http://127.0.0.1:1/\nsets:\n- from:\n    sitemap: https://me:secret@127.0.0.1:1/x.xml\n",
	} {
		writeFiles(t, ".", map[string]string{name: config})
		for _, mode := range []string{"-v", "--json"} {
			mustHide(t, []string{"config", "check", name, mode})
			mustHide(t, []string{"publish", "site", "-c", name, mode})
		}
	}
	for _, to := range []string{"https://me:secret@museum.example.org/", "https://secret@museum.example.org/", "http://museum.example.org/x?token=secret&page=1"} {
		srv := httptest.NewServer(http.RedirectHandler(to, http.StatusFound))
		defer srv.Close()
		for _, mode := range []string{"-v", "--json"} {
			mustHide(t, []string{"sync", srv.URL, "mirror", mode})
			mustHide(t, []string{"lint", srv.URL, mode})
		}
	}
	mux := http.NewServeMux()
	mux.Handle("/", http.FileServer(http.Dir("site")))
	mux.Handle("/one.txt", http.RedirectHandler("https://me:secret@museum.example.org/?token=secret", http.StatusFound))
	srv := httptest.NewServer(mux)
	defer srv.Close()
	mustDo(t, "publish", "site", "--base-url", srv.URL+"/")
	for _, mode := range []string{"-v", "--json"} {
		mustHide(t, []string{"sync", srv.URL + "/", "mirror", mode}, "mirror/.instep/runs/1.jsonl", "mirror/.instep/runs/2.jsonl")
		mustHide(t, []string{"errors", "mirror", mode})
		mustHide(t, []string{"audit", "--repair", "--report", "audit.html", srv.URL + "/", "mirror", mode}, "audit.html")
	}
}

// mustHide runs a command whose output and files must not contain a secret.
func mustHide(t *testing.T, args []string, files ...string) {
	t.Helper()
	got := attempt(t, args...)
	written := got.stdout + got.stderr
	for _, name := range files {
		text, _ := os.ReadFile(name) // the error is ignored, because not each command writes the file
		written += string(text)
	}
	if strings.Contains(written, "secret") || written == "" {
		t.Errorf("%q: %s", args, written)
	}
}
