package mirrortest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"instep/destination"
	"instep/resourcesync"
)

func testWithhold(t *testing.T, m *tester) {
	m.ok(m.Withhold(t.Context(), set, "0123abcd", "9 of 10 resources would be deleted"))
	m.ok(m.Withhold(t.Context(), set, "0123abcd", "9 of 10 resources would be deleted"))
	if ok, err := m.Approved(t.Context(), "0123abcd"); ok || err != nil {
		t.Fatalf("Approved of a withheld plan: got %v and error %v, want false", ok, err)
	}
}

// wantLosses compares the losses of the set with the expected ones. bodies are the
// contents of the lost members, with a "!" before that of a member that joined after
// the counting period began.
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
		m.t.Fatalf("members that joined: got %d, want %d", n, joined)
	}
}

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
	m.delete(false, "d") // deletions before the set has a cursor are not counted as losses
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
