package catalog

import (
	"fmt"
	"slices"
	"testing"

	"instep/resourcesync"
)

// TestMembersOfSeveralPages: a page ends between resources, also where it ends in the middle of
// a directory, or of the sets of a resource.
func TestMembersOfSeveralPages(t *testing.T) {
	c := open(t)
	sets := []SetID{set(t, c, "1"), set(t, c, "2"), set(t, c, "3")}
	const n = 3*pageSize + 1
	for s, id := range sets {
		var changes []Change
		for i := range n {
			if s == 0 || i%(s+1) == 0 {
				changes = append(changes, change(t, resourcesync.Created, fmt.Sprintf("%02d/%06d", i/700, i), "1"))
			}
		}
		for some := range slices.Chunk(changes, 500) {
			if err := c.Facts.Record(t.Context(), id, some); err != nil {
				t.Fatal(err)
			}
		}
	}
	i := 0
	for of, err := range c.Facts.MembersOf(t.Context(), sets) {
		if err != nil {
			t.Fatal(err)
		}
		got := []bool{of[0].Member, of[1].Member, of[2].Member}
		if want := []bool{true, i%2 == 0, i%3 == 0}; !slices.Equal(got, want) {
			t.Fatalf("resource %d, %s: member of %v, want %v", i, of[0].URI, got, want)
		}
		i++
	}
	if i != n {
		t.Errorf("got %d resources, want %d", i, n)
	}
	for range c.Facts.MembersOf(t.Context(), sets) {
		break
	}
}
