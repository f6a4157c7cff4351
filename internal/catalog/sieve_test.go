package catalog

import (
	"fmt"
	"testing"

	"instep/resourcesync"
)

func TestASieveForgetsNothing(t *testing.T) {
	const n = 100_000
	s, key := newSieve(), func(i int) resourcesync.Key { return resourcesync.KeyOf(fmt.Sprint("http://example.org/", i)) }
	for i := range n {
		s.add(key(i))
	}
	through := 0
	for i := range n {
		if s.lacks(key(i)) {
			t.Fatalf("key %d was added and is said to lack", i)
		}
		if !s.lacks(key(n + i)) {
			through++
		}
	}
	if through > n/1000 {
		t.Errorf("%d of %d keys that it lacks go through, want at most 1 in 1,000", through, n)
	}
}

func TestACatalogWithRowsHasNoSieve(t *testing.T) {
	dir := t.TempDir()
	for _, want := range []bool{true, false} {
		c, err := Open(t.Context(), Options{Path: dir + "/catalog.db", Create: true, Alone: true})
		if err != nil {
			t.Fatal(err)
		}
		if got := c.sieve != nil; got != want {
			t.Errorf("has a sieve: %v, want %v", got, want)
		}
		set, err := c.Set(t.Context(), "http://example.org/set")
		if err != nil {
			t.Fatal(err)
		}
		added := Resource{URI: fmt.Sprint("http://example.org/", want), Path: "a", Length: resourcesync.Bytes(1)}
		if err := c.Record(t.Context(), set, []Change{{Change: resourcesync.Created, Resource: added}}); err != nil {
			t.Fatal(err)
		}
		for _, had := range []bool{true, want} {
			uri := fmt.Sprint("http://example.org/", had)
			if found, err := c.Lookup(t.Context(), set, []resourcesync.Key{resourcesync.KeyOf(uri)}); err != nil || found[0].URI != uri {
				t.Errorf("look up %s: got %q, %v", uri, found[0].URI, err)
			}
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
