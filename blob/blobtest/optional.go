package blobtest

import (
	"errors"
	"testing"

	"instep/blob"
)

// testSync does nothing if the batches of the bucket do not implement blob.Syncer.
func testSync(t *testing.T, b blob.Bucket) {
	batch := begin(t, b)
	if _, ok := batch.(blob.Syncer); !ok {
		return // optional: a Batch need not implement this interface
	}
	batch.Put(create(t, batch, "before"), blob.Put{Key: "before"})
	if err := batch.(blob.Syncer).Sync(t.Context()); err != nil {
		t.Fatalf("Sync: %v", err)
	}
	want(t, b, map[string]string{})
	batch.Put(create(t, batch, "after"), blob.Put{Key: "after"})
	if err := batch.Commit(t.Context()); err != nil {
		t.Fatalf("Commit after Sync returned an error: %v", err)
	}
	want(t, b, map[string]string{"before": "before", "after": "after"})

	batch = begin(t, b)
	batch.Put(create(t, batch, "discarded"), blob.Put{Key: "before"})
	if err := errors.Join(batch.(blob.Syncer).Sync(t.Context()), batch.Discard()); err != nil {
		t.Fatal(err)
	}
	want(t, b, map[string]string{"before": "before", "after": "after"})
}

// testLink links objects of the bucket to other keys of the same bucket. It does nothing if the
// batches of the bucket do not implement blob.Linker.
func testLink(t *testing.T, b blob.Bucket) {
	batch := begin(t, b)
	if _, ok := batch.(blob.Linker); !ok {
		return // optional: a Batch need not implement this interface
	}
	fill(t, b, "a", "dir/b")
	link := func(batch blob.Batch, key string) (blob.Object, error) {
		return batch.(blob.Linker).Link(t.Context(), b, key)
	}
	linked := func(batch blob.Batch, key string) blob.Object {
		o, err := link(batch, key)
		if err != nil {
			t.Fatalf("Link %q: %v", key, err)
		}
		return o
	}
	first, err := link(batch, "a")
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip("SKIPPED: this bucket cannot link here, for example because the file system has no hard links")
	}
	if err != nil {
		t.Fatalf("Link: %v", err)
	}
	batch.Put(first, blob.Put{Key: "copy/of a"})
	batch.Put(linked(batch, "a"), blob.Put{Key: "dir/b", Keep: "kept"})
	linked(batch, "dir/b") // never put
	for _, key := range []string{"none", "dir"} {
		if _, err := link(batch, key); !errors.Is(err, blob.ErrNotExist) {
			t.Errorf("Link %q: got %v, want ErrNotExist", key, err)
		}
	}
	want(t, b, map[string]string{"a": "a", "dir/b": "dir/b"})
	if err := batch.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(t, b, map[string]string{"a": "a", "copy/of a": "a", "dir/b": "a", "kept": "dir/b"})

	// objects that share bytes can be replaced and deleted independently
	if err := tryPut(t, b, put{blob.Put{Key: "a"}, "new"}); err != nil {
		t.Fatal(err)
	}
	batch = begin(t, b)
	batch.Delete("copy/of a")
	batch.Put(linked(batch, "kept"), blob.Put{Key: "unwanted"})
	if err := batch.Discard(); err != nil {
		t.Fatal(err)
	}
	batch = begin(t, b)
	batch.Delete("copy/of a")
	if err := batch.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(t, b, map[string]string{"a": "new", "dir/b": "a", "kept": "dir/b"})
}
