//go:build unix

package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
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
	from  string             // which code writes such documents
	says  string             // what is peculiar about it
	lacks string             // what it cannot do, in a few words
	why   string             // of what is not right in its row, with the line of its code
	start string             // what sync is given, below the base URL
	token string             // a Bearer token that it wants to see, "" for none
	media string             // of the resources, "" for application/xml
	path  func(n int) string // of the nth resource; nil: /records/n.xml
	serve func(s *foreignSite, out http.ResponseWriter, r *http.Request) bool
	// what the steps have to show
	baseline, incremental, audit, files string
}

// foreignSite is a Source with six resources, as some program publishes them.
type foreignSite struct {
	*httptest.Server
	shape *shape

	mu        sync.Mutex // guards the rest
	at        time.Time
	resources []foreignResource
	changes   []foreignResource
	asked     int // requests for resources that change at each
}

type foreignResource struct {
	path, body string
	when       time.Time
	change     string
	was        time.Time // of one that is deleted: when it had been changed before
}

// foreignStart is when the first lists were made.
var foreignStart = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func newForeignSite(t *testing.T, sh *shape) *foreignSite {
	t.Helper()
	s := &foreignSite{shape: sh, at: foreignStart, resources: sh.first()}
	s.Server = httptest.NewUnstartedServer(s) // which it reads its URL from
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// first are the resources of the first lists.
func (sh *shape) first() []foreignResource {
	var all []foreignResource
	for i := range 6 {
		all = append(all, foreignResource{
			path: sh.pathOf(i + 1), body: strings.Repeat(fmt.Sprintf("<record>%d</record>\n", i+1), i+1),
			when: foreignStart.Add(-time.Duration(100-i) * time.Hour),
		})
	}
	return all
}

func (sh *shape) pathOf(n int) string {
	if sh.path == nil {
		return fmt.Sprintf("/records/%d.xml", n)
	}
	return sh.path(n)
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
			out.Header().Set("Content-Type", cmp.Or(s.shape.media, "application/xml"))
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
	created := foreignResource{path: s.shape.pathOf(7), body: "<record>7</record>\n", when: s.at.Add(time.Hour), change: "created"}
	updated := foreignResource{path: s.shape.pathOf(2), body: "<record>2, better</record>\n", when: s.at.Add(2 * time.Hour), change: "updated"}
	deleted := s.resources[4]
	deleted.was, deleted.when, deleted.change = deleted.when, s.at.Add(3*time.Hour), "deleted"
	s.resources[1] = updated
	s.resources = append(slices.Delete(s.resources, 4, 5), created)
	s.changes = []foreignResource{created, updated, deleted}
	s.at = s.at.Add(24 * time.Hour)
}

// foreignRow is what a shape came to.
type foreignRow struct{ source, baseline, incremental, audit, files, tolerated string }

// Sources as they are in public: each is mirrored, changes, is followed and audited.
// With the rows of programs that were run for real they are docs/foreign.md.
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
	name, text := filepath.Join("..", "..", "docs", "foreign.md"), foreignPage(rows, readRealRows(t))
	if *update {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if kept, err := os.ReadFile(name); err != nil || string(kept) != text {
		t.Errorf("docs/foreign.md is not what the Sources show (make foreign-page writes it anew): %v\n%s", err, text)
	}
}

// row takes the steps.
func (s *foreignSite) row(t *testing.T) foreignRow {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "mirror")
	if s.shape.token != "" {
		t.Setenv("INSTEP_BEARER", s.shape.token)
	}
	row := mirrored(t, s.URL+s.shape.start, dir, s.change)
	row.source, row.files = s.shape.name, s.files(t, dir)
	want := foreignRow{s.shape.name, s.shape.baseline, s.shape.incremental, s.shape.audit, s.shape.files, row.tolerated}
	if row != want {
		t.Errorf("got  %q\nwant %q", row, want)
	}
	right := strings.HasSuffix(row.files, " 0 more") && !strings.Contains(row.baseline+row.incremental+row.audit, "exit")
	if !right && (s.shape.why == "" || s.shape.lacks == "") {
		t.Errorf("%q: say why something is not right, with the line of its code", row)
	}
	return row
}

// mirrored mirrors a Source into a directory, follows it after a change and audits it.
func mirrored(t *testing.T, source, dir string, change func(), options ...string) foreignRow {
	t.Helper()
	tolerated := map[string]bool{}
	step := func(name string) outcome {
		o := instep(t, append([]string{name, source, dir}, options...)...)
		t.Logf("%s\n%s", name, o.stderr)
		for _, r := range o.records {
			if r.Quirk > 0 {
				tolerated[fmt.Sprintf("%02d", r.Quirk)] = true
			}
		}
		return o
	}
	var row foreignRow
	row.baseline = stepCell(step("sync"))
	change()
	row.incremental = stepCell(step("sync"))
	row.audit = auditCell(step("audit"))
	row.tolerated = strings.Join(slices.Sorted(maps.Keys(tolerated)), ", ")
	return row
}

// files says how many of the resources that exist the mirror holds as they are, and how many
// files it holds beside them.
func (s *foreignSite) files(t *testing.T, dir string) string {
	t.Helper()
	held := map[string]string{}
	err := heldFiles(dir, func(name, body string) { held["/"+name] = body })
	if err != nil {
		t.Fatal(err)
	}
	right := 0
	for _, r := range s.resources {
		body, here := held[r.path]
		if here && strings.Contains(body, r.body) {
			right++
		}
		delete(held, r.path)
	}
	return fmt.Sprintf("%d of %d, %d more", right, len(s.resources), len(held))
}

// heldFiles hands each file of a mirror to take, if there is one.
func heldFiles(dir string, take func(name, body string)) error {
	if err := os.MkdirAll(dir, 0o755); err != nil { // where nothing could be mirrored
		return err
	}
	return fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name == ".instep":
			return fs.SkipDir
		case d.IsDir():
			return nil
		}
		body, err := os.ReadFile(filepath.Join(dir, name))
		if err == nil {
			take(name, string(body))
		}
		return err
	})
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
