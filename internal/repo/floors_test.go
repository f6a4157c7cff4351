package repo

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// The files of a package are floors: each uses what those below it declare. Arrows that run back
// up, in the order of the files that has the fewest, tell how much has to be read at once.
func TestFilesOfAPackageAreFloors(t *testing.T) {
	files := repository(t)
	for _, dir := range packagesOf(files) {
		uses := arrowsBetweenFiles(t, files, dir)
		up := 0
		order := floors(uses)
		for from, all := range uses {
			for to := range all {
				if slices.Index(order, to) < slices.Index(order, from) {
					up++
				}
			}
		}
		arrows := 0
		for _, all := range uses {
			arrows += len(all)
		}
		if arrows == 0 {
			continue
		}
		t.Logf("%-28s %3d files %4d arrows %4d up (%2d %%)", dir, len(uses), arrows, up, 100*up/arrows)
		if 4*up >= arrows {
			t.Errorf("%s: %d of %d arrows between its files run back up, want fewer than a quarter", dir, up, arrows)
		}
	}
}

func isSource(name string) bool {
	return strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go")
}

// packagesOf returns the directories with Go code that is no test.
func packagesOf(files tree) []string {
	dirs := map[string]bool{}
	for name := range files {
		if isSource(name) && !strings.Contains(name, "testdata") && strings.Contains(name, "/") {
			dirs[path.Dir(name)] = true
		}
	}
	return slices.Sorted(maps.Keys(dirs))
}

// arrowsBetweenFiles returns which file uses what which other files declare. What other
// packages declare is left out, so these need not be read.
func arrowsBetweenFiles(t *testing.T, files tree, dir string) map[string]map[string]bool {
	t.Helper()
	fset := token.NewFileSet()
	var parsed []*ast.File
	uses := map[string]map[string]bool{}
	for name, text := range files {
		if !isSource(name) || path.Dir(name) != dir {
			continue
		}
		f, err := parser.ParseFile(fset, name, text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, f)
		uses[path.Base(name)] = map[string]bool{}
	}
	info := types.Info{Uses: map[*ast.Ident]types.Object{}}
	conf := types.Config{Importer: nothing{}, Error: func(error) {}}
	pkg, _ := conf.Check(dir, fset, parsed, &info) // its imports are not found
	for id, o := range info.Uses {
		if o.Pkg() != pkg || !o.Pos().IsValid() {
			continue
		}
		v, field := o.(*types.Var)
		if field = field && v.IsField(); !field && o.Parent() != nil && o.Parent() != pkg.Scope() {
			continue // local
		}
		from, to := path.Base(fset.Position(id.Pos()).Filename), path.Base(fset.Position(o.Pos()).Filename)
		if from != to {
			uses[from][to] = true
		}
	}
	return uses
}

// floors orders files from those that use others to those that are used, greedily: what nobody
// uses goes to the top, what uses nothing to the bottom, else what uses more than it is used.
func floors(uses map[string]map[string]bool) []string {
	left := slices.Sorted(maps.Keys(uses))
	var top, bottom []string
	out := func(f string) (n int) {
		for to := range uses[f] {
			if slices.Contains(left, to) {
				n++
			}
		}
		return n
	}
	in := func(f string) (n int) {
		for _, from := range left {
			if uses[from][f] {
				n++
			}
		}
		return n
	}
	for len(left) > 0 {
		best := slices.MaxFunc(left, func(a, b string) int { return cmp.Compare(out(a)-in(a), out(b)-in(b)) })
		for _, f := range left {
			if out(f) == 0 {
				best = f
				break
			}
			if in(f) == 0 {
				best = f
			}
		}
		if out(best) == 0 {
			bottom = append(bottom, best)
		} else {
			top = append(top, best)
		}
		left = slices.DeleteFunc(left, func(f string) bool { return f == best })
	}
	slices.Reverse(bottom)
	return append(top, bottom...)
}

// nothing is an importer that finds no package.
type nothing struct{}

func (nothing) Import(name string) (*types.Package, error) {
	return nil, fmt.Errorf("%s is not read", name)
}

func TestArrowsThatRunBackUp(t *testing.T) {
	files := tree{
		"p/a.go":      []byte("package p\nfunc a() { b(); c() }\nvar x T\n"),
		"p/b.go":      []byte("package p\nimport \"io\"\nfunc b() { io.EOF.Error(); c() }\n"),
		"p/c.go":      []byte("package p\ntype T struct{ n int }\nfunc c() { b := x.n; _ = b }\n"),
		"p/d_test.go": []byte("package p\nfunc d() { a() }\n"),
	}
	uses := arrowsBetweenFiles(t, files, "p")
	want := map[string]map[string]bool{"a.go": {"b.go": true, "c.go": true}, "b.go": {"c.go": true}, "c.go": {"a.go": true}}
	if !reflect.DeepEqual(uses, want) {
		t.Errorf("arrows: got %v, want %v", uses, want)
	}
	if order := floors(uses); !slices.Equal(order, []string{"a.go", "b.go", "c.go"}) {
		t.Errorf("floors: got %v", order)
	}
}
