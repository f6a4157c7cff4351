//go:build unix

package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A shape is how a Source that is not ours writes its documents.
type shape struct {
	name  string
	says  string // what is peculiar about it
	start string // what sync is given, below the base URL
	token string // a Bearer token that it wants to see, "" for none
	serve func(s *foreignSite, out http.ResponseWriter, r *http.Request) bool
	// what the steps have to show
	baseline, incremental, audit string
}

// foreignSite is a Source with six resources, as some program publishes them.
type foreignSite struct {
	*httptest.Server
	shape *shape

	mu        sync.Mutex // guards the rest
	at        time.Time
	resources []foreignResource
	changes   []foreignResource
}

type foreignResource struct {
	path, body string
	when       time.Time
	change     string
}

// foreignStart is when the first lists were made.
var foreignStart = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func newForeignSite(t *testing.T, sh *shape) *foreignSite {
	t.Helper()
	s := &foreignSite{shape: sh, at: foreignStart}
	for i := range 6 {
		s.resources = append(s.resources, foreignResource{
			path: fmt.Sprintf("/records/%d.xml", i+1), body: strings.Repeat(fmt.Sprintf("<record>%d</record>\n", i+1), i+1),
			when: foreignStart.Add(-time.Duration(100-i) * time.Hour),
		})
	}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *foreignSite) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.shape.token; t != "" && r.Header.Get("Authorization") != "Bearer "+t {
		http.Error(out, "bad token", http.StatusUnauthorized)
		return
	}
	if s.shape.serve(s, out, r) {
		return
	}
	for _, res := range s.resources {
		if r.URL.RequestURI() == res.path {
			out.Header().Set("Content-Type", "application/xml")
			_, _ = fmt.Fprint(out, res.body)
			return
		}
	}
	http.NotFound(out, r)
}

// change creates, updates and deletes a resource, an hour apart.
func (s *foreignSite) change() {
	s.mu.Lock()
	defer s.mu.Unlock()
	created := foreignResource{"/records/7.xml", "<record>7</record>\n", s.at.Add(time.Hour), "created"}
	updated := foreignResource{"/records/2.xml", "<record>2, better</record>\n", s.at.Add(2 * time.Hour), "updated"}
	deleted := s.resources[4]
	deleted.when, deleted.change = s.at.Add(3*time.Hour), "deleted"
	s.resources[1] = updated
	s.resources = append(slices.Delete(s.resources, 4, 5), created)
	s.changes = []foreignResource{created, updated, deleted}
	s.at = s.at.Add(24 * time.Hour)
}

// foreignRow is what a shape came to.
type foreignRow struct{ source, baseline, incremental, audit, tolerated string }

// Sources as they are in public: each is mirrored, changes, is followed and audited.
// The table is docs/foreign.md.
func TestForeignSources(t *testing.T) {
	var rows []foreignRow
	for _, sh := range foreignShapes {
		t.Run(sh.name, func(t *testing.T) {
			s := newForeignSite(t, &sh)
			rows = append(rows, s.row(t))
		})
	}
	if t.Failed() {
		return
	}
	name, text := filepath.Join("..", "..", "docs", "foreign.md"), foreignTable(rows)
	if *update {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if kept, err := os.ReadFile(name); err != nil || string(kept) != text {
		t.Errorf("docs/foreign.md is not what the Sources show (make foreign writes it anew): %v\n%s", err, text)
	}
}

// row takes the steps.
func (s *foreignSite) row(t *testing.T) foreignRow {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "mirror")
	if s.shape.token != "" {
		t.Setenv("INSTEP_BEARER", s.shape.token)
	}
	source := s.URL + s.shape.start
	tolerated := map[int]bool{}
	step := func(args ...string) outcome {
		o := instep(t, args...)
		for _, r := range o.records {
			if r.Quirk > 0 {
				tolerated[r.Quirk] = true
			}
		}
		return o
	}
	row := foreignRow{source: s.shape.name}
	row.baseline = stepCell(step("sync", source, dir))
	s.change()
	row.incremental = stepCell(step("sync", source, dir))
	row.audit = auditCell(step("audit", source, dir))
	for n := range tolerated {
		row.tolerated += fmt.Sprintf(" %02d", n)
	}
	numbers := strings.Fields(row.tolerated)
	slices.Sort(numbers)
	row.tolerated = strings.Join(numbers, ", ")
	for what, cells := range map[string][2]string{
		"baseline": {row.baseline, s.shape.baseline}, "incremental": {row.incremental, s.shape.incremental}, "audit": {row.audit, s.shape.audit},
	} {
		if cells[0] != cells[1] {
			t.Errorf("%s: got %q, want %q", what, cells[0], cells[1])
		}
	}
	return row
}

