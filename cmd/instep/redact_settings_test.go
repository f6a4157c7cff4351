//go:build unix

package main

import (
	"net/http"
	"net/http/httptest"
	"os"
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
		got := attempt(t, args...)
		text, _ := os.ReadFile("report.html") // only one of the commands writes it
		if strings.Contains(got.stdout+got.stderr+string(text), "secret") {
			t.Errorf("%q: %s%s%s", args, got.stdout, got.stderr, text)
		}
	}
}
