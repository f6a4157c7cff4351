package fetch_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"instep/fetch"
	"instep/resourcesync"
)

// drip writes a byte each interval until the connection ends.
func drip(conn net.Conn, b byte, every time.Duration) {
	for {
		if _, err := conn.Write([]byte{b}); err != nil {
			return
		}
		time.Sleep(every)
	}
}

// A host that stalls is given up in time, its place is free again, and another
// host is not held up.
func TestCat_FET_01(t *testing.T) {
	tests := []struct {
		name  string
		stall func(conn net.Conn)
		limit time.Duration
		says  string
	}{
		{"before the header", func(net.Conn) {}, 30 * time.Second, "no response in time"},
		{"in the header", func(c net.Conn) { write(c, "HTTP/1.1 200 OK\r\nContent-") }, 30 * time.Second, "no response in time"},
		{"drip of a header", func(c net.Conn) { write(c, "HTTP/1.1 200 OK\r\nX: "); drip(c, 'x', time.Second) }, 30 * time.Second, "no response in time"},
		{"before the body", func(c net.Conn) { write(c, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n") }, 60 * time.Second, "no byte"},
		{"in the body", func(c net.Conn) {
			write(c, "HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n"+strings.Repeat("x", 70_000))
		}, 60 * time.Second, "no byte"},
		{"in a small body", func(c net.Conn) { write(c, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nxxx") }, 60 * time.Second, "of the body"},
		{"drip of a body", func(c net.Conn) { write(c, "HTTP/1.1 200 OK\r\n\r\n"); drip(c, 'x', 10*time.Second) }, 60 * time.Second, "too slowly"},
		{"slow after a fast start", func(c net.Conn) {
			write(c, "HTTP/1.1 200 OK\r\n\r\n"+strings.Repeat("x", 1<<20))
			drip(c, 'x', 10*time.Second)
		}, 120 * time.Second, "too slowly"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fakeNet{answer: func(conn net.Conn, r *http.Request) bool {
					if r.Host != "stalls.example.org" {
						return write(conn, okAnswer)
					}
					tt.stall(conn)
					io.Copy(io.Discard, conn) // until the client gives up
					return false
				}}
				o := f.options()
				o.MaxRetries, o.PerHost = -1, 1
				c := f.newClient(t, o)
				start := time.Now()
				var wg sync.WaitGroup
				wg.Go(func() {
					if _, err := read(t.Context(), c, "http://other.example.org/"); err != nil || time.Since(start) != 0 {
						t.Errorf("the other host took %v, %v", time.Since(start), err)
					}
				})
				for i := range 2 { // the second waits for the place of the first
					_, err := read(t.Context(), c, "http://stalls.example.org/")
					if !errors.Is(err, fetch.Temporary) || !strings.Contains(err.Error(), tt.says) {
						t.Errorf("got %v, want a temporary failure: %q", err, tt.says)
					}
					if took := time.Since(start); took > time.Duration(i+1)*(tt.limit+time.Second) {
						t.Errorf("gave up after %v, want %v each", took, tt.limit)
					}
				}
				wg.Wait()
			})
		})
	}
}

func TestSlowReaderIsNotTheHostsFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeNet{answer: func(conn net.Conn, _ *http.Request) bool {
			return write(conn, "HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n"+strings.Repeat("x", 200_000))
		}}
		c := f.newClient(t, f.options())
		resp, err := c.Get(t.Context(), fetch.Request{URL: "http://example.org/"})
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		buf := make([]byte, 1000)
		for err == nil {
			time.Sleep(2 * time.Minute)
			_, err = resp.Body.Read(buf)
		}
		if err != io.EOF {
			t.Errorf("got %v", err)
		}
	})
}

func TestSteadyBodyJustAboveTheLeastRateIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeNet{answer: func(conn net.Conn, _ *http.Request) bool {
			write(conn, "HTTP/1.1 200 OK\r\nContent-Length: 1280000\r\n\r\n")
			for range 500 {
				write(conn, strings.Repeat("x", 2560))
				time.Sleep(2 * time.Second)
			}
			return true
		}}
		c := f.newClient(t, f.options())
		if got, err := read(t.Context(), c, "http://example.org/"); len(got) != 1_280_000 {
			t.Errorf("got %d bytes, %v", len(got), err)
		}
	})
}

func TestCloseGivesThePlaceBackThoughTheBodyStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeNet{answer: func(conn net.Conn, _ *http.Request) bool {
			write(conn, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx")
			io.Copy(io.Discard, conn)
			return false
		}}
		o := f.options()
		o.PerHost, o.Total = 1, 1
		c := f.newClient(t, o)
		start := time.Now()
		for range 10 {
			resp, err := c.Get(t.Context(), fetch.Request{URL: "http://example.org/"})
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			resp.Body.Close()
			if _, err := resp.Body.Read(make([]byte, 1)); err == nil || err == io.EOF {
				t.Errorf("Read after Close says %v", err)
			}
		}
		if took := time.Since(start); took > time.Second+time.Millisecond {
			t.Errorf("ten closes took %v", took)
		}
	})
}

