package mirror

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"instep/blob"
	"instep/blob/blobtest"
	"instep/destination"
	"instep/internal/catalog"
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
		intents = append(intents, catalog.Intent{URI: w.URI, Length: w.Length, SHA256: w.Digests[0]})
		o.Stored = append(o.Stored, catalog.Resource{URI: w.URI, Length: w.Length, Digests: w.Digests})
		o.Members = append(o.Members, catalog.Membership{Set: id, URI: w.URI, Changed: noon})
	}
	if err := m.own.Intend(t.Context(), intents, &o, placeOf(m)); err != nil {
		t.Fatal(err)
	}
}

// Of a batch of new resources that was interrupted none counts: what has come goes again,
// and what is not of the batch stays.
func TestABatchThatWasInterruptedIsUndone(t *testing.T) {
	body := func(name string) string { return "body of " + name }
	for _, c := range []struct {
		name        string
		files, left map[string]string
	}{
		{"all came", map[string]string{"a": body("a"), "b": body("b"), "c/d": body("c/d")}, nil},
		{"one did not", map[string]string{"a": body("a"), "b": body("b")}, nil},
		{"one is torn", map[string]string{"a": body("a"), "b": body("b"), "c/d": ""}, map[string]string{"c/d": ""}},
		{"one is somebody else's", map[string]string{"a": body("a"), "b": "theirs"}, map[string]string{"b": "theirs"}},
		{"none did", nil, nil},
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
			if n, err := ro.Count(t.Context(), set); n != 1 || err != nil {
				t.Errorf("who only reads: got %d members, %v; want 1", n, err)
			}
			if err := ro.Close(); err != nil {
				t.Error(err)
			}
			next := openMirror(t, options(killed))
			if n, err := next.Count(t.Context(), set); n != 1 || err != nil {
				t.Errorf("members: got %d, %v; want 1", n, err)
			}
			left := map[string]string{"before": "here"}
			maps.Copy(left, c.left)
			wantFiles(t, killed, left)
		})
	}
}

// A file of an acknowledged batch that cannot be read keeps nobody from opening the mirror.
func TestAFileThatCannotBeReadHoldsNobodyUp(t *testing.T) {
	dir := t.TempDir()
	m := openMirror(t, options(dir))
	commit(t, m, func(b destination.Batch) error {
		return errors.Join(put(b, set, "a", "a", noon), put(b, set, "b", "b", noon))
	})
	killed := filepath.Join(t.TempDir(), "killed")
	if err := os.CopyFS(killed, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	o := options(killed)
	o.bucket = func(b blob.Bucket) blob.Bucket {
		return blobtest.Faulty(b, func(c blobtest.Call) *blobtest.Fault {
			if c.Op == blobtest.OpGet && c.Key == "a" {
				return &blobtest.Fault{}
			}
			return nil
		})
	}
	for name, open := range map[string]func(context.Context, Options) (*Mirror, error){"for reading": OpenReadOnly, "for writing": Open} {
		next, err := open(t.Context(), o)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if n, err := next.Count(t.Context(), set); n != 2 || err != nil {
			t.Errorf("%s: got %d members, %v; want 2", name, n, err)
		}
		if err := next.Close(); err != nil {
			t.Error(err)
		}
	}
}
