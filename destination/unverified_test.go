package destination_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"instep/destination"
	"instep/mirror"
	"instep/resourcesync"
)

// raw answers with these bytes and ends the connection.
func raw(answer string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		_, _ = io.WriteString(conn, answer)
		_ = conn.Close()
	}
}

// bare lists paths with neither length nor digest.
func (s *aSource) bare(n int, paths ...string) {
	var entries []resourcesync.Entry
	for _, p := range paths {
		entries = append(entries, resourcesync.Entry{Loc: s.uri(p), LastMod: at(0)})
	}
	s.doc("/list.xml", head(resourcesync.CapabilityResourceList, func(h *resourcesync.Header) { h.At = at(n) }), entries...)
}

// verified reports whether the mirror knows the bytes of a path to be proved.
func (m *aMirror) verified(path string) bool {
	m.t.Helper()
	var held []destination.Held
	err := m.with(func(ctx context.Context, _ *destination.Destination, mm *mirror.Mirror) (err error) {
		held, err = mm.Lookup(ctx, m.src.uri("/caps.xml"), []string{m.src.uri(path)})
		return err
	})
	if err != nil || !held[0].Stored {
		m.t.Fatalf("%s: %+v, %v", path, held, err)
	}
	return held[0].Verified
}

// TestCat_FET_03_unverified: where the Source gives neither a length nor a digest,
// whatever a server sends is counted as unverified, and what is odd about it is told. A
// list with a length brings the rest, and clears it.
func TestCat_FET_03_unverified(t *testing.T) {
	const whole = "the whole of it"
	framed := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(whole), whole)
	for name, tt := range map[string]struct{ answer, held, says string }{
		"plain":                           {framed, whole, ""},
		"Content-Range with status 200":   {"HTTP/1.1 200 OK\r\nContent-Range: bytes 0-3/15\r\nContent-Length: 4\r\n\r\nthe ", "the ", "status 200 and a Content-Range"},
		"HTTP/1.0 that was cut":           {"HTTP/1.0 200 OK\r\n\r\nthe wh", "the wh", "ended by the end of the connection"},
		"no Content-Length that was cut":  {"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nthe who", "the who", "ended by the end of the connection"},
		"longer than its Content-Length":  {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n" + whole, "the whole", ""},
		"chunked and then something else": {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nthe\r\n0\r\n\r\nmore", "the", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSource(t)
			s.offer("/list.xml", "")
			s.put("/r", []byte(whole))
			s.answer("/r", raw(tt.answer))
			s.bare(0, "/r")
			m := newMirror(t, s)
			rep := m.mustSync(destination.Baseline, 0, 1, 0, 0)
			if told := strings.Join(m.notes, "\n"); !strings.Contains(told, tt.says) || tt.says == "" && len(m.notes) > 0 {
				t.Errorf("told: %q, want %q", told, tt.says)
			}
			if got := m.files()["/r"]; rep.Unverified != 1 || got != tt.held || m.verified("/r") {
				t.Fatalf("got %q, %d unverified; want %q, 1 and the mirror knows", got, rep.Unverified, tt.held)
			}
			s.answer("/r", raw(framed))
			h := head(resourcesync.CapabilityResourceList, func(h *resourcesync.Header) { h.At = at(1) })
			proved := s.entry("/r")
			proved.LastMod = at(0)
			s.doc("/list.xml", h, proved)
			if rep, err := m.sync(); err != nil || rep.Unverified+rep.Failed != 0 {
				t.Fatalf("got %+v, %v; want all proved", rep, err)
			}
			if got := m.files()["/r"]; got != whole || !m.verified("/r") {
				t.Errorf("held: %q, proved: %v", got, m.verified("/r"))
			}
		})
	}
}

// A framing that lies proves nothing where the Source gives a length or a digest: what
// differs is not held.
func TestCat_FET_03_framing(t *testing.T) {
	const whole = "the whole of it"
	for name, answer := range map[string]string{
		"Content-Range":                  "HTTP/1.1 200 OK\r\nContent-Range: bytes 0-3/15\r\nContent-Length: 4\r\n\r\nthe ",
		"HTTP/1.0":                       "HTTP/1.0 200 OK\r\n\r\nthe wh",
		"longer than its Content-Length": "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n" + whole,
	} {
		t.Run(name, func(t *testing.T) {
			s := newSource(t)
			s.offer("/list.xml", "")
			s.put("/r", []byte(whole))
			s.list(0, "/r")
			s.answer("/r", raw(answer))
			m := newMirror(t, s)
			if rep, err := m.sync(); err != nil || rep.Failed != 1 || rep.Unverified != 0 || len(m.files()) != 0 {
				t.Fatalf("got %+v, %v; want it failed", rep, err)
			}
			s.answer("/r", nil)
			m.mustSync(destination.Baseline, 0, 1, 0, 0)
			m.wantFiles("/r")
		})
	}
}

