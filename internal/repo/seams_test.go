package repo

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A Mirror and its Batch are one interface each. Of what a Mirror may implement besides, two
// are enough (docs/design.md): each more is one that a decorator loses and that nobody knows of.
func TestMirrorHasTwoOptionalInterfacesAtMost(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "destination", "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	interfaces, asked := map[string]bool{}, map[string]bool{}
	var asserted []ast.Expr
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.TypeSpec:
				if _, ok := n.Type.(*ast.InterfaceType); ok {
					interfaces[n.Name.Name] = true
				}
			case *ast.IndexExpr:
				if f, ok := n.X.(*ast.Ident); ok && f.Name == "optional" {
					asked[types.ExprString(n.Index)] = true
				}
			case *ast.TypeAssertExpr:
				asserted = append(asserted, n.Type)
			}
			return true
		})
	}
	if all := slices.Sorted(maps.Keys(asked)); len(all) == 0 || len(all) > 2 {
		t.Errorf("optional interfaces of Mirror: got %v, want at most two", all)
	}
	for _, e := range asserted {
		if id, ok := e.(*ast.Ident); ok && interfaces[id.Name] && id.Name != "Hashed" { // that is about a reader
			t.Errorf("destination asserts an interface of its own, %s: make it a method of Mirror or Batch", id.Name)
		}
	}
}
