//go:build unix

package main

import (
	"context"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// realSource is a program of others that publishes.
type realSource struct {
	name  string
	says  string   // how it is run
	lacks string   // what it cannot do, in a few words
	why   string   // of what is not right in its row, with the line of its code
	needs []string // checkouts, the program's own first
	row   func(t *testing.T, p *realProgram) realRow
}

const (
	resync2      = "resync/resync@3577a202"
	resync1      = "resync/resync@cb92fb4f"
	resyncEHRI   = "EHRI/resync@6e9ddfa8"
	oldPython    = "functions that Python has removed since are put back"
	simulator    = "resync/resync-simulator@d8051a95"
	rspub        = "EHRI/rspub-core@1f6b0c84"
	pyResync     = "resourcesync/py-resourcesync@97f45df3"
	resydes      = "EHRI/resydes@2585c3d6"
	rspubRefused = "It refuses an address with a port, so it is reached as files.example.org through a proxy"
)

var realSources = []realSource{
	{
		name: "resync 2.0.1", needs: []string{resync2}, row: resyncSource("resync-build"),
		says:  "`resync-build` writes a Resource List with md5 and a Change List against it",
		lacks: "say from when its Change List is: each run compares everything",
	},
	{
		name: "resync 1.0.9", needs: []string{resync1}, row: resyncSource("bin/resync"),
		says:  "`resync` writes the same; " + oldPython,
		lacks: "say from when its Change List is: each run compares everything",
	},
	{
		name: "resync-simulator 1.1.0", needs: []string{simulator, resync2}, row: simulatorSource,
		says:  "it serves 20 resources and does six things by the same chance each time, three seconds apart: creates three, of which it deletes one again, updates one and deletes another; `random.sample` takes a set, as it did before Python 3.11",
		lacks: "serve a Change List before the first change (exit 4)",
		why:   "It takes the first entry of an empty list (simulator/http.py:235)",
	},
	{
		name: "rspub-core, new_changelist", needs: []string{rspub, resyncEHRI}, row: rspubSource("new_changelist"),
		says: "a Resource List, then two Change Lists, with an index; " + oldPython + ". " + rspubRefused,
	},
	{
		name: "rspub-core, inc_changelist", needs: []string{rspub, resyncEHRI}, row: rspubSource("inc_changelist"),
		says: "the same, with one Change List that is written anew",
	},
	{
		name: "py-resourcesync, inc_changelist", needs: []string{pyResync, resync2}, row: pyResyncSource("inc_changelist"),
		says: "a Resource List, then a Change List that grows; its users write a generator that lists the files, and this run has one of ours",
	},
	{
		name: "py-resourcesync, changedump", needs: []string{pyResync, resync2}, row: pyResyncSource("changedump"),
		says:  "the same with a Change Dump",
		lacks: "list deletions in its first Change Dump",
		why:   "It compares the files with earlier Change Dumps alone and not with its Resource List (resourcesync/executor/changedump.py:97, 111), so the first one calls all of them created and tells of no deletion; the Resource List goes on listing the one that is gone, and the audit goes by that",
	},
}

// resyncSource lets the Python reference write lists beside the site, the Change List
// against the first Resource List.
func resyncSource(script string) func(t *testing.T, p *realProgram) realRow {
	return func(_ *testing.T, p *realProgram) realRow {
		uri, mapping := p.URL+"/rs/", p.URL+"="+p.site
		write := func(name string, args ...string) {
			p.mustPython(p.script(script), append(args, "--outfile", filepath.Join(p.docs, name))...)
		}
		write("resourcelist.xml", "--write-resourcelist", "--hash", "md5", mapping)
		write("capabilitylist.xml", "--write-capabilitylist", "resourcelist="+uri+"resourcelist.xml,changelist="+uri+"changelist.xml")
		write("changelist.xml", "--write-changelist", "--empty")
		return p.mirrored(uri+"capabilitylist.xml", func() {
			p.change()
			write("changelist.xml", "--write-changelist", "--hash", "md5", "--reference", filepath.Join(p.docs, "resourcelist.xml"), mapping)
		})
	}
}

// mirrored is the row of a Source that publishes the site.
func (p *realProgram) mirrored(source string, change func(), options ...string) realRow {
	mirror := filepath.Join(p.dir, "mirror")
	row := mirrored(p.t, source, mirror, change, options...)
	return realRow{row.baseline, row.incremental, row.audit, p.files(mirror), row.tolerated}
}

// rspubSource lets rspub-core publish the site, and two times after changes.
func rspubSource(strategy string) func(t *testing.T, p *realProgram) realRow {
	return func(_ *testing.T, p *realProgram) realRow {
		const base = "http://files.example.org"
		publish := func() { p.mustPython(p.testFile("rspub_publish.py"), p.site, base, strategy) }
		publish()
		return p.mirrored(base+"/metadata/.well-known/resourcesync", func() {
			secondLater()
			p.change()
			secondLater()
			publish()
			secondLater()
			p.write("d05/f00005.txt", "updated between two runs\n")
			secondLater()
			publish()
		}, "--proxy", p.URL)
	}
}

// pyResyncSource lets py-resourcesync publish the site: a Resource List, and what the
// strategy names at each further run.
func pyResyncSource(strategy string) func(t *testing.T, p *realProgram) realRow {
	return func(_ *testing.T, p *realProgram) realRow {
		publish := func(strategy string) {
			p.mustPython(p.testFile("pyresourcesync_publish.py"), p.site, p.URL+"/", strategy)
		}
		publish("resourcelist")
		return p.mirrored(p.URL+"/metadata/.well-known/resourcesync", func() {
			secondLater()
			p.change()
			secondLater()
			publish(strategy)
		})
	}
}

// simulatorSource lets the simulator serve, and change as it does; after its last change
// it goes on serving.
func simulatorSource(t *testing.T, p *realProgram) realRow {
	addr, port := freeAddress(t)
	ctx, stop := context.WithCancel(t.Context())
	cmd := p.command(ctx, "/usr/bin/python3", p.script("resync-simulator"), "--port", port, "--base-uri", "http://"+addr,
		"--config-file", p.testFile("simulator.yaml"), "--log-config", p.testFile("simulator-logging.yaml"))
	said := &strings.Builder{}
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		_ = cmd.Wait() // it was ended
		t.Logf("the simulator said:\n%s", said)
	})
	awaitText(t, "http://"+addr+"/resourcelist.xml", "<loc>", 20)
	mirror := filepath.Join(p.dir, "mirror")
	row := mirrored(t, "http://"+addr+"/", mirror, func() {
		awaitText(t, "http://"+addr+"/changelist.xml", "<loc>", 6)
	})
	want := map[string]string{}
	for _, loc := range regexp.MustCompile("<loc>(.*?)</loc>").FindAllStringSubmatch(textAt(t, "http://"+addr+"/resourcelist.xml"), -1) {
		want[strings.TrimPrefix(loc[1], "http://"+addr+"/")] = textAt(t, loc[1])
	}
	return realRow{row.baseline, row.incremental, row.audit, rightFiles(t, want, mirror), row.tolerated}
}

// awaitText waits until what is at an address has a text so many times.
func awaitText(t *testing.T, uri, text string, times int) {
	t.Helper()
	end := time.Now().Add(2 * time.Minute)
	for strings.Count(textAt(t, uri), text) < times {
		if time.Now().After(end) {
			t.Fatalf("%s does not have %s %d times", uri, text, times)
		}
		<-time.After(100 * time.Millisecond)
	}
}

// textAt is what an address answers, "" where it does not.
func textAt(t *testing.T, uri string) string {
	t.Helper()
	resp, err := http.Get(uri)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return ""
	}
	return string(body)
}
