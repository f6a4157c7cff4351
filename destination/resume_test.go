package destination_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"instep/resourcesync"
)

const mib = 1 << 20

// noise makes n bytes that no other seed makes.
func noise(seed uint64, n int) []byte {
	b := make([]byte, n)
	r := rand.NewPCG(seed, 0)
	for i := 0; i < n; i += 8 {
		v := r.Uint64()
		for j := i; j < min(i+8, n); j++ {
			b[j], v = byte(v), v>>8
		}
	}
	return b
}

// large serves one large resource as a test needs it.
type large struct {
	mu     sync.Mutex // guards the rest
	body   []byte
	tag    string
	when   time.Time // Last-Modified
	cut    int       // bytes of an answer after which the connection breaks; 0: none
	plain  bool      // no ranges
	shift  bool      // parts are of another place than they say
	chunks bool      // no Content-Length of the whole
	ranges []string
	sent   int
}

// with does something while nothing is served.
func (l *large) with(do func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	do()
}

func (l *large) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ranges = append(l.ranges, r.Header.Get("Range"))
	if l.tag != "" {
		w.Header().Set("ETag", l.tag)
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	cutting := &cutWriter{ResponseWriter: w, left: l.cut, sent: &l.sent}
	if l.cut == 0 {
		cutting.left = len(l.body) + 1
	}
	body := l.body
	switch {
	case l.plain || l.chunks && r.Header.Get("Range") == "":
		r.Header.Del("Range")
		if !l.chunks {
			w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		}
		_, _ = cutting.Write(body)
	case l.shift && r.Header.Get("Range") != "":
		body = append(slices.Clone(body[1:]), 0)
		fallthrough
	default:
		http.ServeContent(cutting, r, "", l.when, bytes.NewReader(body))
	}
}

// cutWriter breaks the connection after so many bytes.
type cutWriter struct {
	http.ResponseWriter
	left int
	sent *int
}

func (c *cutWriter) Write(b []byte) (int, error) {
	n, err := c.ResponseWriter.Write(b[:min(len(b), c.left)])
	*c.sent += n
	if c.left -= n; c.left == 0 {
		_ = http.NewResponseController(c.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	return n, err
}

// What came of a large resource before a transfer broke off is not transferred again,
// unless it may be of another version; and then nothing of it is taken.
func TestLargeTransferGoesOnInTheNextRun(t *testing.T) {
	const size, cut = 20*mib + 12345, 17*mib + 77
	old, other := noise(1, size), noise(2, size)
	day := time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)
	type change func(s *aSource, l *large)
	tests := []struct {
		name   string
		first  change // before the first run
		second change // between the runs
		goesOn bool
	}{
		{"by a strong ETag", nil, nil, true},
		{"by the time, as there is a digest", func(_ *aSource, l *large) { l.tag, l.when = "", day }, nil, true},
		{"by the time beside a weak ETag", func(_ *aSource, l *large) { l.tag, l.when = `W/"1"`, day }, nil, true},
		{"by a strong ETag without a digest", func(s *aSource, l *large) { s.listLarge(l, func(e *resourcesync.Entry) { e.Digests = nil }) }, nil, true},
		{"of a length that nobody tells", func(s *aSource, l *large) {
			l.chunks = true
			s.listLarge(l, func(e *resourcesync.Entry) { e.Length, e.Digests = resourcesync.Length{}, nil })
		}, nil, true},
		{"of a length that only the server tells", func(s *aSource, l *large) {
			s.listLarge(l, func(e *resourcesync.Entry) { e.Length = resourcesync.Length{} })
		}, nil, true},
		{"not without a validator", func(_ *aSource, l *large) { l.tag = "" }, nil, false},
		{"not by the time alone", func(s *aSource, l *large) {
			l.tag, l.when = "", day
			s.listLarge(l, func(e *resourcesync.Entry) { e.Digests = nil })
		}, nil, false},
		{"not with another version", nil, func(s *aSource, l *large) { l.body, l.tag = other, `"2"`; s.listLarge(l, nil) }, false},
		{"not with another version of which nothing is told", func(s *aSource, l *large) {
			s.listLarge(l, func(e *resourcesync.Entry) { e.Digests = nil })
		}, func(_ *aSource, l *large) { l.body, l.tag = other, `"2"` }, false},
		{"not with more bytes under the same ETag", func(s *aSource, l *large) {
			s.listLarge(l, func(e *resourcesync.Entry) { e.Length, e.Digests = resourcesync.Length{}, nil })
		}, func(_ *aSource, l *large) { l.body = noise(2, size+mib) }, false},
		{"not for another digest", func(_ *aSource, l *large) { l.plain = true }, func(s *aSource, l *large) {
			l.plain, l.body = false, other // under the old ETag
			s.listLarge(l, nil)
		}, false},
		{"not where ranges are not served", func(_ *aSource, l *large) { l.plain = true }, nil, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newSource(t)
			s.offer("/list.xml", "")
			l := &large{body: old, tag: `"1"`, cut: cut}
			s.answer("/large", l.ServeHTTP)
			s.listLarge(l, nil)
			if tt.first != nil {
				tt.first(s, l)
			}
			m := newMirror(t, s)
			if rep, err := m.sync(); err != nil || rep.Failed != 1 {
				t.Fatalf("first run: got %+v, %v; want one that failed", rep, err)
			}
			l.with(func() {
				l.cut, l.sent, l.ranges = 0, 0, nil
				if tt.second != nil {
					tt.second(s, l)
				}
			})
			if rep, err := m.sync(); err != nil || rep.Created != 1 || rep.Failed != 0 {
				t.Fatalf("second run: got %+v, %v; want one created", rep, err)
			}
			l.mu.Lock() // the server may not have noticed yet that all is read
			defer l.mu.Unlock()
			if got := m.files()["/large"]; got != string(l.body) {
				t.Errorf("the bytes held are not those of the Source")
			}
			// Where the list tells no length, an answer has to begin before it is known
			// that the resource is large: what the network buffers hold is lost then.
			last := l.ranges[len(l.ranges)-1]
			if rest := fmt.Sprintf("bytes=%d-", cut); tt.goesOn && (last != rest || len(l.ranges) == 1 && l.sent != size-cut) {
				t.Errorf("sent in the second run: %d bytes for %q; want %d", l.sent, l.ranges, size-cut)
			}
			if !tt.goesOn && l.sent < size {
				t.Errorf("sent in the second run: %d bytes for %q; want all of them", l.sent, l.ranges)
			}
		})
	}
}

