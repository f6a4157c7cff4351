package catalog

import (
	"strings"
	"testing"

	"instep/resourcesync"
)

// directories returns the paths of all directories that the catalog has rows of.
func directories(t *testing.T, c *Catalog) string {
	t.Helper()
	rows, err := queryColumn[string](c.reading(t.Context(), "list directories in"), "SELECT path FROM directory ORDER BY fold")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(rows, " ")
}

// A directory of a mirror goes with the last file in it or below it, so that a resource may
// have its name; one that was recorded for a batch which is undone does, too.
func TestDirectoriesGoWithTheirLastFile(t *testing.T) {
	c := open(t)
	s := set(t, c, "")
	place := func(uri string, n Names) (Place, error) {
		path := strings.TrimPrefix(uri, "https://example.org/")
		p := Place{Path: path}
		for i := range path {
			if path[i] != '/' {
				continue
			}
			_, ok, err := n.Directory(path[:i])
			if err != nil {
				return p, err
			}
			if !ok {
				p.Directories = append(p.Directories, path[:i])
			}
		}
		return p, nil
	}
	commit := func(come, go_ []string) {
		t.Helper()
		var o Outcome
		var intents []Intent
		for _, name := range come {
			r := Resource{URI: "https://example.org/" + name, Length: resourcesync.Bytes(1), Digests: sum(t, name)}
			intents = append(intents, Intent{URI: r.URI, Length: r.Length, SHA256: r.Digests[0]})
			o.Stored = append(o.Stored, r)
			o.Members = append(o.Members, Membership{Set: s, URI: r.URI, Changed: epoch})
		}
		for _, name := range go_ {
			intents = append(intents, Intent{URI: "https://example.org/" + name, Path: name, Kept: "kept/" + name})
			o.Ended = append(o.Ended, Membership{Set: s, URI: "https://example.org/" + name})
		}
		if err := c.Mirror.Intend(t.Context(), intents, &o, place); err != nil {
			t.Fatal(err)
		}
		if err := c.Mirror.Settle(t.Context(), o, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct{ come, go_, want string }{
		{"a/b/c/x a/b/y z", "", " a/ a/b/ a/b/c/"},
		{"", "a/b/c/x", " a/ a/b/"},
		{"a/d/e/x", "a/b/y", " a/ a/d/ a/d/e/"},
		{"a0/x", "a/d/e/x z", " a0/"},
		{"a", "", " a0/"},
	} {
		commit(strings.Fields(step.come), strings.Fields(step.go_))
		if got := directories(t, c); got != step.want {
			t.Errorf("with %q and without %q: got %q, want %q", step.come, step.go_, got, step.want)
		}
	}
	in := []Intent{{URI: "https://example.org/new/deep/x", Length: resourcesync.Bytes(1), SHA256: sum(t, "x")[0]}}
	if err := c.Mirror.Intend(t.Context(), in, &Outcome{}, place); err != nil {
		t.Fatal(err)
	}
	if err := c.Mirror.Settle(t.Context(), Outcome{}, nil); err != nil {
		t.Fatal(err)
	}
	if got := directories(t, c); got != " a0/" {
		t.Errorf("after a batch was undone: %q", got)
	}
}

// A directory of a Source goes with its last file, or when the last one is elsewhere.
func TestDirectoriesOfASourceGoWithTheirLastFile(t *testing.T) {
	c := open(t)
	s := set(t, c, "")
	at := func(kind resourcesync.Change, name, path string) Change {
		ch := change(t, kind, name, name)
		ch.Path = path
		return ch
	}
	record(t, c, s, at(resourcesync.Created, "one", "d/e/one"), at(resourcesync.Created, "two", "d/two"))
	record(t, c, s, at(resourcesync.Updated, "one", "f/one"))
	if got := directories(t, c); got != "d/ f/" {
		t.Errorf("after one moved: %q", got)
	}
	record(t, c, s, at(resourcesync.Deleted, "one", ""), at(resourcesync.Deleted, "two", ""))
	if got := directories(t, c); got != "" {
		t.Errorf("after all were deleted: %q", got)
	}
}
