package destination_test

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"instep/destination"
	"instep/resourcesync"
)

// No content coding is asked for. The bytes are compared as they were sent, and then
// without the coding that the answer names; what is neither is not held.
func TestCat_FET_07(t *testing.T) {
	text := []byte(strings.Repeat("a text that is worth it ", 100))
	bodies := map[string][]byte{
		"gzip": gzipped(text), "deflate": deflated(text),
		"br": []byte("\x8b\x02\x80not really\x03"), "zstd": []byte("\x28\xb5\x2f\xfdnot really"),
		"x-unknown": text, // a label on what is not coded
	}
	known := map[string]bool{"gzip": true, "deflate": true}
	for coding, sent := range bodies {
		for described, tt := range map[string]struct {
			body []byte
			held bool
		}{
			"as sent":        {sent, true},
			"without coding": {append([]byte(nil), text...), known[coding] || bytes.Equal(sent, text)},
			"otherwise":      {[]byte("something else"), false},
		} {
			t.Run(coding+" described "+described, func(t *testing.T) {
				s := newSource(t)
				s.offer("/list.xml", "")
				s.put("/text", tt.body)
				s.list(0, "/text")
				s.answer("/text", func(w http.ResponseWriter, r *http.Request) {
					if got := r.Header.Get("Accept-Encoding"); got != "identity" {
						t.Errorf("asked for the coding %q, want identity", got)
					}
					w.Header().Set("Content-Encoding", coding)
					w.(http.Flusher).Flush() // no Content-Length: only the bytes tell
					_, _ = w.Write(sent)
				})
				m := newMirror(t, s)
				rep, err := m.sync()
				if err != nil || (rep.Failed == 0) != tt.held {
					t.Fatalf("got %+v, %v; want it held: %v", rep, err, tt.held)
				}
				if got, held := m.files()["/text"]; held != tt.held || held && got != string(tt.body) {
					t.Errorf("held: %v, %.30q; want %.30q", held, got, tt.body)
				}
			})
		}
	}
}

// Caches and servers that claim that nothing has changed are not believed for bytes:
// these are asked for without a condition, and when what was held is missing or
// damaged it is fetched again.
func TestCat_FET_09(t *testing.T) {
	s, paths, m := inStep(t, 20)
	for _, p := range paths {
		s.answer(p, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("If-None-Match") != "" || r.Header.Get("If-Modified-Since") != "" {
				t.Errorf("%s was asked for on condition: %v", p, r.Header)
				w.WriteHeader(http.StatusNotModified)
				return
			}
			w.Header().Set("ETag", `"always the same"`)
			_, _ = w.Write(s.body(p))
		})
	}
	damaged := map[int]func(file string) error{
		1: os.Remove,
		2: func(file string) error { return os.WriteFile(file, []byte("flipped"), 0o644) },
		3: func(file string) error { return os.Truncate(file, 0) },
	}
	for i, p := range paths {
		if damage := damaged[i%4]; damage != nil {
			if err := damage(filepath.Join(m.dir, filepath.FromSlash(p))); err != nil {
				t.Fatal(err)
			}
		}
	}
	m.audit()
	s.asked("/")
	if rep, err := m.sync(); err != nil || rep.Failed != 0 {
		t.Fatalf("got %+v, %v", rep, err)
	}
	if got := s.asked("/r/"); got != 15 {
		t.Errorf("asked for %d resources, want the 15 that were damaged", got)
	}
	m.wantFiles(paths...)

	stale := string(s.body("/r/1"))
	s.put("/r/1", []byte("new"))
	s.changes(0, s.change(1, resourcesync.Updated, "/r/1"))
	for name, answer := range map[string]http.HandlerFunc{
		"304 that nobody asked for": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotModified) },
		"a stale copy":              serving([]byte(stale)),
	} {
		s.answer("/r/1", answer)
		if rep, err := m.sync(); err != nil || rep.Failed != 1 || rep.Updated != 0 {
			t.Fatalf("%s: got %+v, %v; want a failure", name, rep, err)
		}
	}
	s.answer("/r/1", nil)
	if rep, err := m.sync(); err != nil || rep.Failed != 0 || rep.Updated != 1 {
		t.Fatalf("got %+v, %v; want the new bytes", rep, err)
	}
	m.wantFiles(paths...)
}

// A resource that cannot be had fails for itself: the others are brought, what is held
// of it stays, and the next run tries again.
func TestQuirk_59(t *testing.T) {
	for _, code := range []int{400, 401, 403, 404, 410, 429, 500, 502, 503} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			s, paths, m := inStep(t, 10)
			before := m.files()
			s.put("/r/1", []byte("changed"))
			s.put("/r/2", []byte("changed too"))
			s.changes(0, s.change(1, resourcesync.Updated, "/r/1"), s.change(2, resourcesync.Updated, "/r/2"))
			s.answer("/r/1", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) })
			rep, err := m.sync()
			if err != nil || rep.Failed != 1 || rep.Updated != 1 || rep.Deleted != 0 {
				t.Fatalf("got %+v, %v; want one updated and one failed", rep, err)
			}
			if got := m.files(); got["/r/1"] != before["/r/1"] || got["/r/2"] != "changed too" || len(got) != len(before) {
				t.Errorf("held: %q and %q of %d files", got["/r/1"], got["/r/2"], len(got))
			}
			s.answer("/r/1", nil)
			if rep, err := m.sync(); err != nil || rep.Updated != 1 || rep.Failed != 0 {
				t.Fatalf("once more: got %+v, %v", rep, err)
			}
			m.wantFiles(paths...)
		})
	}
}

// Validators in forms of their own do no harm: nothing is concluded from them.
func TestQuirk_60(t *testing.T) {
	for name, fields := range map[string][2]string{
		"ISO time":               {"Last-Modified", "2026-01-02T03:04:05Z"},
		"ETag without quotes":    {"ETag", "d41d8cd98f00b204e9800998ecf8427e"},
		"ETag with half of it":   {"ETag", `"d41d8cd9`},
		"garbage of a time":      {"Last-Modified", "yesterday"},
		"time in the far future": {"Last-Modified", "Fri, 31 Dec 9999 23:59:59 GMT"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSource(t)
			s.offer("/list.xml", "")
			body := noise(1, 9*mib)
			s.put("/large", body)
			s.put("/small", []byte("small"))
			s.list(0, "/large", "/small")
			for _, path := range []string{"/large", "/small", "/list.xml"} {
				s.answer(path, func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set(fields[0], fields[1])
					if cond := r.Header.Get("If-Modified-Since") + r.Header.Get("If-None-Match"); cond != "" && cond != fields[1] {
						t.Errorf("%s: the condition is %q, want %q as it was written", path, cond, fields[1])
					}
					_, _ = w.Write(s.body(path))
				})
			}
			m := newMirror(t, s)
			m.mustSync(destination.Baseline, 0, 2, 0, 0)
			if got := m.files()["/large"]; got != string(body) {
				t.Error("the large resource is not what is served")
			}
			m.mustSync(destination.Baseline, 2, 0, 0, 0)
		})
	}
}
