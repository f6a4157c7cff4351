// Package mirrortest is the contract of destination.Mirror as tests: every
// implementation passes Run.
package mirrortest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"instep/destination"
	"instep/harvest"
	"instep/resourcesync"
)

// The Source of the tests. The mirror that Run is given has to take its URIs.
const (
	Origin = "https://museum.example.org"
	set    = Origin + "/resourcesync/capabilitylist.xml"
	set2   = Origin + "/resourcesync/sets/prints/capabilitylist.xml"
)

// epoch is when the first change of a test happens.
var epoch = time.Date(2026, 5, 1, 12, 0, 0, 123456000, time.UTC)

// Run tests the mirrors that open returns: each new, empty and bound to Origin.
func Run(t *testing.T, open func(t *testing.T) destination.Mirror) {
	for _, c := range append([]struct {
		name string
		test func(*testing.T, *tester)
	}{
		{"AnEmptyMirrorKnowsNothing", testEmpty},
		{"NothingIsVisibleBeforeCommit", testVisibility},
		{"ADiscardedBatchLeavesNothing", testDiscard},
		{"WhatWasPutIsHeld", testPut},
		{"AFailedReaderKeepsNothing", testFailedReader},
		{"NewBytesReplaceOldOnes", testReplace},
		{"ApplyingABatchAgainIsHarmless", testAgain},
		{"BytesGoWithTheLastSet", testSets},
		{"DeletingWhatIsUnknownIsHarmless", testDeleteUnknown},
		{"MarkTouchesNoBytes", testMark},
		{"DueStaysUntilTheBytesCome", testDue},
		{"DueOfAnUnknownURIIsAMember", testDueUnknown},
		{"ReadingEndsWithItsContext", testOpenEnds},
		{"CopyTakesTheBytesOfAnotherURI", testCopy},
		{"ContentIsFoundByDigestAndLength", testFindContent},
		{"MembersComeInOrderOfTheirKeys", testMembers},
		{"WhatChangesSayIsKept", testTold},
		{"WhatAListSaysLaterIsNoChange", testToldEnds},
		{"DeletionsAreRemembered", testGone},
		{"ADeletionIsRememberedUntilItIsMadeAgain", testGoneEnds},
		{"ANewerListForgetsWhatChangesSaid", testListed},
		{"CursorsMoveWithTheirBatch", testCursor},
		{"CursorsNeverGoBack", testCursorBack},
		{"AWithheldPlanIsNotApproved", testWithhold},
		{"LossesCountSinceTheSetWasInStep", testLosses},
		{"WhatNobodyConsentedToIsLost", testConsent},
		{"PutsAndCopiesMayBeConcurrent", testConcurrent},
		{"OneBatchIsFilledWhileAnotherCommits", testTwoBatches},
		{"URIsThatLookAlikeAreApart", testLookalikes},
	}, slices.Concat(parts, remainders)...) {
		t.Run(c.name, func(t *testing.T) { c.test(t, &tester{t, open(t)}) })
	}
}

// tester is a mirror whose errors end a test.
type tester struct {
	t *testing.T
	destination.Mirror
}

func uri(name string) string { return Origin + "/" + name }

// wanted describes body as a Source would, at some seconds after epoch.
func wanted(name, body string, seconds int) harvest.Resource {
	sum := sha256.Sum256([]byte(body))
	d, err := resourcesync.NewDigest(resourcesync.SHA256, sum[:])
	if err != nil {
		panic(err) // a sha-256 has the length of a sha-256
	}
	changed := epoch.Add(time.Duration(seconds) * time.Second)
	return harvest.Resource{
		URI: uri(name), LastMod: resourcesync.DatetimeOf(changed), Length: resourcesync.Bytes(int64(len(body))),
		Digests: resourcesync.Digests{d}, Type: "text/plain", Changed: changed,
	}
}

// batch fills a batch and commits it.
func (m *tester) batch(move *destination.CursorMove, fill func(b destination.Batch)) {
	m.t.Helper()
	b := m.begin()
	fill(b)
	m.ok(b.Commit(m.t.Context(), move))
	m.ok(b.Discard())
}

func (m *tester) begin() destination.Batch {
	m.t.Helper()
	b, err := m.Begin(m.t.Context())
	m.ok(err)
	m.t.Cleanup(func() { _ = b.Discard() })
	return b
}

