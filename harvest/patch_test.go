package harvest

import (
	"fmt"
	"strings"
	"testing"

	"instep/resourcesync"
)

func digests(t *testing.T, text string) resourcesync.Digests {
	t.Helper()
	h := resourcesync.NewHasher(resourcesync.SHA256)
	_, _ = h.Write([]byte(text))
	return h.Digests()
}

func TestPatchOfAnEntry(t *testing.T) {
	const jsonPatch, zstd = "application/json-patch+json", "application/zstd"
	link := func(href, mediaType string, length int64) resourcesync.Link {
		return resourcesync.Link{Rel: resourcesync.RelPatch, Href: href, Type: mediaType, Length: resourcesync.Bytes(length)}
	}
	encoded := link("/p", zstd, 10)
	encoded.Encoding = "gzip"
	for name, c := range map[string]struct {
		change resourcesync.Change
		links  []resourcesync.Link
		want   string
	}{
		"the only one":       {resourcesync.Updated, []resourcesync.Link{link("/p", jsonPatch, 10)}, "/p"},
		"the shortest":       {resourcesync.Updated, []resourcesync.Link{link("/a", jsonPatch, 10), link("/b", zstd, 9), link("/c", zstd, 11)}, "/b"},
		"one that is known":  {resourcesync.Updated, []resourcesync.Link{link("/a", "application/x-tiff-diff", 1), link("/b", zstd, 9)}, "/b"},
		"another relation":   {resourcesync.Updated, []resourcesync.Link{{Rel: "alternate", Href: "/a", Type: zstd}}, ""},
		"of a creation":      {resourcesync.Created, []resourcesync.Link{link("/p", zstd, 10)}, ""},
		"in another coding":  {resourcesync.Updated, []resourcesync.Link{encoded}, ""},
		"a URI without end":  {resourcesync.Updated, []resourcesync.Link{link("/"+strings.Repeat("p", maxPatchText), zstd, 10)}, ""},
		"none of any length": {resourcesync.Updated, nil, ""},
	} {
		e := resourcesync.Entry{Loc: "/r", Metadata: resourcesync.Metadata{Digests: digests(t, "r")}, Links: c.links}
		e.Change = c.change
		got := ""
		if p := patchOf(&e); len(p) == 1 {
			got = p[0].URI
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
		if r := remainderOf(&e); strings.Contains(r.text, "terms/patch") {
			t.Errorf("%s: the patch is kept with the resource: %s", name, r.text)
		}
	}
}

// Patches in a row are kept as far as there is room, and used from the version that is held.
func TestPatchesInARow(t *testing.T) {
	change := func(n int) *ChangeEntry {
		c := &ChangeEntry{Resource: Resource{URI: "/r", Length: resourcesync.Bytes(100_000), Digests: digests(t, fmt.Sprint(n))}, Change: resourcesync.Updated}
		c.Patches = []Patch{{URI: fmt.Sprint("/p/", n), Length: resourcesync.Bytes(10)}}
		return c
	}
	last := change(1)
	for n := 2; n <= 30; n++ {
		next := change(n)
		next.continuePatches(last)
		last = next
	}
	if n := len(last.Patches); n != maxPatches || last.Patches[0].URI != "/p/15" {
		t.Fatalf("%d patches, the first %q", n, last.Patches[0].URI)
	}
	for held, want := range map[int]int{29: 1, 20: 10, 14: 16, 13: 0, 30: 0} {
		if got := last.PatchesFrom(resourcesync.Bytes(100_000), digests(t, fmt.Sprint(held))); len(got) != want {
			t.Errorf("from version %d: %d patches, want %d", held, len(got), want)
		}
	}
	again := change(30)
	again.continuePatches(last) // the same change in another list
	if len(again.Patches) != maxPatches {
		t.Errorf("told twice: %d patches", len(again.Patches))
	}
	gone := &ChangeEntry{Change: resourcesync.Deleted}
	if again.continuePatches(gone); len(again.Patches) != 0 {
		t.Errorf("after a deletion: %d patches", len(again.Patches))
	}
}
