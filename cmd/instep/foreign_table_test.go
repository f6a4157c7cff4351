//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
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

` + "`make foreign`" + ` writes both tables; do not edit them. *Real* rows are results of programs that were run against ours, unchanged, at the
commits that are named. *Rendered* rows are results with documents as the code of a program writes them; it was not run. A program that
cannot be had keeps the row of the last run that had it. ` + "`FOREIGN=DIR make foreign`" + ` takes checkouts from DIR/OWNER/REPO; what is not there is cloned.

## Their Sources, our client

Each Source is mirrored; creates, updates and deletes a resource (the simulator: see below); is followed and audited. The file that is created
in a real run has a time of a year ago, as a copied one may. Tolerated are the habits of [quirks.md](quirks.md) by number.

| Source | how | baseline | after the change | audit | files | tolerated |
|---|---|---|---|---|---|---|
`)
	for _, s := range realSources {
		fmt.Fprintf(&b, "| %s | real | %s |\n", s.name, strings.Join(cellsOf(rows, "source", s.name), " | "))
	}
	for _, r := range rendered {
		fmt.Fprintf(&b, "| %s | rendered | %s | %s | %s | %s | %s |\n", r.source, r.baseline, r.incremental, r.audit, r.files, r.tolerated)
	}
	b.WriteString(`
In the audit: = the same, + missing here, − not at the Source, * other bytes, ? nothing to compare with.
Files: how many of those that exist at the end the mirror holds as they are, and how many it holds that do not exist any more.

Real:

`)
	for _, s := range realSources {
		fmt.Fprintf(&b, "- **%s**: %s.%s Run: %s.\n", s.name, s.says, becauseOf(s.why), codeOf(s.needs))
	}
	b.WriteString("\nRendered:\n\n")
	for _, sh := range foreignShapes {
		fmt.Fprintf(&b, "- **%s**: %s. Code: %s.\n", sh.name, sh.says, sh.from)
	}
	b.WriteString(`
## Our Source, their clients

We publish a site of 30 files and the client copies it. Then one file is created, with a time of a year ago, one updated and one deleted; we
publish again and the client copies again. Files are compared byte by byte with those of the site: how many are right, and how many more
there are. [webmaster.md](webmaster.md#for-the-programs-that-others-use) says which of our settings helps which program.

| client | our settings | its command | at first | after the change | its own audit |
|---|---|---|---|---|---|
`)
	for _, c := range realClients {
		cells := cellsOf(rows, "client", c.name)
		fmt.Fprintf(&b, "| %s | %s | %s |\n", strings.Split(c.name, ", ")[0], strings.Join(cells[:2], " | "), strings.Join(cells[2:], " | "))
	}
	b.WriteString("\n")
	for _, c := range realClients {
		if c.why+c.note != "" {
			fmt.Fprintf(&b, "- **%s**:%s%s\n", c.name, becauseOf(c.why), becauseOf(c.note))
		}
	}
	fmt.Fprintf(&b, "\nRun from %s.\n", clientCode())
	b.WriteString("\n## Not run\n\n")
	for _, p := range notRun {
		fmt.Fprintf(&b, "- %s\n", p)
	}
	return b.String()
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
