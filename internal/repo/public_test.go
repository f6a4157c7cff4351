package repo

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path"
	"strconv"
	"strings"
	"testing"
)

// A program outside the module can't import our internal rooms, so no exported declaration of a
// public room names a type of theirs, except where it gives one a public name by an alias.
func TestPublicRoomsNameNothingInternal(t *testing.T) {
	for name, text := range repository(t) {
		room := path.Dir(name)
		if !isSource(name) || strings.HasPrefix(room+"/", "internal/") || strings.HasPrefix(room, "cmd/") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range internalNames(f) {
			t.Errorf("%s: %s", name, found)
		}
	}
}

func TestInternalNamesAreFound(t *testing.T) {
	const text = `package p
import "instep/internal/catalog"
import other "instep/internal/flock"
type Named = catalog.Alias
type Run struct { Row catalog.Field; hidden catalog.Hidden; catalog.Embedded }
type kept struct { Row catalog.Unexported }
func (k *kept) Method(catalog.OfUnexported) {}
func (r *Run) Open() (iter.Seq[catalog.Result], error) { var _ catalog.Body; return nil, nil }
var Err, hidden = other.ErrValue, catalog.Hidden
var Typed catalog.Var
type Each func(arg *other.Arg)
`
	f, err := parser.ParseFile(token.NewFileSet(), "p.go", text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(internalNames(f), "\n")
	want := "Run has catalog.Field\nRun has catalog.Embedded\nOpen has catalog.Result\nTyped has catalog.Var\nEach has other.Arg"
	if got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// internalNames returns the names of internal rooms in the exported declarations of a file.
func internalNames(f *ast.File) (found []string) {
	internal := map[string]bool{}
	for _, i := range f.Imports {
		at, err := strconv.Unquote(i.Path.Value)
		if err != nil || !strings.HasPrefix(at, "instep/internal/") {
			continue
		}
		name := path.Base(at)
		if i.Name != nil {
			name = i.Name.Name
		}
		internal[name] = true
	}
	var look func(name string, typ ast.Node)
	look = func(name string, typ ast.Node) {
		ast.Inspect(typ, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.StructType:
				for _, field := range n.Fields.List {
					if len(field.Names) == 0 || field.Names[0].IsExported() {
						look(name, field.Type)
					}
				}
				return false
			case *ast.SelectorExpr:
				if id, ok := n.X.(*ast.Ident); ok && internal[id.Name] {
					found = append(found, fmt.Sprintf("%s has %s", name, types.ExprString(n)))
				}
			}
			return true
		})
	}
	for _, decl := range f.Decls {
		exportedParts(decl, look)
	}
	return found
}

// exportedParts calls each with the types of the exported names that a declaration makes.
func exportedParts(decl ast.Decl, each func(name string, typ ast.Node)) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if !d.Name.IsExported() || d.Recv != nil && !exportedReceiver(d.Recv.List[0].Type) {
			return
		}
		for _, list := range []*ast.FieldList{d.Type.TypeParams, d.Type.Params, d.Type.Results} {
			for i := 0; list != nil && i < len(list.List); i++ {
				each(d.Name.Name, list.List[i].Type)
			}
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				if s.Name.IsExported() && !s.Assign.IsValid() {
					each(s.Name.Name, s.Type)
				}
			case *ast.ValueSpec:
				if s.Type != nil && s.Names[0].IsExported() {
					each(s.Names[0].Name, s.Type)
				}
			}
		}
	}
}

func exportedReceiver(e ast.Expr) bool {
	if s, ok := e.(*ast.StarExpr); ok {
		e = s.X
	}
	if i, ok := e.(*ast.IndexExpr); ok {
		e = i.X
	}
	id, ok := e.(*ast.Ident)
	return ok && id.IsExported()
}
