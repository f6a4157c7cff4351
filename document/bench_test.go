package document_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"instep/document"
	"instep/fetch"
)

// A full Resource List, over HTTP.
func BenchmarkRead(b *testing.B) {
	var all []string
	for i := range 50_000 {
		all = append(all, fmt.Sprintf(`http://example.org/resources/%d</loc><lastmod>2020-01-01T00:00:00Z</lastmod><rs:md hash="sha-256:%064x" length="8876" type="text/html"/><loc>`, i, i))
	}
	text := strings.ReplaceAll(list(all...), "<loc></loc>", "")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) }))
	defer server.Close()
	client, err := fetch.New(fetch.Options{AllowPrivate: []string{server.Listener.Addr().String()}})
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(text)))
	r := document.Reader{From: client, Spool: b.TempDir()}
	for b.Loop() {
		d, err := r.Read(b.Context(), server.URL)
		if err != nil {
			b.Fatal(err)
		}
		d.Close()
	}
}
