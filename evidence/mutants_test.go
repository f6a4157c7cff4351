package evidence

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestMutants takes away one branch of the decision after the other, and one condition
// after the other. Each time another test has to fail; it prints which.
func TestMutants(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: in make full and make evidence-mutants: every mutant is compiled")
	}
	if os.Getenv("INSTEP_MUTANT") != "" {
		t.Skip("SKIPPED: this is a mutant itself")
	}
	killed, total := 0, 0
	for _, file := range []string{"evidence.go", "document.go"} {
		for n := 0; ; n++ {
			what, text := mutant(t, file, n)
			if text == nil {
				break
			}
			total++
			by := failing(t, file, text)
			if by == "" {
				t.Errorf("%s: %s can be taken away and no test shows it", file, what)
				continue
			}
			killed++
			t.Logf("%s: %s: %s", file, what, by)
		}
	}
	t.Logf("mutants: %d of %d killed", killed, total)
}

// mutant is a file without its nth branch or condition, and what that is; nil if there are
// not so many.
func mutant(t *testing.T, file string, n int) (what string, text []byte) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	name := func(node ast.Node) string {
		var b bytes.Buffer
		if err := format.Node(&b, fset, node); err != nil {
			t.Fatal(err)
		}
		first, _, _ := strings.Cut(b.String(), "\n")
		return fmt.Sprintf("line %d: %s", fset.Position(node.Pos()).Line, first)
	}
	count := 0
	take := func(node ast.Node, remove func()) {
		if count == n {
			what = name(node)
			remove()
		}
		count++
	}
	ast.Inspect(f, func(node ast.Node) bool {
		if fn, ok := node.(*ast.FuncDecl); ok && fn.Name.Name == "String" {
			return false // words for people
		}
		switch node := node.(type) {
		case *ast.BlockStmt:
			for i, s := range node.List {
				switch s.(type) {
				case *ast.CaseClause, *ast.IfStmt:
					take(s, func() { node.List = slices.Delete(slices.Clone(node.List), i, i+1) })
				}
			}
		case *ast.CaseClause:
			for i := range node.List {
				if len(node.List) > 1 {
					take(node.List[i], func() { node.List = slices.Delete(slices.Clone(node.List), i, i+1) })
				}
			}
		case *ast.BinaryExpr:
			if node.Op == token.LAND || node.Op == token.LOR {
				left, right := node.X, node.Y
				neutral := ast.NewIdent(fmt.Sprint(node.Op == token.LAND))
				take(left, func() { node.X = neutral })
				take(right, func() { node.Y = neutral })
			}
		}
		return true
	})
	if what == "" {
		return "", nil
	}
	var b bytes.Buffer
	if err := format.Node(&b, fset, f); err != nil {
		t.Fatal(err)
	}
	return what, b.Bytes()
}

var failed = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

// failing is the first test that fails where a file has another text; "" if none does.
func failing(t *testing.T, file string, text []byte) string {
	dir := t.TempDir()
	other := filepath.Join(dir, file)
	own, err := filepath.Abs(file)
	if err != nil {
		t.Fatal(err)
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {own: other}})
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{other: text, filepath.Join(dir, "overlay.json"): overlay} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-vet=off", "-overlay", filepath.Join(dir, "overlay.json"), ".")
	cmd.Env = append(os.Environ(), "INSTEP_MUTANT=1")
	out, err := cmd.CombinedOutput()
	if err == nil {
		return ""
	}
	names := failed.FindAllSubmatch(out, -1)
	if len(names) == 0 {
		if bytes.Contains(out, []byte("[build failed]")) {
			return "it does not compile"
		}
		t.Fatalf("%v:\n%s", err, out)
	}
	return string(names[len(names)-1][1])
}
