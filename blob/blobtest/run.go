// Package blobtest tests implementations of blob.Bucket, and makes buckets that
// fail on demand for the tests of those who use one.
package blobtest

import (
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"instep/blob"
)

// Run tests that the buckets made by open, each empty, keep the contract of blob.Bucket.
func Run(t *testing.T, open func(t *testing.T) blob.Bucket) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, b blob.Bucket)
	}{
		{"reads back what was put", testReadBack},
		{"shows nothing before commit", testVisibility},
		{"leaves nothing after discard", testDiscard},
		{"drops a discarded object", testObjectDiscard},
		{"spends a batch once", testSpent},
		{"replaces the whole object under readers", testReplace},
		{"fails with ErrExist when asked not to replace", testIfAbsent},
		{"keeps the old object", testKeep},
		{"keeps the first old object when done again", testKeepAgain},
		{"moves", testMove},
		{"deletes", testDelete},
		{"takes what is there under another key", testTake},
		{"leaves what was taken and not put", testTakeNothing},
		{"takes nothing that was replaced meanwhile", testTakeReplaced},
		{"works in the order of the calls", testOrder},
		{"treats a prefix as absent", testPrefixIsAbsent},
		{"loses nothing when a file meets a directory", testClash},
		{"refuses invalid keys", testInvalidKeys},
		{"takes odd keys", testOddKeys},
		{"reads ranges", testRanges},
		{"lists by prefix", testList},
		{"stops when the context is done", testContext},
		{"takes large objects", testLarge},
		{"takes many objects in one batch", testMany},
		{"takes objects written concurrently", testConcurrentCreate},
		{"takes batches committed concurrently", testConcurrentCommit},
		{"writes and reads with the helpers", testHelpers},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, open(t)) })
	}
}

// put is one object that a test puts.
type put struct {
	blob.Put
	data string
}

func begin(t *testing.T, b blob.Bucket) blob.Batch {
	t.Helper()
	batch, err := b.Begin(t.Context())
	if err != nil {
		t.Fatalf("Begin: %v", err)
	}
	t.Cleanup(func() {
		if err := batch.Discard(); err != nil {
			t.Errorf("Discard: %v", err)
		}
	})
	return batch
}

// create writes an object and closes it.
func create(t *testing.T, batch blob.Batch, data string) blob.Object {
	t.Helper()
	o, err := batch.Create(t.Context())
	if err != nil {
		t.Fatalf("Create: %v", err)
	}
	if _, err := io.WriteString(o, data); err != nil {
		t.Fatalf("Write: %v", err)
	}
	if err := o.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	return o
}

// tryPut commits puts as one batch.
func tryPut(t *testing.T, b blob.Bucket, puts ...put) error {
	t.Helper()
	batch := begin(t, b)
	for _, p := range puts {
		batch.Put(create(t, batch, p.data), p.Put)
	}
	return batch.Commit(t.Context())
}

// fill puts objects, each with its key as content.
func fill(t *testing.T, b blob.Bucket, keys ...string) {
	t.Helper()
	var puts []put
	for _, key := range keys {
		puts = append(puts, put{blob.Put{Key: key}, key})
	}
	if err := tryPut(t, b, puts...); err != nil {
		t.Fatalf("put %q: %v", keys, err)
	}
}

// contents returns every object listed, read by its key.
func contents(t *testing.T, b blob.Bucket) map[string]string {
	t.Helper()
	got := map[string]string{}
	for info, err := range b.List(t.Context(), "") {
		if err != nil {
			t.Fatalf("List: %v", err)
		}
		if _, twice := got[info.Key]; twice {
			t.Errorf("List yields %q twice", info.Key)
		}
		got[info.Key] = read(t, b, info.Key)
	}
	return got
}

func read(t *testing.T, b blob.Bucket, key string) string {
	t.Helper()
	data, err := blob.ReadAll(t.Context(), b, key, 64<<20)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// want fails unless the bucket holds exactly these objects.
func want(t *testing.T, b blob.Bucket, objects map[string]string) {
	t.Helper()
	if diff := cmp.Diff(contents(t, b), objects); diff != "" {
		t.Errorf("objects differ (-got +want):\n%s", diff)
	}
}
