package repo

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// room is one package of the module and what it may import.
type room struct {
	name    string
	ours    []string // rooms
	all     bool     // every room
	modules bool     // modules as well as the standard library
}

// home is a prefix of import paths and the rooms that may import it.
type home struct {
	prefix string
	rooms  []string
}

type arrows struct {
	rooms []room
	homes []home
}

func parseArrows(text []byte) (arrows, error) {
	var a arrows
	inHomes := false
	for i, line := range strings.Split(string(text), "\n") {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		if line == "== homes" {
			inHomes = true
			continue
		}
		cells := strings.Split(line, "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case inHomes && len(cells) == 2:
			a.homes = append(a.homes, home{cells[0], strings.Fields(cells[1])})
		case !inHomes && len(cells) == 3 && (cells[2] == "std" || cells[2] == "modules"):
			r := room{name: cells[0], all: cells[1] == "all", modules: cells[2] == "modules"}
			if !r.all && cells[1] != "-" {
				r.ours = strings.Fields(cells[1])
			}
			a.rooms = append(a.rooms, r)
		default:
			return a, fmt.Errorf("arrows.txt:%d: got %q, want ROOM | OURS | std or modules, or a home", i+1, line)
		}
	}
	return a, a.check()
}

// check finds rows that cannot be meant.
func (a arrows) check() error {
	var errs []error
	known := map[string]bool{}
	for _, r := range a.rooms {
		if known[r.name] {
			errs = append(errs, fmt.Errorf("arrows.txt: %s has two rows", r.name))
		}
		known[r.name] = true
	}
	missing := func(of string, names []string) {
		for _, n := range names {
			if !known[n] && n != "*" && n != "*test" {
				errs = append(errs, fmt.Errorf("arrows.txt: the row of %s names %s, which has no row", of, n))
			}
		}
	}
	for _, r := range a.rooms {
		missing(r.name, r.ours)
	}
	for _, h := range a.homes {
		missing(h.prefix, h.rooms)
	}
	return errors.Join(errs...)
}

func (a arrows) room(name string) (room, bool) {
	i := slices.IndexFunc(a.rooms, func(r room) bool { return r.name == name })
	if i < 0 {
		return room{}, false
	}
	return a.rooms[i], true
}

// isHome reports whether a room may import what stands under the home's prefix.
func (h home) isHome(r room) bool {
	switch {
	case slices.Contains(h.rooms, r.name):
		return true
	case slices.Contains(h.rooms, "*test") && strings.HasSuffix(r.name, "test"):
		return true
	}
	return slices.Contains(h.rooms, "*") && r.modules
}

func under(prefix, importPath string) bool {
	return importPath == prefix || strings.HasPrefix(importPath, prefix+"/")
}

// isModule tells a module from the standard library.
func isModule(importPath string) bool {
	first, _, _ := strings.Cut(importPath, "/")
	return strings.Contains(first, ".")
}

// wrong says why a room may not import a package, or "".
func (a arrows) wrong(r room, importPath string) string {
	if ours, ok := strings.CutPrefix(importPath, "instep/"); ok {
		if !r.all && !slices.Contains(r.ours, ours) {
			return fmt.Sprintf("%s imports %s: its row in internal/repo/arrows.txt does not allow it", r.name, ours)
		}
		return ""
	}
	for _, h := range a.homes {
		if !under(h.prefix, importPath) {
			continue
		}
		if !h.isHome(r) {
			return fmt.Sprintf("%s imports %s, whose home is: %s (internal/repo/arrows.txt)", r.name, importPath, strings.Join(h.rooms, " "))
		}
		return ""
	}
	if isModule(importPath) {
		return fmt.Sprintf("%s imports %s, which has no home in internal/repo/arrows.txt", r.name, importPath)
	}
	return ""
}

// problems checks packages by their production imports.
func (a arrows) problems(pkgs map[string][]string) []string {
	var out []string
	for pkg, imports := range pkgs {
		name := strings.TrimPrefix(pkg, "instep/")
		r, ok := a.room(name)
		if !ok {
			out = append(out, fmt.Sprintf("the room %s has no row in internal/repo/arrows.txt", name))
			continue
		}
		for _, i := range imports {
			if w := a.wrong(r, i); w != "" {
				out = append(out, w)
			}
		}
	}
	return out
}

// listPackages asks go list for the production imports of every package, as they
// are on one operating system.
func listPackages(t *testing.T, goos string) map[string][]string {
	t.Helper()
	cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Imports", "./...")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH=amd64", "CGO_ENABLED=0", "GOPROXY=off")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list for %s: %v\n%s", goos, err, stderr.Bytes())
	}
	pkgs := map[string][]string{}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := dec.Decode(&p); err == io.EOF {
			return pkgs
		} else if err != nil {
			t.Fatal(err)
		}
		pkgs[p.ImportPath] = p.Imports
	}
}

