package fetch_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"instep/fetch"
)

// client returns a Client that may dial the servers given.
func client(t *testing.T, o fetch.Options, servers ...*httptest.Server) *fetch.Client {
	t.Helper()
	for _, s := range servers {
		o.AllowPrivate = append(o.AllowPrivate, s.Listener.Addr().String())
	}
	c, err := fetch.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func serve(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

func TestGetReturnsTheBodyAndItsValidators(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"1"`)
		w.Header().Set("Content-Type", "text/plain")
		io.WriteString(w, "hello")
	})
	c := client(t, fetch.Options{}, s)
	resp, err := c.Get(context.Background(), fetch.Request{URL: s.URL + "/x"})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(b); got != "hello" {
		t.Errorf("body %q, want hello", got)
	}
	if got, want := resp.Validators, (fetch.Validators{ETag: `"1"`}); got != want {
		t.Errorf("validators %v, want %v", got, want)
	}
	if resp.ContentLength != 5 || resp.ContentType != "text/plain" || resp.Requests != 1 || !strings.HasSuffix(resp.URL, "/x") {
		t.Errorf("got %+v", resp)
	}
}
