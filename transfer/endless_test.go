package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"instep/fetch"
)

// memoryPart is a Part in memory.
type memoryPart struct {
	Part
	bytes     strings.Builder
	note      string
	at        int64
	discarded bool
}

func (p *memoryPart) Write(b []byte) (int, error) { return p.bytes.Write(b) }
func (p *memoryPart) Size() int64                 { return int64(p.bytes.Len()) }
func (p *memoryPart) Note() (string, int64)       { return p.note, p.at }
func (p *memoryPart) Close() error                { return nil }
func (p *memoryPart) Discard() error              { p.discarded = true; return nil }

func (p *memoryPart) Checkpoint(_ context.Context, note string) error {
	p.note, p.at = note, p.Size()
	return nil
}

func (p *memoryPart) Truncate(n int64) error {
	kept := p.bytes.String()[:n]
	p.bytes.Reset()
	p.bytes.WriteString(kept)
	return nil
}

// A resource of unknown length that breaks off in each run, and is longer each time, does
// not grow for ever: the bound is that of all runs together.
func TestWhatGoesOnFromRunToRunIsBounded(t *testing.T) {
	const most, once = 1 << 20, 400 << 10
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var from int64
		_, _ = fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from)
		w.Header().Set("ETag", `"1"`)
		http.ServeContent(&breaking{w, once}, r, "x", time.Time{}, io.NewSectionReader(endless{}, 0, from+most))
	}))
	defer srv.Close()
	client, err := fetch.New(fetch.Options{AllowPrivate: []string{srv.Listener.Addr().String()}, MaxRetries: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	part := &memoryPart{}
	for run := 1; ; run++ {
		dl := &Download{
			Client: client, Part: part,
			Request: fetch.Request{URL: srv.URL, MaxBytes: most, Resume: fetch.ResumeStrong},
			Accept:  func(resp *fetch.Response) error { resp.ContentLength = -1; return nil },
		}
		err := dl.Run(t.Context(), nil)
		if err := dl.Leave(t.Context(), err); err != nil {
			t.Fatal(err)
		}
		if part.Size() > most || err == nil || run > 5 {
			t.Fatalf("run %d: %d bytes are here, %v", run, part.Size(), err)
		}
		if errors.Is(err, fetch.TooLarge) && part.discarded {
			return
		}
	}
}

// endless has any number of bytes.
type endless struct{}

func (endless) ReadAt(b []byte, _ int64) (int, error) { return len(b), nil }

// breaking ends an answer after some bytes.
type breaking struct {
	http.ResponseWriter
	left int
}

func (b *breaking) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		panic(http.ErrAbortHandler)
	}
	return b.ResponseWriter.Write(p)
}

func (b *breaking) WriteHeader(code int) {
	b.Header().Del("Content-Length")
	if total := b.Header().Get("Content-Range"); total != "" { // of unknown length
		b.Header().Set("Content-Range", total[:strings.IndexByte(total, '/')]+"/*")
	}
	b.ResponseWriter.WriteHeader(code)
}
