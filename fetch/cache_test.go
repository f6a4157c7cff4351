package fetch_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"instep/fetch"
)

// memory is a cache that holds documents in memory.
type memory struct {
	mu   sync.Mutex
	kept map[string]*fetch.Cached
	body map[string][]byte
}

func newMemory() *memory { return &memory{kept: map[string]*fetch.Cached{}, body: map[string][]byte{}} }

func (m *memory) Load(_ context.Context, uri string) (*fetch.Cached, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.kept[uri] == nil {
		return nil, nil
	}
	d := *m.kept[uri]
	d.Body = io.NopCloser(bytes.NewReader(m.body[uri]))
	return &d, nil
}

func (m *memory) Store(_ context.Context, uri string, d *fetch.Cached) {
	body, err := io.ReadAll(d.Body)
	if err != nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.kept[uri], m.body[uri] = d, body
}

const (
	longAgo = "Sun, 01 Mar 2026 12:00:00 GMT"
	present = "Sun, 01 Mar 2026 13:00:00 GMT"
)

// cached is a client with a cache for a server that answers in this way.
func cached(t *testing.T, answer http.HandlerFunc) (c *fetch.Client, m *memory, base string) {
	t.Helper()
	srv := httptest.NewServer(answer)
	t.Cleanup(srv.Close)
	plain, err := fetch.New(fetch.Options{AllowPrivate: []string{srv.Listener.Addr().String()}, MaxRetries: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(plain.Close)
	m = newMemory()
	return plain.WithCache(m), m, srv.URL
}

// readDocument gets a document and reads it.
func readDocument(t *testing.T, c *fetch.Client, uri string) (text string, resp *fetch.Response) {
	t.Helper()
	resp, err := c.Document(t.Context(), uri, 0, fetch.Validators{})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b), resp
}

func TestDocumentThatHasNotChangedIsNotTransferredAgain(t *testing.T) {
	version := "1"
	var conditions []string
	c, _, base := cached(t, func(w http.ResponseWriter, r *http.Request) {
		conditions = append(conditions, r.Header.Get("If-None-Match")+" "+r.Header.Get("If-Modified-Since"))
		w.Header().Set("ETag", `"`+version+`"`)
		w.Header().Set("Last-Modified", longAgo)
		w.Header().Set("Link", `</caps.xml>; rel="resourcesync"`)
		w.Header().Set("Content-Type", "application/xml")
		if r.Header.Get("If-None-Match") == `"`+version+`"` {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		_, _ = io.WriteString(w, "version "+version)
	})
	for i, want := range []bool{false, true, true} {
		text, resp := readDocument(t, c, base+"/doc")
		if text != "version 1" || resp.Unchanged != want || resp.Status != 200 || resp.Requests != 1 {
			t.Errorf("request %d: got %q, unchanged %v, status %d after %d requests", i, text, resp.Unchanged, resp.Status, resp.Requests)
		}
		if got := resp.Header.Get("Link"); got == "" || resp.ContentType != "application/xml" {
			t.Errorf("request %d: got Link %q and type %q, want those of the document", i, got, resp.ContentType)
		}
	}
	version = "2"
	if text, resp := readDocument(t, c, base+"/doc"); text != "version 2" || resp.Unchanged {
		t.Errorf("after a change: got %q, unchanged %v", text, resp.Unchanged)
	}
	want := fmt.Sprintf("[   \"1\" %s \"1\" %s \"1\" %s]", longAgo, longAgo, longAgo)
	if got := fmt.Sprint(conditions); strings.Join(strings.Fields(got), "") != strings.Join(strings.Fields(want), "") {
		t.Errorf("conditions: got %s, want %s", got, want)
	}
}

// A cache in between, or the Source itself, answers 304 where that can't be right.
func TestCat_FET_09(t *testing.T) {
	etag := func(w http.ResponseWriter) { w.Header().Set("ETag", `"1"`) }
	lies := map[string]struct {
		first, later func(http.ResponseWriter) // fields of the document, and of the 304
	}{
		"for another version": {first: etag, later: func(w http.ResponseWriter) { w.Header().Set("ETag", `"0"`) }},
		"for what is older": {
			first: func(w http.ResponseWriter) { w.Header().Set("Last-Modified", longAgo) },
			later: func(w http.ResponseWriter) { w.Header().Set("Last-Modified", "Sun, 01 Mar 2026 11:00:00 GMT") },
		},
		"for what was just written": {first: func(w http.ResponseWriter) {
			etag(w)
			w.Header().Set("Last-Modified", present)
		}},
		"for what has a time of no use": {first: func(w http.ResponseWriter) { w.Header().Set("Last-Modified", "2026-03-01T12:00:00Z") }},
		"for what must not be kept": {first: func(w http.ResponseWriter) {
			etag(w)
			w.Header().Set("Cache-Control", "private, no-store")
		}},
		"for what cannot be told from others": {first: func(http.ResponseWriter) {}},
	}
	for name, l := range lies {
		t.Run(name, func(t *testing.T) {
			n := 0
			c, _, base := cached(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Date", present)
				if r.Header.Get("If-None-Match")+r.Header.Get("If-Modified-Since") != "" {
					if l.later != nil {
						l.later(w)
					}
					w.WriteHeader(http.StatusNotModified)
					return
				}
				n++
				l.first(w)
				fmt.Fprintf(w, "answer %d", n)
			})
			for want := 1; want <= 3; want++ {
				text, resp := readDocument(t, c, base+"/doc")
				if text != fmt.Sprintf("answer %d", want) || resp.Unchanged {
					t.Errorf("got %q (unchanged %v), want answer %d", text, resp.Unchanged, want)
				}
			}
		})
	}
}

// What is kept and can't be read any more is asked for without a condition.
func TestCat_FET_09_damaged(t *testing.T) {
	c, m, base := cached(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"1"`)
		if r.Header.Get("If-None-Match") != "" {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		_, _ = io.WriteString(w, "whole")
	})
	for range 2 {
		if text, resp := readDocument(t, c, base+"/doc"); text != "whole" || resp.Unchanged {
			t.Errorf("got %q, unchanged %v", text, resp.Unchanged)
		}
		clear(m.kept)
	}
}

func TestUnaskedForNotModifiedIsAnError(t *testing.T) {
	c, _, base := cached(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotModified) })
	_, err := c.Document(t.Context(), base+"/doc", 0, fetch.Validators{})
	if !errors.Is(err, fetch.Protocol) {
		t.Errorf("got %v, want an unusable answer", err)
	}
}

// A document that is redirected elsewhere now is not the one that was kept, though the
// servers number their versions alike.
func TestNotModifiedOfAnotherPlaceIsFetched(t *testing.T) {
	to := "/a"
	c, _, base := cached(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/doc":
			http.Redirect(w, r, to, http.StatusFound)
		case r.Header.Get("If-None-Match") != "":
			w.WriteHeader(http.StatusNotModified)
		default:
			w.Header().Set("ETag", `"1"`)
			_, _ = io.WriteString(w, r.URL.Path)
		}
	})
	readDocument(t, c, base+"/doc")
	if text, resp := readDocument(t, c, base+"/doc"); text != "/a" || !resp.Unchanged {
		t.Errorf("got %q, unchanged %v", text, resp.Unchanged)
	}
	to = "/b"
	if text, resp := readDocument(t, c, base+"/doc"); text != "/b" || resp.Unchanged || resp.Requests != 4 {
		t.Errorf("got %q, unchanged %v after %d requests; want /b after 4", text, resp.Unchanged, resp.Requests)
	}
}

func TestOnlyWholeDocumentsOfBoundedSizeAreKept(t *testing.T) {
	c, m, base := cached(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"1"`)
		switch r.URL.Path {
		case "/unframed": // the end of the connection is all that ends it
			conn, buf, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = buf.WriteString("HTTP/1.1 200 OK\r\nETag: \"1\"\r\nConnection: close\r\n\r\nhalf, or the whole")
			_ = buf.Flush()
			_ = conn.Close()
		case "/cut":
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "half")
		case "/large":
			_, _ = w.Write(make([]byte, fetch.MaxCached+1))
		case "/edge":
			_, _ = w.Write(make([]byte, fetch.MaxCached))
		default:
			_, _ = io.WriteString(w, "a document of which only the beginning is read")
		}
	})
	for path, want := range map[string]bool{"/unframed": false, "/cut": false, "/large": false, "/left": false, "/edge": true} {
		resp, err := c.Document(t.Context(), base+path, 0, fetch.Validators{})
		if err != nil {
			t.Fatal(err)
		}
		if path == "/left" {
			_, err = resp.Body.Read(make([]byte, 3))
		} else {
			_, err = io.Copy(io.Discard, resp.Body)
		}
		_ = resp.Body.Close()
		if (err != nil) != (path == "/cut") {
			t.Errorf("%s: %v", path, err)
		}
		if got := m.kept[base+path] != nil; got != want {
			t.Errorf("%s kept: got %v, want %v", path, got, want)
		}
	}
	_, err := c.Document(t.Context(), base+"/edge", 1000, fetch.Validators{})
	if !errors.Is(err, fetch.TooLarge) {
		t.Errorf("a document kept that is longer than allowed: got %v, want it refused", err)
	}
}
