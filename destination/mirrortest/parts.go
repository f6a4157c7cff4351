package mirrortest

import (
	"errors"
	"io"
	"strings"
	"testing"

	"instep/destination"
	"instep/harvest"
	"instep/transfer"
)

// parts are the tests for mirrors that store interrupted transfers; other mirrors skip
// them.
var parts = []struct {
	name string
	test func(*testing.T, *tester)
}{
	{"APartIsFoundAgain", testPart},
	{"APartIsOpenOnceAtATime", testPartTwice},
	{"APartIsCut", testPartTruncate},
	{"APartBecomesTheBytes", testPutPart},
	{"OtherBytesStayAPart", testPutOtherPart},
	{"ADiscardedBatchLeavesThePart", testPartDiscard},
	{"APartReplacesOldBytes", testPartReplaces},
}

func (m *tester) part(name string) transfer.Part {
	m.t.Helper()
	p, err := m.Mirror.Part(m.t.Context(), name)
	m.ok(err)
	if p == nil {
		m.t.Skip("the mirror stores no interrupted transfers")
	}
	m.t.Cleanup(func() { _ = p.Close() })
	return p
}

func (m *tester) write(p transfer.Part, body string) {
	m.t.Helper()
	n, err := io.WriteString(p, body)
	m.ok(err)
	if n != len(body) {
		m.t.Fatalf("write to a part: got %d bytes, want %d", n, len(body))
	}
}

func (m *tester) wantPart(p transfer.Part, body, note string, at int64) {
	m.t.Helper()
	got := make([]byte, p.Size())
	if _, err := p.ReadAt(got, 0); err != nil && !errors.Is(err, io.EOF) {
		m.t.Fatal(err)
	}
	if string(got) != body {
		m.t.Errorf("bytes of a part: got %q, want %q", got, body)
	}
	if gotNote, gotAt := p.Note(); gotNote != note || gotAt != at {
		m.t.Errorf("note of a part: got %q at %d, want %q at %d", gotNote, gotAt, note, at)
	}
}

func (m *tester) putPart(w harvest.Resource, p transfer.Part) {
	m.t.Helper()
	m.batch(nil, func(b destination.Batch) { m.addPart(b, w, p) })
}

func (m *tester) addPart(b destination.Batch, w harvest.Resource, p transfer.Part) {
	m.t.Helper()
	n, err := b.PutPart(m.t.Context(), set, w, p, true)
	m.ok(err)
	if n != w.Length.Int64() {
		m.t.Fatalf("PutPart: got %d bytes, want %d", n, w.Length.Int64())
	}
}

func testPart(t *testing.T, m *tester) {
	p := m.part("big")
	m.wantPart(p, "", "", 0)
	m.write(p, "the beginning")
	m.ok(p.Checkpoint(t.Context(), "at the beginning"))
	m.write(p, ", and more")
	m.wantPart(p, "the beginning, and more", "at the beginning", 13)
	m.ok(p.Close())
	m.ok(p.Close())
	p = m.part("big")
	m.wantPart(p, "the beginning, and more", "at the beginning", 13)
	m.ok(p.Checkpoint(t.Context(), strings.Repeat("long ", 10_000)))
	m.ok(p.Close())
	p = m.part("big")
	m.wantPart(p, "the beginning, and more", strings.Repeat("long ", 10_000), 23)
	m.wantPart(m.part("other"), "", "", 0)
	m.ok(p.Discard())
	if _, err := io.WriteString(p, "more"); err == nil {
		t.Error("a write to a discarded part returned no error")
	}
	m.wantPart(m.part("big"), "", "", 0)
}

func testPartTwice(t *testing.T, m *tester) {
	p := m.part("big")
	if second, err := m.Mirror.Part(t.Context(), "big"); err == nil {
		_ = second.Close()
		t.Error("opening a part twice returned no error")
	}
	m.ok(p.Close())
	m.ok(m.part("big").Close())
}

func testPartTruncate(t *testing.T, m *tester) {
	p := m.part("big")
	m.write(p, "0123456789")
	m.ok(p.Checkpoint(t.Context(), "ten"))
	m.write(p, "torn")
	m.ok(p.Truncate(10))
	m.wantPart(p, "0123456789", "ten", 10)
	if err := p.Truncate(11); err == nil {
		t.Error("truncating a part beyond its end returned no error")
	}
	m.ok(p.Truncate(4))
	m.wantPart(p, "0123", "", 0)
	m.write(p, "4567890")
	m.ok(p.Close())
	p = m.part("big")
	m.wantPart(p, "01234567890", "", 0)
}

func testPutPart(t *testing.T, m *tester) {
	body := strings.Repeat("0123456789", 10_000)
	p := m.part("big")
	m.write(p, body[:50_000])
	m.ok(p.Checkpoint(t.Context(), "half"))
	m.write(p, body[50_000:])
	w := wanted("big", body, 0)
	b := m.begin()
	m.addPart(b, w, p)
	m.wantNoBytes("big")
	if _, err := io.WriteString(p, "more"); err == nil {
		t.Error("a write to a part in a batch returned no error")
	}
	m.ok(p.Close())
	m.ok(b.Commit(t.Context(), nil))
	m.ok(b.Discard())
	m.wantHeld(m.lookup(set, "big"), heldAs(w))
	m.wantBytes("big", body)
	m.wantPart(m.part("big"), "", "", 0)
}

func testPutOtherPart(t *testing.T, m *tester) {
	p := m.part("big")
	m.write(p, "other bytes")
	m.ok(p.Checkpoint(t.Context(), "all"))
	b := m.begin()
	if _, err := b.PutPart(t.Context(), set, wanted("big", "right bytes", 0), p, true); !errors.Is(err, destination.ErrNotHeld) {
		t.Errorf("PutPart with another digest: got error %v, want ErrNotHeld", err)
	}
	m.ok(b.Commit(t.Context(), nil))
	m.wantNoBytes("big")
	m.wantPart(p, "other bytes", "all", 11)
	m.ok(p.Discard())
}

func testPartDiscard(t *testing.T, m *tester) {
	p := m.part("big")
	m.write(p, "bytes")
	m.ok(p.Checkpoint(t.Context(), "all"))
	b := m.begin()
	m.addPart(b, wanted("big", "bytes", 0), p)
	if second, err := m.Mirror.Part(t.Context(), "big"); err == nil {
		_ = second.Close()
		t.Error("opening a part that is in a batch returned no error")
	}
	m.ok(b.Discard())
	m.wantNoBytes("big")
	p = m.part("big")
	m.wantPart(p, "bytes", "all", 5)
	m.putPart(wanted("big", "bytes", 0), p)
	m.wantBytes("big", "bytes")
}

func testPartReplaces(_ *testing.T, m *tester) {
	m.batch(nil, func(b destination.Batch) { m.put(b, set, "big", "old", 0) })
	p := m.part("big")
	m.write(p, "new bytes")
	m.putPart(wanted("big", "new bytes", 1), p)
	m.wantBytes("big", "new bytes")
	m.batch(nil, func(b destination.Batch) {
		stale := m.part("stale")
		m.write(stale, "old")
		_, err := b.PutPart(m.t.Context(), set, wanted("big", "old", 0), stale, true)
		if !errors.Is(err, destination.ErrStale) {
			m.t.Errorf("PutPart of an older state: got error %v, want ErrStale", err)
		}
		m.ok(stale.Discard())
	})
	m.wantBytes("big", "new bytes")
	m.putPart(wanted("empty", "", 0), m.part("empty"))
	m.wantBytes("empty", "")
}
