package scan

import (
	"path/filepath"
	"slices"
	"testing"

	"instep/internal/catalog"
)

// A state below the directory, or one that a link leads to, is nobody's to read.
func TestAStateDirectoryIsNotPublished(t *testing.T) {
	f := setUp(t, "a", "x/runs/20260101T000000Z.jsonl", "x/deep/er/file", "s/x/lock", "plain/catalog.db", "s/b")
	for _, dir := range []string{"x", "s/x"} {
		c, err := catalog.Open(t.Context(), catalog.Options{Path: filepath.Join(f.root, dir, catalog.FileName), Create: true})
		if err == nil {
			err = c.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	f.link("x/catalog.db", "link")
	f.link("x/runs/20260101T000000Z.jsonl", "record")
	want := []string{"a", "plain/catalog.db", "s/b"}
	for _, paths := range [][]string{nil, {"x", "x/catalog.db", "s/x/lock", "x/deep/er/file", "a", "link"}} {
		f.Paths = paths
		f.scan()
		if got := f.paths(); !slices.Equal(got, want) {
			t.Errorf("paths %q: got %q, want %q", paths, got, want)
		}
	}
}