// TestCat_FET_07_unproved: without a digest or a length, a body in a content
// coding is held decoded, or not at all.
func TestCat_FET_07_unproved(t *testing.T) {
	text := strings.Repeat("a text that is worth it ", 100)
	large := strings.Repeat("\x00\x01\x02\x03", 3<<20) // a transfer that is kept if it breaks off
	for name, tt := range map[string]struct {
		coding, announced string
		sent              []byte
		want              string // "": it fails
	}{
		"gzip":                 {"gzip", "", gzipped([]byte(text)), text},
		"x-gzip":               {"x-gzip", "", gzipped([]byte(text)), text},
		"deflate":              {"deflate", "", deflated([]byte(text)), text},
		"gzip of much":         {"gzip", "", gzipped([]byte(large)), large},
		"announced":            {"gzip", "gzip", gzipped([]byte(text)), string(gzipped([]byte(text)))},
		"announced as another": {"gzip", "br", gzipped([]byte(text)), text},
		"cut":                  {"gzip", "", gzipped([]byte(text))[:40], ""},
		"not what it says":     {"gzip", "", []byte(text), ""},
		"unknown":              {"br", "", []byte(text), ""},
		"gzip twice":           {"gzip, gzip", "", gzipped(gzipped([]byte(text))), ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSource(t)
			s.offer("/list.xml", "")
			e := resourcesync.Entry{Loc: s.uri("/r"), LastMod: at(0), Metadata: resourcesync.Metadata{Encoding: tt.announced}}
			s.doc("/list.xml", head(resourcesync.CapabilityResourceList, func(h *resourcesync.Header) { h.At = at(0) }), e)
			s.answer("/r", func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Encoding", tt.coding)
				w.Header().Set("ETag", `"1"`)
				_, _ = w.Write(tt.sent)
			})
			m := newMirror(t, s)
			met := m.quirks()
			rep, err := m.sync()
			got, held := m.files()["/r"]
			if err != nil || held != (tt.want != "") || got != tt.want {
				t.Fatalf("held: %v, %.40q; want %.40q; %+v, %v", held, got, tt.want, rep, err)
			}
			if held != (rep.Unverified == 1) || held == (rep.Failed == 1) {
				t.Errorf("got %d unverified, %d failed", rep.Unverified, rep.Failed)
			}
			if held && tt.announced != tt.coding {
				wantQuirk(t, met, resourcesync.QuirkContentCoding)
			}
			s.put("/r", []byte(text))
			s.answer("/r", nil)
			s.bare(1, "/r")
			if rep, err := m.sync(); err != nil || rep.Failed > 0 || !held && m.files()["/r"] != text {
				t.Errorf("once the server is mended: %+v, %v", rep, err)
			}
		})
	}
}

// What the next run fetches is not in sync, unless a digest proves that it is.
func TestAnAuditAgreesWithAPlanAboutARestoredState(t *testing.T) {
	for _, digests := range []bool{false, true} {
		list := func(s *aSource, n int) {
			e := s.entry("/r")
			if !digests {
				e = resourcesync.Entry{Loc: e.Loc, LastMod: at(n)}
			}
			s.listEntries(n, e)
		}
		s := newSource(t)
		s.offer("/list.xml", "")
		s.put("/r", []byte("one"))
		list(s, 0)
		m := newMirror(t, s)
		m.mustSync(destination.Baseline, 0, 1, 0, 0)
		s.put("/r", []byte("second"))
		list(s, 1)
		m.mustSync(destination.Baseline, 0, 0, 1, 0)
		m.wantVerdict("in step", digests, destination.VerdictSame, destination.VerdictUnverifiable)
		m.restore("/r")
		m.wantVerdict("restored", true, destination.VerdictDifferent, "")
		m.wantVerdict("audited again", true, destination.VerdictDifferent, "")
		m.mustSync(destination.Baseline, 0, 0, 1, 0)
		m.wantVerdict("fetched", digests, destination.VerdictSame, destination.VerdictUnverifiable)
	}
}

func (m *aMirror) wantVerdict(when string, proved bool, yes, no destination.Verdict) {
	m.t.Helper()
	if !proved {
		yes = no
	}
	if v := m.audit(); !maps.Equal(v, map[destination.Verdict]int64{yes: 1}) {
		m.t.Errorf("%s: got %v, want %s", when, v, yes)
	}
}

// restore brings the earlier state of a path back.
func (m *aMirror) restore(path string) {
	m.t.Helper()
	err := m.with(func(ctx context.Context, _ *destination.Destination, mm *mirror.Mirror) error {
		states, err := mm.At(ctx, m.src.uri(path), time.Time{})
		if err != nil {
			return err
		}
		return mm.Revert(ctx, func(yield func(mirror.Reversal, error) bool) { yield(mirror.Reversal{Version: states[0]}, nil) }, mirror.RevertOptions{})
	})
	if err != nil {
		m.t.Fatal(err)
	}
}
