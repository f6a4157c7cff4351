package repo

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fault is a row of faults.txt; a row without id opens a group.
type fault struct{ id, title, waits string }

var (
	faultID  = regexp.MustCompile(`^[A-Z]{2,3}-\d\d$`)
	faultFor = regexp.MustCompile(`^TestCat_([A-Z]{2,3})_(\d\d)(_\w+)?$`)
)

func parseFaults(text []byte) ([]fault, error) {
	var rows []fault
	seen := map[string]bool{}
	for i, line := range strings.Split(string(text), "\n") {
		group, isGroup := strings.CutPrefix(line, "## ")
		switch {
		case isGroup:
			rows = append(rows, fault{title: group})
			continue
		case line == "" || strings.HasPrefix(line, "#"):
			continue
		}
		cells := strings.Split(line, " | ")
		if len(cells) != 3 || !faultID.MatchString(cells[0]) || cells[1] == "" || cells[2] == "" {
			return nil, fmt.Errorf("faults.txt:%d: got %q, want ID | title | what it waits for", i+1, line)
		}
		if seen[cells[0]] {
			return nil, fmt.Errorf("faults.txt:%d: %s stands there twice", i+1, cells[0])
		}
		seen[cells[0]] = true
		rows = append(rows, fault{cells[0], cells[1], cells[2]})
	}
	return rows, nil
}

// catalogueTests finds the tests named after a fault: id → package.Test, and
// those with a name that is like it but names no fault.
func catalogueTests(files tree, known []fault) (tests map[string][]string, strays []string) {
	tests = map[string][]string{}
	for _, f := range known {
		if f.id != "" {
			tests[f.id] = nil
		}
	}
	for _, name := range files.names("_test.go") {
		for _, fn := range testFuncs(files[name]) {
			if !strings.HasPrefix(fn, "TestCat_") {
				continue
			}
			m := faultFor.FindStringSubmatch(fn)
			if m == nil {
				strays = append(strays, fmt.Sprintf("%s: %s is not named like TestCat_PAR_01", name, fn))
				continue
			}
			id := m[1] + "-" + m[2]
			if _, ok := tests[id]; !ok {
				strays = append(strays, fmt.Sprintf("%s: %s names the fault %s, which faults.txt does not have", name, fn, id))
				continue
			}
			tests[id] = append(tests[id], path.Dir(name)+"."+fn)
		}
	}
	return tests, strays
}

// testFuncs lists the functions of a file, as far as it parses.
func testFuncs(src []byte) []string {
	file, _ := parser.ParseFile(token.NewFileSet(), "", src, parser.SkipObjectResolution)
	if file == nil {
		return nil
	}
	var out []string
	for _, d := range file.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil {
			out = append(out, fn.Name.Name)
		}
	}
	return out
}

func faultsTable(rows []fault, tests map[string][]string) []byte {
	total, done := 0, 0
	var body bytes.Buffer
	for _, f := range rows {
		if f.id == "" {
			fmt.Fprintf(&body, "\n## %s\n\n| id | fault | test |\n|---|---|---|\n", f.title)
			continue
		}
		total++
		cell := "pending"
		switch {
		case len(tests[f.id]) > 0:
			done++
			cell = "`" + strings.Join(tests[f.id], "` `") + "`"
		case f.waits != "-":
			cell = "pending (" + f.waits + ")"
		}
		fmt.Fprintf(&body, "| %s | %s | %s |\n", f.id, f.title, cell)
	}
	head := fmt.Sprintf(`# Faults and their tests

What goes wrong between a Source and a Destination, and the test that shows what
happens then. A test covers a row, or a part of it, by its name. Written by
%s from internal/repo/faults.txt and the tests; not to be edited.

%d of %d rows have a test.
`, "`make faults`", done, total)
	return append([]byte(head), body.Bytes()...)
}

func TestFaultsTable(t *testing.T) {
	files := repository(t)
	rows, err := parseFaults(files["internal/repo/faults.txt"])
	if err != nil {
		t.Fatal(err)
	}
	tests, strays := catalogueTests(files, rows)
	report(t, strays)
	golden(t, "docs/faults.md", faultsTable(rows, tests))
}

func TestFaultsTableNamesTestsAndStrays(t *testing.T) {
	rows, err := parseFaults([]byte("## Parsing\nPAR-01 | a DTD | -\nPAR-02 | depth | limits\nPAR-03 | gzip | -\n"))
	if err != nil {
		t.Fatal(err)
	}
	tests, strays := catalogueTests(tree{
		"doc/a_test.go": []byte("package doc\nfunc TestCat_PAR_01(t *testing.T) {}\nfunc TestCat_PAR_01_external(t *testing.T) {}"),
		"doc/b_test.go": []byte("package doc\nfunc TestCat_PAR_99(t *testing.T) {}\nfunc TestCat_par(t *testing.T) {}"),
		"doc/c.go":      []byte("package doc\nfunc TestCat_PAR_02() {}"),
	}, rows)
	wantStrays := []string{
		"doc/b_test.go: TestCat_PAR_99 names the fault PAR-99, which faults.txt does not have",
		"doc/b_test.go: TestCat_par is not named like TestCat_PAR_01",
	}
	if d := cmp.Diff(strays, wantStrays); d != "" {
		t.Errorf("strays (-got +want):\n%s", d)
	}
	table := string(faultsTable(rows, tests))
	for _, want := range []string{
		"1 of 3 rows have a test.",
		"| PAR-01 | a DTD | `doc.TestCat_PAR_01` `doc.TestCat_PAR_01_external` |\n",
		"| PAR-02 | depth | pending (limits) |\n",
		"| PAR-03 | gzip | pending |\n",
	} {
		if !strings.Contains(table, want) {
			t.Errorf("the table lacks %q:\n%s", want, table)
		}
	}
}

func TestFaultsFileRefusesBadRows(t *testing.T) {
	for _, text := range []string{
		"PAR-1 | a DTD | -",
		"PAR-01 | a DTD",
		"PAR-01 |  | -",
		"PAR-01 | a DTD | -\nPAR-01 | again | -",
	} {
		if rows, err := parseFaults([]byte(text)); err == nil {
			t.Errorf("parseFaults(%q) = %v, want an error", text, rows)
		}
	}
}
