package source

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/fstest"
	"time"
)

func TestQualityOfATypeIsThatOfTheMostSpecificRange(t *testing.T) {
	for _, tt := range []struct {
		accept    []string
		mediaType string
		want      int
	}{
		{nil, "text/html", 1000},
		{[]string{""}, "text/html", 1000},
		{[]string{"nonsense, ;, q=1"}, "text/html", 1000},
		{[]string{"text/html"}, "text/html; charset=utf-8", 1000},
		{[]string{"TEXT/HTML;q=0.5"}, "text/html", 500},
		{[]string{"text/html"}, "application/pdf", 0},
		{[]string{"*/*;q=0.1, application/pdf"}, "text/html", 100},
		{[]string{"text/*;q=0.3", "text/html;q=0.7, */*"}, "text/html", 700},
		{[]string{"text/*;q=0.3, */*"}, "text/plain", 300},
		{[]string{"text/html;q=0, */*"}, "text/html", 0},
		{[]string{"text/html;q=2, text/html;q=NaN, text/html;q=-1, text/plain"}, "text/html", 0},
	} {
		if got := quality(mediaRanges(tt.accept), tt.mediaType); got != tt.want {
			t.Errorf("%q: %s has %d, want %d", tt.accept, tt.mediaType, got, tt.want)
		}
	}
}

func FuzzMediaRanges(f *testing.F) {
	f.Add("text/html, application/xml;q=0.9, */*;q=0.8")
	f.Fuzz(func(t *testing.T, accept string) {
		ranges := mediaRanges([]string{accept})
		if len(ranges) == 0 || len(ranges) > maxAccept {
			t.Fatalf("%d ranges", len(ranges))
		}
		if q := quality(ranges, "text/html"); q < 0 || q > 1000 {
			t.Fatalf("quality %d", q)
		}
	})
}

// Two representations with the same length and time have different tags, so that a cache does
// not take one for the other, and a request by the tag of one is not answered with 304 for the
// other.
func TestRepresentationsOfAGenericURIHaveTagsOfTheirOwn(t *testing.T) {
	now := time.Date(2024, 5, 1, 0, 0, 0, 0, time.UTC)
	files := fstest.MapFS{"d/a.html": {Data: []byte("same"), ModTime: now}, "d/a.pdf": {Data: []byte("size"), ModTime: now}}
	h := NewHandler(HandlerOptions{Dirs: []fs.FS{files}, Prefix: "/base/", Representations: func(path string) []string {
		return []string{path + ".html", path + ".pdf", path + ".txt", "../" + path, "d/.hidden"}
	}})
	ask := func(name, accept, tag string) *http.Response {
		r := httptest.NewRequest(http.MethodGet, "http://example.org/base/"+name, nil)
		r.Header.Set("Accept", accept)
		r.Header.Set("If-None-Match", tag)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Result()
	}
	html := ask("d/a", "text/html", "").Header.Get("ETag")
	for _, tt := range []struct {
		name, accept, tag string
		status            int
		location          string
	}{
		{"d/a", "text/html", html, http.StatusNotModified, "/base/d/a.html"},
		{"d/a", "application/pdf", html, http.StatusOK, "/base/d/a.pdf"},
		{"d/a.html", "application/pdf", html, http.StatusOK, ""},
		{"d/a", "image/png", "", http.StatusNotAcceptable, ""},
		{"d/b", "text/html", "", http.StatusNotFound, ""},
	} {
		got := ask(tt.name, tt.accept, tt.tag)
		if got.StatusCode != tt.status || got.Header.Get("Content-Location") != tt.location {
			t.Errorf("%+v: got %d, %q", tt, got.StatusCode, got.Header.Get("Content-Location"))
		}
	}
}
