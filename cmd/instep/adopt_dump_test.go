//go:build unix

package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// Where the files are here already, no package is transferred for them.
func TestAdoptTransfersNoPackage(t *testing.T) {
	site, copied := t.TempDir(), t.TempDir()
	for _, dir := range []string{site, copied} {
		if err := os.WriteFile(filepath.Join(dir, "a.txt"), []byte("text"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var packages atomic.Int64
	files := http.FileServer(http.Dir(site))
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, ".zip") {
			packages.Add(1)
		}
		files.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	if o := instep(t, "publish", site, "--dump", "--base-url", srv.URL+"/"); o.code != 0 {
		t.Fatalf("publish ended with %d: %s", o.code, o.stderr)
	}
	o := instep(t, "sync", "--adopt", srv.URL+"/", copied)
	if o.code != 0 || o.summary.Created == nil || *o.summary.Created != 1 {
		t.Fatalf("sync ended with %d, %+v: %s", o.code, o.summary, o.stderr)
	}
	if n := packages.Load(); n != 0 {
		t.Errorf("requests for packages: got %d, want none", n)
	}
}
