package fetch_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"instep/fetch"
)

// TestStrayPercentStandsForItself: only a percent sign that begins no escape is mended,
// and only in a path or a fragment; nothing else passes that did not pass before.
func TestStrayPercentStandsForItself(t *testing.T) {
	for raw, want := range map[string]string{
		"http://h.example/100%.txt":        "http://h.example/100%25.txt",
		"http://h.example/100%":            "http://h.example/100%25",
		"http://h.example/a%4/b%zz%25%c3":  "http://h.example/a%254/b%25zz%25%c3",
		"http://h.example/%%41":            "http://h.example/%25%41",
		"http://h.example/%2F%":            "http://h.example/%2F%25",
		"http://h.example/a?q=100%&r=%2":   "http://h.example/a?q=100%&r=%2",
		"http://h.example/50%?q=100%#1%":   "http://h.example/50%25?q=100%",
		"http://h.example/a//b%/c":         "http://h.example/a//b%25/c",
		"http://h.example/%41%2f":          "http://h.example/%41%2f",
		"http://h%.example/":               "",
		"http://h.example%/100%.txt":       "",
		"http://[fe80::1%eth0]/100%.txt":   "",
		"http://us%er@h.example/100%.txt":  "",
		"http://h.example:8%30/100%.txt":   "",
		"http://h.example/100%\n.txt":      "",
		"http://h.example/100%\x7f.txt":    "",
		"http://h.example/100%\u009b.txt":  "",
		"ftp://h.example/100%.txt":         "",
		"http%://h.example/":               "",
		"http://h.example/100% of it.txt":  "http://h.example/100%25%20of%20it.txt",
		"http://h.example/100%\u00e9.txt":  "http://h.example/100%25%C3%A9.txt",
		"http://h.example/\u202e100%.txt ": "http://h.example/%E2%80%AE100%25.txt%20",
	} {
		u, err := fetch.Parse(raw)
		switch {
		case want == "" && err == nil:
			t.Errorf("%q: got %q, want it refused", raw, u)
		case want != "" && (err != nil || u.String() != want):
			t.Errorf("%q: got %v, %v; want %q", raw, u, err, want)
		}
	}
}

// A redirect may point to such a URI, too.
func TestStrayPercentInARedirect(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/dir/100%.txt" {
			_, _ = w.Write([]byte("hello"))
			return
		}
		w.Header().Set("Location", "100%.txt")
		w.WriteHeader(http.StatusFound)
	}))
	defer srv.Close()
	c, err := fetch.New(fetch.Options{MaxRetries: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.TrustSource(t.Context(), srv.URL); err != nil {
		t.Fatal(err)
	}
	resp, err := c.Get(t.Context(), fetch.Request{URL: srv.URL + "/dir/start"})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if want := srv.URL + "/dir/100%25.txt"; resp.URL != want {
		t.Errorf("got %q, want %q", resp.URL, want)
	}
}
