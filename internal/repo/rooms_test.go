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
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// docs/rooms.md has each package as go list has it: why it exists, in the first sentence of its
// comment, and what of ours it imports. Lines are written down when something else changes.
func TestRoomsTable(t *testing.T) {
	const name = "docs/rooms.md"
	table := roomsTable(t)
	if *update {
		golden(t, name, table)
		return
	}
	was, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	lines := regexp.MustCompile(`\| [0-9]+ \|`)
	if got, want := lines.ReplaceAll(was, []byte("||")), lines.ReplaceAll(table, []byte("||")); !bytes.Equal(got, want) {
		t.Errorf("%s is not what go list says; write it anew with: make rooms\n%s", name, firstDifference(got, want))
	}
}

func roomsTable(t *testing.T) []byte {
	t.Helper()
	files := repository(t)
	cmd := exec.Command("go", "list", "-json=ImportPath,Doc,Imports", "./...")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	b.WriteString("# Rooms\n\nEach package of the module: its lines without tests, why it exists, and what of ours it imports, from `go list`. " +
		"Written by\n`make rooms`; not to be edited. Which may import which is law: `internal/repo/arrows.txt`.\n\n| room | lines | why it exists | imports |\n|---|---:|---|---|\n")
	var production, beside int
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath, Doc string
			Imports         []string
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			fmt.Fprintf(&b, "| production code | %d | all rooms but those of the next row | |\n", production)
			fmt.Fprintf(&b, "| beside it | %d | helps tests and measures: `internal/sim`, `bench`, and the rooms with names in `test` | |\n", beside)
			fmt.Fprintf(&b, "| tests | %d | `*_test.go` of all rooms | |\n", linesOfTests(files))
			return b.Bytes()
		} else if err != nil {
			t.Fatal(err)
		}
		dir, ours := strings.TrimPrefix(p.ImportPath, "instep/"), []string{}
		for _, i := range p.Imports {
			if own, ok := strings.CutPrefix(i, "instep/"); ok {
				ours = append(ours, "`"+own+"`")
			}
		}
		lines := linesOf(files, dir)
		if dir == "bench" || dir == "internal/sim" || strings.HasSuffix(dir, "test") {
			beside += lines
		} else {
			production += lines
		}
		fmt.Fprintf(&b, "| `%s` | %d | %s | %s |\n", dir, lines, reasonOf(p.Doc), strings.Join(ours, " "))
	}
}

// linesOf counts the lines of a package without its tests.
func linesOf(files tree, dir string) (n int) {
	for name, text := range files {
		if isSource(name) && path.Dir(name) == dir {
			n += bytes.Count(text, []byte("\n"))
		}
	}
	return n
}

func linesOfTests(files tree) (n int) {
	for name, text := range files {
		if strings.HasSuffix(name, "_test.go") {
			n += bytes.Count(text, []byte("\n"))
		}
	}
	return n
}

// reasonOf is the first sentence of a package comment without the name of the package.
func reasonOf(doc string) string {
	words := strings.Fields(doc)
	if len(words) > 2 && words[0] == "Package" {
		words = words[2:]
	}
	return strings.TrimSuffix(strings.ReplaceAll(strings.Join(words, " "), "|", `\|`), ".")
}
