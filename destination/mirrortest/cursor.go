package mirrortest

import (
	"testing"
	"time"

	"instep/destination"
	"instep/harvest"
)

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
		m.t.Fatalf("Cursor: got %v and %+v, want true and %+v", ok, got, want.Cursor)
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
		t.Fatalf("Cursor of another set: got %v and error %v, want false", ok, err)
	}
}

func testCursorBack(t *testing.T, m *tester) {
	m.batch(move(5, 2), func(destination.Batch) {})
	b := m.begin()
	m.put(b, set, "a", "one", 0)
	if err := b.Commit(t.Context(), move(4, 3)); err == nil {
		t.Fatal("Commit with an earlier cursor returned no error")
	}
	m.wantCursor(move(5, 2))
	m.wantNoBytes("a")
	m.batch(move(5, 1), func(destination.Batch) {}) // a cursor may move to an earlier position in the same document, if the list was rewritten
	m.wantCursor(move(5, 1))
}
