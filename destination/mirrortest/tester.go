package mirrortest

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"instep/destination"
	"instep/harvest"
	"instep/resourcesync"
)

// These are URIs of the Source of the tests. The mirrors that open returns must accept
// them.
const (
	Origin = "https://museum.example.org"
	set    = Origin + "/resourcesync/capabilitylist.xml"
	set2   = Origin + "/resourcesync/sets/prints/capabilitylist.xml"
)

// epoch is the time of the first change in a test.
var epoch = time.Date(2026, 5, 1, 12, 0, 0, 123456000, time.UTC)

// tester is a mirror under test. Its helper methods end the test at an error.
type tester struct {
	t *testing.T
	destination.Mirror
}

func uri(name string) string { return Origin + "/" + name }

// wanted returns a resource with the length and digest of body, which changed the given
// number of seconds after epoch.
func wanted(name, body string, seconds int) harvest.Resource {
	sum := sha256.Sum256([]byte(body))
	d, err := resourcesync.NewDigest(resourcesync.SHA256, sum[:])
	if err != nil {
		panic(err) // no error is possible: a SHA-256 sum has the right length
	}
	changed := epoch.Add(time.Duration(seconds) * time.Second)
	return harvest.Resource{
		URI: uri(name), LastMod: resourcesync.DatetimeOf(changed), Length: resourcesync.Bytes(int64(len(body))),
		Digests: resourcesync.Digests{d}, Type: "text/plain", Changed: changed,
	}
}

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
		m.t.Fatalf("Put of %s: got %d bytes, want %d", name, n, len(body))
	}
}

func (m *tester) lookup(set, name string) destination.Held {
	m.t.Helper()
	held, err := m.Lookup(m.t.Context(), set, []string{uri(name)})
	m.ok(err)
	if len(held) != 1 {
		m.t.Fatalf("Lookup of 1 URI: got %d records, want 1", len(held))
	}
	return held[0]
}

func (m *tester) open(ctx context.Context, name string) (io.ReadCloser, error) {
	m.t.Helper()
	h := m.lookup(set, name)
	return m.Open(ctx, &h)
}

func (m *tester) wantBytes(name, want string) {
	m.t.Helper()
	r, err := m.open(m.t.Context(), name)
	m.ok(err)
	got, err := io.ReadAll(r)
	m.ok(errors.Join(err, r.Close()))
	if string(got) != want {
		m.t.Fatalf("bytes of %s: got %q, want %q", name, got, want)
	}
}

func (m *tester) wantNoBytes(name string) {
	m.t.Helper()
	if r, err := m.open(m.t.Context(), name); !errors.Is(err, fs.ErrNotExist) {
		if err == nil {
			_ = r.Close()
		}
		m.t.Fatalf("Open of %s: got error %v, want fs.ErrNotExist", name, err)
	}
}

func (m *tester) wantHeld(got, want destination.Held) {
	m.t.Helper()
	got.Path, got.Proof, got.Stamp = "", "", "" // fields whose values depend on the implementation
	opt := cmp.Comparer(func(a, b time.Time) bool { return a.Equal(b) })
	if diff := cmp.Diff(want, got, opt, cmp.Comparer(equal[resourcesync.Datetime]),
		cmp.Comparer(equal[resourcesync.Digest]), cmp.Comparer(equal[resourcesync.Length])); diff != "" {
		m.t.Fatalf("held (-want +got):\n%s", diff)
	}
}

func equal[T comparable](a, b T) bool { return a == b }

// heldAs returns the record that a mirror must have of the resource after a Put with
// verified bytes.
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
