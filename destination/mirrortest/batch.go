package mirrortest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"instep/destination"
	"instep/harvest"
	"instep/resourcesync"
)

func testOpenEnds(t *testing.T, m *tester) {
	m.batch(nil, func(b destination.Batch) { m.put(b, set, "a", "one", 0) })
	ctx, cancel := context.WithCancel(t.Context())
	r, err := m.open(ctx, "a")
	m.ok(err)
	defer r.Close()
	cancel()
	if _, err := io.ReadAll(r); !errors.Is(err, context.Canceled) {
		t.Fatalf("Read after the context was cancelled: got error %v, want %v", err, context.Canceled)
	}
}

func testEmpty(t *testing.T, m *tester) {
	m.wantHeld(m.lookup(set, "a"), destination.Held{})
	m.wantNoBytes("a")
	m.count(set, 0)
	if _, ok, err := m.Cursor(t.Context(), set); ok || err != nil {
		t.Fatalf("Cursor of a set without one: got %v and error %v, want false", ok, err)
	}
	for k, err := range m.Keys(t.Context(), set) {
		t.Fatalf("an empty mirror has the member %s, error %v", k.URI(), err)
	}
	if names := m.dueNames(); len(names) > 0 {
		t.Fatalf("due: %q", names)
	}
	w := wanted("a", "x", 0)
	if _, ok, err := m.FindContent(t.Context(), w.Digests[0], 1); ok || err != nil {
		t.Fatalf("FindContent in an empty mirror: got %v and error %v, want false", ok, err)
	}
	if ok, err := m.Approved(t.Context(), "0123"); ok || err != nil {
		t.Fatalf("Approved, for a plan that nobody approved: got %v and error %v, want false", ok, err)
	}
	m.batch(nil, func(destination.Batch) {})
}

func testVisibility(_ *testing.T, m *tester) {
	b := m.begin()
	m.put(b, set, "a", "one", 0)
	m.wantHeld(m.lookup(set, "a"), destination.Held{})
	m.wantNoBytes("a")
	m.count(set, 0)
	m.ok(b.Commit(m.t.Context(), nil))
	m.wantBytes("a", "one")
	m.count(set, 1)
}

func testDiscard(t *testing.T, m *tester) {
	b := m.begin()
	m.put(b, set, "a", "one", 0)
	m.ok(b.Discard())
	m.ok(b.Discard())
	m.wantNoBytes("a")
	m.count(set, 0)
	if err := b.Commit(t.Context(), nil); err == nil {
		t.Fatal("Commit after Discard returned no error")
	}
}

func testPut(t *testing.T, m *tester) {
	m.batch(nil, func(b destination.Batch) {
		m.put(b, set, "a", "one", 0)
		m.put(b, set, "dir/empty", "", 1)
		w := harvest.Resource{URI: uri("plain"), Changed: epoch}
		_, err := b.Put(t.Context(), set, w, strings.NewReader("unverified"), false)
		m.ok(err)
	})
	m.wantHeld(m.lookup(set, "a"), heldAs(wanted("a", "one", 0)))
	m.wantHeld(m.lookup(set, "dir/empty"), heldAs(wanted("dir/empty", "", 1)))
	m.wantBytes("a", "one")
	m.wantBytes("dir/empty", "")
	plain := m.lookup(set, "plain")
	if plain.Verified || plain.Length.Int64() != 10 || plain.Digests.Get(resourcesync.SHA256).IsZero() {
		t.Fatalf("Lookup of unverified bytes: got %+v, want their length and digest, and Verified false", plain)
	}
	other := m.lookup(set2, "a")
	if other.URI != uri("a") || !other.Stored || other.Member {
		t.Fatalf("Lookup in another set: got %+v, want Stored true and Member false", other)
	}
	held, err := m.Lookup(t.Context(), set, []string{uri("none"), uri("plain"), uri("a"), uri("none")})
	m.ok(err)
	var got []string
	for _, h := range held {
		got = append(got, h.URI)
	}
	if diff := cmp.Diff([]string{"", uri("plain"), uri("a"), ""}, got); diff != "" {
		t.Fatalf("order of a lookup (-want +got):\n%s", diff)
	}
}

type failingReader struct{ r io.Reader }

func (f failingReader) Read(p []byte) (int, error) {
	n, err := f.r.Read(p)
	if errors.Is(err, io.EOF) {
		err = errReader
	}
	return n, err
}

func testFailedReader(t *testing.T, m *tester) {
	m.batch(nil, func(b destination.Batch) { m.put(b, set, "old", "good", 0) })
	m.batch(nil, func(b destination.Batch) {
		for _, name := range []string{"new", "old"} {
			r := failingReader{strings.NewReader("torn")}
			if _, err := b.Put(t.Context(), set, wanted(name, "torn and more", 1), r, true); !errors.Is(err, errReader) {
				t.Fatalf("Put of %s: got error %v, want the error of the reader", name, err)
			}
		}
		m.put(b, set, "fine", "fine", 1)
	})
	m.wantNoBytes("new")
	m.wantHeld(m.lookup(set, "new"), destination.Held{})
	m.wantHeld(m.lookup(set, "old"), heldAs(wanted("old", "good", 0)))
	m.wantBytes("old", "good")
	m.wantBytes("fine", "fine")
}

