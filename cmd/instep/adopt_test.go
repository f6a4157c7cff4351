//go:build unix

package main

import (
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// aPublication is a directory with a publication of another program, or of ours, that
// is served, and a mirror of it.
type aPublication struct {
	t           *testing.T
	dir, mirror string
	url         string // ends in "/"
	files       map[string]string
}

func newPublication(t *testing.T) *aPublication {
	p := &aPublication{t: t, dir: t.TempDir(), mirror: filepath.Join(t.TempDir(), "mirror"), files: map[string]string{}}
	srv := httptest.NewServer(http.FileServer(http.Dir(p.dir)))
	t.Cleanup(srv.Close)
	p.url = srv.URL + "/"
	for i := range 8 {
		p.write(fmt.Sprintf("files/%d.txt", i), fmt.Sprintf("file %d", i))
	}
	return p
}

// write writes a file that is a resource.
func (p *aPublication) write(name, text string) {
	p.t.Helper()
	p.files[name] = text
	p.put(name, text)
}

// put writes any file.
func (p *aPublication) put(name, text string) {
	p.t.Helper()
	path := filepath.Join(p.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

func (p *aPublication) remove(name string) {
	p.t.Helper()
	delete(p.files, name)
	if err := os.Remove(filepath.Join(p.dir, filepath.FromSlash(name))); err != nil {
		p.t.Fatal(err)
	}
}

// doc writes a document of another program.
func (p *aPublication) doc(name, prefix, root, md, links string, entries ...string) {
	q := ""
	if prefix != "" {
		q = prefix + ":"
	}
	text := `<?xml version="1.0" encoding="UTF-8"?>` + "\n<" + q + root + ` xmlns` + strings.TrimSuffix(":"+prefix, ":") +
		`="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/"><rs:md ` + md + `/>` + links
	for _, e := range entries {
		text += "\n" + e
	}
	p.put(name, text+"\n</"+q+root+">\n")
}

// entry is one of a document: without prefix.
func (p *aPublication) entry(name, inside string) string {
	return "<url><loc>" + p.url + name + "</loc>" + inside + "</url>"
}

// resource describes a file as programs do that know its MD5.
func (p *aPublication) resource(name, lastmod, attributes string) string {
	sum := md5.Sum([]byte(p.files[name]))
	return p.entry(name, fmt.Sprintf(`<lastmod>%s</lastmod><rs:md %s hash="md5:%s" length="%d"/>`, lastmod, attributes, hex.EncodeToString(sum[:]), len(p.files[name])))
}

func (p *aPublication) names() (names []string) {
	for name := range p.files {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (p *aPublication) ln(rel, name string) string {
	return `<rs:ln rel="` + rel + `" href="` + p.url + name + `"/>`
}

func (p *aPublication) publish(more ...string) outcome {
	p.t.Helper()
	return mustDo(p.t, append([]string{"publish", p.dir, "--base-url", p.url, "--state", filepath.Join(p.mirror + "-state")}, more...)...)
}

// wantInStep synchronises the mirror, which has to be done by that mode, and compares it
// with the files.
func (p *aPublication) wantInStep(source, mode string) outcome {
	p.t.Helper()
	o := mustDo(p.t, "sync", p.url+source, p.mirror)
	var modes []string
	for _, r := range o.records {
		if r.Mode != "" {
			modes = append(modes, r.Mode+": "+r.Reason)
		}
	}
	if len(modes) != 1 || !strings.HasPrefix(modes[0], mode+":") {
		p.t.Fatalf("sync: got %q, want one set by %s", modes, mode)
	}
	got := map[string]string{}
	err := filepath.WalkDir(p.mirror, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && d.Name() == ".instep" {
			return cmpOr(err, fs.SkipDir)
		}
		if !d.IsDir() {
			text, err := os.ReadFile(path)
			rel, _ := filepath.Rel(p.mirror, path)
			got[filepath.ToSlash(rel)] = string(text)
			return err
		}
		return nil
	})
	if err != nil {
		p.t.Fatal(err)
	}
	for name, text := range p.files {
		if got[name] != text {
			p.t.Errorf("%s: got %q in the mirror, want %q", name, got[name], text)
		}
		delete(got, name)
	}
	if len(got) > 0 {
		p.t.Errorf("in the mirror and no resource: %q", got)
	}
	return o
}

func cmpOr(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// minutes is a moment some minutes ago, as documents write it.
func minutes(ago int) string {
	return time.Now().UTC().Add(-time.Duration(ago) * time.Minute).Format("2006-01-02T15:04:05Z")
}

// wantClean says that no document at the given keys breaks a rule.
func (p *aPublication) wantClean(keys ...string) {
	p.t.Helper()
	for _, key := range keys {
		if o := instep(p.t, "lint", filepath.Join(p.dir, filepath.FromSlash(key))); o.code != 0 {
			p.t.Errorf("lint %s: exit code %d\n%s", key, o.code, o.stderr)
		}
	}
}

func TestAdoptOursWithoutItsState(t *testing.T) {
	p := newPublication(t)
	p.publish("--change-list-max", "3")
	p.wantInStep("", "baseline")
	p.write("files/1.txt", "again")
	p.publish("--change-list-max", "3")
	for i := range 5 { // several lists
		p.write(fmt.Sprintf("new/%d.txt", i), "new")
		p.publish("--change-list-max", "3")
	}
	p.wantInStep("", "incremental")
	p.write("files/2.txt", "published, and not followed yet")
	p.publish("--change-list-max", "3")

	if err := os.RemoveAll(p.mirror + "-state"); err != nil {
		t.Fatal(err)
	}
	p.write("files/3.txt", "changed while the state was gone")
	p.remove("files/4.txt")
	if o := instep(t, "publish", p.dir, "--base-url", p.url, "--state", p.mirror+"-state"); o.code != exitGuard {
		t.Errorf("without --adopt: got exit code %d, want %d", o.code, exitGuard)
	}
	plan := p.publish("--adopt", "-n")
	o := p.publish("--adopt")
	for name, o := range map[string]outcome{"plan": plan, "run": o} {
		if *o.Created != 0 || *o.Updated != 1 || *o.Deleted != 1 || *o.Same != 11 {
			t.Errorf("%s: got created=%d updated=%d deleted=%d same=%d, want what differs alone", name, *o.Created, *o.Updated, *o.Deleted, *o.Same)
		}
	}
	if o := p.wantInStep("", "incremental"); *o.Updated != 2 || *o.Deleted != 1 {
		t.Errorf("sync: got updated=%d deleted=%d, want 2 and 1", *o.Updated, *o.Deleted)
	}
	p.write("files/5.txt", "and on")
	p.publish("--adopt") // once more does nothing but publish
	p.wantInStep("", "incremental")
	p.wantClean("resourcesync/capabilitylist.xml", "resourcesync/changelist-index.xml", "resourcesync/description.xml")
}

// The reference implementation writes its documents at the top: lastmod alone in Change
// Lists, of deletions that of the version that is gone.
func TestAdoptWhatTheReferenceImplementationPublished(t *testing.T) {
	p := newPublication(t)
	begun := minutes(100)
	var entries, changes []string
	for _, name := range p.names() {
		entries = append(entries, p.resource(name, minutes(300), ""))
	}
	p.doc("resourcelist.xml", "", "urlset", `capability="resourcelist" at="`+begun+`"`, p.ln("up", "capabilitylist.xml"), entries...)
	write := func() {
		p.doc("changelist.xml", "", "urlset", `capability="changelist" from="`+begun+`"`, p.ln("up", "capabilitylist.xml"), changes...)
	}
	write()
	p.doc("capabilitylist.xml", "", "urlset", `capability="capabilitylist"`, p.ln("up", "resourcesync.xml"),
		p.entry("resourcelist.xml", `<rs:md capability="resourcelist"/>`), p.entry("changelist.xml", `<rs:md capability="changelist"/>`))
	p.doc("resourcesync.xml", "", "urlset", `capability="description"`, "", p.entry("capabilitylist.xml", `<rs:md capability="capabilitylist"/>`))
	p.wantInStep("resourcesync.xml", "baseline")

	p.write("files/1.txt", "again")
	changes = append(changes, p.resource("files/1.txt", minutes(50), `change="updated"`))
	gone := p.resource("files/2.txt", minutes(300), `change="deleted"`)
	p.remove("files/2.txt")
	changes = append(changes, gone)
	write()
	p.wantInStep("resourcesync.xml", "incremental")
	p.write("files/3.txt", "published, and not followed yet")
	changes = append(changes, p.resource("files/3.txt", minutes(20), `change="updated"`))
	write()

	p.write("files/4.txt", "found by the scan")
	o := p.publish("--adopt")
	if *o.Created != 0 || *o.Updated != 1 || *o.Deleted != 0 || *o.Same != 6 {
		t.Errorf("got created=%d updated=%d deleted=%d same=%d, want what differs alone", *o.Created, *o.Updated, *o.Deleted, *o.Same)
	}
	p.wantInStep("resourcesync.xml", "incremental")
	p.wantClean("capabilitylist.xml", "resourcesync.xml", "resourcelist.xml", "changelist.xml")
	p.write("files/5.txt", "and on")
	for i := range 5 {
		p.write(fmt.Sprintf("new/%d.txt", i), "new")
		p.publish("--change-list-max", "2")
	}
	p.wantInStep("resourcesync.xml", "incremental")
	for copied, of := range map[string]string{
		"capabilitylist.xml": "resourcesync/capabilitylist.xml", "resourcesync.xml": "resourcesync/description.xml",
		"resourcelist.xml": "resourcesync/resourcelist.xml", "changelist.xml": "resourcesync/changelist-index.xml",
	} {
		a, err := os.ReadFile(filepath.Join(p.dir, copied))
		if err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(filepath.Join(p.dir, of)); err != nil || string(a) != string(b) {
			t.Errorf("%s is no copy of %s (%v)", copied, of, err)
		}
	}
	p.wantClean("capabilitylist.xml", "resourcesync.xml", "resourcelist.xml", "changelist.xml")

	// The state is lost after all: what was adopted once is adopted again.
	if err := os.RemoveAll(p.mirror + "-state"); err != nil {
		t.Fatal(err)
	}
	p.write("files/6.txt", "after the loss")
	if o := p.publish("--adopt"); *o.Created != 0 || *o.Updated != 1 || *o.Deleted != 0 {
		t.Errorf("adopted again: got created=%d updated=%d deleted=%d", *o.Created, *o.Updated, *o.Deleted)
	}
	p.wantInStep("resourcesync.xml", "incremental")
}

// DSpace prefixes its elements, groups changes by kind, deletions first, gives lists a
// from, and names its Source Description in a way of its own.
func TestAdoptWhatDSpacePublished(t *testing.T) {
	p := newPublication(t)
	sm := func(entry string) string {
		for _, tag := range []string{"url", "loc", "lastmod"} {
			entry = strings.NewReplacer("<"+tag+">", "<sm:"+tag+">", "</"+tag+">", "</sm:"+tag+">").Replace(entry)
		}
		return entry
	}
	begun, closed := minutes(400), minutes(200)
	var entries []string
	for _, name := range p.names() {
		entries = append(entries, sm(p.resource(name, minutes(500), "")))
	}
	p.doc("resourcelist.xml", "sm", "urlset", `capability="resourcelist" at="`+begun+`" from="`+begun+`"`, p.ln("up", "capabilitylist.xml"), entries...)
	list := func(name, from, until string, entries ...string) {
		md := `capability="changelist" from="` + from + `"`
		if until != "" {
			md += ` until="` + until + `"`
		}
		p.doc(name, "sm", "urlset", md, p.ln("up", "capabilitylist.xml"), entries...)
	}
	p.write("files/1.txt", "again")
	p.write("files/2.txt", "as well")
	gone := sm(p.resource("files/3.txt", minutes(250), `change="deleted"`))
	p.remove("files/3.txt")
	list("changelist_1.xml", begun, closed, gone, sm(p.resource("files/1.txt", minutes(390), `change="updated"`)), sm(p.resource("files/2.txt", minutes(210), `change="updated"`)))
	list("changelist_2.xml", closed, "")
	caps := func() {
		p.doc("capabilitylist.xml", "sm", "urlset", `capability="capabilitylist"`, p.ln("up", "sourcedescription.xml"),
			sm(p.entry("resourcelist.xml", `<rs:md capability="resourcelist"/>`)), sm(p.entry("changelist_1.xml", `<rs:md capability="changelist"/>`)),
			sm(p.entry("changelist_2.xml", `<rs:md capability="changelist"/>`)))
	}
	caps()
	p.doc("sourcedescription.xml", "sm", "urlset", `capability="description"`, "", sm(p.entry("capabilitylist.xml", `<rs:md capability="capabilitylist"/>`)))
	p.wantInStep("sourcedescription.xml", "baseline")

	o := p.publish("--adopt", "-n")
	if _, err := os.Stat(filepath.Join(p.dir, "resourcesync")); err == nil || *o.Same != 7 {
		t.Errorf("plan: got same=%d, %v; want 7, and nothing written", *o.Same, err)
	}
	p.write("files/0.txt", "found by the scan")
	if o := p.publish("--adopt"); *o.Created != 0 || *o.Updated != 1 || *o.Deleted != 0 {
		t.Errorf("got created=%d updated=%d deleted=%d, want what differs alone", *o.Created, *o.Updated, *o.Deleted)
	}
	p.wantInStep("sourcedescription.xml", "incremental")
	if text, err := os.ReadFile(filepath.Join(p.dir, "changelist_1.xml")); err != nil || !strings.Contains(string(text), "sm:urlset") {
		t.Errorf("the closed list was touched, or is gone: %v", err)
	}
	p.wantClean("changelist_2.xml", "sourcedescription.xml")
}

func TestWhatIsNoPublicationIsNotAdopted(t *testing.T) {
	damage := map[string]struct {
		do    func(p *aPublication)
		names string
	}{
		"nothing":            {func(p *aPublication) { p.remove("capabilitylist.xml"); p.remove("resourcesync.xml") }, "capabilitylist.xml"},
		"cut":                {func(p *aPublication) { p.put("resourcelist.xml", "<urlset") }, "resourcelist.xml"},
		"a page":             {func(p *aPublication) { p.put("capabilitylist.xml", "<html></html>") }, "capabilitylist.xml"},
		"another capability": {func(p *aPublication) { p.doc("resourcelist.xml", "", "urlset", `capability="changelist"`, "") }, "resourcelist.xml"},
		"not there":          {func(p *aPublication) { p.remove("resourcelist.xml") }, "resourcelist.xml"},
		"another site": {func(p *aPublication) {
			p.doc("resourcelist.xml", "", "urlset", `capability="resourcelist" at="2026-01-01T00:00:00Z"`, "", "<url><loc>http://example.org/a</loc></url>")
		}, "http://example.org/a"},
		"a change of no kind": {func(p *aPublication) {
			p.doc("changelist.xml", "", "urlset", `capability="changelist" from="2026-01-01T00:00:00Z"`, "", p.entry("files/1.txt", ""))
		}, "changelist.xml"},
	}
	for name, c := range damage {
		t.Run(name, func(t *testing.T) {
			p := newPublication(t)
			p.doc("resourcelist.xml", "", "urlset", `capability="resourcelist" at="2026-01-01T00:00:00Z"`, "")
			p.doc("changelist.xml", "", "urlset", `capability="changelist" from="2026-01-01T00:00:00Z"`, "")
			p.doc("capabilitylist.xml", "", "urlset", `capability="capabilitylist"`, p.ln("up", "resourcesync.xml"),
				p.entry("resourcelist.xml", `<rs:md capability="resourcelist"/>`), p.entry("changelist.xml", `<rs:md capability="changelist"/>`))
			p.doc("resourcesync.xml", "", "urlset", `capability="description"`, "", p.entry("capabilitylist.xml", `<rs:md capability="capabilitylist"/>`))
			c.do(p)
			o := instep(t, "publish", p.dir, "--base-url", p.url, "--state", p.mirror+"-state", "--adopt")
			if o.code != exitGuard || !strings.Contains(o.stderr, c.names) {
				t.Errorf("got exit code %d, want %d and %q named\n%s", o.code, exitGuard, c.names, o.stderr)
			}
			if _, err := os.Stat(filepath.Join(p.dir, "resourcesync")); err == nil {
				t.Error("something was published")
			}
		})
	}
}
