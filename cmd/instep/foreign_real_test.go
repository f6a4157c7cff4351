//go:build unix

package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// realResync are the versions of the Python reference that are run: the commit, and where
// its programs are below the checkout.
var realResync = []struct{ name, commit, build, sync string }{
	{"resync 2.0.1", "3577a202b5bf44b9e2305cfd20c24387b51bce1f", "resync-build", "resync-sync"},
	{"resync 1.0.9", "cb92fb4f2a94023b345c6274e0dce09815be4afb", "", "bin/resync"},
}

// Programs of others are run: they publish and we mirror, we publish and they mirror. What
// they are checked out to is named by INSTEP_FOREIGN, as OWNER/REPO@COMMIT below it;
// tools/foreign.sh does that.
func TestForeignPrograms(t *testing.T) {
	checkouts := os.Getenv("INSTEP_FOREIGN")
	if checkouts == "" {
		t.Skip("SKIPPED: INSTEP_FOREIGN names no checkouts of other programs (make foreign-real does)")
	}
	var sources, clients strings.Builder
	for _, v := range realResync {
		p := realProgram{t: t, dir: filepath.Join(checkouts, "resync", "resync@"+v.commit)}
		if _, err := os.Stat(p.dir); err != nil {
			fmt.Fprintf(&sources, "%s: SKIPPED: %v\n", v.name, err)
			continue
		}
		if v.build == "" {
			v.build = v.sync
		}
		fmt.Fprintf(&sources, "%s: %s\n", v.name, p.asSource(v.build))
		fmt.Fprintf(&clients, "%s: %s\n", v.name, p.asClient(v.sync))
	}
	t.Logf("their Sources, our client:\n%s\nour Source, their clients:\n%s", sources.String(), clients.String())
}

// realProgram is a checkout of a program in Python.
type realProgram struct {
	t   *testing.T
	dir string
}

// run runs one of its scripts in a directory and returns what it said.
func (p realProgram) run(dir, script string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(p.t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/usr/bin/python3", append([]string{filepath.Join(p.dir, script)}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PYTHONPATH="+p.dir, "PYTHONDONTWRITEBYTECODE=1")
	out, err := cmd.CombinedOutput()
	p.t.Logf("%s %s\n%s", script, strings.Join(args, " "), out)
	return string(out), err
}

func realChange(t *testing.T, site string) {
	t.Helper()
	for name, body := range map[string]string{"new.txt": "created\n", "d03/f00003.txt": "updated, and longer than before\n"} {
		if err := os.WriteFile(filepath.Join(site, name), []byte(body), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.RemoveAll(filepath.Join(site, "d07")); err != nil {
		t.Fatal(err)
	}
}

// asSource lets it write lists that we follow.
func (p realProgram) asSource(script string) string {
	dir := p.t.TempDir()
	site, docs, mirror := filepath.Join(dir, "site"), filepath.Join(dir, "docs"), filepath.Join(dir, "mirror")
	makeSite(p.t, site, 30)
	if err := os.Mkdir(docs, 0o755); err != nil {
		p.t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/", http.FileServer(http.Dir(site)))
	mux.Handle("/rs/", http.StripPrefix("/rs/", http.FileServer(http.Dir(docs))))
	srv := httptest.NewServer(mux)
	defer srv.Close()
	failed := ""
	write := func(name string, args ...string) {
		if out, err := p.run(dir, script, append(args, "--outfile", filepath.Join(docs, name))...); err != nil && failed == "" {
			failed = fmt.Sprintf("does not run: %v: %.200s", err, out[max(0, len(out)-200):])
		}
	}
	one := func(command string) outcome {
		return instep(p.t, command, srv.URL+"/rs/capabilitylist.xml", mirror)
	}
	uri := srv.URL + "/rs/"
	mapping := srv.URL + "=" + site
	write("resourcelist.xml", "--write-resourcelist", "--hash", "md5", mapping)
	write("capabilitylist.xml", "--write-capabilitylist", "resourcelist="+uri+"resourcelist.xml,changelist="+uri+"changelist.xml")
	write("changelist.xml", "--write-changelist", "--empty")
	if failed != "" {
		return failed
	}
	cells := []string{stepCell(one("sync")) + realFiles(site, mirror)}
	realChange(p.t, site)
	write("changelist.xml", "--write-changelist", "--hash", "md5", "--reference", filepath.Join(docs, "resourcelist.xml"), mapping)
	cells = append(cells, stepCell(one("sync"))+realFiles(site, mirror), auditCell(one("audit")))
	return strings.Join(cells, " | ")
}

// asClient publishes a site that it follows.
func (p realProgram) asClient(script string) string {
	dir := p.t.TempDir()
	site, copied := filepath.Join(dir, "site"), filepath.Join(dir, "copy")
	makeSite(p.t, site, 30)
	srv := httptest.NewServer(http.FileServer(http.Dir(site)))
	defer srv.Close()
	publish := func() { mustDo(p.t, "publish", site, "--base-url", srv.URL, "--state", filepath.Join(dir, "state")) }
	base := srv.URL + "/resourcesync/"
	var cells []string
	step := func(what string, args ...string) {
		out, err := p.run(dir, script, append(args, srv.URL+"="+copied)...)
		cell := what + realFiles(site, copied)
		if err != nil || strings.Contains(out, "FatalError") {
			cell += fmt.Sprintf(" (%v: %s)", err, strings.TrimSpace(out[max(0, len(out)-160):]))
		}
		cells = append(cells, cell)
	}
	publish()
	step("baseline", "--baseline", "--delete", "--hash", "sha-256", "--sitemap", base+"resourcelist.xml")
	realChange(p.t, site)
	publish()
	step("incremental", "--incremental", "--delete", "--sitemap", base+"resourcelist.xml", "--changelist-uri", base+"changes/1.xml")
	step("audit", "--audit", "--hash", "sha-256", "--sitemap", base+"resourcelist.xml")
	return strings.Join(cells, " | ")
}

// realFiles says how a copy differs from the site, by bytes; what is published is left out.
func realFiles(site, copied string) string {
	var diff []string
	for _, d := range compareTrees(site, copied) {
		if !strings.Contains(d, "resourcesync/") && !strings.Contains(d, "sitemap.xml") {
			diff = append(diff, d)
		}
	}
	if len(diff) == 0 {
		return ": right by bytes"
	}
	return fmt.Sprintf(": %d wrong, first %q", len(diff), diff[0])
}
