package scan

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"instep/blob"
	"instep/resourcesync"
)

// kept returns what a bucket holds, by key.
func kept(t *testing.T, b blob.Bucket) map[string]string {
	t.Helper()
	all := map[string]string{}
	for info, err := range b.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		r, _, err := b.Get(t.Context(), info.Key, 0, -1)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err := errors.Join(err, r.Close()); err != nil {
			t.Fatal(err)
		}
		all[info.Key] = string(data)
	}
	return all
}

func keyOf(t *testing.T, content string) string {
	t.Helper()
	h := resourcesync.NewHasher(resourcesync.SHA256)
	if _, err := io.WriteString(h, content); err != nil {
		t.Fatal(err)
	}
	return KeepKey(h.Digests()[0])
}

// What is created or updated is kept under its digest, nothing else is, and it is
// there before the change is.
func TestChangedBytesAreKept(t *testing.T) {
	f := setUp(t, "a", "b", "d/a copy")
	f.write("d/a copy", "content of a")
	f.write("empty", "")
	large := strings.Repeat("0123456789", bufferSize/5)
	f.write("large", large)
	bucket := blob.NewMem()
	f.Keep = bucket
	f.Algorithms = []resourcesync.Algorithm{resourcesync.MD5} // it is the SHA-256 that names them, all the same
	f.Observe = func(e Event) {
		for m, err := range f.Facts.Members(t.Context(), f.Set) {
			if err != nil || len(m.Digests) != 1 {
				t.Errorf("member %+v, %v; want md5 alone", m, err)
			}
		}
		if len(kept(t, bucket)) == 0 {
			t.Errorf("%s is recorded before its bytes are kept", e.Path)
		}
	}
	expect(t, f.scan(), 5, 0, 0, 0)
	want := map[string]string{}
	for _, content := range []string{"content of a", "content of b", "", large} {
		want[keyOf(t, content)] = content
	}
	same(t, "kept", kept(t, bucket), want)

	f.write("a", "new")
	f.write("b", "content of b") // touched
	f.remove("large")
	expect(t, f.scan(), 0, 1, 1, 3)
	want[keyOf(t, "new")] = "new"
	same(t, "kept", kept(t, bucket), want)
}

// A file that changes while it is copied is kept as it was hashed.
func TestKeptBytesAreTheHashedOnes(t *testing.T) {
	f := setUp(t, "a")
	bucket := blob.NewMem()
	f.Keep, f.Workers = bucket, 1
	changes := 0
	f.Tree = faulty{Tree: f.Tree, read: func(string) {
		if changes++; changes < attempts {
			f.write("a", fmt.Sprintf("version %d", changes))
		}
	}}
	expect(t, f.scan(), 1, 0, 0, 0)
	want := fmt.Sprintf("version %d", attempts-1)
	same(t, "kept", kept(t, bucket), map[string]string{keyOf(t, want): want})
}

// failing is a bucket whose batches can't be committed.
type failing struct {
	blob.Bucket
	err error
}

type failingBatch struct {
	blob.Batch
	err error
}

func (b failing) Begin(ctx context.Context) (blob.Batch, error) {
	batch, err := b.Bucket.Begin(ctx)
	return failingBatch{batch, b.err}, err
}

func (b failingBatch) Commit(context.Context) error { return b.err }

func TestNothingIsRecordedThatCouldNotBeKept(t *testing.T) {
	f := setUp(t, "a", "b")
	full := errors.New("no space left on device")
	bucket := blob.NewMem()
	f.Keep = failing{bucket, full}
	if _, err := f.Apply(t.Context(), f.plan()); !errors.Is(err, full) {
		t.Errorf("Apply = %v, want %v", err, full)
	}
	same(t, "members", len(f.paths()), 0)
	same(t, "kept", kept(t, bucket), map[string]string{})
	f.Keep = bucket
	expect(t, f.scan(), 2, 0, 0, 0)
	got := slices.Sorted(maps.Values(kept(t, bucket)))
	same(t, "kept", got, []string{"content of a", "content of b"})
}
