//go:build unix

package main

import (
	"bytes"
	"fmt"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"testing"
)

// A WEKO of a thousand records names a package for each of them, in two dumps: none is asked for, and
// neither is said of each. Nor are its Resource Lists a reason to request anything again: they have no at, and are
// read in each run.
func TestWEKOOfAThousandRecords(t *testing.T) {
	const records = 1000
	s := newForeignSite(t, &wekoShape)
	some := s.resources
	s.resources = nil
	for n := range records {
		r := some[n%len(some)]
		r.path = wekoShape.path(n + 1)
		s.resources = append(s.resources, r)
	}
	var requests atomic.Int64
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		s.ServeHTTP(w, r)
	})
	dir := filepath.Join(t.TempDir(), "mirror")
	for run, most := range []int64{1100, 8, 8} {
		requests.Store(0)
		cmd := command(t, "sync", s.URL+wekoShape.start, dir)
		out, err := cmd.CombinedOutput()
		code, lines := cmd.ProcessState.ExitCode(), bytes.Count(out, []byte("\n"))
		t.Logf("run %d: exit %d, %d requests, %d lines", run, code, requests.Load(), lines)
		if n := requests.Load(); code != 0 || n > most || lines > 20 {
			t.Errorf("run %d: exit %d, %d requests (at most %d), %d lines (at most 20):\n%v\n%s", run, code, n, most, lines, err, out)
		}
	}
	if got, want := s.files(t, dir), fmt.Sprintf("%d of %[1]d, 0 more", records); got != want {
		t.Errorf("files: got %s, want %s", got, want)
	}
}
