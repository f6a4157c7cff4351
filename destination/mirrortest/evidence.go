package mirrortest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"instep/destination"
	"instep/harvest"
)

// told returns a resource that a change describes. seconds is the time of the change,
// and came the time at which the bytes arrived, both in seconds after epoch.
func told(name, body string, seconds, came int) harvest.Resource {
	w := wanted(name, body, seconds)
	w.Told, w.Came = true, epoch.Add(time.Duration(came)*time.Second)
	w.Until = w.Came.Add(time.Microsecond)
	return w
}

// toldAs returns the record that a mirror must have of a resource that the function
// told returned.
func toldAs(w harvest.Resource) destination.Held {
	h := heldAs(w)
	h.Told, h.Until, h.Came = true, w.Until, w.Came
	return h
}

func (m *tester) bring(set string, w harvest.Resource, body string) {
	m.t.Helper()
	m.batch(nil, func(b destination.Batch) {
		_, err := b.Put(m.t.Context(), set, w, strings.NewReader(body), true)
		m.ok(err)
	})
}

func testTold(t *testing.T, m *tester) {
	first := told("a", "one", 1, 4)
	m.bring(set, first, "one")
	m.wantHeld(m.lookup(set, "a"), toldAs(first))
	m.wantHeld(m.lookup(set, "a"), toldAs(first))
	if h := m.lookup(set2, "a"); h.Told || !h.Came.IsZero() {
		t.Fatalf("Lookup in another set: got %+v, want Told false and Came zero", h)
	}
	next := told("a", "one", 5, 9)
	m.batch(nil, func(b destination.Batch) { m.ok(b.Mark(t.Context(), set, next)) })
	m.wantHeld(m.lookup(set, "a"), toldAs(next))
	again := told("a", "two", 6, 7)
	m.bring(set, again, "two")
	m.wantHeld(m.lookup(set, "a"), toldAs(again))
	unknown := told("a", "two", 8, 0)
	unknown.Came = time.Time{}
	m.batch(nil, func(b destination.Batch) { m.ok(b.Mark(t.Context(), set, unknown)) })
	m.wantHeld(m.lookup(set, "a"), toldAs(unknown))
	copied := told("b", "two", 9, 9)
	m.batch(nil, func(b destination.Batch) {
		_, err := b.Copy(t.Context(), set2, copied, uri("a"))
		m.ok(err)
	})
	m.wantHeld(m.lookup(set2, "b"), toldAs(copied))
	b := m.begin()
	_, err := b.Put(t.Context(), set, told("a", "never", 20, 20), strings.NewReader("never"), true)
	m.ok(errors.Join(err, b.Discard()))
	m.wantHeld(m.lookup(set, "a"), toldAs(unknown))
}

func testToldEnds(t *testing.T, m *tester) {
	m.bring(set, told("a", "one", 1, 4), "one")
	listed := wanted("a", "one", 5)
	m.batch(nil, func(b destination.Batch) { m.ok(b.Mark(t.Context(), set, listed)) })
	m.wantHeld(m.lookup(set, "a"), heldAs(listed))
	m.bring(set, told("a", "two", 6, 7), "two")
	listed = wanted("a", "three", 8)
	m.bring(set, listed, "three")
	m.wantHeld(m.lookup(set, "a"), heldAs(listed))
}

// gone returns the record of a deleted resource, which has only the time of the
// deletion.
func gone(seconds int) destination.Held {
	return destination.Held{Gone: epoch.Add(time.Duration(seconds) * time.Second)}
}

// deleteAt deletes resources with the time that a change reported for the deletions.
func (m *tester) deleteAt(set string, seconds int, names ...string) {
	m.t.Helper()
	m.batch(nil, func(b destination.Batch) {
		for _, name := range names {
			m.ok(b.Delete(m.t.Context(), set, uri(name), epoch.Add(time.Duration(seconds)*time.Second)))
		}
	})
}

