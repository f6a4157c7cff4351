package mirrortest

import (
	"strings"
	"testing"
	"time"

	"instep/destination"
	"instep/harvest"
	"instep/resourcesync"
)

var remainders = []struct {
	name string
	test func(*testing.T, *tester)
}{
	{"TheRemainderIsKept", testRemainder},
	{"TheRemainderChangesWithoutBytes", testRemainderMarked},
	{"EachSetHasItsRemainder", testRemainderOfSets},
	{"TheRemainderOfADueResourceIsKept", testRemainderDue},
}

// withRemainder returns the resource with a Remainder that has a value of each kind.
func withRemainder(w harvest.Resource, title string) harvest.Resource {
	var r resourcesync.Remainder
	r.Encoding, r.ChangeFreq = "gzip", resourcesync.Weekly
	r.Links = []resourcesync.Link{
		{Rel: resourcesync.RelDescribedBy, Href: uri("about?of=" + title + "&more"), Type: "application/rdf+xml", Length: resourcesync.Bytes(7), Modified: w.LastMod},
		{Rel: "collection", Href: uri("all"), Attrs: []resourcesync.Attr{{Space: "http://example.org/terms/", Name: "lang", Value: "\u2028 \"de\""}}},
	}
	r.Attrs = []resourcesync.Attr{{Space: "http://example.org/terms/", Name: "shelf", Value: title}}
	r.Foreign = `<dc:title xmlns:dc="http://purl.org/dc/terms/">` + title + `</dc:title>`
	text, err := r.Text()
	if err != nil {
		panic(err) // no error is possible: the Remainder has only texts and numbers
	}
	w.Remainder = harvest.NewRemainder(text)
	return w
}

func testRemainder(t *testing.T, m *tester) {
	a := withRemainder(wanted("a", "one", 0), "A")
	m.bring(set, a, "one")
	m.bring(set, wanted("b", "one", 0), "one")
	m.wantHeld(m.lookup(set, "a"), heldAs(a))
	m.wantHeld(m.lookup(set, "b"), heldAs(wanted("b", "one", 0)))
	m.batch(nil, func(b destination.Batch) {
		_, err := b.Copy(t.Context(), set, withRemainder(wanted("c", "one", 0), "C"), uri("a"))
		m.ok(err)
	})
	m.wantHeld(m.lookup(set, "c"), heldAs(withRemainder(wanted("c", "one", 0), "C")))
	a = withRemainder(wanted("a", "two", 1), "another")
	m.bring(set, a, "two")
	m.wantHeld(m.lookup(set, "a"), heldAs(a))
	m.batch(nil, func(b destination.Batch) { m.ok(b.Delete(t.Context(), set, a.URI, time.Time{})) })
	m.bring(set, wanted("a", "two", 2), "two")
	m.wantHeld(m.lookup(set, "a"), heldAs(wanted("a", "two", 2)))
}

func testRemainderMarked(t *testing.T, m *tester) {
	m.bring(set, wanted("a", "one", 0), "one")
	for i, w := range []harvest.Resource{
		withRemainder(wanted("a", "one", 1), "first"), withRemainder(wanted("a", "one", 2), strings.Repeat("long", 300)), withRemainder(wanted("a", "one", 2), "third"), wanted("a", "one", 3),
	} {
		m.batch(nil, func(b destination.Batch) { m.ok(b.Mark(t.Context(), set, w)) })
		m.wantHeld(m.lookup(set, "a"), heldAs(w))
		if m.wantBytes("a", "one"); t.Failed() {
			t.Fatalf("after mark %d", i)
		}
	}
}

func testRemainderOfSets(t *testing.T, m *tester) {
	a := withRemainder(wanted("a", "one", 0), "first")
	m.bring(set, a, "one")
	m.batch(nil, func(b destination.Batch) {
		m.ok(b.Mark(t.Context(), set2, withRemainder(wanted("a", "one", 1), "second")))
	})
	m.wantHeld(m.lookup(set, "a"), heldAs(a))
	m.wantHeld(m.lookup(set2, "a"), heldAs(withRemainder(wanted("a", "one", 1), "second")))
}

func testRemainderDue(t *testing.T, m *tester) {
	a, next := withRemainder(wanted("a", "one", 0), "first"), withRemainder(wanted("a", "two", 1), "next")
	m.bring(set, a, "one")
	m.batch(nil, func(b destination.Batch) {
		m.ok(b.Due(t.Context(), set, next, "no answer"))
		m.ok(b.Due(t.Context(), set, withRemainder(wanted("b", "new", 1), "new"), "no answer"))
	})
	h := m.lookup(set, "a")
	m.wantHeld(destination.Held{Wanted: h.Wanted, Remainder: h.Remainder}, destination.Held{Wanted: next, Remainder: a.Remainder})
	h = m.lookup(set, "b")
	m.wantHeld(destination.Held{Wanted: h.Wanted}, destination.Held{Wanted: withRemainder(wanted("b", "new", 1), "new")})
	m.bring(set, next, "two")
	m.wantHeld(m.lookup(set, "a"), heldAs(next))
}
