package repo

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"strings"
	"testing"
)

// Each habit of programs of others has a test whose fixture names the program: the text of the
// test, its comment and the types and helpers before it up to the test before, or the script.
func TestHabitsOfOthersHaveATestThatNamesThem(t *testing.T) {
	files := repository(t)
	for line := range strings.Lines(string(files["internal/repo/habits.txt"])) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		cells := strings.Split(line, " | ")
		if len(cells) != 3 {
			t.Errorf("%q: want what they do | programs | test", line)
			continue
		}
		text := fixtureOf(files, cells[2])
		if text == "" {
			t.Errorf("%s: there is no test %s", cells[0], cells[2])
		}
		for program := range strings.SplitSeq(cells[1], ", ") {
			if program != "-" && !strings.Contains(text, program) {
				t.Errorf("%s: %s does not name %s", cells[0], cells[2], program)
			}
		}
		t.Log(line)
	}
}

// fixtureOf is the text of a test, or of a script; "" if there is none.
func fixtureOf(files tree, name string) string {
	if strings.HasSuffix(name, ".txtar") {
		return string(files[name])
	}
	dir, test, _ := strings.Cut(name, ".")
	for _, file := range files.names("_test.go") {
		if path.Dir(file) == dir {
			if text := textOf(files[file], test); text != "" {
				return text
			}
		}
	}
	return ""
}

// textOf is the text of a test function, with what stands before it up to the test before.
func textOf(src []byte, test string) string {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "", src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil || !bytes.Contains(src, []byte("func "+test+"(")) {
		return ""
	}
	begin := 0
	for _, d := range file.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || !strings.HasPrefix(fn.Name.Name, "Test") {
			continue
		}
		end := set.Position(fn.End()).Offset
		if fn.Name.Name == test {
			return string(src[begin:end])
		}
		begin = end
	}
	return ""
}
