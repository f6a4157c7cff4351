package mirrortest

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"instep/destination"
	"instep/resourcesync"
)

func testMark(t *testing.T, m *tester) {
	m.batch(nil, func(b destination.Batch) {
		if err := b.Mark(t.Context(), set, wanted("none", "x", 0)); !errors.Is(err, destination.ErrNotHeld) {
			t.Fatalf("Mark of a resource without bytes: got error %v, want ErrNotHeld", err)
		}
		m.put(b, set, "a", "one", 0)
	})
	m.batch(nil, func(b destination.Batch) {
		if err := b.Mark(t.Context(), set, wanted("a", "two", 1)); !errors.Is(err, destination.ErrNotHeld) {
			t.Fatalf("Mark with another digest: got error %v, want ErrNotHeld", err)
		}
	})
	w := wanted("a", "one", 5)
	w.Type = "text/html"
	m.batch(nil, func(b destination.Batch) { m.ok(b.Mark(t.Context(), set, w)) })
	m.wantHeld(m.lookup(set, "a"), heldAs(w))
	m.wantBytes("a", "one")
}

func testDue(t *testing.T, m *tester) {
	m.batch(nil, func(b destination.Batch) { m.put(b, set, "a", "one", 0) })
	next := wanted("a", "two", 1)
	m.batch(nil, func(b destination.Batch) { m.ok(b.Due(t.Context(), set, next, "no answer")) })
	m.wantBytes("a", "one")
	h := m.lookup(set, "a")
	if h.Due != "no answer" || !h.Stored || h.Digests[0] == next.Digests[0] {
		t.Fatalf("Lookup of a due resource: got %+v, want the old bytes and the reason in Due", h)
	}
	m.wantHeld(destination.Held{Wanted: h.Wanted}, destination.Held{Wanted: next})
	if diff := cmp.Diff([]string{"a"}, m.dueNames()); diff != "" {
		t.Fatalf("due (-want +got):\n%s", diff)
	}
	m.batch(nil, func(b destination.Batch) { m.put(b, set, "a", "two", 1) })
	m.wantHeld(m.lookup(set, "a"), heldAs(next))
	m.batch(nil, func(b destination.Batch) { m.ok(b.Due(t.Context(), set, next, "damaged")) })
	m.batch(nil, func(b destination.Batch) { m.ok(b.Mark(t.Context(), set, next)) })
	if names := m.dueNames(); len(names) > 0 {
		t.Fatalf("due resources after Mark: got %q, want none", names)
	}
}

func testDueUnknown(t *testing.T, m *tester) {
	w := wanted("a", "one", 0)
	m.batch(nil, func(b destination.Batch) { m.ok(b.Due(t.Context(), set, w, "not found")) })
	h := m.lookup(set, "a")
	if h.URI != w.URI || h.Stored || !h.Member || h.Due != "not found" {
		t.Fatalf("Lookup of a due resource without bytes: got %+v, want Stored false, Member true and the reason in Due", h)
	}
	m.wantHeld(destination.Held{Wanted: h.Wanted}, destination.Held{Wanted: w})
	m.wantNoBytes("a")
	m.count(set, 1)
	m.batch(nil, func(b destination.Batch) { m.ok(b.Due(t.Context(), set, w, "still not found")) })
	m.batch(nil, func(b destination.Batch) { m.put(b, set, "a", "one", 0) })
	m.wantHeld(m.lookup(set, "a"), heldAs(w))
	m.wantBytes("a", "one")
	m.batch(nil, func(b destination.Batch) { m.ok(b.Due(t.Context(), set, wanted("b", "two", 0), "not found")) })
	m.batch(nil, func(b destination.Batch) { m.ok(b.Delete(t.Context(), set, uri("b"), time.Time{})) })
	m.wantHeld(m.lookup(set, "b"), destination.Held{})
}

func testCopy(t *testing.T, m *tester) {
	m.batch(nil, func(b destination.Batch) { m.put(b, set, "a", "one", 0) })
	m.batch(nil, func(b destination.Batch) {
		n, err := b.Copy(t.Context(), set2, wanted("dir/b", "one", 1), uri("a"))
		m.ok(err)
		if n != 3 {
			t.Fatalf("Copy: got %d bytes, want 3", n)
		}
		if _, err := b.Copy(t.Context(), set, wanted("c", "other", 1), uri("a")); err == nil {
			t.Fatal("Copy of bytes with another digest returned no error")
		}
		if _, err := b.Copy(t.Context(), set, wanted("d", "one", 1), uri("none")); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("Copy of bytes that do not exist: got error %v, want fs.ErrNotExist", err)
		}
	})
	m.wantHeld(m.lookup(set2, "dir/b"), heldAs(wanted("dir/b", "one", 1)))
	m.wantBytes("dir/b", "one")
	m.wantNoBytes("c")
	m.batch(nil, func(b destination.Batch) { m.ok(b.Delete(t.Context(), set, uri("a"), time.Time{})) })
	m.wantBytes("dir/b", "one")
}

func testFindContent(t *testing.T, m *tester) {
	m.batch(nil, func(b destination.Batch) { m.put(b, set, "a", "one", 0) })
	w := wanted("a", "one", 0)
	h, ok, err := m.FindContent(t.Context(), w.Digests[0], 3)
	m.ok(err)
	if !ok || h.URI != w.URI {
		t.Fatalf("FindContent: got %v and %+v, want true and %s", ok, h, w.URI)
	}
	if _, ok, err := m.FindContent(t.Context(), w.Digests[0], 4); ok || err != nil {
		t.Fatalf("FindContent with another length: got %v and error %v, want false", ok, err)
	}
	if _, ok, err := m.FindContent(t.Context(), wanted("a", "two", 0).Digests[0], 3); ok || err != nil {
		t.Fatalf("FindContent with another digest: got %v and error %v, want false", ok, err)
	}
}

func testKeys(t *testing.T, m *tester) {
	var want []string
	m.batch(nil, func(b destination.Batch) {
		for i := range 50 {
			name := fmt.Sprintf("%d/x", i)
			m.put(b, set, name, name, 0)
			want = append(want, uri(name))
		}
		m.put(b, set2, "other", "other", 0)
	})
	slices.SortFunc(want, func(a, b string) int {
		return strings.Compare(string(resourcesync.KeyOf(a)), string(resourcesync.KeyOf(b)))
	})
	var got []string
	for k, err := range m.Keys(t.Context(), set) {
		m.ok(err)
		got = append(got, k.URI())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("members (-want +got):\n%s", diff)
	}
	m.count(set, 50)
	for range m.Keys(t.Context(), set) {
		break // the caller may stop before the end
	}
	m.count(set2, 1)
}
