package mirror

import (
	"context"
	"testing"

	"instep/destination"
	"instep/internal/catalog"
)

// countedSets counts how often all sets are listed.
type countedSets struct {
	facts
	n int
}

func (c *countedSets) Sets(ctx context.Context) ([]catalog.NamedSet, error) {
	c.n++
	return c.facts.Sets(ctx)
}

// Whether a resource is kept is asked for each one that becomes due, so it costs no list of all sets.
func TestASetThatDoesNotExistIsLookedUpOnce(t *testing.T) {
	m := openMirror(t, options(t.TempDir()))
	commit(t, m, func(b destination.Batch) error { return put(b, set, "a", "one", noon) })
	c := &countedSets{facts: m.facts}
	m.facts = c
	for range 3 {
		if kept, err := m.isKept(t.Context(), home+"/a"); kept || err != nil {
			t.Fatal(kept, err)
		}
	}
	if c.n > 1 {
		t.Errorf("the sets were listed %d times", c.n)
	}
	if _, err := m.makeSet(t.Context(), KeptSet); err != nil {
		t.Fatal(err)
	}
	if id, err := m.setID(t.Context(), KeptSet); id == 0 || err != nil {
		t.Errorf("a set that was made since: %d, %v", id, err)
	}
}
