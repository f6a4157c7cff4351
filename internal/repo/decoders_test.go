package repo

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"reflect"
	"strconv"
	"strings"
	"testing"
)

// decoders are the files that make a Decoder, and why package document does not do it for them.
// Documents of a Source that are fetched, or opened in its place, are read by that package alone.
var decoders = map[string]string{
	"document/reader.go":          "reads a document as it comes",
	"document/document.go":        "reads again what was kept of it",
	"internal/convert/read.go":    "reads the file of a user, in any dialect, and tells each of its notes",
	"internal/convert/write.go":   "reads back what it has written",
	"internal/sim/document.go":    "reads what the simulated Source publishes, to bend it",
	"internal/sim/generations.go": "reads what the simulated Source has published before",
	"lint/live.go":                "reads the document that is judged again: a cut one as well, and entries that cannot be used",
	"lint/run.go":                 "judges a document by each of its notes: a cut one as well",
	"source/fixed.go":             "reads the Change Lists that we have published",
	"source/published.go":         "reads what we have published",
}

func TestFetchedDocumentsAreDecodedInOneRoom(t *testing.T) {
	found := decodersOf(repository(t))
	for name := range found {
		if decoders[name] == "" {
			t.Errorf("%s makes a Decoder: read documents of a Source by package document, or say in decoders why not", name)
		}
	}
	for name := range decoders {
		if !found[name] {
			t.Errorf("%s makes no Decoder any more: drop it from decoders", name)
		}
	}
}

// decodersOf returns the files, tests aside, that refer to resourcesync.NewDecoder.
func decodersOf(files tree) map[string]bool {
	found := map[string]bool{}
	for name, text := range files {
		if !isSource(name) || path.Dir(name) == "resourcesync" {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
		if err != nil {
			continue // the compiler tells
		}
		called := importedAs(f, "instep/resourcesync")
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if id, ok := n.X.(*ast.Ident); ok && id.Name == called && n.Sel.Name == "NewDecoder" {
					found[name] = true
				}
			case *ast.Ident:
				if called == "." && n.Name == "NewDecoder" {
					found[name] = true
				}
			}
			return true
		})
	}
	return found
}

// importedAs is the name by which a file calls a package; "" if it does not import it.
func importedAs(f *ast.File, pkg string) string {
	for _, i := range f.Imports {
		if i.Path.Value != strconv.Quote(pkg) {
			continue
		}
		if i.Name != nil {
			return i.Name.Name
		}
		return path.Base(pkg)
	}
	return ""
}

func TestDecodersAreFound(t *testing.T) {
	file := func(imports, expr string) []byte {
		return []byte(strings.Join([]string{"package p", "import " + imports, "var x = " + expr}, "\n"))
	}
	got := decodersOf(tree{
		"p/a.go":            file(`"instep/resourcesync"`, "resourcesync.NewDecoder(nil)"),
		"p/b.go":            file(`rs "instep/resourcesync"`, "rs.NewDecoder"),
		"p/c.go":            file(`. "instep/resourcesync"`, "NewDecoder(nil)"),
		"p/d.go":            file(`"encoding/json"`, "json.NewDecoder(nil)"),
		"p/e.go":            file(`"instep/resourcesync"`, "resourcesync.NewEncoder(nil)"),
		"p/f_test.go":       file(`"instep/resourcesync"`, "resourcesync.NewDecoder(nil)"),
		"resourcesync/g.go": file(`"instep/resourcesync"`, "resourcesync.NewDecoder(nil)"),
	})
	if want := map[string]bool{"p/a.go": true, "p/b.go": true, "p/c.go": true}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
