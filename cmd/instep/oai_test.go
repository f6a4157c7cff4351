//go:build unix

package main

import (
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"instep/internal/oaipmh/oaipmhtest"
)

// repositoryDay is when the records of tests begin.
var repositoryDay = time.Date(2024, 5, 1, 0, 0, 0, 0, time.UTC)

// harvester publishes a repository and mirrors what is published.
type harvester struct {
	t          *testing.T
	repository *oaipmhtest.Repository
	from       string // the value of --from
	dir        string
	base       string // URL
}

func newHarvester(t *testing.T, p *oaipmhtest.Repository) *harvester {
	t.Helper()
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	h := &harvester{t: t, repository: p, from: "oai+" + server.URL + "/oai", dir: t.TempDir()}
	if err := os.MkdirAll(h.path("site"), 0o755); err != nil {
		t.Fatal(err)
	}
	h.base, _ = serveSite(t, h.path("site"))
	return h
}

func (h *harvester) path(name string) string { return filepath.Join(h.dir, name) }

func (h *harvester) args(more ...string) []string {
	return append([]string{"publish", h.path("site"), "--from", h.from, "--base-url", h.base + "/", "--state", h.path("state")}, more...)
}

func (h *harvester) publish(more ...string) outcome { return mustDo(h.t, h.args(more...)...) }

func (h *harvester) sync() { mustDo(h.t, "sync", h.base, h.path("mirror")) }