func testReplace(_ *testing.T, m *tester) {
	m.batch(nil, func(b destination.Batch) { m.put(b, set, "a", "one", 0) })
	m.batch(nil, func(b destination.Batch) {
		m.put(b, set, "a", "two is longer", 1)
		m.wantBytes("a", "one")
	})
	m.wantBytes("a", "two is longer")
	m.wantHeld(m.lookup(set, "a"), heldAs(wanted("a", "two is longer", 1)))
	m.count(set, 1)
}

func testAgain(t *testing.T, m *tester) {
	m.batch(nil, func(b destination.Batch) { m.put(b, set, "gone", "gone", 0) })
	for range 2 {
		m.batch(nil, func(b destination.Batch) {
			m.put(b, set, "a", "one", 1)
			m.ok(b.Delete(t.Context(), set, uri("gone"), time.Time{}))
		})
	}
	m.wantBytes("a", "one")
	m.wantNoBytes("gone")
	m.count(set, 1)
}

func testSets(t *testing.T, m *tester) {
	m.batch(nil, func(b destination.Batch) {
		m.put(b, set, "a", "one", 0)
		m.put(b, set, "b", "two", 0)
	})
	m.batch(nil, func(b destination.Batch) { m.ok(b.Mark(t.Context(), set2, wanted("a", "one", 0))) })
	m.count(set2, 1)
	m.batch(nil, func(b destination.Batch) {
		m.ok(b.Delete(t.Context(), set, uri("a"), time.Time{}))
		m.ok(b.Delete(t.Context(), set, uri("b"), time.Time{}))
	})
	m.wantBytes("a", "one")
	m.wantNoBytes("b")
	if h := m.lookup(set, "a"); h.Member || !h.Stored {
		t.Fatalf("Lookup after a deletion from one of two sets: got %+v, want Stored true and Member false", h)
	}
	m.batch(nil, func(b destination.Batch) { m.ok(b.Delete(t.Context(), set2, uri("a"), time.Time{})) })
	m.wantNoBytes("a")
	m.wantHeld(m.lookup(set2, "a"), destination.Held{})
	m.batch(nil, func(b destination.Batch) { m.put(b, set, "a", "again", 1) })
	m.wantBytes("a", "again")
}

func testDeleteUnknown(t *testing.T, m *tester) {
	m.batch(nil, func(b destination.Batch) { m.put(b, set, "a", "one", 0) })
	m.batch(nil, func(b destination.Batch) {
		m.ok(b.Delete(t.Context(), set, uri("none"), time.Time{}))
		m.ok(b.Delete(t.Context(), set2, uri("a"), time.Time{}))
	})
	m.wantBytes("a", "one")
	m.count(set, 1)
}

func testConcurrent(t *testing.T, m *tester) {
	m.batch(nil, func(b destination.Batch) { m.put(b, set, "from", "the same bytes", 0) })
	b := m.begin()
	var wg sync.WaitGroup
	errs := make(chan error, 40)
	for i := range 20 {
		wg.Go(func() {
			body := fmt.Sprint("body ", i)
			_, err := b.Put(t.Context(), set, wanted(fmt.Sprintf("d%d/put", i%3)+fmt.Sprint(i), body, 0), strings.NewReader(body), true)
			errs <- err
		})
		wg.Go(func() {
			_, err := b.Copy(t.Context(), set, wanted(fmt.Sprint("copy", i), "the same bytes", 0), uri("from"))
			errs <- err
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		m.ok(err)
	}
	m.ok(b.Commit(t.Context(), nil))
	m.count(set, 41)
	m.wantBytes("d1/put7", "body 7")
	m.wantBytes("copy19", "the same bytes")
}

func testTwoBatches(t *testing.T, m *tester) {
	first, second := m.begin(), m.begin()
	m.put(first, set, "dir/a", "one", 0)
	m.put(first, set, "both", "first", 0)
	done := make(chan error)
	go func() { done <- first.Commit(t.Context(), nil) }()
	m.put(second, set, "DIR/a", "two", 0)
	m.put(second, set, "both", "second", 1)
	m.ok(<-done)
	m.ok(second.Commit(t.Context(), nil))
	m.wantBytes("dir/a", "one")
	m.wantBytes("DIR/a", "two")
	m.wantBytes("both", "second")
	m.count(set, 3)
}

func testLookalikes(_ *testing.T, m *tester) {
	names := []string{
		"a", "A", "a/", "a/b", "a//b", "a%2Fb", "a?b", "a?B", "a#b", "%61", "a%20b", "a b", "e%CC%81", "%C3%A9", ".a", "a.", "con", "CON",
		"~12345678", "../a", ".instep/marker", "@museum.example.org/a", "", "%", "%25", strings.Repeat("long", 100), strings.Repeat("long", 100) + "er",
	}
	m.batch(nil, func(b destination.Batch) {
		for _, name := range names {
			m.put(b, set, name, "of "+name, 0)
		}
	})
	for _, name := range names {
		m.wantBytes(name, "of "+name)
	}
	m.count(set, int64(len(names)))
}
