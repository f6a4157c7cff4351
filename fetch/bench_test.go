package fetch_test

import (
	"io"
	"net/http"
	"testing"

	"instep/fetch"
)

// BenchmarkGet gets a small file over one loopback connection, with the client of
// net/http beside it as the measure.
func BenchmarkGet(b *testing.B) {
	content := make([]byte, 4<<10)
	s := serve(b, func(w http.ResponseWriter, r *http.Request) { w.Write(content) })
	b.Run("fetch", func(b *testing.B) {
		c := client(b, fetch.Options{}, s)
		b.ReportAllocs()
		for b.Loop() {
			resp, err := c.Get(b.Context(), fetch.Request{URL: s.URL + "/file"})
			if err != nil {
				b.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, resp.Body); err != nil {
				b.Fatal(err)
			}
			resp.Body.Close()
		}
	})
	b.Run("net-http", func(b *testing.B) {
		c := &http.Client{Transport: &http.Transport{DisableCompression: true}}
		defer c.CloseIdleConnections()
		b.ReportAllocs()
		for b.Loop() {
			resp, err := c.Get(s.URL + "/file")
			if err != nil {
				b.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, resp.Body); err != nil {
				b.Fatal(err)
			}
			resp.Body.Close()
		}
	})
}
