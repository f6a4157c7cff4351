package repo

import (
	"bytes"
	"flag"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write what is generated instead of comparing it")

// root is the top of the repository, seen from this package.
const root = "../.."

// tree is a set of files by slash path below the top of the repository. Every
// check is a function of a tree, so that a small tree with a planted fault can
// show that the check fires.
type tree map[string][]byte

// repository reads the files of this repository: those that git tracks, or all
// of them where there is no git (an unpacked archive).
func repository(t *testing.T) tree {
	t.Helper()
	names, err := tracked()
	if err != nil {
		t.Fatalf("list the files of the repository: %v", err)
	}
	files := tree{}
	for _, name := range names {
		b, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if os.IsNotExist(err) {
			continue // deleted, and the deletion is not committed yet
		}
		if err != nil {
			t.Fatal(err)
		}
		files[name] = b
	}
	return files
}

func tracked() ([]string, error) {
	if _, err := os.Stat(filepath.Join(root, ".git")); err == nil {
		cmd := exec.Command("git", "ls-files", "-z")
		cmd.Dir = root
		out, err := cmd.Output()
		if err == nil {
			return strings.Split(strings.Trim(string(out), "\x00"), "\x00"), nil
		}
	}
	var names []string
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (name == ".git" || name == "bin" || name == "dist"):
			return fs.SkipDir
		case d.Type().IsRegular():
			names = append(names, name)
		}
		return nil
	})
	return names, err
}

// names lists the files whose name ends in suffix, sorted.
func (files tree) names(suffix string) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if strings.HasSuffix(name, suffix) {
			out = append(out, name)
		}
	}
	return out
}

// isText tells text from fixtures that are no text.
func isText(b []byte) bool { return !bytes.Contains(b, []byte{0}) }

// golden compares a generated file with what is committed, or writes it.
func golden(t *testing.T, name string, want []byte) {
	t.Helper()
	file := filepath.Join(root, filepath.FromSlash(name))
	if *update {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v (write it with: go test ./internal/repo -update)", err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what it is generated from; write it anew with: go test ./internal/repo -update\n%s", name, firstDifference(got, want))
	}
}

func firstDifference(got, want []byte) string {
	g, w := strings.Split(string(got), "\n"), strings.Split(string(want), "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			return "got  " + g[i] + "\nwant " + w[i]
		}
	}
	return "one of them ends earlier"
}

// report fails the test with every problem, in order.
func report(t *testing.T, problems []string) {
	t.Helper()
	slices.Sort(problems)
	for _, p := range problems {
		t.Error(p)
	}
}
