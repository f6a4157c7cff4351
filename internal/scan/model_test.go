package scan

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"instep/resourcesync"
)

// Whatever happens to a tree: after a scan the catalog holds what the tree holds,
// and the changes recorded lead from one state to the next.
func TestCatalogFollowsTheTree(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f := setUp(t)
		f.MaxDelete = everything(t)
		replayed := map[string]string{}
		seen := 0
		for range rapid.IntRange(1, 4).Draw(rt, "scans") {
			for range rapid.IntRange(0, 8).Draw(rt, "edits") {
				edit(rt, f)
			}
			r := f.scan()
			want := contents(t, f.root)
			got := map[string]string{}
			for _, m := range f.members() {
				got[m.Path] = m.Digests.String()
			}
			same(rt, "members", got, want)
			if n := r.Created + r.Updated + r.Unchanged; n != int64(len(want)) || r.Failures.Count != 0 {
				rt.Fatalf("result %+v for %d files", r, len(want))
			}
			seen += replay(rt, f, seen, replayed)
			same(rt, "changes replayed", replayed, want)
		}
	})
}

func edit(rt *rapid.T, f *fixture) {
	names := []string{"a", "b", "d", "d/a", "d/b", "d/e/f", "g/h"}
	name := rapid.SampledFrom(names).Draw(rt, "name")
	path := f.path(name)
	switch rapid.SampledFrom([]string{"write", "write", "write", "remove", "rename", "hide"}).Draw(rt, "edit") {
	case "write":
		content := fmt.Sprint(rapid.IntRange(0, 3).Draw(rt, "content"))
		if os.MkdirAll(filepath.Dir(path), 0o700) == nil { // a file may stand where the directory should
			_ = os.WriteFile(path, []byte(content), 0o600) // or a directory where the file should
		}
	case "remove":
		_ = os.RemoveAll(path)
	case "rename":
		_ = os.Rename(path, f.path(rapid.SampledFrom(names).Draw(rt, "to")))
	case "hide":
		_ = os.RemoveAll(f.path(".hidden"))
		_ = os.Rename(path, f.path(".hidden"))
	}
}

// contents is what a scan should find, by other means.
func contents(t *testing.T, root string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if strings.HasPrefix(e.Name(), ".") {
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if e.IsDir() {
			return nil
		}
		data, readErr := os.ReadFile(path)
		name, relErr := filepath.Rel(root, path)
		h := resourcesync.NewHasher(resourcesync.SHA256)
		_, writeErr := h.Write(data)
		all[filepath.ToSlash(name)] = h.Digests().String()
		return errors.Join(readErr, relErr, writeErr)
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// replay applies the changes from the n-th on and returns how many there were.
func replay(rt *rapid.T, f *fixture, n int, state map[string]string) int {
	count := 0
	before := maps.Clone(state)
	for ch, err := range f.catalog.Facts.Changes(f.t.Context(), f.Set, int64(n), 1<<60) {
		if err != nil {
			rt.Fatal(err)
		}
		count++
		path := strings.TrimPrefix(ch.URI, base)
		old, member := before[path]
		switch {
		case (ch.Change == resourcesync.Created) == member:
			rt.Fatalf("%s of %q, which was a member: %v", ch.Change, path, member)
		case ch.Change == resourcesync.Deleted:
			delete(state, path)
		case ch.Digests.String() == old:
			rt.Fatalf("%s of %q, whose bytes are the same", ch.Change, path)
		default:
			state[path] = ch.Digests.String()
		}
	}
	return count
}
