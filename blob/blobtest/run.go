// Package blobtest tests implementations of blob.Bucket, and makes buckets that
// fail on demand for the tests of those who use one.
package blobtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

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

// contents returns every object below prefix, read by its key.
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

func testReadBack(t *testing.T, b blob.Bucket) {
	fill(t, b, "a", "b/c", "b/d/e")
	want(t, b, map[string]string{"a": "a", "b/c": "b/c", "b/d/e": "b/d/e"})
	info, err := b.Stat(t.Context(), "b/c")
	if err != nil {
		t.Fatal(err)
	}
	r, same, err := b.Get(t.Context(), "b/c", 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(info, same); diff != "" || info.Key != "b/c" || info.Size != 3 {
		t.Errorf("Stat says %+v, Get says %+v", info, same)
	}
	for _, key := range []string{"x", "b/x", "x/y", "a/x"} {
		if _, _, err := b.Get(t.Context(), key, 0, -1); !errors.Is(err, blob.ErrNotExist) {
			t.Errorf("Get of the absent %q: got %v, want ErrNotExist", key, err)
		}
		if _, err := b.Stat(t.Context(), key); !errors.Is(err, blob.ErrNotExist) {
			t.Errorf("Stat of the absent %q: got %v, want ErrNotExist", key, err)
		}
	}
}

func testVisibility(t *testing.T, b blob.Bucket) {
	batch := begin(t, b)
	batch.Put(create(t, batch, "bytes"), blob.Put{Key: "dir/a"})
	want(t, b, map[string]string{})
	if err := batch.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(t, b, map[string]string{"dir/a": "bytes"})
}

func testDiscard(t *testing.T, b blob.Bucket) {
	fill(t, b, "a")
	batch := begin(t, b)
	batch.Put(create(t, batch, "new"), blob.Put{Key: "a"})
	batch.Put(create(t, batch, "new"), blob.Put{Key: "dir/b"})
	create(t, batch, "never put")
	if _, err := batch.Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	batch.Delete("a")
	for range 2 {
		if err := batch.Discard(); err != nil {
			t.Errorf("Discard: %v", err)
		}
	}
	want(t, b, map[string]string{"a": "a"})
}

func testObjectDiscard(t *testing.T, b blob.Bucket) {
	batch := begin(t, b)
	open, err := batch.Create(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	closed := create(t, batch, "closed")
	for _, o := range []blob.Object{open, closed} {
		if err := o.Discard(); err != nil {
			t.Errorf("Discard: %v", err)
		}
	}
	batch.Put(create(t, batch, "kept"), blob.Put{Key: "kept"})
	if err := batch.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(t, b, map[string]string{"kept": "kept"})

	for name, prepare := range map[string]func(blob.Object) error{
		"discarded": blob.Object.Discard,
		"open":      func(blob.Object) error { return nil },
	} {
		batch := begin(t, b)
		o, err := batch.Create(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := prepare(o); err != nil {
			t.Fatal(err)
		}
		batch.Delete("kept")
		batch.Put(o, blob.Put{Key: "x"})
		if err := batch.Commit(t.Context()); err == nil {
			t.Errorf("Put of an object that is %s: no error from Commit", name)
		}
	}
	want(t, b, map[string]string{"kept": "kept"})
}

func testSpent(t *testing.T, b blob.Bucket) {
	batch := begin(t, b)
	batch.Put(create(t, batch, "1"), blob.Put{Key: "a"})
	if err := batch.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := batch.Discard(); err != nil {
		t.Errorf("Discard after Commit: %v", err)
	}
	if err := batch.Commit(t.Context()); err == nil {
		t.Error("the second Commit: no error")
	}
	if _, err := batch.Create(t.Context()); err == nil {
		t.Error("Create after Commit: no error")
	}
	want(t, b, map[string]string{"a": "1"})
}

// testReplace replaces an object while others read it: each reads one whole state.
func testReplace(t *testing.T, b blob.Bucket) {
	const size, rounds, readers = 100_000, 40, 4
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
					return fmt.Errorf("read a torn object of %d bytes", len(data))
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

func testIfAbsent(t *testing.T, b blob.Bucket) {
	fill(t, b, "a", "dir/b")
	if err := tryPut(t, b, put{blob.Put{Key: "new", IfAbsent: true}, "new"}); err != nil {
		t.Error(err)
	}
	if err := tryPut(t, b, put{blob.Put{Key: "a", IfAbsent: true}, "other"}); !errors.Is(err, blob.ErrExist) {
		t.Errorf("an object stands there: got %v, want ErrExist", err)
	}
	want(t, b, map[string]string{"a": "a", "dir/b": "dir/b", "new": "new"})
}

func testKeep(t *testing.T, b blob.Bucket) {
	fill(t, b, "a")
	err := tryPut(t, b,
		put{blob.Put{Key: "a", Keep: "trash/1/a"}, "new"},
		put{blob.Put{Key: "b", Keep: "trash/1/b"}, "first"})
	if err != nil {
		t.Fatal(err)
	}
	want(t, b, map[string]string{"a": "new", "trash/1/a": "a", "b": "first"})
}

func testKeepAgain(t *testing.T, b blob.Bucket) {
	fill(t, b, "a")
	for range 2 {
		if err := tryPut(t, b, put{blob.Put{Key: "a", Keep: "trash/a"}, "new"}); err != nil {
			t.Fatal(err)
		}
	}
	want(t, b, map[string]string{"a": "new", "trash/a": "a"})
}

func testMove(t *testing.T, b blob.Bucket) {
	fill(t, b, "a", "dir/b", "c")
	batch := begin(t, b)
	batch.Move("dir/b", "trash/dir/b")
	batch.Move("a", "c")
	batch.Move("absent", "c")
	batch.Move("c", "c")
	if err := batch.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(t, b, map[string]string{"trash/dir/b": "dir/b", "c": "a"})
}

func testDelete(t *testing.T, b blob.Bucket) {
	fill(t, b, "a", "dir/b", "dir/c/d")
	batch := begin(t, b)
	for _, key := range []string{"a", "absent", "dir", "dir/c/d", "a/below"} {
		batch.Delete(key)
	}
	if err := batch.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(t, b, map[string]string{"dir/b": "dir/b"})
}

// testOrder lets a file take the place of a directory and the reverse, which
// works in one order only.
func testOrder(t *testing.T, b blob.Bucket) {
	fill(t, b, "a", "b/c/d")
	batch := begin(t, b)
	batch.Delete("a")
	batch.Put(create(t, batch, "below a"), blob.Put{Key: "a/x/y"})
	batch.Move("b/c/d", "d")
	batch.Put(create(t, batch, "at b"), blob.Put{Key: "b"})
	batch.Put(create(t, batch, "1"), blob.Put{Key: "e"})
	batch.Put(create(t, batch, "2"), blob.Put{Key: "e"})
	batch.Move("e", "f")
	batch.Put(create(t, batch, "3"), blob.Put{Key: "e"})
	batch.Delete("e")
	if err := batch.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(t, b, map[string]string{"a/x/y": "below a", "d": "b/c/d", "b": "at b", "f": "2"})
}

func testPrefixIsAbsent(t *testing.T, b blob.Bucket) {
	fill(t, b, "dir/sub/a")
	for _, key := range []string{"dir", "dir/sub"} {
		if _, err := b.Stat(t.Context(), key); !errors.Is(err, blob.ErrNotExist) {
			t.Errorf("Stat(%q): got %v, want ErrNotExist", key, err)
		}
		if _, _, err := b.Get(t.Context(), key, 0, -1); !errors.Is(err, blob.ErrNotExist) {
			t.Errorf("Get(%q): got %v, want ErrNotExist", key, err)
		}
	}
	batch := begin(t, b)
	batch.Move("dir", "other")
	batch.Delete("dir/sub")
	if err := batch.Commit(t.Context()); err != nil {
		t.Error(err)
	}
	want(t, b, map[string]string{"dir/sub/a": "dir/sub/a"})
}

// testClash allows two answers: a bucket that has directories refuses with
// ErrClash, one that has none takes both objects.
func testClash(t *testing.T, b blob.Bucket) {
	fill(t, b, "file", "dir/a")
	objects := map[string]string{"file": "file", "dir/a": "dir/a"}
	for _, key := range []string{"file/below", "dir"} {
		err := tryPut(t, b, put{blob.Put{Key: key}, "new"})
		if err == nil {
			objects[key] = "new"
		} else if !errors.Is(err, blob.ErrClash) || !strings.Contains(err.Error(), key) {
			t.Errorf("put %q: got %v, want an ErrClash that names it", key, err)
		}
	}
	want(t, b, objects)
}

func testInvalidKeys(t *testing.T, b blob.Bucket) {
	fill(t, b, "a")
	for _, key := range invalidKeys() {
		if err := tryPut(t, b, put{blob.Put{Key: "b"}, "b"}, put{blob.Put{Key: key}, "x"}); !errors.Is(err, blob.ErrKey) {
			t.Errorf("put %.40q: got %v, want ErrKey", key, err)
		}
		if err := tryPut(t, b, put{blob.Put{Key: "a", Keep: key}, "x"}); key != "" && !errors.Is(err, blob.ErrKey) {
			t.Errorf("keep %.40q: got %v, want ErrKey", key, err)
		}
		for name, do := range map[string]func(blob.Batch){
			"move from": func(batch blob.Batch) { batch.Move(key, "b") },
			"move to":   func(batch blob.Batch) { batch.Move("a", key) },
			"delete":    func(batch blob.Batch) { batch.Delete(key) },
		} {
			batch := begin(t, b)
			do(batch)
			if err := batch.Commit(t.Context()); !errors.Is(err, blob.ErrKey) {
				t.Errorf("%s %.40q: got %v, want ErrKey", name, key, err)
			}
		}
		if _, _, err := b.Get(t.Context(), key, 0, -1); !errors.Is(err, blob.ErrKey) {
			t.Errorf("Get(%.40q): got %v, want ErrKey", key, err)
		}
		if _, err := b.Stat(t.Context(), key); !errors.Is(err, blob.ErrKey) {
			t.Errorf("Stat(%.40q): got %v, want ErrKey", key, err)
		}
	}
	if _, err := b.Stat(t.Context(), "b"); !errors.Is(err, blob.ErrNotExist) {
		t.Errorf("a batch with an invalid key had an effect: Stat(b): got %v, want ErrNotExist", err)
	}
	if got := read(t, b, "a"); got != "a" && got != "x" {
		t.Errorf("a is %q", got)
	}
}

func invalidKeys() []string {
	return []string{
		"", ".", "..", "/", "/a", "a/", "a//b", "./a", "a/.", "a/..", "a/../b", "../a", "a/./b",
		"a\x00b", "\x00", "a\xff", strings.Repeat("n", blob.MaxSegment+1), "a/" + strings.Repeat("n", blob.MaxSegment+1),
		strings.Repeat("a/", blob.MaxKey/2) + "b",
	}
}

func testOddKeys(t *testing.T, b blob.Bucket) {
	keys := []string{
		" ", "a b", "...", "-rf", "~", "%2e%2e", "ä", "a\u0308", "日本語/文書", "a'\"b", "@host+80/x", "{}", "\u202e",
		strings.Repeat("n", blob.MaxSegment), strings.Repeat("d/", 100) + "deep",
	}
	fill(t, b, keys...)
	objects := map[string]string{}
	for _, key := range keys {
		objects[key] = key
	}
	want(t, b, objects)
}

func testRanges(t *testing.T, b blob.Bucket) {
	if err := tryPut(t, b, put{blob.Put{Key: "a"}, "0123456789"}, put{blob.Put{Key: "empty"}, ""}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		key    string
		off, n int64
		want   string
	}{
		{"a", 0, -1, "0123456789"}, {"a", 0, 10, "0123456789"}, {"a", 0, 0, ""}, {"a", 3, 4, "3456"},
		{"a", 3, -1, "3456789"}, {"a", 9, 1, "9"}, {"a", 9, 2, "9"}, {"a", 10, -1, ""}, {"a", 11, 1, ""},
		{"a", 1 << 62, 1 << 62, ""}, {"a", 1, 1<<63 - 1, "123456789"}, {"empty", 0, -1, ""}, {"empty", 1, 1, ""},
	} {
		r, info, err := b.Get(t.Context(), c.key, c.off, c.n)
		if err != nil {
			t.Errorf("Get(%q, %d, %d): %v", c.key, c.off, c.n, err)
			continue
		}
		got, err := io.ReadAll(r)
		if err := errors.Join(err, r.Close()); err != nil {
			t.Error(err)
		}
		if string(got) != c.want {
			t.Errorf("Get(%q, %d, %d): got %q, want %q", c.key, c.off, c.n, got, c.want)
		}
		if whole := map[string]int64{"a": 10, "empty": 0}[c.key]; info.Size != whole {
			t.Errorf("Get(%q, %d, %d): size %d, want that of the whole object, %d", c.key, c.off, c.n, info.Size, whole)
		}
	}
	if _, _, err := b.Get(t.Context(), "a", -1, 1); err == nil {
		t.Error("Get from offset -1: no error")
	}
}

func testList(t *testing.T, b blob.Bucket) {
	keys := []string{"a", "a.b", "ab/c", "b/a", "b/b/c", "b/bb", "c/d/e/f", "c/d/g"}
	fill(t, b, keys...)
	for _, prefix := range []string{"", "a", "ab", "ab/", "b/", "b/b", "b/b/", "c/d/e/f", "c/d/", "c/d", "x", "x/y/z", "a/", "a/b"} {
		var got, want []string
		for info, err := range b.List(t.Context(), prefix) {
			if err != nil {
				t.Fatalf("List(%q): %v", prefix, err)
			}
			if info.Size != int64(len(info.Key)) {
				t.Errorf("List(%q): %q has %d bytes, want %d", prefix, info.Key, info.Size, len(info.Key))
			}
			got = append(got, info.Key)
		}
		for _, key := range keys {
			if strings.HasPrefix(key, prefix) {
				want = append(want, key)
			}
		}
		slices.Sort(got)
		if diff := cmp.Diff(got, want); diff != "" {
			t.Errorf("List(%q) differs (-got +want):\n%s", prefix, diff)
		}
	}
	for range b.List(t.Context(), "") {
		break // a listing can be left
	}
}

func testContext(t *testing.T, b blob.Bucket) {
	fill(t, b, "a")
	ctx, cancel := context.WithCancel(t.Context())
	batch, err := b.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	batch.Put(create(t, batch, "new"), blob.Put{Key: "a"})
	cancel()
	_, _, getErr := b.Get(ctx, "a", 0, -1)
	_, statErr := b.Stat(ctx, "a")
	_, beginErr := b.Begin(ctx)
	_, createErr := batch.Create(ctx)
	var listErr error
	for _, err := range b.List(ctx, "") {
		listErr = err
	}
	for name, err := range map[string]error{
		"Get": getErr, "Stat": statErr, "Begin": beginErr, "Create": createErr, "List": listErr, "Commit": batch.Commit(ctx),
	} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v, want context.Canceled", name, err)
		}
	}
	want(t, b, map[string]string{"a": "a"})
}

func testLarge(t *testing.T, b blob.Bucket) {
	const size = 9<<20 + 7
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(i ^ i>>8 ^ i>>16)
	}
	n, err := blob.Write(t.Context(), b, iotestReader{bytes.NewReader(data)}, blob.Put{Key: "large"})
	if err != nil || n != size {
		t.Fatalf("wrote %d bytes: %v; want %d", n, err, size)
	}
	got, err := blob.ReadAll(t.Context(), b, "large", size)
	if err != nil {
		t.Fatal(err)
	}
	if sha256.Sum256(got) != sha256.Sum256(data) {
		t.Error("the object differs from what was written")
	}
}

// iotestReader hides every method but Read, and reads odd portions.
type iotestReader struct{ r io.Reader }

func (r iotestReader) Read(p []byte) (int, error) { return r.r.Read(p[:min(len(p), 12_345)]) }

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

// testConcurrentCommit lets batches make and empty the same directories.
func testConcurrentCommit(t *testing.T, b blob.Bucket) {
	const workers, rounds = 6, 15
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	objects := map[string]string{}
	var mu sync.Mutex
	var wait errgroup.Group
	for w := range workers {
		wait.Go(func() error {
			key, last := fmt.Sprintf("dir/sub/%d", w), ""
			for i := range rounds {
				last = fmt.Sprint(w, i)
				if _, err := blob.Write(ctx, b, strings.NewReader(last), blob.Put{Key: key}); err != nil {
					return err
				}
				batch, err := b.Begin(ctx)
				if err != nil {
					return err
				}
				batch.Delete(key)
				if i == rounds-1 {
					batch.Move(key, key)
					return batch.Discard()
				}
				if err := batch.Commit(ctx); err != nil {
					return err
				}
			}
			mu.Lock()
			defer mu.Unlock()
			objects[key] = last
			return nil
		})
	}
	if err := wait.Wait(); err != nil {
		t.Fatal(err)
	}
	for w := range workers {
		objects[fmt.Sprintf("dir/sub/%d", w)] = fmt.Sprint(w, rounds-1)
	}
	want(t, b, objects)
}

var errReader = errors.New("the reader fails")

type failingReader struct{}

func (failingReader) Read([]byte) (int, error) { return 0, errReader }

func testHelpers(t *testing.T, b blob.Bucket) {
	ctx := t.Context()
	broken := io.MultiReader(strings.NewReader("half"), failingReader{})
	if _, err := blob.Write(ctx, b, broken, blob.Put{Key: "a"}); !errors.Is(err, errReader) {
		t.Errorf("Write from a failing reader: got %v, want its error", err)
	}
	want(t, b, map[string]string{})
	if n, err := blob.Write(ctx, b, strings.NewReader("12345"), blob.Put{Key: "a"}); n != 5 || err != nil {
		t.Errorf("Write: got %d, %v", n, err)
	}
	if got, err := blob.ReadAll(ctx, b, "a", 5); string(got) != "12345" || err != nil {
		t.Errorf("ReadAll at its limit: got %q, %v", got, err)
	}
	if _, err := blob.ReadAll(ctx, b, "a", 4); !errors.Is(err, blob.ErrTooLarge) {
		t.Errorf("ReadAll beyond its limit: got %v, want ErrTooLarge", err)
	}
	if _, err := blob.ReadAll(ctx, b, "b", 4); !errors.Is(err, blob.ErrNotExist) {
		t.Errorf("ReadAll of nothing: got %v, want ErrNotExist", err)
	}
}
