package catalog

import (
	"math"
	"testing"

	"instep/resourcesync"
)

// Lengths are what others say: no sum of them makes a set that can't be counted.
func TestCountHoldsWhateverLengthsAre(t *testing.T) {
	c := open(t)
	a, b := set(t, c, "a"), set(t, c, "b")
	change := func(kind resourcesync.Change, name string, length int64) Change {
		return Change{Change: kind, Resource: Resource{URI: "https://example.org/" + name, Path: name, Length: resourcesync.Bytes(length)}}
	}
	for _, ch := range []Change{
		change(resourcesync.Created, "x", math.MaxInt64), change(resourcesync.Created, "y", math.MaxInt64),
		change(resourcesync.Updated, "x", 1), change(resourcesync.Updated, "x", math.MaxInt64), change(resourcesync.Updated, "y", 5),
		change(resourcesync.Deleted, "x", 0), change(resourcesync.Deleted, "y", 0),
	} {
		record(t, c, a, ch)
		if n, bytes, err := c.Facts.Count(t.Context(), a); err != nil || n < 0 || bytes < 0 {
			t.Fatalf("after %s %s: Count = %d, %d, %v", ch.Change, ch.URI, n, bytes, err)
		}
		if ch.Change != resourcesync.Updated { // the same resources are those of another set
			record(t, c, b, ch)
		}
		if _, bytes, err := c.Facts.Count(t.Context(), b); err != nil || bytes < 0 {
			t.Fatalf("after %s %s: Count = %d, %v", ch.Change, ch.URI, bytes, err)
		}
	}
}