func testGone(t *testing.T, m *tester) {
	m.batch(nil, func(b destination.Batch) {
		m.put(b, set, "member", "one", 0)
		m.put(b, set, "listed", "two", 0)
		m.put(b, set, "both", "three", 0)
		m.put(b, set2, "both", "three", 0)
	})
	b := m.begin()
	m.ok(errors.Join(b.Delete(t.Context(), set, uri("member"), epoch), b.Discard()))
	m.wantHeld(m.lookup(set, "member"), heldAs(wanted("member", "one", 0)))

	m.deleteAt(set, 5, "member", "never", "both")
	m.wantHeld(m.lookup(set, "member"), gone(5))
	m.wantHeld(m.lookup(set, "never"), gone(5))
	if h := m.lookup(set, "both"); h.Member || !h.Stored || !h.Gone.Equal(gone(5).Gone) {
		t.Fatalf("Lookup of a deleted resource that another set has: got %+v, want Stored true, Member false and Gone", h)
	}
	if h := m.lookup(set2, "both"); !h.Member || !h.Gone.IsZero() {
		t.Fatalf("Lookup in the other set: got %+v, want Member true and Gone zero", h)
	}
	m.wantHeld(m.lookup(set2, "never"), destination.Held{})
	m.count(set, 1)
	m.deleteAt(set, 9, "never")
	m.wantHeld(m.lookup(set, "never"), gone(9))

	m.delete(false, "listed", "unlisted") // if a list no longer contains the resource, the deletion has no time
	m.wantHeld(m.lookup(set, "listed"), destination.Held{})
	m.wantHeld(m.lookup(set, "unlisted"), destination.Held{})
	const other = Origin + "/other/capabilitylist.xml"
	m.deleteAt(other, 5, "x") // the mirror never had members of this set
	if held, err := m.Lookup(t.Context(), other, []string{uri("x")}); err != nil || !held[0].Gone.Equal(gone(5).Gone) {
		t.Fatalf("Lookup of a deleted resource in a set without members: got %+v and error %v, want Gone", held, err)
	}
}

func testGoneEnds(_ *testing.T, m *tester) {
	m.deleteAt(set, 5, "a", "b")
	w := told("a", "one", 6, 6)
	m.bring(set, w, "one")
	m.wantHeld(m.lookup(set, "a"), toldAs(w))
	listed := wanted("b", "two", 7)
	m.bring(set, listed, "two")
	m.wantHeld(m.lookup(set, "b"), heldAs(listed))
	m.deleteAt(set, 8, "a", "b")
	m.wantHeld(m.lookup(set, "a"), gone(8))
	m.wantHeld(m.lookup(set, "b"), gone(8))
}

func testListed(_ *testing.T, m *tester) {
	w := told("a", "one", 5, 5)
	m.bring(set, w, "one")
	m.bring(set2, told("b", "two", 5, 5), "two")
	m.deleteAt(set, 5, "x")
	m.deleteAt(set, 8, "y")
	m.deleteAt(set2, 5, "x")
	listed := func(seconds int) *destination.CursorMove {
		to := move(20+seconds, 1)
		to.Listed = epoch.Add(time.Duration(seconds) * time.Second)
		return to
	}
	m.batch(move(10, 1), func(destination.Batch) {}) // the cursor moves, but no list was read
	m.batch(listed(4), func(destination.Batch) {})
	m.batch(listed(5), func(destination.Batch) {}) // a list that is not later than the changes
	m.wantHeld(m.lookup(set, "a"), toldAs(w))
	m.wantHeld(m.lookup(set, "x"), gone(5))
	m.batch(listed(6), func(destination.Batch) {})
	m.wantHeld(m.lookup(set, "a"), heldAs(wanted("a", "one", 5)))
	m.wantHeld(m.lookup(set, "x"), destination.Held{})
	m.wantHeld(m.lookup(set, "y"), gone(8))
	m.wantHeld(m.lookup(set2, "x"), gone(5))
	m.wantHeld(m.lookup(set2, "b"), toldAs(told("b", "two", 5, 5)))
}
