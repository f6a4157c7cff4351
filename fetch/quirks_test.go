package fetch_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"instep/fetch"
)

// requested asks for URIs by their path and query, and returns what stood in the
// request lines.
func requested(t *testing.T, paths []string) []string {
	t.Helper()
	var got []string
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) { got = append(got, r.RequestURI) })
	c := client(t, fetch.Options{}, s)
	for _, p := range paths {
		if _, err := read(t.Context(), c, s.URL+p); err != nil {
			t.Errorf("get %q: %v", p, err)
		}
	}
	return got
}

// A query is part of what is asked for, as it was written.
func TestQuirk_40(t *testing.T) {
	paths := []string{"/oai?verb=GetRecord&id=1", "/oai?verb=GetRecord&id=2", "/oai?", "/oai", "/oai?a=1&a=1;b=%2F+x"}
	if d := cmp.Diff(requested(t, paths), paths); d != "" {
		t.Errorf("request lines (-got +want):\n%s", d)
	}
}

// A URI is asked for as it was written, but for what no request line can hold.
func TestQuirk_41(t *testing.T) {
	for _, p := range []string{"/a%253Db", "/a%3Db", "/a%2Fb", "/%7Euser", "/a%c3%a9", "/a=b;c,d(e)!", "/a[1]", "/a//b", "/%2e%2e/x", "/caf%E9"} {
		if got := requested(t, []string{p}); !slices.Equal(got, []string{p}) {
			t.Errorf("%s: the request line has %q", p, got)
		}
	}
	for p, want := range map[string]string{
		"/é":            "/%C3%A9",
		"/é%2F1":        "/%C3%A9%2F1",
		"/a b%253D":     "/a%20b%253D",
		"/<x>\"%7e":     "/%3Cx%3E%22%7e",
		"/caf\xe9":      "/caf%E9",
		"/x?q=é b":      "/x?q=%C3%A9%20b",
		"/a%2Fb|c\\d^e": "/a%2Fb%7Cc%5Cd%5Ee",
	} {
		if got := requested(t, []string{p}); !slices.Equal(got, []string{want}) {
			t.Errorf("%s: the request line has %q, want %q", p, got, want)
		}
	}
}

// A redirect to another host that is allowed is followed, without the credentials of
// the first.
func TestQuirk_43(t *testing.T) {
	w := newWeb(t, func(rw http.ResponseWriter, r *http.Request) {
		if r.Host == "www.example.com" {
			http.Redirect(rw, r, "http://data.example.com/x", http.StatusFound)
		}
	})
	o := w.options()
	o.AllowOrigins = []string{"http://data.example.com"}
	o.Credentials = []fetch.Credential{{Origin: "http://www.example.com", Header: http.Header{"Authorization": {"Bearer secret"}}}}
	c := client(t, o)
	if _, err := read(t.Context(), c, "http://www.example.com/x"); err != nil {
		t.Fatal(err)
	}
	for origin, want := range map[string]string{"http://www.example.com": "Bearer secret", "http://data.example.com": ""} {
		if sent := w.at(origin); len(sent) != 1 || sent[0].Get("Authorization") != want {
			t.Errorf("sent to %s: got %v, want one request with credentials %q", origin, sent, want)
		}
	}
}
