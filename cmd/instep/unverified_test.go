//go:build unix

package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestUnverifiedIsSaid: bytes that nothing proves are counted in the summary, for people
// and for programs, and in the report of the run; a run that brings none counts none.
func TestUnverifiedIsSaid(t *testing.T) {
	bare := func(h *hostile, path string) string {
		return `<url><loc>` + h.URL + path + `</loc><lastmod>` + at + `</lastmod></url>`
	}
	h := newHostile(t)
	h.mux.HandleFunc("/ranged", raw("HTTP/1.1 200 OK\r\nContent-Range: bytes 0-3/9\r\nContent-Length: 4\r\n\r\npart"))
	h.mux.HandleFunc("/cut", raw("HTTP/1.0 200 OK\r\n\r\npart"))
	h.mux.HandleFunc("/longer", raw("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npart and the rest"))
	h.give("/proved", "proved")
	h.site(urlset(resourceList, bare(h, "/ranged"), bare(h, "/cut"), bare(h, "/longer"), listed(h.URL+"/proved", "proved")))
	dir := t.TempDir()
	o := mustDo(t, "sync", h.URL, filepath.Join(dir, "json"))
	if o.Unverified == nil || *o.Unverified != 3 || *o.Created != 4 {
		t.Errorf("summary: %+v; want 3 of 4 unverified", o.summary)
	}
	text := filepath.Join(dir, "text")
	var stdout, stderr strings.Builder
	cmd := command(t, "sync", h.URL, text)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"status 200 and a Content-Range, " + h.URL + "/ranged", "end of the connection, " + h.URL + "/cut", "3 resources unverified"} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("told: %s\nwant %q", stderr.String(), want)
		}
	}
	if !strings.Contains(stdout.String(), "failed=0, unverified=3)") {
		t.Errorf("got %s%s", stdout.String(), stderr.String())
	}
	for format, count := range map[string]string{"text": "unverified=3", "html": "3 unverified", "json": `"unverified":3`} {
		if r := attempt(t, "report", "--format", format, text); r.code != 0 || !strings.Contains(r.stdout, count) {
			t.Errorf("report in %s: %d\n%s%s", format, r.code, r.stdout, r.stderr)
		}
	}
	if o := mustDo(t, "sync", h.URL, text); *o.Unverified != 0 {
		t.Errorf("once more: %d unverified, want none brought", *o.Unverified)
	}
	if o := mustDo(t, "audit", h.URL, text); *o.Unverifiable != 3 || *o.Same != 1 {
		t.Errorf("audit: %+v", o.summary)
	}
}
