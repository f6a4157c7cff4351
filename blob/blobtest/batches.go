package blobtest

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"instep/blob"
)

func testVisibility(t *testing.T, b blob.Bucket) {
	batch := begin(t, b)
	batch.Put(create(t, batch, "bytes"), blob.Put{Key: "dir/a"})
	want(t, b, map[string]string{})
	if err := batch.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(t, b, map[string]string{"dir/a": "bytes"})
}

// RunTimes tests in an empty bucket that Put sets the requested modification time. It puts a
// new object, an object that replaces another, and taken objects that get another key or keep
// their key.
func RunTimes(t *testing.T, b blob.Bucket) {
	fill(t, b, "replaced", "kept", "taken", "stays", "moved")
	at := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
	batch := begin(t, b)
	for i, p := range []blob.Put{{Key: "new"}, {Key: "replaced"}, {Key: "kept", Keep: "old"}, {Key: "to"}, {Key: "stays"}} {
		p.ModTime = at.AddDate(0, 0, i)
		o := create(t, batch, "bytes")
		if from := map[string]string{"to": "taken", "stays": "stays"}[p.Key]; from != "" {
			var err error
			if o, err = batch.Take(t.Context(), from); err != nil {
				t.Fatal(err)
			}
		}
		batch.Put(o, p)
	}
	if err := batch.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, key := range []string{"new", "replaced", "kept", "to", "stays"} {
		info, err := b.Stat(t.Context(), key)
		if want := at.AddDate(0, 0, i); err != nil || !info.ModTime.Equal(want) {
			t.Errorf("modification time of %s: got %v (error: %v), want %v", key, info.ModTime, err, want)
		}
	}
	batch = begin(t, b)
	batch.Move("new", "away")
	if err := batch.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if info, err := b.Stat(t.Context(), "away"); err != nil || !info.ModTime.Equal(at) {
		t.Errorf("modification time of the moved object: got %v (error: %v), want %v", info.ModTime, err, at)
	}
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
			t.Errorf("Commit returned no error after Put of an object that is %s", name)
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
		t.Errorf("Discard after Commit returned an error: %v", err)
	}
	if err := batch.Commit(t.Context()); err == nil {
		t.Error("the second Commit returned no error")
	}
	if _, err := batch.Create(t.Context()); err == nil {
		t.Error("Create returned no error after Commit")
	}
	want(t, b, map[string]string{"a": "1"})
}

func testIfAbsent(t *testing.T, b blob.Bucket) {
	fill(t, b, "a", "dir/b")
	if err := tryPut(t, b, put{blob.Put{Key: "new", IfAbsent: true}, "new"}); err != nil {
		t.Error(err)
	}
	if err := tryPut(t, b, put{blob.Put{Key: "a", IfAbsent: true}, "other"}); !errors.Is(err, blob.ErrExist) {
		t.Errorf("Put with IfAbsent at the key of an existing object: got %v, want ErrExist", err)
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

func take(t *testing.T, batch blob.Batch, key string) blob.Object {
	t.Helper()
	o, err := batch.Take(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func testTake(t *testing.T, b blob.Bucket) {
	fill(t, b, "dir/new", "old", "stays", "in place")
	batch := begin(t, b)
	batch.Put(take(t, batch, "dir/new"), blob.Put{Key: "old", Keep: "trash/old"})
	batch.Put(take(t, batch, "stays"), blob.Put{Key: "deep/below/free", IfAbsent: true})
	batch.Put(take(t, batch, "in place"), blob.Put{Key: "in place", IfAbsent: true, Keep: "trash/none"})
	want(t, b, map[string]string{"dir/new": "dir/new", "old": "old", "stays": "stays", "in place": "in place"})
	if err := batch.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(t, b, map[string]string{"old": "dir/new", "trash/old": "old", "deep/below/free": "stays", "in place": "in place"})
}

func testTakeNothing(t *testing.T, b blob.Bucket) {
	fill(t, b, "a", "b", "dir/c")
	batch := begin(t, b)
	if err := take(t, batch, "a").Discard(); err != nil {
		t.Error(err)
	}
	take(t, batch, "b")
	for _, key := range []string{"none", "dir", "dir/c/d"} {
		if _, err := batch.Take(t.Context(), key); !errors.Is(err, blob.ErrNotExist) {
			t.Errorf("take %q: got %v, want ErrNotExist", key, err)
		}
	}
	if err := batch.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	batch = begin(t, b)
	batch.Put(take(t, batch, "a"), blob.Put{Key: "other"})
	if err := batch.Discard(); err != nil {
		t.Error(err)
	}
	batch = begin(t, b)
	batch.Put(take(t, batch, "a"), blob.Put{Key: "dir/c", IfAbsent: true})
	if err := batch.Commit(t.Context()); !errors.Is(err, blob.ErrExist) {
		t.Errorf("Put with IfAbsent at the key of an existing object: got %v, want ErrExist", err)
	}
	want(t, b, map[string]string{"a": "a", "b": "b", "dir/c": "dir/c"})
}

func testTakeReplaced(t *testing.T, b blob.Bucket) {
	fill(t, b, "a", "b")
	batch := begin(t, b)
	batch.Put(take(t, batch, "a"), blob.Put{Key: "taken/a"})
	if err := tryPut(t, b, put{blob.Put{Key: "a"}, "somebody else's"}); err != nil {
		t.Fatal(err)
	}
	if err := batch.Commit(t.Context()); err == nil {
		t.Error("Commit returned no error after a taken object was replaced")
	}
	batch = begin(t, b)
	batch.Put(take(t, batch, "b"), blob.Put{Key: "b"})
	other := begin(t, b)
	other.Delete("b")
	if err := other.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := batch.Commit(t.Context()); err == nil {
		t.Error("Commit returned no error after a taken object was deleted")
	}
	want(t, b, map[string]string{"a": "somebody else's"})
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

// testOrder replaces a directory by a file, and a file by a directory. Both succeed only
// if the batch applies its calls in the order in which they were made.
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

// testClash accepts two results: a bucket with directories returns ErrClash, and a bucket
// without directories stores both objects.
func testClash(t *testing.T, b blob.Bucket) {
	fill(t, b, "file", "dir/a")
	objects := map[string]string{"file": "file", "dir/a": "dir/a"}
	for _, key := range []string{"file/below", "dir"} {
		err := tryPut(t, b, put{blob.Put{Key: key}, "new"})
		if err == nil {
			objects[key] = "new"
		} else if !errors.Is(err, blob.ErrClash) || !strings.Contains(err.Error(), key) {
			t.Errorf("put %q: got %v, want an ErrClash that contains the key", key, err)
		}
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
		t.Errorf("Write from a failing reader: got %v, want the error of the reader", err)
	}
	want(t, b, map[string]string{})
	if n, err := blob.Write(ctx, b, strings.NewReader("12345"), blob.Put{Key: "a"}); n != 5 || err != nil {
		t.Errorf("Write: got %d bytes and the error %v, want 5 bytes", n, err)
	}
	if got, err := blob.ReadAll(ctx, b, "a", 5); string(got) != "12345" || err != nil {
		t.Errorf("ReadAll of an object as long as the limit: got %q, %v", got, err)
	}
	if _, err := blob.ReadAll(ctx, b, "a", 4); !errors.Is(err, blob.ErrTooLarge) {
		t.Errorf("ReadAll of an object longer than the limit: got %v, want ErrTooLarge", err)
	}
	if _, err := blob.ReadAll(ctx, b, "b", 4); !errors.Is(err, blob.ErrNotExist) {
		t.Errorf("ReadAll of an absent object: got %v, want ErrNotExist", err)
	}
}
