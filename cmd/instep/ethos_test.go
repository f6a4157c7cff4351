//go:build unix

package main

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// The British Library's EThOS published 654,832 theses in one document of 88 MB, thirteen times as
// many as the standard allows. This is such a Source.
type ethos struct {
	*httptest.Server
	n int // resources
}

// ethosEntries is how many entries EThOS had.
const ethosEntries = 654_832

func newEThOS(t *testing.T, n int) *ethos {
	s := &ethos{n: n}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *ethos) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	const part = `<url><loc>%[1]s/%[2]s.xml</loc><rs:md capability="%[2]s"/></url>`
	switch r.URL.Path {
	case "/capabilitylist.xml":
		s.document(w, `capability="capabilitylist"`, func(w io.Writer) {
			fmt.Fprintf(w, part, s.URL, "resourcelist")
		})
	case "/resourcelist.xml":
		s.document(w, `capability="resourcelist" at="2016-01-01T00:00:00Z"`, s.entries)
	default:
		var i int
		if _, err := fmt.Sscanf(r.URL.Path, "/id/%d", &i); err != nil {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, thesis(i))
	}
}

func thesis(i int) string { return fmt.Sprintf("thesis %d", i%1000) }

func (s *ethos) document(w http.ResponseWriter, md string, entries func(io.Writer)) {
	out := bufio.NewWriterSize(w, 64<<10)
	fmt.Fprintf(out, `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/"><rs:md %s/><rs:ln rel="up" href="%s/capabilitylist.xml"/>`, md, s.URL)
	entries(out)
	_, _ = io.WriteString(out, "</urlset>")
	_ = out.Flush()
}

func (s *ethos) entries(w io.Writer) {
	for i := range s.n {
		text := thesis(i)
		fmt.Fprintf(w, "<url><loc>%s/id/%d</loc><rs:md hash=\"sha-256:%x\" length=\"%d\"/></url>\n", s.URL, i, sha256.Sum256([]byte(text)), len(text))
	}
}

// What a run may take more for documents of ethosEntries than for those of 50,000 entries, in
// bytes: a plan, which is what reads them, and a whole run, whose catalog is larger. What either
// keeps in memory is bounded, but 50,000 resources do not fill it.
const (
	longPlan = 40_000_000
	longRun  = 200_000_000
)

// TestOneLongListTakesTheMemoryOfAShortOne mirrors EThOS by one list, and audits it.
func TestOneLongListTakesTheMemoryOfAShortOne(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: a mirror of 654,832 resources takes minutes; run without -short")
	}
	short, long := followEThOS(t, 50_000), followEThOS(t, ethosEntries)
	for what, peak := range long {
		t.Logf("%s: peak memory %.1f MB, %.1f MB with 50,000 entries", what, float64(peak)/1e6, float64(short[what])/1e6)
		most := short[what] + longRun
		if strings.HasPrefix(what, "plan") {
			most = short[what] + longPlan
		}
		if peak > most {
			t.Errorf("%s: peak memory %.1f MB, want at most %.1f", what, float64(peak)/1e6, float64(most)/1e6)
		}
	}
}

// followEThOS returns the memory that each step took.
func followEThOS(t *testing.T, n int) (peaks map[string]int64) {
	s := newEThOS(t, n)
	dir := t.TempDir()
	peaks = map[string]int64{}
	do := func(what string, args ...string) outcome {
		o := instep(t, append(args, s.URL+"/capabilitylist.xml", dir)...)
		peaks[what] = max(peaks[what], o.peak)
		t.Logf("%d entries, %s: %.1f s, exit code %d, %.1f MB", n, what, *o.Seconds, o.code, float64(o.peak)/1e6)
		if o.code != 0 && o.code != 1 {
			t.Fatalf("%s: exit code %d\n%s", what, o.code, o.stderr)
		}
		return o
	}
	if o := do("plan of the baseline", "sync", "-n"); *o.Created != int64(n) {
		t.Fatalf("plan of the baseline: %+v", o.summary)
	}
	if o := do("baseline", "sync"); *o.Created != int64(n) || o.code != 0 {
		t.Fatalf("baseline: %+v\n%s", o.summary, o.stderr)
	}
	if o := do("audit", "audit"); *o.Same != int64(n) || o.code != 0 {
		t.Errorf("audit: %+v\n%s", o.summary, o.stderr)
	}
	return peaks
}
