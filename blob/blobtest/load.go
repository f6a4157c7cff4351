package blobtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"instep/blob"
)

// testReplace replaces an object while other goroutines read it. Each reader must get one
// complete version.
func testReplace(t *testing.T, b blob.Bucket) {
	const size, rounds, readers = 100_000, 25, 4
	state := func(i int) string { return strings.Repeat(string(rune('a'+i%26)), size+i) }
	if err := tryPut(t, b, put{blob.Put{Key: "dir/a"}, state(0)}); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var wait errgroup.Group
	for range readers {
		wait.Go(func() error {
			for {
				select {
				case <-done:
					return nil
				default:
				}
				data, err := blob.ReadAll(t.Context(), b, "dir/a", 2*size)
				if err != nil {
					return err
				}
				if i := len(data) - size; i < 0 || string(data) != state(i) {
					return fmt.Errorf("read %d bytes that are not one complete version of the object", len(data))
				}
			}
		})
	}
	for i := range rounds {
		if err := tryPut(t, b, put{blob.Put{Key: "dir/a"}, state(i)}); err != nil {
			t.Error(err)
		}
	}
	close(done)
	if err := wait.Wait(); err != nil {
		t.Error(err)
	}
}

func testLarge(t *testing.T, b blob.Bucket) {
	const size = 9<<20 + 7
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(i ^ i>>8 ^ i>>16)
	}
	n, err := blob.Write(t.Context(), b, oddReader{bytes.NewReader(data)}, blob.Put{Key: "large"})
	if err != nil || n != size {
		t.Fatalf("wrote %d bytes (error: %v), want %d", n, err, size)
	}
	got, err := blob.ReadAll(t.Context(), b, "large", size)
	if err != nil {
		t.Fatal(err)
	}
	if sha256.Sum256(got) != sha256.Sum256(data) {
		t.Error("the object differs from what was written")
	}
}

// oddReader has no method but Read, and returns at most 12,345 bytes per call.
type oddReader struct{ r io.Reader }

func (r oddReader) Read(p []byte) (int, error) { return r.r.Read(p[:min(len(p), 12_345)]) }

func testMany(t *testing.T, b blob.Bucket) {
	const n = 700
	batch := begin(t, b)
	objects := map[string]string{}
	for i := range n {
		key := fmt.Sprintf("d%d/e%d/f%d", i%7, i%70, i)
		objects[key] = strings.Repeat("x", i)
		batch.Put(create(t, batch, objects[key]), blob.Put{Key: key})
	}
	if err := batch.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(t, b, objects)
}

func testConcurrentCreate(t *testing.T, b blob.Bucket) {
	const workers, each = 8, 20
	batch := begin(t, b)
	written := make([]blob.Object, workers*each)
	var wait errgroup.Group
	for w := range workers {
		wait.Go(func() error {
			for i := range each {
				o, err := batch.Create(t.Context())
				if err != nil {
					return err
				}
				if _, err := fmt.Fprint(o, w*each+i); err != nil {
					return err
				}
				if i%5 == 4 {
					if err := o.Discard(); err != nil {
						return err
					}
					continue
				}
				if err := o.Close(); err != nil {
					return err
				}
				written[w*each+i] = o
			}
			return nil
		})
	}
	if err := wait.Wait(); err != nil {
		t.Fatal(err)
	}
	objects := map[string]string{}
	for i, o := range written {
		if o == nil {
			continue
		}
		key := fmt.Sprintf("dir%d/%d", i%3, i)
		objects[key] = fmt.Sprint(i)
		batch.Put(o, blob.Put{Key: key})
	}
	if err := batch.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(t, b, objects)
}

// testConcurrentCommit runs concurrent batches that create the same directories, and remove
// these directories by deleting all objects in them.
func testConcurrentCommit(t *testing.T, b blob.Bucket) {
	const workers, rounds = 6, 15
	objects := map[string]string{}
	var wait errgroup.Group
	for w := range workers {
		key := fmt.Sprintf("dir/sub/%d", w)
		objects[key] = "the last"
		wait.Go(func() error {
			for range rounds {
				if err := putAndDelete(t.Context(), b, key); err != nil {
					return err
				}
			}
			_, err := blob.Write(t.Context(), b, strings.NewReader("the last"), blob.Put{Key: key})
			return err
		})
	}
	if err := wait.Wait(); err != nil {
		t.Fatal(err)
	}
	want(t, b, objects)
}

func putAndDelete(ctx context.Context, b blob.Bucket, key string) error {
	if _, err := blob.Write(ctx, b, strings.NewReader("not for long"), blob.Put{Key: key}); err != nil {
		return err
	}
	batch, err := b.Begin(ctx)
	if err != nil {
		return err
	}
	batch.Delete(key)
	return batch.Commit(ctx)
}
