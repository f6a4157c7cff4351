package repo

import (
	"fmt"
	"path"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// firstTimeProblems checks the numbered rows of docs/first-time.md: each has tests that
// exist (room.TestName or name.txtar), or says "no test", or "not mended:" and why.
func firstTimeProblems(text string, have map[string]bool) (rows int, problems []string) {
	_, text, _ = strings.Cut(text, "\n| # |")
	for _, line := range strings.Split(text, "\n") {
		cells := strings.Split(line, "|")
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| what") {
			continue
		}
		rows++
		bad := func(format string, args ...any) {
			problems = append(problems, fmt.Sprintf("row %d: ", rows)+fmt.Sprintf(format, args...))
		}
		if len(cells) != 6 || strings.TrimSpace(cells[1]) != fmt.Sprint(rows) {
			bad("want four columns, the first with this number")
			continue
		}
		tests := quoted.FindAllStringSubmatch(cells[4], -1)
		open := strings.HasPrefix(cells[3], " not mended: ") || cells[4] == " no test "
		if open == (len(tests) > 0) {
			bad("want tests, or \"no test\", or \"not mended:\"")
		}
		for _, m := range tests {
			_, fn, _ := strings.Cut(path.Base(m[1]), ".")
			if !have[m[1]] || !strings.HasPrefix(fn, "Test") && fn != "txtar" {
				bad("%s is not a test that exists", m[1])
			}
		}
	}
	return rows, problems
}

func TestFirstTime(t *testing.T) {
	files := repository(t)
	have := symbols(files)
	for name := range files {
		if path.Dir(name) == "cmd/instep/testdata/script" {
			have[path.Base(name)] = true
		}
	}
	rows, problems := firstTimeProblems(string(files["docs/first-time.md"]), have)
	if rows != 60 {
		t.Errorf("docs/first-time.md has %d rows, want 60", rows)
	}
	report(t, problems)
}

func TestFirstTimeRefuses(t *testing.T) {
	_, got := firstTimeProblems(strings.Join([]string{
		"", "| # | what it was | now | test |", "|---|---|---|---|",
		"| 1 | a | b | `x.TestA` `a.txtar` |",
		"| 2 | a | b | no test |",
		"| 3 | a | not mended: later | |",
		"| 4 | a | b | |",
		"| 5 | a | b | `x.TestB` |",
		"| 7 | a | b | `x.TestA` |",
		"| 7 | a | b | `x.helper` |",
	}, "\n"), map[string]bool{"x.TestA": true, "x.helper": true, "a.txtar": true})
	want := []string{
		"row 4: want tests, or \"no test\", or \"not mended:\"",
		"row 5: x.TestB is not a test that exists",
		"row 6: want four columns, the first with this number",
		"row 7: x.helper is not a test that exists",
	}
	if d := cmp.Diff(got, want); d != "" {
		t.Errorf("problems (-got +want):\n%s", d)
	}
}
