package lint

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// TestSiteIsWhatASitemapSpeaksFor: the robots.txt of a host may offer a Sitemap that is
// elsewhere.
func TestSiteIsWhatASitemapSpeaksFor(t *testing.T) {
	const doc = `<urlset><url><loc>https://museum.example.org/vase</loc></url></urlset>`
	for _, test := range []struct {
		site string
		want []string
	}{
		{"https://museum.example.org/robots.txt", []string{}},
		{"https://other.example.org/robots.txt", []string{"sitemap-scope"}},
		{"", []string{}}, // a file is in no place of the web
	} {
		if _, found := lintText(t, Checker{}, doc, Warning, WithKind(KindSitemap), WithSite(test.site)); !slices.Equal(ids(found), test.want) {
			t.Errorf("offered by %q: got %q, want %q", test.site, ids(found), test.want)
		}
	}
}

// TestRobotsOffersNoListToSearchEngines: the one that is checked is looked for in the
// robots.txt of its host.
func TestRobotsOffersNoListToSearchEngines(t *testing.T) {
	for _, test := range []struct {
		robots string // {{base}} is the host
		want   []string
	}{
		{"", []string{}},
		{"User-agent: *\nDisallow: /private\n", []string{}},
		{"Sitemap: {{base}}/sitemap.xml\n", []string{}},
		{"Sitemap: {{base}}/sitemap.xml\nSitemap: {{base}}/list.xml\n", []string{"sitemap-rs-elements"}},
	} {
		mux := http.NewServeMux()
		srv := httptest.NewServer(mux)
		mux.HandleFunc("/.well-known/resourcesync", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(declareNamespaces([]byte(`<urlset><rs:md capability="description"/></urlset>`)))
		})
		if test.robots != "" {
			mux.HandleFunc("/robots.txt", func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, strings.ReplaceAll(test.robots, "{{base}}", srv.URL))
			})
		}
		var found []Finding
		l := newLive(t, srv, &Checker{Report: func(f Finding) { found = append(found, f) }})
		list := srv.URL + "/list.xml"
		err := l.Source(context.Background(), Answer{URL: list}, Document{URI: list, Capability: "resourcelist"})
		if err != nil || !slices.Equal(ids(found), test.want) {
			t.Errorf("%q: got %+v, %v; want %q", test.robots, found, err, test.want)
		}
		srv.Close()
	}
}
