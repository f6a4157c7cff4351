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
	"sync/atomic"
	"testing"
)

// linkedSource is a Source of n resources with some links each, told by a Resource List
// and, since generation 1, by a Change List too; both are in parts.
type linkedSource struct {
	*httptest.Server
	n, links   int
	generation atomic.Int64
	fetched    atomic.Int64 // resources
}

// linkedPart is how many entries a part has.
const linkedPart = 2000

func newLinkedSource(t *testing.T, n, links int) *linkedSource {
	s := &linkedSource{n: n, links: links}
	mux := http.NewServeMux()
	mux.HandleFunc("/capabilitylist.xml", func(w http.ResponseWriter, _ *http.Request) {
		s.document(w, "urlset", `capability="capabilitylist"`, func(w io.Writer) {
			fmt.Fprintf(w, `<url><loc>%s/list.xml</loc><rs:md capability="resourcelist"/></url><url><loc>%[1]s/changes.xml</loc><rs:md capability="changelist"/></url>`, s.URL)
		})
	})
	mux.HandleFunc("/list.xml", func(w http.ResponseWriter, _ *http.Request) {
		s.document(w, "sitemapindex", `capability="resourcelist" at="2024-03-01T00:00:00Z"`, func(w io.Writer) {
			for i := 0; i < s.n; i += linkedPart {
				fmt.Fprintf(w, `<sitemap><loc>%s/list/%d</loc><rs:md at="2024-03-01T00:00:00Z"/></sitemap>`, s.URL, i)
			}
		})
	})
	mux.HandleFunc("/list/", func(w http.ResponseWriter, r *http.Request) {
		s.part(w, r, `capability="resourcelist" at="2024-03-01T00:00:00Z"`, "")
	})
	mux.HandleFunc("/changes.xml", func(w http.ResponseWriter, _ *http.Request) {
		s.document(w, "sitemapindex", `capability="changelist" from="2024-03-01T00:00:00Z"`, func(w io.Writer) {
			if s.generation.Load() == 0 {
				fmt.Fprintf(w, `<sitemap><loc>%s/changes/%d</loc><rs:md from="2024-03-01T00:00:00Z"/></sitemap>`, s.URL, s.n)
				return
			}
			for i := 0; i < s.n; i += linkedPart {
				fmt.Fprintf(w, `<sitemap><loc>%s/changes/%d</loc><rs:md %s/></sitemap>`, s.URL, i, s.window(i))
			}
		})
	})
	mux.HandleFunc("/changes/", func(w http.ResponseWriter, r *http.Request) {
		s.part(w, r, `capability="changelist" `, `change="updated" datetime="2024-03-01T%s.5Z"`)
	})
	mux.HandleFunc("/r/", func(w http.ResponseWriter, r *http.Request) {
		s.fetched.Add(1)
		_, _ = io.WriteString(w, r.URL.Path)
	})
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

// clock is a time of day: one second for each part.
func clock(part int) string { return fmt.Sprintf("%02d:%02d:%02d", part/3600, part/60%60, part%60) }

// window are from and until of the Change List that begins with entry i.
func (s *linkedSource) window(i int) string {
	if i == s.n { // of the first generation
		return `from="2024-03-01T00:00:00Z"`
	}
	from := fmt.Sprintf(`from="2024-03-01T%sZ"`, clock(i/linkedPart))
	if i+linkedPart >= s.n {
		return from
	}
	return from + fmt.Sprintf(` until="2024-03-01T%sZ"`, clock(i/linkedPart+1))
}

func (s *linkedSource) document(w io.Writer, root, md string, body func(io.Writer)) {
	b := bufio.NewWriterSize(w, 1<<16)
	fmt.Fprintf(b, `<%s xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/"><rs:md %s/>`, root, md)
	body(b)
	fmt.Fprintf(b, "</%s>\n", root)
	_ = b.Flush() // a reader that is gone
}

// part writes some entries. The links of each generation are others.
func (s *linkedSource) part(w io.Writer, r *http.Request, md, change string) {
	var first int
	if _, err := fmt.Sscan(r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:], &first); err != nil {
		panic(err)
	}
	if change != "" {
		md += s.window(first)
		change = fmt.Sprintf(change, clock(first/linkedPart))
	}
	s.document(w, "urlset", md, func(w io.Writer) {
		for i := first; i < min(first+linkedPart, s.n); i++ {
			path := fmt.Sprintf("/r/%d/%d", i%100, i)
			fmt.Fprintf(w, `<url><loc>%s%s</loc><rs:md %s hash="sha-256:%x" length="%d"/>`, s.URL, path, change, sha256.Sum256([]byte(path)), len(path))
			for n := range s.links {
				fmt.Fprintf(w, `<rs:ln rel="collection" href="%s/c/%d/%d" type="text/turtle"/>`, s.URL, s.generation.Load(), i*n)
			}
			_, _ = io.WriteString(w, "</url>")
		}
	})
}