// brokenOff is a large resource and a mirror to which 17 MiB of its 20 came.
func brokenOff(t *testing.T) (*large, *aMirror) {
	s := newSource(t)
	s.offer("/list.xml", "")
	l := &large{body: noise(1, 20*mib), tag: `"1"`, cut: 17 * mib}
	s.answer("/large", l.ServeHTTP)
	s.listLarge(l, nil)
	m := newMirror(t, s)
	if rep, err := m.sync(); err != nil || rep.Failed != 1 {
		t.Fatalf("first run: got %+v, %v", rep, err)
	}
	return l, m
}

// wantAnew lets the second run ask for the rest, and then for the whole.
func (l *large) wantAnew(m *aMirror) {
	m.t.Helper()
	if rep, err := m.sync(); err != nil || rep.Created != 1 {
		m.t.Fatalf("second run: got %+v, %v", rep, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if m.files()["/large"] != string(l.body) {
		m.t.Error("wrong bytes are held")
	}
	if want := []string{fmt.Sprintf("bytes=%d-", 17*mib), ""}; !slices.Equal(l.ranges, want) {
		m.t.Errorf("asked for %q, want %q", l.ranges, want)
	}
}

// A server that answers for one version with parts of another deceives: the digest
// tells, nothing wrong is kept, and the whole is brought.
func TestLargeTransferIsVerifiedThoughItWentOn(t *testing.T) {
	l, m := brokenOff(t)
	l.with(func() { l.cut, l.ranges, l.shift = 0, nil, true })
	l.wantAnew(m)
}

// What the disk did not keep as it was verified is brought once more.
func TestLargeTransferOfWhichTheDiskLostSomeIsBroughtAgain(t *testing.T) {
	l, m := brokenOff(t)
	parts, err := filepath.Glob(filepath.Join(m.dir, ".instep/parts", strings.Repeat("?", 64)))
	if err != nil || len(parts) != 1 {
		t.Fatalf("parts: %q, %v", parts, err)
	}
	damaged := append([]byte("damaged"), l.body[7:17*mib]...)
	if err := os.WriteFile(parts[0], damaged, 0o640); err != nil {
		t.Fatal(err)
	}
	l.with(func() { l.cut, l.ranges = 0, nil })
	l.wantAnew(m)
}

// Bytes that are not those of the list are not kept for another time.
func TestLargeResourceWithOtherBytesFails(t *testing.T) {
	s := newSource(t)
	s.offer("/list.xml", "")
	l := &large{body: noise(1, 20*mib), tag: `"1"`}
	s.answer("/large", l.ServeHTTP)
	s.listLarge(l, nil)
	l.body = noise(2, 20*mib)
	m := newMirror(t, s)
	for range 2 {
		l.with(func() { l.ranges = nil })
		rep, err := m.sync()
		if err != nil || rep.Failed != 1 || len(m.files()) != 0 {
			t.Fatalf("got %+v, %v, %d files; want one failure", rep, err, len(m.files()))
		}
		l.with(func() {
			if want := []string{""}; !slices.Equal(l.ranges, want) {
				t.Errorf("asked for %q, want the whole once", l.ranges)
			}
		})
	}
}

// listLarge lists /large as it is now, changed as the test likes.
func (s *aSource) listLarge(l *large, change func(*resourcesync.Entry)) {
	s.t.Helper()
	sum := sha256.Sum256(l.body)
	ds, err := resourcesync.ParseDigests(fmt.Sprintf("sha-256:%x", sum))
	if err != nil {
		s.t.Fatal(err)
	}
	e := resourcesync.Entry{Loc: s.uri("/large"), Metadata: resourcesync.Metadata{Digests: ds, Length: resourcesync.Bytes(int64(len(l.body)))}}
	if change != nil {
		change(&e)
	}
	s.doc("/list.xml", head(resourcesync.CapabilityResourceList, func(h *resourcesync.Header) { h.At = at(0) }), e)
}
