package fetch_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"instep/fetch"
)

// crowd is a host that takes a second for an answer and can give only so many at a
// time; who comes beyond that gets the refusal.
type crowd struct {
	refusal string

	mu                 sync.Mutex // guards the rest
	room               int
	now, most, refused int
}

func (c *crowd) answer(conn net.Conn, _ *http.Request) bool {
	c.mu.Lock()
	c.now++
	c.most = max(c.most, c.now)
	full := c.now > c.room
	if full {
		c.refused++
	}
	c.mu.Unlock()
	time.Sleep(time.Second)
	c.mu.Lock()
	c.now--
	c.mu.Unlock()
	if full {
		return write(conn, "HTTP/1.1 "+c.refusal+"\r\nContent-Length: 0\r\n\r\n")
	}
	return write(conn, okAnswer)
}

// counts returns how many requests there were at a time and how many were refused
// since the last call.
func (c *crowd) counts() (most, refused int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	most, refused, c.most, c.refused = c.most, c.refused, 0, 0
	return most, refused
}

// getMany gets n resources, any number of them at a time.
func getMany(t *testing.T, c *fetch.Client, n int) (failed int) {
	t.Helper()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			if _, err := read(t.Context(), c, fmt.Sprint("http://example.org/", i)); err != nil {
				mu.Lock()
				failed++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return failed
}

// A host that is too busy is sent half as many requests at a time, and slowly more
// again.
func TestPlacesAdaptToWhatTheHostTakes(t *testing.T) {
	for _, refusal := range []string{"429 X", "503 X", "429 X\r\nRetry-After: 2", "503 X\r\nRetry-After: 2"} {
		t.Run(refusal, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				host := &crowd{refusal: refusal, room: 16}
				f := &fakeNet{answer: host.answer}
				o := f.options()
				o.PerHost, o.MaxRetries = 16, 8
				c := f.newClient(t, o)
				if failed := getMany(t, c, 64); failed > 0 {
					t.Fatalf("%d failed while there was room", failed)
				}
				if most, refused := host.counts(); most != 16 || refused != 0 {
					t.Fatalf("%d at a time, %d refused; want 16, 0", most, refused)
				}
				host.room = 4
				if failed := getMany(t, c, 1000); failed > 0 {
					t.Errorf("%d failed for good while the host was busy", failed)
				}
				// Without adapting three of four would be refused. 16 come at first; then
				// one too many after every 32 good ones, until there are half as many.
				if _, refused := host.counts(); refused > 16+2*1000/32 {
					t.Errorf("%d refused of 1000, which is no adapting", refused)
				}
				host.room = 16
				getMany(t, c, 32*16)
				host.counts()
				getMany(t, c, 64)
				if most, refused := host.counts(); most != 16 || refused != 0 {
					t.Errorf("when there was room again: %d at a time, %d refused; want 16, 0", most, refused)
				}
			})
		})
	}
}

// Requests that were under way together when a host got too busy are one reason to
// send fewer, not many.
func TestPlacesAreHalvedOnceForWhatWasUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := &crowd{refusal: "503 X"}
		f := &fakeNet{answer: host.answer}
		o := f.options()
		o.PerHost, o.MaxRetries = 16, -1
		c := f.newClient(t, o)
		if failed := getMany(t, c, 16); failed != 16 {
			t.Fatalf("%d of 16 failed", failed)
		}
		host.counts()
		host.room = 16
		if failed := getMany(t, c, 24); failed > 0 {
			t.Errorf("%d failed", failed)
		}
		if most, _ := host.counts(); most != 8 {
			t.Errorf("%d at a time, want 8", most)
		}
	})
}

// Who stops waiting for a place loses none to the others.
func TestWaitingForAPlaceCanEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := &crowd{room: 1 << 20}
		f := &fakeNet{answer: host.answer}
		o := f.options()
		o.PerHost = 2
		c := f.newClient(t, o)
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%5)*time.Second)
				defer cancel()
				if _, err := read(ctx, c, "http://example.org/"); err != nil && !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v", err)
				}
			})
		}
		wg.Wait()
		start := time.Now()
		if failed := getMany(t, c, 10); failed > 0 || time.Since(start) != 5*time.Second {
			t.Errorf("%d failed, 10 by 2 took %v; want 5s", failed, time.Since(start))
		}
	})
}