func TestCat_FET_02(t *testing.T) {
	const most = 1 << 20
	endless := func(head, piece string) script {
		return func(conn net.Conn, _ *http.Request) bool {
			write(conn, head)
			for write(conn, piece) {
			}
			return false
		}
	}
	filler := strings.Repeat("x", 32<<10)
	tests := []struct {
		name string
		f    script
		kind fetch.Kind
	}{
		{"infinite body", endless("HTTP/1.1 200 OK\r\n\r\n", filler), fetch.TooLarge},
		{"chunked forever", endless("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "8000\r\n"+filler+"\r\n"), fetch.TooLarge},
		{"a huge length", endless("HTTP/1.1 200 OK\r\nContent-Length: 9000000000000000000\r\n\r\n", filler), fetch.TooLarge},
		{"1xx flood", endless("", "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"), fetch.Temporary},
		{"header bomb", endless("HTTP/1.1 200 OK\r\n", "X: "+filler+"\r\n"), fetch.Temporary},
		{"one endless header", endless("HTTP/1.1 200 OK\r\nX: ", filler), fetch.Temporary},
		{"endless status line", endless("HTTP/1.1 200 ", filler), fetch.Temporary},
		{"error with an infinite body", endless("HTTP/1.1 404 X\r\n\r\n", filler), fetch.NotFound},
		{"redirect with an infinite body", endless("HTTP/1.1 302 X\r\nLocation: file:///x\r\n\r\n", filler), fetch.Refused},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := &fakeNet{answer: tt.f}
			o := f.options()
			o.MaxRetries = -1
			wire := &countingDial{dial: o.Dial}
			o.Dial = wire.Dial
			c := f.newClient(t, o)
			resp, err := c.Get(t.Context(), fetch.Request{URL: "http://example.org/", MaxBytes: most})
			n := int64(0)
			if err == nil {
				n, err = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
			if !errors.Is(err, tt.kind) || n > most {
				t.Errorf("got %d bytes, %v; want %v", n, err, tt.kind)
			}
			f.stop(c)
			if n := wire.n.Load(); n > most+(192<<10) {
				t.Errorf("%d bytes were read from the wire", n)
			}
		})
	}
}

// A body that is cut is never taken for whole: by the length the answer gives, else
// by what the Source says of the resource.
func TestCat_FET_03(t *testing.T) {
	body := bytes.Repeat([]byte("0123456789"), 100)
	h := resourcesync.NewHasher(resourcesync.SHA256)
	h.Write(body)
	framings := map[string]func(cut int) []byte{
		"length": func(cut int) []byte {
			return fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body[:cut])
		},
		"chunked": func(cut int) []byte {
			whole := fmt.Appendf(nil, "%x\r\n%s\r\n0\r\n\r\n", len(body), body)
			return append([]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"), whole[:cut]...)
		},
		"until close": func(cut int) []byte {
			return append([]byte("HTTP/1.1 200 OK\r\n\r\n"), body[:cut]...)
		},
		"length of the cut": func(cut int) []byte {
			return fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", cut, body[:cut])
		},
	}
	for name, answer := range framings {
		t.Run(name, func(t *testing.T) {
			var next []byte
			f := &fakeNet{answer: func(conn net.Conn, _ *http.Request) bool {
				conn.Write(next)
				return false
			}}
			o := f.options()
			o.MaxRetries = -1
			c := f.newClient(t, o)
			for cut := range len(body) {
				next = answer(cut)
				if err := verified(t.Context(), c, int64(len(body)), nil); err == nil {
					t.Fatalf("cut at %d: taken for whole by length", cut)
				}
				if err := verified(t.Context(), c, -1, h.Digests()); err == nil {
					t.Fatalf("cut at %d: taken for whole by digest", cut)
				}
			}
			next = answer(len(body))
			if name == "chunked" {
				next = answer(len(body) + len("3e8\r\n\r\n0\r\n\r\n"))
			}
			if err := verified(t.Context(), c, int64(len(body)), h.Digests()); err != nil {
				t.Errorf("the whole body: %v", err)
			}
		})
	}
}

// verified reads a resource against what is known of it.
func verified(ctx context.Context, c *fetch.Client, length int64, ds resourcesync.Digests) error {
	resp, err := c.Get(ctx, fetch.Request{URL: "http://example.org/"})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resourcesync.NewVerifyReader(resp.Body, length, ds))
	return err
}

func TestCutBodyIsATemporaryFailureThatCounts(t *testing.T) {
	f := &fakeNet{answer: func(conn net.Conn, _ *http.Request) bool {
		write(conn, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc")
		return false
	}}
	c := f.newClient(t, f.options())
	got, err := read(t.Context(), c, "http://example.org/x")
	if got != "abc" || !errors.Is(err, fetch.Temporary) || !errors.Is(err, io.ErrUnexpectedEOF) ||
		!strings.Contains(err.Error(), `read "http://example.org/x": the body was cut off: expected 10 bytes, got 3`) {
		t.Errorf("got %q, %v", got, err)
	}
}