func repositoryArrows(t *testing.T) arrows {
	t.Helper()
	text, err := os.ReadFile("arrows.txt")
	if err != nil {
		t.Fatal(err)
	}
	a, err := parseArrows(text)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestArrows(t *testing.T) {
	a := repositoryArrows(t)
	for _, goos := range []string{"linux", "darwin", "windows"} {
		t.Run(goos, func(t *testing.T) { report(t, a.problems(listPackages(t, goos))) })
	}
}

func TestArrowsRefuse(t *testing.T) {
	a, err := parseArrows([]byte("wire | - | std\nbox | wire | modules\nboxtest | box | modules\ncmd | all | modules\n== homes\ndatabase/sql | box\nexample.org/any | *\nexample.org/cmp | *test\n"))
	if err != nil {
		t.Fatal(err)
	}
	got := a.problems(map[string][]string{
		"instep/wire":    {"io", "instep/box", "example.org/any"},
		"instep/box":     {"instep/wire", "database/sql/driver", "example.org/any/sub", "example.org/other"},
		"instep/boxtest": {"instep/box", "example.org/cmp", "instep/wire"},
		"instep/cmd":     {"instep/wire", "instep/boxtest", "database/sql", "example.org/cmp"},
		"instep/new":     nil,
	})
	slices.Sort(got)
	want := []string{
		"box imports example.org/other, which has no home in internal/repo/arrows.txt",
		"boxtest imports wire: its row in internal/repo/arrows.txt does not allow it",
		"cmd imports database/sql, whose home is: box (internal/repo/arrows.txt)",
		"cmd imports example.org/cmp, whose home is: *test (internal/repo/arrows.txt)",
		"the room new has no row in internal/repo/arrows.txt",
		"wire imports box: its row in internal/repo/arrows.txt does not allow it",
		"wire imports example.org/any, whose home is: * (internal/repo/arrows.txt)",
	}
	if d := cmp.Diff(got, want); d != "" {
		t.Errorf("problems (-got +want):\n%s", d)
	}
}

func TestArrowsFileRefusesBadRows(t *testing.T) {
	for _, text := range []string{
		"wire | -",
		"wire | - | some",
		"wire | - | std\nwire | - | std",
		"wire | box | std",
		"wire | - | std\n== homes\nexample.org/x | box",
	} {
		if _, err := parseArrows([]byte(text)); err == nil {
			t.Errorf("parseArrows(%q) succeeded, want an error", text)
		}
	}
}

// The arrows between roles, written down a second time: they are the ones to
// argue hardest before breaking, so that a slip in the table is caught as well.
func TestArrowsKeepTheRolesApart(t *testing.T) {
	a := repositoryArrows(t)
	for _, c := range []struct{ from, to string }{
		{"source", "destination"}, {"destination", "source"},
		{"source", "internal/catalog"}, {"destination", "internal/catalog"},
		{"source", "blob/s3"}, {"destination", "blob/s3"},
		{"blob", "source"}, {"blob", "destination"},
		{"internal/catalog", "source"}, {"internal/catalog", "destination"},
		{"internal/ui", "mirror"}, {"internal/ui", "internal/publish"},
	} {
		if reaches(a, c.from, c.to, map[string]bool{}) {
			t.Errorf("%s reaches %s", c.from, c.to)
		}
	}
	for _, name := range []string{"source", "destination", "blob", "resourcesync"} {
		r, _ := a.room(name)
		if w := a.wrong(r, "database/sql"); w == "" {
			t.Errorf("%s may import database/sql", name)
		}
	}
	if r, _ := a.room("resourcesync"); r.modules || len(r.ours) > 0 {
		t.Error("resourcesync may import more than the standard library")
	}
}

func reaches(a arrows, from, to string, seen map[string]bool) bool {
	if seen[from] {
		return false
	}
	seen[from] = true
	r, _ := a.room(from)
	return r.all || slices.ContainsFunc(r.ours, func(n string) bool { return n == to || reaches(a, n, to, seen) })
}

const (
	depguardBegin = "      # begin: generated from internal/repo/arrows.txt by `make arrows`\n"
	depguardEnd   = "      # end: generated\n"
)

// depguard writes the rules of the linter that say what the table says.
func (a arrows) depguard() []byte {
	var b bytes.Buffer
	b.WriteString(depguardBegin)
	b.WriteString("      rules:\n")
	for _, r := range a.rooms {
		fmt.Fprintf(&b, "        %s:\n", strings.ReplaceAll(r.name, "/", "-"))
		fmt.Fprintf(&b, "          files: [\"**/%s/*.go\", \"!$test\"]\n", r.name)
		b.WriteString("          list-mode: strict\n          allow:\n            - $gostd\n")
		if r.all {
			b.WriteString("            - instep/\n")
		}
		for _, o := range r.ours {
			fmt.Fprintf(&b, "            - instep/%s$\n", o)
		}
		var deny []home
		for _, h := range a.homes {
			switch std := !isModule(h.prefix); {
			case std && !h.isHome(r):
				deny = append(deny, h)
			case !std && h.isHome(r):
				fmt.Fprintf(&b, "            - %s\n", h.prefix)
			}
		}
		if len(deny) > 0 {
			b.WriteString("          deny:\n")
		}
		for _, h := range deny {
			fmt.Fprintf(&b, "            - pkg: %s\n              desc: its home is %s\n", h.prefix, strings.Join(h.rooms, ", "))
		}
	}
	b.WriteString(depguardEnd)
	return b.Bytes()
}

func TestArrowsAndLinterAgree(t *testing.T) {
	config, err := os.ReadFile(path.Join(root, ".golangci.yml"))
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok1 := bytes.Cut(config, []byte(depguardBegin))
	_, after, ok2 := bytes.Cut(rest, []byte(depguardEnd))
	if !ok1 || !ok2 {
		t.Fatalf(".golangci.yml lacks the lines around its generated part:\n%s%s", depguardBegin, depguardEnd)
	}
	golden(t, ".golangci.yml", slices.Concat(before, repositoryArrows(t).depguard(), after))
}
