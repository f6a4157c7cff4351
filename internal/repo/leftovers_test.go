package repo

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// forbidden is text that must not be in a tracked file. The words are put
// together here so that this file does not hold them itself.
var forbidden = []struct {
	what   string
	in     string // suffix of the names of the files it concerns
	except string // suffix of the names it does not concern
	re     *regexp.Regexp
}{
	{"a path of somebody's machine", "", ".sum", regexp.MustCompile(`(^|[^A-Za-z0-9_.%~-])/(root|home|Users|work|workspace|builds?)/[A-Za-z0-9_.]`)},
	{"a path of somebody's machine", "", ".sum", regexp.MustCompile(`(^|[^A-Za-z])[A-Z]:\\Users\\`)},
	{"the host of a package registry", "", "", regexp.MustCompile(`(proxy|sum)\.golang` + `\.org|registry\.npmjs` + `\.org|pypi` + `\.org`)},
	{"a leftover", ".go", "", regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X)\b`)},
	{"a leftover", ".md", "", regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X)\b`)},
}

func leftovers(files tree) []string {
	var out []string
	for name, text := range files {
		if !isText(text) {
			continue
		}
		for _, f := range forbidden {
			if !strings.HasSuffix(name, f.in) || f.except != "" && strings.HasSuffix(name, f.except) {
				continue
			}
			for i, line := range bytes.Split(text, []byte("\n")) {
				if m := f.re.Find(line); m != nil {
					out = append(out, fmt.Sprintf("%s:%d: %s: %q", name, i+1, f.what, m))
				}
			}
		}
	}
	return out
}

func TestNoLeftovers(t *testing.T) { report(t, leftovers(repository(t))) }

func TestLeftoversAreFound(t *testing.T) {
	for text, want := range map[string]bool{
		"see /home" + "/ann/x":              true,
		"(/root" + "/go)":                   true,
		"/work" + "/main/x.go":              true,
		`C:\Users` + `\ann`:                 true,
		"via proxy.golang" + ".org":         true,
		"// TO" + "DO: later":               true,
		"https://example.org/home/index":    false,
		"a/root/b":                          false,
		"the /home page":                    false,
		"TODOS":                             false,
		"the mirror lies at DIR/.instep/ab": false,
	} {
		if got := len(leftovers(tree{"x.go": []byte(text)})) > 0; got != want {
			t.Errorf("found something in %q: %v, want %v", text, got, want)
		}
	}
}

const (
	maxFileLines = 600 // of a Go file that is no test, nor in a room of test helpers
	maxFuncLines = 80  // of a function there
)

// longFuncs are the functions that may be longer than maxFuncLines, each with
// its reason. The list may only shrink: a name that is not needed is an error.
var longFuncs = map[string]string{}

// sizes finds files that one would search rather than read, and functions that
// do not fit a screen.
func sizes(files tree, allowed map[string]string) []string {
	var out []string
	used := map[string]bool{}
	for _, name := range files.names(".go") {
		if strings.HasSuffix(name, "_test.go") || strings.HasSuffix(path.Dir(name), "test") {
			continue
		}
		if n := bytes.Count(files[name], []byte("\n")); n > maxFileLines {
			out = append(out, fmt.Sprintf("%s has %d lines, want at most %d", name, n, maxFileLines))
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, files[name], parser.SkipObjectResolution)
		if err != nil {
			out = append(out, err.Error())
			continue
		}
		for _, d := range file.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			id := path.Dir(name) + "." + funcName(fn)
			n := fset.Position(fn.End()).Line - fset.Position(fn.Pos()).Line + 1
			switch {
			case n > maxFuncLines && allowed[id] == "":
				out = append(out, fmt.Sprintf("%s: %s has %d lines, want at most %d", name, id, n, maxFuncLines))
			case n > maxFuncLines:
				used[id] = true
			}
		}
	}
	for id := range allowed {
		if !used[id] {
			out = append(out, fmt.Sprintf("%s may be long but is not, or is gone: take it off the list", id))
		}
	}
	return out
}

// funcName is Func or Type.Method.
func funcName(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return fn.Name.Name
	}
	return typeName(fn.Recv.List[0].Type) + "." + fn.Name.Name
}

func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return typeName(e.X)
	case *ast.IndexExpr:
		return typeName(e.X)
	case *ast.IndexListExpr:
		return typeName(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

func TestSizes(t *testing.T) { report(t, sizes(repository(t), longFuncs)) }

func TestSizesAreMeasured(t *testing.T) {
	long := "package p\n\nfunc (x *T[K]) M() {\n" + strings.Repeat("\n", maxFuncLines) + "}\n"
	got := sizes(tree{
		"p/long.go":      []byte(long),
		"p/fine.go":      []byte("package p\n\nfunc F() {\n}\n"),
		"p/file.go":      []byte("package p\n" + strings.Repeat("\n", maxFileLines)),
		"p/long_test.go": []byte(long),
		"ptest/long.go":  []byte(long),
	}, map[string]string{"p.F": "no reason"})
	want := []string{
		"p/file.go has 601 lines, want at most 600",
		"p/long.go: p.T.M has 82 lines, want at most 80",
		"p.F may be long but is not, or is gone: take it off the list",
	}
	if d := cmp.Diff(got, want); d != "" {
		t.Errorf("problems (-got +want):\n%s", d)
	}
	if got := sizes(tree{"p/long.go": []byte(long)}, map[string]string{"p.T.M": "a table"}); got != nil {
		t.Errorf("an allowed function was reported: %v", got)
	}
}

func TestGofmt(t *testing.T) {
	files := repository(t)
	for _, name := range files.names(".go") {
		want, err := format.Source(files[name])
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if !bytes.Equal(files[name], want) {
			t.Errorf("%s is not gofmt-ed", name)
		}
	}
}
