//go:build unix

package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestLintFollowsWhatRobotsOffers: what search engines are led to is held against the
// Sitemap protocol, and speaks for the host of the robots.txt.
func TestLintFollowsWhatRobotsOffers(t *testing.T) {
	mux := http.NewServeMux()
	srv := httptest.NewServer(mux)
	defer srv.Close()
	mux.HandleFunc("/robots.txt", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "Sitemap: %[1]s/maps/plain.xml\nSitemap: %[1]s/list.xml\nSitemap: sitemap.xml\n", srv.URL)
	})
	mux.HandleFunc("/maps/plain.xml", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><url><loc>%s/page</loc></url><url><loc>https://harbour.example.org/page</loc></url></urlset>`, srv.URL)
	})
	mux.HandleFunc("/list.xml", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, badManifest)
	})
	for _, test := range []struct {
		flags     []string
		want, not []string
	}{
		{nil, []string{
			"/robots.txt: robots.txt", "info quirk-16-robots-sitemap-case",
			"/maps/plain.xml: sitemap, 2 entries", "warning sitemap-scope", `"https://harbour.example.org/page" is not below ` + srv.URL + "/,",
			"/list.xml: resourcelist, 0 entries", "warning sitemap-rs-elements", "documents=3",
		}, []string{`"` + srv.URL + `/page"`}},
		{[]string{"--sample", "1"}, []string{"/maps/plain.xml: ", "documents=2"}, []string{"/list.xml: "}},
		{[]string{"--all"}, []string{"documents=3"}, nil},
		{[]string{"--static"}, []string{"documents=1"}, []string{"/plain.xml: "}},
	} {
		code, stdout, stderr := lintNow(t.Context(), append(test.flags, srv.URL+"/robots.txt")...)
		if code != exitOK {
			t.Errorf("%q: exit code %d, want %d\n%s", test.flags, code, exitOK, stderr)
		}
		for _, s := range test.want {
			if !strings.Contains(stdout, s) {
				t.Errorf("%q: %q is not in\n%s", test.flags, s, stdout)
			}
		}
		for _, s := range test.not {
			if strings.Contains(stdout, s) {
				t.Errorf("%q: %q is in\n%s", test.flags, s, stdout)
			}
		}
	}
}
