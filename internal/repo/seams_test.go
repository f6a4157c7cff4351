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

// A Mirror and its Batch are one interface each. Nothing else that a Mirror may implement is
// looked for: a decorator would lose it, and nobody would know of it.
func TestMirrorHasNoOptionalInterface(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "destination", "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	interfaces := map[string]bool{}
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
			case *ast.TypeAssertExpr:
				asserted = append(asserted, n.Type)
			}
			return true
		})
	}
	if !interfaces["Mirror"] || !interfaces["Batch"] {
		t.Errorf("interfaces of destination: got %v, want Mirror and Batch among them", slices.Sorted(maps.Keys(interfaces)))
	}
	for _, e := range asserted {
		if name := types.ExprString(e); interfaces[name] || name == "transfer.Parts" || name == "transfer.Store" {
			t.Errorf("destination asserts %s: make it a method of Mirror or Batch", name)
		}
	}
}