// titles are the titles of the records in a directory, each with how often it is there.
func titles(t *testing.T, dir string) map[string]int {
	t.Helper()
	found := map[string]int{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == ".instep" { // the trash is there
			return fs.SkipDir
		}
		if err != nil || d.IsDir() || !strings.Contains(path, "/records/") || filepath.Ext(path) != ".xml" {
			return err
		}
		text, err := os.ReadFile(path)
		_, title, _ := strings.Cut(string(text), "<dc:title>")
		title, _, _ = strings.Cut(title, "</dc:title>")
		found[title]++
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// same compares a directory with what the repository has.
func (h *harvester) same(dir string) {
	h.t.Helper()
	got := titles(h.t, h.path(dir))
	h.repository.Lock()
	defer h.repository.Unlock()
	n := 0
	for _, r := range h.repository.Records {
		if r.Deleted {
			continue
		}
		if n++; got[r.Title] != 1 {
			h.t.Errorf("%s has the record %q %d times", dir, r.Title, got[r.Title])
		}
	}
	if len(got) != n {
		h.t.Errorf("%s has %d records, want %d", dir, len(got), n)
	}
}

func TestPublishFromOAI(t *testing.T) {
	p := &oaipmhtest.Repository{Now: repositoryDay.Add(30 * 24 * time.Hour)}
	p.Fill(350, repositoryDay)
	h := newHarvester(t, p)
	h.publish()
	h.sync()
	h.same("mirror")

	late := repositoryDay.Add(29 * 24 * time.Hour)
	p.Put(oaipmhtest.Record{Identifier: "oai:example.org:7", Datestamp: late, Title: "Another title"})
	p.Put(oaipmhtest.Record{Identifier: "oai:example.org:8", Datestamp: late, Deleted: true})
	p.Put(oaipmhtest.Record{Identifier: "oai:example.org:New/1", Datestamp: late, Title: "New"})
	before := len(p.Requests())
	h.publish()
	if requests := p.Requests()[before:]; len(requests) > 6 || !slices.ContainsFunc(requests, func(q string) bool { return strings.Contains(q, "from=2024-04-30T00%3A05%3A50Z") }) {
		t.Errorf("the second harvest asked %q; want those from a day before the last datestamp", requests)
	}
	h.sync()
	h.same("mirror")
	h.same("site")
}

// The harvest goes on where it was killed, and loses and repeats nothing.
func TestKilledHarvestGoesOn(t *testing.T) {
	rounds := 20
	p := &oaipmhtest.Repository{Now: repositoryDay.Add(30 * 24 * time.Hour), PageSize: 25}
	p.Fill(3000, repositoryDay)
	h := newHarvester(t, p)
	kills := 0
	for i := range 10 * rounds {
		if kills == rounds {
			break
		}
		if !killed(t, time.Duration(60+i*3)*time.Millisecond, h.args()...) {
			late := repositoryDay.Add(time.Duration(24+i) * time.Hour)
			for n := range 150 { // it was published: more to harvest
				p.Put(oaipmhtest.Record{Identifier: fmt.Sprintf("oai:example.org:%d", 20*n+1), Datestamp: late, Title: fmt.Sprintf("Title %d of %d", n, i)})
			}
			continue
		}
		kills++
	}
	if kills < rounds {
		t.Fatalf("it was killed %d times, want %d", kills, rounds)
	}
	h.publish()
	h.sync()
	h.same("site")
	h.same("mirror")
	if left := leftovers(t, h.path("site/.instep/records")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// A repository goes through ResourceSync into a mirror: whole, then with changes,
// deletions and new records, and what arrives is what the repository has, byte for byte
// what is published.
func TestOAIRing(t *testing.T) {
	n := 2000
	if os.Getenv("INSTEP_LONG") != "" {
		n = 100_000
	}
	p := &oaipmhtest.Repository{Now: repositoryDay.Add(90 * 24 * time.Hour), PageSize: 500}
	p.Fill(n, repositoryDay)
	h := newHarvester(t, p)
	mark := time.Now()
	phase := func(what string) {
		t.Logf("%s: %v", what, time.Since(mark).Round(time.Millisecond))
		mark = time.Now()
	}
	o := h.publish()
	phase(fmt.Sprintf("published the first time, at most %d MB", o.peak>>20))
	h.sync()
	phase("mirrored")
	h.same("mirror")

	p.Lock()
	late := repositoryDay.Add(60 * 24 * time.Hour)
	for i := range p.Records {
		r := &p.Records[i]
		switch {
		case i%20 == 3:
			r.Datestamp, r.Title = late, fmt.Sprintf("Another title %d", i)
		case i%20 == 7:
			r.Datestamp, r.Deleted = late, true
		}
	}
	for i := range n / 50 {
		p.Records = append(p.Records, oaipmhtest.Record{Identifier: fmt.Sprintf("oai:example.org:new/%d", i), Datestamp: late, Title: fmt.Sprintf("New %d", i)})
	}
	p.Changed()
	p.Unlock()
	mark = time.Now()
	o = h.publish()
	phase(fmt.Sprintf("published the changes, at most %d MB", o.peak>>20))
	if want := fmt.Sprint(n/50, n/20, n/20); fmt.Sprint(*o.Created, *o.Updated, *o.Deleted) != want {
		t.Errorf("created, updated, deleted: %d %d %d, want %s", *o.Created, *o.Updated, *o.Deleted, want)
	}
	h.sync()
	phase("mirrored")
	h.same("mirror")
	h.same("site")
	mustDo(t, "audit", h.base, h.path("mirror"))
	phase("audited")
}

// With --with-files the files that records link to are resources too: by a link to the
// file itself, and by the items of a landing page, in its header and in its head.
func TestPublishFromOAIWithFiles(t *testing.T) {
	p := &oaipmhtest.Repository{Now: repositoryDay.Add(30 * 24 * time.Hour)}
	p.Fill(5, repositoryDay)
	var mu sync.Mutex
	var asked []string
	mux := http.NewServeMux()
	mux.Handle("/oai", p)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked = append(asked, r.URL.Path)
		mu.Unlock()
		switch r.URL.Path {
		case "/page/2":
			w.Header().Add("Link", `</files/2a.pdf>; rel="item"; type="application/pdf", </>; rel="collection"`)
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, `<html><head><link rel="item" href="../files/2b.txt" type="text/plain"><link rel="item" href="https://elsewhere.example.org/x"></head></html>`)
		case "/page/3":
			http.NotFound(w, r)
		default:
			w.Header().Set("Content-Type", "application/pdf")
			w.Header().Set("Last-Modified", "Mon, 06 May 2024 07:08:09 GMT")
			fmt.Fprintf(w, "the bytes of %s", r.URL.Path)
		}
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	for i, link := range []string{"/files/1.pdf", "/page/2", "/page/3"} {
		p.Records[i].Link = server.URL + link
	}
	p.Records[3].Link = "https://doi.example.org/10.1/4"
	h := newHarvester(t, p)
	h.from = "oai+" + server.URL + "/oai"
	list := func() (files []string) {
		text, err := os.ReadFile(h.path("site/resourcesync/resourcelist.xml"))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if _, file, ok := strings.Cut(line, "<loc>"+server.URL); ok {
				files = append(files, strings.TrimSuffix(strings.TrimSpace(file), "</loc>"))
			}
		}
		slices.Sort(files)
		return files
	}
	o := instep(t, h.args("--with-files")...)
	if o.code != 4 {
		t.Errorf("exit code %d, want 4 for a page that is not there", o.code)
	}
	var said strings.Builder
	for _, r := range o.records {
		fmt.Fprintln(&said, r.Message)
	}
	for _, want := range []string{"/page/3", "1 link of records to https://doi.example.org;", "https://elsewhere.example.org"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("%q is not said:\n%s", want, said.String())
		}
	}
	if got, want := fmt.Sprint(list()), "[/files/1.pdf /files/2a.pdf /files/2b.txt]"; got != want {
		t.Errorf("files published: %s, want %s", got, want)
	}

	asked = nil
	p.Put(oaipmhtest.Record{Identifier: "oai:example.org:2", Datestamp: repositoryDay.Add(time.Hour), Deleted: true})
	p.Put(oaipmhtest.Record{Identifier: "oai:example.org:3", Datestamp: repositoryDay.Add(time.Hour), Title: "No link"})
	mustDo(t, h.args("--with-files", "--max-delete", "100%")...)
	if got := fmt.Sprint(list()); got != "[/files/1.pdf]" || len(asked) > 0 {
		t.Errorf("files published: %s; asked for again: %q", got, asked)
	}
}
