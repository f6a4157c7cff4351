package repo

import (
	"bytes"
	"fmt"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// quirk is a row of quirks.txt; a row without id opens a group.
type quirk struct{ id, title, reading, waits string }

var (
	quirkID  = regexp.MustCompile(`^\d\d$`)
	quirkFor = regexp.MustCompile(`^TestQuirk_(\d\d)(_\w+)?$`)
)

func parseQuirks(text []byte) ([]quirk, error) {
	var rows []quirk
	next := 1
	for i, line := range strings.Split(string(text), "\n") {
		group, isGroup := strings.CutPrefix(line, "## ")
		switch {
		case isGroup:
			rows = append(rows, quirk{title: group})
			continue
		case line == "" || strings.HasPrefix(line, "#"):
			continue
		}
		cells := strings.Split(line, " | ")
		if len(cells) != 4 || !quirkID.MatchString(cells[0]) {
			return nil, fmt.Errorf("quirks.txt:%d: got %q, want NN | what Sources do | how it is read | what it waits for", i+1, line)
		}
		if want := fmt.Sprintf("%02d", next); cells[0] != want {
			return nil, fmt.Errorf("quirks.txt:%d: got quirk %s, want %s", i+1, cells[0], want)
		}
		next++
		rows = append(rows, quirk{cells[0], cells[1], cells[2], cells[3]})
	}
	return rows, nil
}

// quirkTests finds the tests named after a quirk, number → package.Test, and what is
// wrong: names like it that name none, and quirks that neither have a test nor wait
// for anything.
func quirkTests(files tree, rows []quirk) (tests map[string][]string, wrong []string) {
	tests = map[string][]string{}
	for _, q := range rows {
		if q.id != "" {
			tests[q.id] = nil
		}
	}
	for _, name := range files.names("_test.go") {
		for _, fn := range testFuncs(files[name]) {
			if !strings.HasPrefix(fn, "TestQuirk_") {
				continue
			}
			m := quirkFor.FindStringSubmatch(fn)
			if m == nil {
				wrong = append(wrong, fmt.Sprintf("%s: %s is not named like TestQuirk_07", name, fn))
				continue
			}
			if _, ok := tests[m[1]]; !ok {
				wrong = append(wrong, fmt.Sprintf("%s: %s names the quirk %s, which quirks.txt does not have", name, fn, m[1]))
				continue
			}
			tests[m[1]] = append(tests[m[1]], path.Dir(name)+"."+fn)
		}
	}
	for _, q := range rows {
		if q.id != "" && len(tests[q.id]) == 0 && q.waits == "-" {
			wrong = append(wrong, fmt.Sprintf("quirk %s has no test TestQuirk_%s and waits for nothing", q.id, q.id))
		}
	}
	return tests, wrong
}

func quirksTable(rows []quirk, tests map[string][]string) []byte {
	total, done := 0, 0
	var body bytes.Buffer
	for _, q := range rows {
		if q.id == "" {
			fmt.Fprintf(&body, "\n## %s\n\n| no. | what Sources do | how it is read | test |\n|---|---|---|---|\n", q.title)
			continue
		}
		total++
		cell := "pending (" + q.waits + ")"
		if len(tests[q.id]) > 0 {
			done++
			cell = "`" + strings.Join(tests[q.id], "` `") + "`"
		}
		fmt.Fprintf(&body, "| %s | %s | %s | %s |\n", strings.TrimPrefix(q.id, "0"), q.title, strings.TrimPrefix(q.reading, "-"), cell)
	}
	head := fmt.Sprintf(`# Quirks and their tests

What existing Sources publish that is unusual, seldom allowed by the standard, and
read all the same. Notes, warnings and their records (%s) carry the number. What
the standard allows has no line in a report. Written by %s from
internal/repo/quirks.txt and the tests; not to be edited.

%d of %d quirks have a test.
`, "`quirk`", "`make quirks`", done, total)
	return append([]byte(head), body.Bytes()...)
}

func TestQuirksTable(t *testing.T) {
	files := repository(t)
	rows, err := parseQuirks(files["internal/repo/quirks.txt"])
	if err != nil {
		t.Fatal(err)
	}
	tests, wrong := quirkTests(files, rows)
	report(t, wrong)
	golden(t, "docs/quirks.md", quirksTable(rows, tests))
}

func TestQuirksTableNamesTestsAndStrays(t *testing.T) {
	rows, err := parseQuirks([]byte("## Time\n01 | a | b | -\n02 | c | - | dumps\n03 | d | e | -\n"))
	if err != nil {
		t.Fatal(err)
	}
	tests, wrong := quirkTests(tree{
		"doc/a_test.go": []byte("package doc\nfunc TestQuirk_01(t *testing.T) {}\nfunc TestQuirk_01_more(t *testing.T) {}"),
		"doc/b_test.go": []byte("package doc\nfunc TestQuirk_99(t *testing.T) {}\nfunc TestQuirk_1(t *testing.T) {}"),
	}, rows)
	wantWrong := []string{
		"doc/b_test.go: TestQuirk_99 names the quirk 99, which quirks.txt does not have",
		"doc/b_test.go: TestQuirk_1 is not named like TestQuirk_07",
		"quirk 03 has no test TestQuirk_03 and waits for nothing",
	}
	if d := cmp.Diff(wrong, wantWrong); d != "" {
		t.Errorf("what is wrong (-got +want):\n%s", d)
	}
	table := string(quirksTable(rows, tests))
	for _, want := range []string{
		"1 of 3 quirks have a test.",
		"| 1 | a | b | `doc.TestQuirk_01` `doc.TestQuirk_01_more` |\n",
		"| 2 | c |  | pending (dumps) |\n",
	} {
		if !strings.Contains(table, want) {
			t.Errorf("the table lacks %q:\n%s", want, table)
		}
	}
}

func TestQuirksFileRefusesBadRows(t *testing.T) {
	for _, text := range []string{"1 | a | b | -", "01 | a | b", "02 | a | b | -", "01 | a | b | -\n01 | again | b | -"} {
		if rows, err := parseQuirks([]byte(text)); err == nil {
			t.Errorf("parseQuirks(%q) = %v, want an error", text, rows)
		}
	}
}
