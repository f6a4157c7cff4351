//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// realClient is a program of others that copies what we publish.
type realClient struct {
	name     string   // the program, and what is peculiar about this row after ", "
	settings []string // of ours
	command  string   // its own, as the table shows it
	lacks    string   // what it cannot do, in a few words
	why      string   // of what is not right in its row, with the line of its code
	note     string   // what else there is to say
	needs    []string // checkouts, the program's own first
	first    clientStep
	again    clientStep
	audit    clientStep // nil if it has none
}

// clientStep runs a client once and returns what it said.
type clientStep func(p *realProgram, site clientSite) (string, error)

// clientSite is what a client is given.
type clientSite struct{ base, copied string }

// resyncClient is the Python reference as a client.
type resyncClient struct {
	version, script, need string
	settings              []string // of ours
	changes               string   // the Change List that it is told, below resourcesync/; "": it makes baselines
	own                   []string // further arguments of it
	lacks, why, note      string
}

func (c resyncClient) client() realClient {
	step := func(args ...string) clientStep {
		return func(p *realProgram, site clientSite) (string, error) {
			all := append(slices.Concat(args, c.own), "--delete", strings.TrimSuffix(site.base, "/")+"="+site.copied)
			for i := range all {
				all[i] = strings.ReplaceAll(all[i], "BASE/", site.base+"resourcesync/")
			}
			return p.python(p.script(c.script), all...)
		}
	}
	r := realClient{
		name: c.version + ", " + strings.Join(append([]string{"by baselines"}, c.own...), " "), command: "`--baseline` each time",
		settings: c.settings, lacks: c.lacks, why: c.why, note: c.note, needs: []string{c.need},
		first: step("--baseline"), again: step("--baseline"), audit: step("--audit", "--hash", "sha-256"),
	}
	if c.changes != "" {
		r.name = c.version + ", " + strings.Join(slices.Concat(c.settings, c.own), " ")
		r.command = "`" + strings.Join(append([]string{"--baseline`, then `--incremental --changelist-uri …/" + c.changes}, c.own...), " ") + "`"
		r.first = step("--baseline", "--hash", "sha-256", "--sitemap", "BASE/resourcelist.xml")
		r.again = step("--incremental", "--sitemap", "BASE/resourcelist.xml", "--changelist-uri", "BASE/"+c.changes)
	}
	r.name = strings.TrimSuffix(r.name, ", ") // with the settings as they are
	return r
}

// resyncClients are the versions with the settings that matter to them.
func resyncClients() []realClient {
	const (
		fixed = "changelist.xml"
		first = "changes/1.xml"
		times = "audit what it copied by a Change List that has `lastmod`"
		audit = "Its audit compares `lastmod` within a second, besides the digest (%s). A file that it copied by a Change List has the `lastmod` of the change, not that of the file: the audit calls it different although the bytes are right, and the next baseline copies it again"
	)
	two := resyncClient{version: "resync 2.0.1", script: "resync-sync", need: resync2}
	one := resyncClient{version: "resync 1.0.9", script: "bin/resync", need: resync1}
	var all []realClient
	add := func(c resyncClient, changes, settings, lacks, why, note string, own ...string) {
		c.changes, c.own, c.lacks, c.why, c.note = changes, own, lacks, why, note
		if settings != "" {
			c.settings = []string{settings}
		}
		all = append(all, c.client())
	}
	add(two, "", "", "", "", "")
	add(two, first, "", "go on to the next Change List", "", "")
	add(two, fixed, "--fixed-changes", "", "", "")
	add(two, fixed, "--profile both --fixed-changes", times, "", fmt.Sprintf(audit, "resync/resource.py:457-462"))
	add(two, fixed, "--profile 1.0 --fixed-changes", "tell 1.0 from 1.1", "It reads a Change List of 1.0 only with `--spec-version 1.0`; without, it ends with an exception at the first change that has no `datetime` (resync/change_list.py:76-80)", "")
	add(two, fixed, "--profile 1.0 --fixed-changes", times, "", fmt.Sprintf(audit, "resync/resource.py:457-462"), "--spec-version", "1.0")
	add(one, "", "", "", "", "")
	add(one, first, "", "read changes without `lastmod`", "It ends with an exception at the first change that has no `lastmod`; in 1.1 deletions have none (resync/client.py:384-387)", "")
	add(one, fixed, "--profile both --fixed-changes", times, "", fmt.Sprintf(audit, "resync/resource.py:424-429"))
	add(one, fixed, "--profile 1.0 --fixed-changes", times, "", fmt.Sprintf(audit, "resync/resource.py:424-429"))
	return all
}

