package blobtest

import (
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"instep/blob"
)

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

func tryPut(t *testing.T, b blob.Bucket, puts ...put) error {
	t.Helper()
	batch := begin(t, b)
	for _, p := range puts {
		batch.Put(create(t, batch, p.data), p.Put)
	}
	return batch.Commit(t.Context())
}

// fill stores an object for each key. The content of the object is its key.
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

func want(t *testing.T, b blob.Bucket, objects map[string]string) {
	t.Helper()
	if diff := cmp.Diff(contents(t, b), objects); diff != "" {
		t.Errorf("objects differ (-got +want):\n%s", diff)
	}
}