// linkedMore is how much more memory a run may take for a Source whose resources have 100
// links each than for one whose resources have none, in bytes: what is looked up, compared
// and committed together has them. In one of 50,000 they are 400 MB.
const linkedMore = 100_000_000

// The Source decides how many links its resources have: a mirror keeps them without having
// those of many in memory. Where only links change no bytes are fetched, and a run to which
// nothing new is said writes nothing.
func TestLinksOfManyResourcesTakeLittleMemory(t *testing.T) {
	n := 50_000
	if testing.Short() {
		n = 2000
	}
	without := followLinks(t, n, 0)
	with := followLinks(t, n, 100)
	for what, peak := range with {
		t.Logf("%s: peak memory %.1f MB, %.1f MB without links", what, float64(peak)/1e6, float64(without[what])/1e6)
		if peak > without[what]+linkedMore {
			t.Errorf("%s: peak memory %.1f MB, want at most %.1f", what, float64(peak)/1e6, float64(without[what]+linkedMore)/1e6)
		}
	}
}

// followLinks mirrors a Source and follows it, and returns the memory that each step took.
func followLinks(t *testing.T, n, links int) (peaks map[string]int64) {
	s := newLinkedSource(t, n, links)
	dir := t.TempDir()
	peaks = map[string]int64{}
	sync := func(what string) outcome {
		o := mustDo(t, "sync", s.URL+"/capabilitylist.xml", dir)
		t.Logf("%d links each, %s: %.1f s", links, what, *o.Seconds)
		peaks[what] = o.peak
		return o
	}
	if o := sync("baseline by Resource List"); *o.Created != int64(n) {
		t.Fatalf("baseline: %+v", o.summary)
	}
	peaks["export"] = s.wantLinks(t, dir, 0)
	s.generation.Store(1)
	s.fetched.Store(0)
	if o := sync("increment by Change List"); *o.Same != int64(n) || *o.Created+*o.Updated+*o.Deleted != 0 {
		t.Fatalf("increment: %+v", o.summary)
	}
	s.wantLinks(t, dir, 1)
	if o := sync("idle run"); *o.Same != int64(n) || *o.Created+*o.Updated+*o.Deleted != 0 {
		t.Fatalf("idle run: %+v", o.summary)
	}
	if f := s.fetched.Load(); f != 0 {
		t.Errorf("%d resources were fetched though their bytes are as they were", f)
	}
	return peaks
}

// wantLinks checks in an export that all resources have the links of a generation, and
// returns the memory that the export took.
func (s *linkedSource) wantLinks(t *testing.T, dir string, generation int) int64 {
	t.Helper()
	cmd := command(t, "export", dir, "--format", "json")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	whole, link := 0, fmt.Sprintf(`{"rel":"collection","href":"%s/c/%d/`, s.URL, generation)
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if text := lines.Text(); strings.Contains(text, `"type":"resource"`) && strings.Count(text, link) == s.links {
			whole++
		}
	}
	if err := cmd.Wait(); err != nil || lines.Err() != nil || whole != s.n {
		t.Fatalf("%d of %d resources have the links of generation %d; %v, %v", whole, s.n, generation, err, lines.Err())
	}
	return peakMemory(cmd)
}
