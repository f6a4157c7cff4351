package destination

import (
	"testing"

	"pgregory.net/rapid"

	"instep/resourcesync"
)

// TestOrderedActionsComeByKey: whatever the order in which a Source lists its resources,
// each comes back once, with its action, in the order of the rows of a mirror.
func TestOrderedActionsComeByKey(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		uris := rapid.SliceOfDistinct(rapid.StringMatching(`https://example\.org/([a-c]{1,3}/){0,3}[a-z0-9]{0,20}`), rapid.ID).Draw(t, "URIs")
		o := newOrdered("")
		defer o.close()
		for i, uri := range uris {
			a := Action{Kind: Fetch, From: uri, Package: i}
			a.Want.URI = uri
			if err := o.add(a); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 { // it can be ranged over any number of times
			var last resourcesync.Key
			seen := map[int]bool{}
			for a, err := range o.all() {
				if err != nil {
					t.Fatal(err)
				}
				key := resourcesync.KeyOf(a.Want.URI)
				if key <= last || a.From != a.Want.URI || uris[a.Package] != a.From {
					t.Fatalf("%q came after %q: %+v", key, last, a)
				}
				last, seen[a.Package] = key, true
			}
			if len(seen) != len(uris) {
				t.Fatalf("%d of %d came back", len(seen), len(uris))
			}
		}
	})
}
