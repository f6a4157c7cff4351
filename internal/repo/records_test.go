package repo

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"slices"
	"testing"
)

// A resource as the Source says it is a harvest.Resource, and one as a mirror holds it a
// destination.Held. A third record of the same would have to be kept in step with both:
// mirror.wanted is none, but how the catalog has a harvest.Resource written.
func TestTwoRecordsOfAResource(t *testing.T) {
	files := repository(t)
	found := map[string]bool{}
	for _, dir := range []string{"document", "harvest", "transfer", "internal/packages", "destination", "mirror"} {
		for name, text := range files {
			if !isSource(name) || path.Dir(name) != dir {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for record := range recordsIn(f) {
				found[dir+"."+record] = true
			}
		}
	}
	want := []string{"destination.Held", "harvest.Resource", "mirror.wanted"}
	if got := slices.Sorted(maps.Keys(found)); !slices.Equal(got, want) {
		t.Errorf("records of a resource: got %v, want %v", got, want)
	}
}

// recordsIn returns the struct types that say of a resource when it changed and what its bytes are.
func recordsIn(f *ast.File) map[string]bool {
	found := map[string]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		if s, ok := spec.Type.(*ast.StructType); ok {
			names := map[string]bool{}
			for _, field := range s.Fields.List {
				for _, name := range field.Names {
					names[name.Name] = true
				}
			}
			if names["LastMod"] && names["Digests"] {
				found[spec.Name.Name] = true
			}
		}
		return true
	})
	return found
}