// stepCell is what a synchronisation did.
func stepCell(o outcome) string {
	mode, ways := "", map[string]bool{}
	for _, r := range o.records {
		if r.Mode != "" {
			mode = r.Mode
		}
		if r.Type == "change" && r.Via != "" {
			ways[r.Via] = true
		}
	}
	var by []string
	for way := range ways {
		by = append(by, way)
	}
	slices.Sort(by)
	cell := fmt.Sprintf("%s: +%d ~%d −%d", mode, count(o.Created), count(o.Updated), count(o.Deleted))
	if len(by) > 0 {
		cell += " by " + strings.Join(by, ", ")
	}
	return cell + exitCell(o)
}

func auditCell(o outcome) string {
	return fmt.Sprintf("%s: =%d +%d −%d *%d ?%d", o.Status, count(o.Same), count(o.Missing), count(o.Extra), count(o.Different), count(o.Unverifiable)) + exitCell(o)
}

func exitCell(o outcome) string {
	if o.code == 0 {
		return ""
	}
	return fmt.Sprintf(", exit %d", o.code)
}

func count(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}

func foreignTable(rows []foreignRow) string {
	var b strings.Builder
	b.WriteString(`# Sources that others wrote

Each Source has six records, is mirrored, creates, updates and deletes one, is followed and audited: with documents in the shape in which
these programs publish them, from descriptions of what they do, and for the reference implementation with its own. Written by
` + "`make foreign`" + ` from a test; not to be edited. Tolerated are the habits of [quirks.md](quirks.md) by number.

| Source | baseline | after the change | audit | tolerated |
|---|---|---|---|---|
`)
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", r.source, r.baseline, r.incremental, r.audit, r.tolerated)
	}
	b.WriteString("\nIn the audit: = the same, + missing here, − not at the Source, * other bytes, ? nothing to compare with.\n\n")
	for _, sh := range foreignShapes {
		fmt.Fprintf(&b, "- **%s**: %s.\n", sh.name, sh.says)
	}
	return b.String()
}

// The Python reference implementation writes the documents, where it is found on PATH.
func TestForeignReferenceImplementation(t *testing.T) {
	build, err := exec.LookPath("resync-build")
	if err != nil {
		t.Skip("SKIPPED: resync-build, of the Python reference implementation, is not on PATH")
	}
	dir := t.TempDir()
	site, docs, mirror := filepath.Join(dir, "site"), filepath.Join(dir, "docs"), filepath.Join(dir, "mirror")
	makeSite(t, site, 30)
	if err := os.Mkdir(docs, 0o755); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/", http.FileServer(http.Dir(site)))
	mux.Handle("/rs/", http.StripPrefix("/rs/", http.FileServer(http.Dir(docs))))
	srv := httptest.NewServer(mux)
	defer srv.Close()
	write := func(name string, args ...string) {
		t.Helper()
		cmd := exec.Command(build, append(args, "--outfile", filepath.Join(docs, name))...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
		}
	}
	uri := func(name string) string { return srv.URL + "/rs/" + name }
	mapping := srv.URL + "=" + site
	step := func(what string, args ...string) {
		t.Helper()
		o := mustDo(t, append(args, uri("capabilitylist.xml"), mirror)...)
		cell := stepCell
		if args[0] == "audit" {
			cell = auditCell
		}
		t.Logf("%s: %s", what, cell(o))
	}
	write("resourcelist.xml", "--write-resourcelist", "--hash", "sha-256", mapping)
	write("capabilitylist.xml", "--write-capabilitylist", "resourcelist="+uri("resourcelist.xml")+",changelist="+uri("changelist.xml"))
	write("changelist.xml", "--write-changelist", "--empty")
	step("baseline", "sync")
	sameTrees(t, site, mirror)

	if err := errors.Join(
		os.WriteFile(filepath.Join(site, "new.txt"), []byte("created\n"), 0o644),
		os.WriteFile(filepath.Join(site, "d03", "f00003.txt"), []byte("updated\n"), 0o644),
		os.RemoveAll(filepath.Join(site, "d07")),
	); err != nil {
		t.Fatal(err)
	}
	write("changelist.xml", "--write-changelist", "--hash", "sha-256", "--reference", filepath.Join(docs, "resourcelist.xml"), mapping)
	step("after the change", "sync")
	sameTrees(t, site, mirror)
	write("resourcelist.xml", "--write-resourcelist", "--hash", "sha-256", mapping)
	step("after a new Resource List", "sync")
	sameTrees(t, site, mirror)
	step("audit", "audit")
}
