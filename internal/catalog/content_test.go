package catalog

import (
	"testing"
	"time"

	"instep/resourcesync"
)

func indexed(t *testing.T, c *Catalog) (yes bool) {
	t.Helper()
	if err := c.read.QueryRow("SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE name = $1)", contentIndex).Scan(&yes); err != nil {
		t.Fatal(err)
	}
	return yes
}

func finds(t *testing.T, c *Catalog, name string) bool {
	t.Helper()
	in := intent(name, "content of "+name, t)
	_, ok, err := c.Mirror.FindContent(t.Context(), in.SHA256, in.Length.Int64())
	if err != nil {
		t.Fatal(err)
	}
	return ok
}

// A first baseline writes no index of contents. It is there when the baseline has ended, or
// from when on somebody looks for a content.
func TestContentsAreIndexedWhenTheFirstBaselineHasEnded(t *testing.T) {
	for name, end := range map[string]func(*Catalog, SetID) error{
		"the end of the baseline": func(c *Catalog, s SetID) error {
			return c.Mirror.Settle(t.Context(), Outcome{Cursor: &Cursor{Set: s, Body: "{}"}}, nil)
		},
		"a look": func(c *Catalog, _ SetID) error {
			_, _, err := c.Mirror.FindContent(t.Context(), resourcesync.Digest{}, 1)
			return err
		},
	} {
		c := open(t)
		s := set(t, c, "s")
		store(t, c, s, "a", "b")
		if indexed(t, c) {
			t.Fatal("there is an index before the baseline has ended")
		}
		reader, err := OpenReadOnly(t.Context(), c.path, "", time.Now)
		if err != nil {
			t.Fatal(err)
		}
		if finds(t, reader, "a") {
			t.Error("who only reads has found a content without an index: by reading all rows")
		}
		if err := end(c, s); err != nil {
			t.Fatal(err)
		}
		if !indexed(t, c) || !finds(t, c, "a") || finds(t, c, "c") {
			t.Errorf("after %s: index %v, a found %v, c found %v", name, indexed(t, c), finds(t, c, "a"), finds(t, c, "c"))
		}
		if err := reader.Close(); err != nil {
			t.Error(err)
		}
		reader, err = OpenReadOnly(t.Context(), c.path, "", time.Now)
		if err != nil {
			t.Fatal(err)
		}
		if !finds(t, reader, "b") {
			t.Error("who only reads has not found a content that is indexed")
		}
		if err := reader.Close(); err != nil {
			t.Error(err)
		}
	}
}