func (m *tester) ok(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m *tester) put(b destination.Batch, set, name, body string, seconds int) {
	m.t.Helper()
	n, err := b.Put(m.t.Context(), set, wanted(name, body, seconds), strings.NewReader(body), true)
	m.ok(err)
	if n != int64(len(body)) {
		m.t.Fatalf("put %s: got %d bytes, want %d", name, n, len(body))
	}
}

func (m *tester) lookup(set, name string) destination.Held {
	m.t.Helper()
	held, err := m.Lookup(m.t.Context(), set, []string{uri(name)})
	m.ok(err)
	if len(held) != 1 {
		m.t.Fatalf("looked up 1 URI, got %d", len(held))
	}
	return held[0]
}

func (m *tester) wantBytes(name, want string) {
	m.t.Helper()
	r, err := m.Open(m.t.Context(), uri(name))
	m.ok(err)
	got, err := io.ReadAll(r)
	m.ok(errors.Join(err, r.Close()))
	if string(got) != want {
		m.t.Fatalf("bytes of %s: got %q, want %q", name, got, want)
	}
}

func testOpenEnds(t *testing.T, m *tester) {
	m.batch(nil, func(b destination.Batch) { m.put(b, set, "a", "one", 0) })
	ctx, cancel := context.WithCancel(t.Context())
	r, err := m.Open(ctx, uri("a"))
	m.ok(err)
	defer r.Close()
	cancel()
	if _, err := io.ReadAll(r); !errors.Is(err, context.Canceled) {
		t.Fatalf("read after the end of its context: got %v, want %v", err, context.Canceled)
	}
}

func (m *tester) wantNoBytes(name string) {
	m.t.Helper()
	if r, err := m.Open(m.t.Context(), uri(name)); !errors.Is(err, fs.ErrNotExist) {
		if err == nil {
			_ = r.Close()
		}
		m.t.Fatalf("open %s: got %v, want fs.ErrNotExist", name, err)
	}
}

func (m *tester) wantHeld(got, want destination.Held) {
	m.t.Helper()
	got.Path, got.Proof, got.Stamp = "", "", "" // are the implementation's
	opt := cmp.Comparer(func(a, b time.Time) bool { return a.Equal(b) })
	if diff := cmp.Diff(want, got, opt, cmp.Comparer(equal[resourcesync.Datetime]),
		cmp.Comparer(equal[resourcesync.Digest]), cmp.Comparer(equal[resourcesync.Length])); diff != "" {
		m.t.Fatalf("held (-want +got):\n%s", diff)
	}
}

func equal[T comparable](a, b T) bool { return a == b }

// heldAs is what is held after a verified Put of w.
func heldAs(w harvest.Resource) destination.Held {
	return destination.Held{
		URI: w.URI, Stored: true, Length: w.Length, Digests: w.Digests, Type: w.Type, Verified: true,
		Member: true, LastMod: w.LastMod, Changed: w.Changed, Remainder: w.Remainder,
	}
}

func (m *tester) count(set string, want int64) {
	m.t.Helper()
	n, err := m.Count(m.t.Context(), set)
	m.ok(err)
	if n != want {
		m.t.Fatalf("members of %s: got %d, want %d", set, n, want)
	}
}

func (m *tester) dueNames() (names []string) {
	m.t.Helper()
	for h, err := range m.Due(m.t.Context(), set) {
		m.ok(err)
		names = append(names, strings.TrimPrefix(h.URI, Origin+"/"))
	}
	return names
}

