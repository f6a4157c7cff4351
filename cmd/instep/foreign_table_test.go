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

// realRow is a row of a program that was run for real: "source" or "client", its name, and
// the cells that the run gave.
type realRow []string

const realCells = 5 // of each kind, besides kind and name

// realRowsFile keeps the rows of the last real runs, so that both tables can be written
// where the programs are not.
var realRowsFile = filepath.Join("testdata", "foreign", "real.txt")

func readRealRows(t *testing.T) []realRow {
	t.Helper()
	text, err := os.ReadFile(realRowsFile)
	if err != nil {
		t.Fatal(err)
	}
	var rows []realRow
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSuffix(line, "\n"); strings.HasPrefix(line, "#") {
			continue
		}
		row := realRow(strings.Split(line, "\t"))
		if len(row) != realCells+2 {
			t.Fatalf("%s: %d cells instead of %d in %q", realRowsFile, len(row), realCells+2, line)
		}
		rows = append(rows, row)
	}
	return rows
}

func writeRealRows(rows []realRow) error {
	text := "# What programs of others gave when they were run: written by a run (make foreign), never by hand.\n"
	for _, row := range rows {
		text += strings.Join(row, "\t") + "\n"
	}
	return os.WriteFile(realRowsFile, []byte(text), 0o644)
}

// cellsOf are the cells of a row, as they are where the program was never run.
func cellsOf(rows []realRow, kind, name string) realRow {
	for _, row := range rows {
		if row[0] == kind && row[1] == name {
			return row[2:]
		}
	}
	return append(realRow{"not run yet"}, make(realRow, realCells-1)...)
}

// foreignPage is docs/foreign.md.
func foreignPage(rendered []foreignRow, rows []realRow) string {
	var b strings.Builder
	b.WriteString(`# Programs that others wrote

Does Instep copy your repository, and can the program of a partner copy what Instep publishes? The first table answers for Sources, the second for
clients. ` + "`make foreign`" + ` writes this page; do not edit it. A *real* row was measured: the program itself ran, unchanged, at the commit that is
named. A *rendered* row was measured with documents of ours that look as the code of the program writes them; the program did not run. If a program cannot be had,
its row stays as the last run left it. ` + "`FOREIGN=DIR make foreign`" + ` takes checkouts from DIR/OWNER/REPO and clones the others.
`)
	writeSources(&b, rendered, rows)
	writeClients(&b, rows)
	b.WriteString("\n## Not run\n\n")
	for _, p := range notRun {
		fmt.Fprintf(&b, "- %s\n", p)
	}
	return b.String()
}

// writeSources writes the table of Sources, and what there is to say of its rows.
func writeSources(b *strings.Builder, rendered []foreignRow, rows []realRow) {
	b.WriteString(`
## Their Sources, our client

Instep mirrors each Source. Then the Source creates, updates and deletes a resource (the simulator: see below), Instep mirrors it again, and audits the
mirror. In real runs the created file has a time of a year ago, as a copied file may have.

| Source | version | how | baseline | after the change | audit | files | tolerated | what it cannot do |
|---|---|---|---|---|---|---|---|---|
`)
	for _, s := range realSources {
		name, version := programVersion(s.name, s.needs[0])
		fmt.Fprintf(b, "| %s | %s | real | %s | %s |\n", name, version, strings.Join(cellsOf(rows, "source", s.name), " | "), s.lacks)
	}
	for i, r := range rendered {
		name, version := programVersion(r.source, foreignShapes[i].from)
		fmt.Fprintf(b, "| %s | %s | rendered | %s | %s | %s | %s | %s | %s |\n", name, version, r.baseline, r.incremental, r.audit, r.files, r.tolerated, foreignShapes[i].lacks)
	}
	b.WriteString(`
- *Version*: the release, and the commit of its code.
- *Baseline*, *after the change*: how the run went, what it created (+), updated (~) and deleted (−), and how the bytes came. "exit 4" or "exit 1": the mirror may not be the
  whole Source, and the run says why ([promise.md](promise.md#when-it-is-not-0)).
- *Audit*: resources that are the same (=), missing here (+), here though the Source does not have them (−), here with other bytes (*), and those for which the Source gives
  nothing to compare with (?).
- *Files*: how many files of the Source the mirror holds with the right bytes at the end, and how many files it holds that the Source does not have.
- *Tolerated*: the habits that Instep met and read all the same, by their numbers in [quirks.md](quirks.md).

How the programs of the real rows were run, and why something is not right where it is not:

`)
	for _, s := range realSources {
		fmt.Fprintf(b, "- **%s**: %s.%s Run: %s.\n", s.name, s.says, becauseOf(s.why), codeOf(s.needs))
	}
	b.WriteString("\nWhat is peculiar about the documents of the rendered rows, why something is not right where it is not, and the code that they follow:\n\n")
	for _, sh := range foreignShapes {
		fmt.Fprintf(b, "- **%s**: %s.%s Code: %s.\n", sh.name, sh.says, becauseOf(sh.why), sh.from)
	}
}

// writeClients likewise.
func writeClients(b *strings.Builder, rows []realRow) {
	b.WriteString(`
## Our Source, their clients

Instep publishes a site of 30 files, and the client copies it. Then one file is created, with a time of a year ago, one is updated and one is deleted; Instep
publishes again, and the client copies again. All rows are real. The figures say how many of the files of the site the client holds with the right bytes, and how many files
more it holds. [webmaster.md](webmaster.md#for-the-programs-that-others-use) says which setting helps which program.

| client | version | our settings | its command | at first | after the change | its own audit | what it cannot do |
|---|---|---|---|---|---|---|---|
`)
	for _, c := range realClients {
		cells := cellsOf(rows, "client", c.name)
		name, version := programVersion(strings.Split(c.name, ", ")[0], c.needs[0])
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s |\n", name, version, strings.Join(cells[:2], " | "), strings.Join(cells[2:], " | "), c.lacks)
	}
	b.WriteString("\n")
	for _, c := range realClients {
		if c.why+c.note != "" {
			fmt.Fprintf(b, "- **%s**:%s%s\n", c.name, becauseOf(c.why), becauseOf(c.note))
		}
	}
	fmt.Fprintf(b, "\nRun from %s.\n", clientCode())
}

var (
	release = regexp.MustCompile(` (\d+\.\d+\.\d+)\b`)
	commit  = regexp.MustCompile(`@([0-9a-f]{8})`)
)

// programVersion takes the release out of a name, and adds the commit of the code.
func programVersion(name, code string) (plain, version string) {
	if m := release.FindStringSubmatch(name); m != nil {
		name, version = strings.Replace(name, m[0], "", 1), m[1]
	}
	if m := commit.FindStringSubmatch(code); m != nil && !strings.HasPrefix(code, "none ") {
		if version == "" {
			return name, m[1]
		}
		version += " (" + m[1] + ")"
	}
	return name, version
}

func becauseOf(why string) string {
	if why == "" {
		return ""
	}
	return " " + why + "."
}

// codeOf names checkouts, with commits as short as people write them.
func codeOf(checkouts []string) string {
	var names []string
	for _, c := range checkouts {
		names = append(names, "`"+c+"`")
	}
	return strings.Join(names, ", ")
}

func clientCode() string {
	var all []string
	for _, c := range realClients {
		for _, n := range c.needs {
			if !slices.Contains(all, n) {
				all = append(all, n)
			}
		}
	}
	return codeOf(all)
}
