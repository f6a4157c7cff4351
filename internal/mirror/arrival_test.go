package mirror

import (
	"os"
	"path/filepath"
	"testing"

	"instep/destination"
	"instep/internal/catalog"
	"instep/resourcesync"
)

// arriving leaves the mirror as a crash leaves it in the middle of a batch that brings
// these names: its row is there, the files are not.
func arriving(t *testing.T, m *Mirror, names ...string) {
	t.Helper()
	id, err := m.makeSet(t.Context(), set)
	if err != nil {
		t.Fatal(err)
	}
	var intents []catalog.Intent
	o := catalog.Outcome{At: noon, Run: m.thisRun(counts{created: int64(len(names))})}
	for _, name := range names {
		w := wantedOfBody(home+"/"+name, "body of "+name, noon)
		key := resourcesync.KeyOf(w.URI)
		intents = append(intents, catalog.Intent{Key: key, URI: w.URI, Length: w.Length, SHA256: w.Digests[0]})
		o.Stored = append(o.Stored, catalog.Resource{Key: key, URI: w.URI, Length: w.Length, Digests: w.Digests})
		o.Members = append(o.Members, catalog.Membership{Set: id, Key: key, Changed: noon})
	}
	if err := m.cat.Intend(t.Context(), intents, &o, placeOf(m)); err != nil {
		t.Fatal(err)
	}
}

// A batch of new resources that was interrupted counts if all its files have come, and
// else leaves none of them.
func TestABatchOfNewResourcesCountsAsAWhole(t *testing.T) {
	body := func(name string) string { return "body of " + name }
	for _, c := range []struct {
		name  string
		files map[string]string
		count int64
		left  map[string]string
	}{
		{"all came", map[string]string{"a": body("a"), "b": body("b"), "c/d": body("c/d")}, 4, map[string]string{"a": body("a"), "b": body("b"), "c/d": body("c/d")}},
		{"one did not", map[string]string{"a": body("a"), "b": body("b")}, 1, map[string]string{}},
		{"one is torn", map[string]string{"a": body("a"), "b": body("b"), "c/d": ""}, 1, map[string]string{"c/d": ""}},
		{"one is somebody else's", map[string]string{"a": body("a"), "b": "theirs", "c/d": body("c/d")}, 1, map[string]string{"b": "theirs"}},
		{"none did", nil, 1, map[string]string{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			m := openMirror(t, options(dir))
			commit(t, m, func(b destination.Batch) error { return put(b, set, "before", "here", noon) })
			arriving(t, m, "a", "b", "c/d")
			for path, text := range c.files {
				write(t, dir, path, text)
			}
			killed := filepath.Join(t.TempDir(), "killed")
			if err := os.CopyFS(killed, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			ro, err := OpenReadOnly(t.Context(), options(killed))
			if err != nil {
				t.Fatal(err)
			}
			if n, err := ro.Count(t.Context(), set); n != c.count || err != nil {
				t.Errorf("who only reads: got %d members, %v; want %d", n, err, c.count)
			}
			if err := ro.Close(); err != nil {
				t.Error(err)
			}
			next := openMirror(t, options(killed))
			if n, err := next.Count(t.Context(), set); n != c.count || err != nil {
				t.Errorf("members: got %d, %v; want %d", n, err, c.count)
			}
			c.left["before"] = "here"
			wantFiles(t, killed, c.left)
			for name := range c.files {
				if h := lookup(t, next, set, name); h.Stored != (c.count == 4) {
					t.Errorf("%s: held: %+v", name, h)
				}
			}
		})
	}
}