func testEmpty(t *testing.T, m *tester) {
	m.wantHeld(m.lookup(set, "a"), destination.Held{})
	m.wantNoBytes("a")
	m.count(set, 0)
	if _, ok, err := m.Cursor(t.Context(), set); ok || err != nil {
		t.Fatalf("cursor: got %v and %v, want none", ok, err)
	}
	for h, err := range m.Members(t.Context(), set) {
		t.Fatalf("a member: %v, %v", h, err)
	}
	if names := m.dueNames(); len(names) > 0 {
		t.Fatalf("due: %q", names)
	}
	w := wanted("a", "x", 0)
	if _, ok, err := m.FindContent(t.Context(), w.Digests[0], 1); ok || err != nil {
		t.Fatalf("content: got %v and %v, want none", ok, err)
	}
	if ok, err := m.Approved(t.Context(), "0123"); ok || err != nil {
		t.Fatalf("approved: got %v and %v, want false", ok, err)
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
		t.Fatal("commit after discard: got no error")
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
		t.Fatalf("unverified bytes are held as %+v", plain)
	}
	other := m.lookup(set2, "a")
	if other.URI != uri("a") || !other.Stored || other.Member {
		t.Fatalf("seen from another set: %+v", other)
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

var errReader = errors.New("the connection broke")

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
				t.Fatalf("put %s: got %v, want the reader's error", name, err)
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
		t.Fatalf("after its deletion from one of two sets: %+v", h)
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

func testMark(t *testing.T, m *tester) {
	m.batch(nil, func(b destination.Batch) {
		if err := b.Mark(t.Context(), set, wanted("none", "x", 0)); !errors.Is(err, destination.ErrNotHeld) {
			t.Fatalf("mark of a URI without bytes: got %v, want ErrNotHeld", err)
		}
		m.put(b, set, "a", "one", 0)
	})
	m.batch(nil, func(b destination.Batch) {
		if err := b.Mark(t.Context(), set, wanted("a", "two", 1)); !errors.Is(err, destination.ErrNotHeld) {
			t.Fatalf("mark of other bytes: got %v, want ErrNotHeld", err)
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
		t.Fatalf("a due resource is held as %+v", h)
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
		t.Fatalf("due after a mark: %q", names)
	}
}

func testDueUnknown(t *testing.T, m *tester) {
	w := wanted("a", "one", 0)
	m.batch(nil, func(b destination.Batch) { m.ok(b.Due(t.Context(), set, w, "not found")) })
	h := m.lookup(set, "a")
	if h.URI != w.URI || h.Stored || !h.Member || h.Due != "not found" {
		t.Fatalf("a due resource that never came is held as %+v", h)
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
			t.Fatalf("copied %d bytes, want 3", n)
		}
		if _, err := b.Copy(t.Context(), set, wanted("c", "other", 1), uri("a")); err == nil {
			t.Fatal("copy of other bytes than wanted: got no error")
		}
		if _, err := b.Copy(t.Context(), set, wanted("d", "one", 1), uri("none")); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("copy of what is not there: got %v, want fs.ErrNotExist", err)
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
		t.Fatalf("got %v %+v, want %s", ok, h, w.URI)
	}
	if _, ok, err := m.FindContent(t.Context(), w.Digests[0], 4); ok || err != nil {
		t.Fatalf("another length: got %v and %v, want nothing", ok, err)
	}
	if _, ok, err := m.FindContent(t.Context(), wanted("a", "two", 0).Digests[0], 3); ok || err != nil {
		t.Fatalf("another digest: got %v and %v, want nothing", ok, err)
	}
}

func testMembers(t *testing.T, m *tester) {
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
		x, y := resourcesync.KeyOf(a), resourcesync.KeyOf(b)
		return bytes.Compare(x[:], y[:])
	})
	var got []string
	for h, err := range m.Members(t.Context(), set) {
		m.ok(err)
		got = append(got, h.URI)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("members (-want +got):\n%s", diff)
	}
	m.count(set, 50)
	for range m.Members(t.Context(), set) {
		break // a consumer may stop
	}
	m.count(set2, 1)
}

func move(seconds, applied int) *destination.CursorMove {
	return &destination.CursorMove{Set: set, Cursor: destination.Cursor{
		Position: harvest.Position{
			At: epoch.Add(time.Duration(seconds) * time.Second), List: uri("changes/1.xml"), From: "2026-05-01T00:00:00Z", Applied: applied, Prefix: "ab12",
		},
		Scope: "cd34",
	}}
}

func (m *tester) wantCursor(want *destination.CursorMove) {
	m.t.Helper()
	got, ok, err := m.Cursor(m.t.Context(), set)
	m.ok(err)
	if !ok || got != want.Cursor {
		m.t.Fatalf("cursor: got %v %+v, want %+v", ok, got, want.Cursor)
	}
}

func testCursor(t *testing.T, m *tester) {
	m.batch(move(0, 1), func(b destination.Batch) { m.put(b, set, "a", "one", 0) })
	m.wantCursor(move(0, 1))
	m.batch(move(9, 2), func(destination.Batch) {})
	m.wantCursor(move(9, 2))
	m.batch(nil, func(b destination.Batch) { m.put(b, set, "b", "two", 0) })
	m.wantCursor(move(9, 2))
	if _, ok, err := m.Cursor(t.Context(), set2); ok || err != nil {
		t.Fatalf("cursor of another set: got %v and %v, want none", ok, err)
	}
}

func testCursorBack(t *testing.T, m *tester) {
	m.batch(move(5, 2), func(destination.Batch) {})
	b := m.begin()
	m.put(b, set, "a", "one", 0)
	if err := b.Commit(t.Context(), move(4, 3)); err == nil {
		t.Fatal("moved a cursor back without an error")
	}
	m.wantCursor(move(5, 2))
	m.wantNoBytes("a")
	m.batch(move(5, 1), func(destination.Batch) {}) // a list that was rewritten
	m.wantCursor(move(5, 1))
}

func testWithhold(t *testing.T, m *tester) {
	m.ok(m.Withhold(t.Context(), set, "0123abcd", "9 of 10 would go"))
	m.ok(m.Withhold(t.Context(), set, "0123abcd", "9 of 10 would go"))
	if ok, err := m.Approved(t.Context(), "0123abcd"); ok || err != nil {
		t.Fatalf("approved: got %v and %v, want false", ok, err)
	}
}

// wantLosses are of set: each as name (its body), with ! if it was not there when the window began.
func (m *tester) wantLosses(members int64, joined int, bodies ...string) {
	m.t.Helper()
	l, err := m.Losses(m.t.Context(), set)
	m.ok(err)
	var got []string
	if l.Each != nil {
		for one, err := range l.Each {
			m.ok(err)
			text := one.SHA256.String()
			if !one.Old {
				text = "!" + text
			}
			got = append(got, text)
		}
	}
	var want []string
	for _, body := range bodies {
		rest, isNew := strings.CutPrefix(body, "!")
		text := wanted("", rest, 0).Digests[0].String()
		if isNew {
			text = "!" + text
		}
		want = append(want, text)
	}
	slices.Sort(got)
	slices.Sort(want)
	if l.Members != members || l.Lost != int64(len(want)) || !slices.Equal(got, want) {
		m.t.Fatalf("losses:\n got %d, %q of %d\nwant %d, %q of %d", l.Lost, got, l.Members, len(want), want, members)
	}
	if l.Joined == nil {
		l.Joined = func(func(resourcesync.Key, error) bool) {}
	}
	n := 0
	for _, err := range l.Joined {
		m.ok(err)
		n++
	}
	if n != joined {
		m.t.Fatalf("got %d that joined, want %d", n, joined)
	}
}

// delete deletes resources in a batch of its own.
func (m *tester) delete(consent bool, names ...string) {
	m.t.Helper()
	m.batch(nil, func(b destination.Batch) {
		if consent {
			b.Consent()
		}
		for _, name := range names {
			m.ok(b.Delete(m.t.Context(), set, uri(name), time.Time{}))
		}
	})
}

func testLosses(t *testing.T, m *tester) {
	m.wantLosses(0, 0)
	m.batch(nil, func(b destination.Batch) {
		for _, name := range []string{"a", "b", "c", "d"} {
			m.put(b, set, name, "body of "+name, 0)
		}
	})
	m.delete(false, "d") // the set was never in step
	m.wantLosses(3, 0)
	m.batch(move(1, 0), func(destination.Batch) {})
	m.wantLosses(3, 0)
	m.delete(false, "a", "unknown")
	m.delete(false, "a")
	m.wantLosses(3, 0, "body of a")
	m.batch(move(2, 0), func(b destination.Batch) { m.put(b, set, "a", "another", 1) })
	m.wantLosses(3, 0)
	m.batch(nil, func(b destination.Batch) { m.ok(b.Delete(t.Context(), set2, uri("b"), time.Time{})) })
	m.wantLosses(3, 0)
	m.delete(false, "a", "b")
	m.wantLosses(3, 0, "body of a", "body of b")
	discarded := m.begin()
	m.ok(discarded.Delete(t.Context(), set, uri("c"), time.Time{}))
	m.ok(discarded.Discard())
	m.wantLosses(3, 0, "body of a", "body of b")
}

func testConsent(_ *testing.T, m *tester) {
	m.batch(move(1, 0), func(b destination.Batch) {
		for _, name := range []string{"a", "b", "c"} {
			m.put(b, set, name, "body of "+name, 0)
		}
	})
	m.delete(true, "a")
	m.delete(false, "b")
	m.wantLosses(3, 0, "body of b")
	m.batch(nil, func(b destination.Batch) { m.put(b, set, "b", "body of b", 1) })
	m.delete(true, "b")
	m.wantLosses(3, 0)
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