var cdlNeeds = []string{
	"CDLUC3/resync-client@e621c9d0", "CDLUC3/resync@f59a1f77", "multi-io/xml-mapping@c53cb36c", "dmolesUC/typesafe_enum@bb314114",
	"dmolesUC3/xml-mapping_extensions@012a01aa", "bhuga/promising-future@2ee99b64",
}

var realClients = append(resyncClients(),
	cdlClient(nil, ""),
	cdlClient([]string{"--profile both"}, ""),
	realClient{
		name: "resydes", command: "`desrunner.py --task wellknown --once`", needs: []string{resydes, resyncEHRI},
		first: resydesRun, again: resydesRun,
		lacks: "copy files that are not below its lists",
		why:   "It copies only files below the directory of the list that names them (EHRI/resydes des/sync.py:61, EHRI/resync resync/mapper.py:104-113); our lists have a directory of their own. In Change Lists it needs `lastmod` for deletions, as resync 1.0.9 does (EHRI/resync resync/client.py:283-287)",
	},
)

func cdlClient(settings []string, why string) realClient {
	run := func(what string) clientStep {
		return func(p *realProgram, site clientSite) (string, error) {
			return p.run("ruby", p.testFile("cdl_client.rb"), site.base, site.copied, what)
		}
	}
	return realClient{
		name: strings.TrimSuffix("resync-client 0.4.7, "+strings.Join(settings, " "), ", "), settings: settings, why: why, needs: cdlNeeds,
		command: "a library: all_resources, then all_changes", first: run("baseline"), again: run("changes"),
	}
}

// resydesRun runs resydes once, with a mapping of the Source to a directory.
func resydesRun(p *realProgram, site clientSite) (string, error) {
	p.copyFile("resydes.conf", "resydes.conf")
	p.copyFile("resydes-logging.conf", "logging.conf")
	for name, text := range map[string]string{"map.txt": site.base + "=" + filepath.Base(site.copied) + "\n", "sources.txt": site.base + "\n"} {
		if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o644); err != nil {
			p.t.Fatal(err)
		}
	}
	return p.python(p.script("des/desrunner.py"), "--config", "resydes.conf", "--task", "wellknown", "--once", "sources.txt")
}

// row publishes the site, lets the client copy it, and once more after a change.
func (c realClient) row(t *testing.T, p *realProgram) realRow {
	site := clientSite{base: p.URL + "/", copied: filepath.Join(p.dir, "copy")}
	publish := func() {
		args := []string{"publish", p.site, "--base-url", site.base, "--state", filepath.Join(p.dir, "state")}
		for _, s := range c.settings {
			args = append(args, strings.Fields(s)...)
		}
		mustDo(t, args...)
	}
	cell := func(step clientStep) string {
		_, err := step(p, site)
		files := p.files(site.copied)
		if err != nil {
			files += ", fails"
		}
		return files
	}
	publish()
	first := cell(c.first)
	secondLater()
	p.change()
	publish()
	again, audit := cell(c.again), "none"
	if c.audit != nil {
		audit = auditSaid(c.audit(p, site))
	}
	if right := first == allRight && again == allRight; right != (c.why == "") || !right && c.lacks == "" {
		t.Errorf("%s, then %s, and the reason is %q, %q: name the line of its code where something is not right", first, again, c.lacks, c.why)
	}
	settings := "as they are"
	if len(c.settings) > 0 {
		settings = fmt.Sprintf("`%s`", strings.Join(c.settings, " "))
	}
	return realRow{settings, c.command, first, again, audit}
}

var resyncStatus = regexp.MustCompile(`(?m)^Status: +(.*)$`)

// auditSaid is what an audit of resync found.
func auditSaid(said string, err error) string {
	last := resyncStatus.FindAllStringSubmatch(said, -1)
	if err != nil || len(last) == 0 {
		return "fails"
	}
	return strings.ToLower(last[len(last)-1][1])
}

// notRun are programs that are not run, with the reason.
var notRun = []string{
	"**rs-aggregator** (EHRI/rs-aggregator@85fd0d29, a client): has to be built by Maven, from libraries that its checkout does not have (pom.xml:56-140).",
	"**go-resourcesync** (nathj07/go-resourcesync@90e0f278, a client): reads documents and stores no files (resourcesync/resourcesync.go:68 returns what it read, cmd/resourcesynctester/main.go counts it).",
	"**DSpace with ResourceSyncJava, WEKO, POD, Hyrax, Pinakes** (Sources): run inside repository systems (Java with Maven, Invenio, Rails, PHP) that need a database and libraries from registries of their languages; rendered above.",
	"**CDLUC3/resync** (a library): a user's program composes the documents that it writes; it brings none.",
	"**resync-build --write-resourcedump**: writes the ZIP of a dump and no Resource Dump document that would name it (resync/resync@3577a202 resync/client.py:670-675), so no Source can offer it.",
}
