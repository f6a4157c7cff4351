package blobtest

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"instep/blob"
)

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
		t.Errorf("Stat returned %+v, but Get returned %+v", info, same)
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
			t.Errorf("Get(%q, %d, %d): got size %d, want the size of the whole object, %d", c.key, c.off, c.n, info.Size, whole)
		}
	}
	if _, _, err := b.Get(t.Context(), "a", -1, 1); err == nil {
		t.Error("Get with offset -1 returned no error")
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
		break // a caller may stop a listing early
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
