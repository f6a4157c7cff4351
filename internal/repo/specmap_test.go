package repo

import (
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

// docs/spec-map.md maps the sections of the standard to code and tests. Its
// tables have four columns: section, what it asks for, code, tests. Code and
// tests are names in backquotes, room.Symbol or room.Type.Member; a row without
// code says "pending" in its last column.

var quoted = regexp.MustCompile("`([^`]+)`")

// symbols lists what a tree declares at package level and the members of its
// types, as room.Name and room.Type.Member.
func symbols(files tree) map[string]bool {
	have := map[string]bool{}
	for _, name := range files.names(".go") {
		file, _ := parser.ParseFile(token.NewFileSet(), name, files[name], parser.SkipObjectResolution)
		if file == nil {
			continue
		}
		room := path.Dir(name) + "."
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				have[room+funcName(d)] = true
			case *ast.GenDecl:
				for _, s := range d.Specs {
					declared(have, room, s)
				}
			}
		}
	}
	return have
}

func declared(have map[string]bool, room string, s ast.Spec) {
	switch s := s.(type) {
	case *ast.ValueSpec:
		for _, n := range s.Names {
			have[room+n.Name] = true
		}
	case *ast.TypeSpec:
		have[room+s.Name.Name] = true
		var fields *ast.FieldList
		switch t := s.Type.(type) {
		case *ast.StructType:
			fields = t.Fields
		case *ast.InterfaceType:
			fields = t.Methods
		}
		if fields == nil {
			return
		}
		for _, f := range fields.List {
			for _, n := range f.Names {
				have[room+s.Name.Name+"."+n.Name] = true
			}
		}
	}
}

// specMapProblems checks every row of the map against what is declared.
func specMapProblems(text string, have map[string]bool) (rows int, problems []string) {
	for i, line := range strings.Split(text, "\n") {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| section ") {
			continue
		}
		rows++
		bad := func(format string, args ...any) {
			problems = append(problems, fmt.Sprintf("docs/spec-map.md:%d: ", i+1)+fmt.Sprintf(format, args...))
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		if len(cells) != 4 {
			bad("%d columns, want section, what it asks for, code and tests", len(cells))
			continue
		}
		code, tests := quoted.FindAllStringSubmatch(cells[2], -1), quoted.FindAllStringSubmatch(cells[3], -1)
		pending := strings.Contains(cells[3], "pending")
		if pending == (len(tests) > 0) || pending && len(code) > 0 || !pending && len(code) == 0 {
			bad("want code and tests, or no code and the word pending")
		}
		for _, m := range code {
			if !have[m[1]] {
				bad("%s is not declared", m[1])
			}
		}
		for _, m := range tests {
			_, fn, _ := strings.Cut(path.Base(m[1]), ".")
			if !regexp.MustCompile(`^(Test|Fuzz|Example)`).MatchString(fn) || !have[m[1]] {
				bad("%s is not a test that exists", m[1])
			}
		}
	}
	return rows, problems
}

func TestSpecMap(t *testing.T) {
	files := repository(t)
	rows, problems := specMapProblems(string(files["docs/spec-map.md"]), symbols(files))
	if rows == 0 {
		t.Error("docs/spec-map.md has no rows")
	}
	report(t, problems)
}

func TestSpecMapRefuses(t *testing.T) {
	have := symbols(tree{
		"wire/a.go":      []byte("package wire\ntype T struct{ F, G int }\ntype I interface{ M() }\nfunc (t *T) Do() {}\nconst C, D = 1, 2\nvar V int\n"),
		"in/x/x_test.go": []byte("package x\nfunc TestX(t *testing.T) {}\nfunc helper() {}\n"),
	})
	rows, got := specMapProblems(strings.Join([]string{
		"| section | asks for | code | tests |",
		"|---|---|---|---|",
		"| 1 | all | `wire.T` `wire.T.F` `wire.T.Do` `wire.I.M` `wire.D` `wire.V` | `in/x.TestX` |",
		"| 2 | later | | pending (later) |",
		"| 3 | a | `wire.U` | `in/x.TestX` |",
		"| 4 | b | `wire.T` | `in/x.TestY` |",
		"| 5 | c | `wire.T` | `in/x.helper` |",
		"| 6 | d | `wire.T` | |",
		"| 7 | e | | `in/x.TestX` |",
		"| 8 | f | `wire.T` | pending |",
		"| 9 | g | `wire.T` |",
	}, "\n"), have)
	want := []string{
		"docs/spec-map.md:5: wire.U is not declared",
		"docs/spec-map.md:6: in/x.TestY is not a test that exists",
		"docs/spec-map.md:7: in/x.helper is not a test that exists",
		"docs/spec-map.md:8: want code and tests, or no code and the word pending",
		"docs/spec-map.md:9: want code and tests, or no code and the word pending",
		"docs/spec-map.md:10: want code and tests, or no code and the word pending",
		"docs/spec-map.md:11: 3 columns, want section, what it asks for, code and tests",
	}
	if d := cmp.Diff(got, want); d != "" {
		t.Errorf("problems (-got +want):\n%s", d)
	}
	if rows != 9 {
		t.Errorf("got %d rows, want 9", rows)
	}
}
