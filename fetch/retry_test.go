package fetch_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"instep/fetch"
)

const okAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// busy answers with the status and header lines given, once each, then with 200.
func busy(answers ...string) script {
	var mu sync.Mutex
	return func(conn net.Conn, _ *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		if len(answers) == 0 {
			return write(conn, okAnswer)
		}
		a := answers[0]
		answers = answers[1:]
		if a == "cut" {
			return false
		}
		return write(conn, "HTTP/1.1 "+a+"\r\nContent-Length: 0\r\n\r\n")
	}
}

func TestTriesAgainAfterTheRightTime(t *testing.T) {
	inSeconds := func(n int) string {
		return time.Now().Add(time.Duration(n) * time.Second).UTC().Format(http.TimeFormat)
	}
	tests := []struct {
		name    string
		answers func() []string // made inside the bubble, where the clock is
		want    time.Duration
	}{
		{"no trouble", func() []string { return nil }, 0},
		{"back-off", func() []string { return []string{"502 X"} }, 250 * time.Millisecond},
		{"back-off doubles", func() []string { return []string{"502 X", "504 X", "503 X"} }, 1750 * time.Millisecond},
		{"network error", func() []string { return []string{"cut"} }, 250 * time.Millisecond},
		{"seconds", func() []string { return []string{"503 X\r\nRetry-After: 7"} }, 7 * time.Second},
		{"too many requests", func() []string { return []string{"429 X\r\nRetry-After: 90"} }, 90 * time.Second},
		{"date", func() []string { return []string{"503 X\r\nRetry-After: " + inSeconds(30)} }, 30 * time.Second},
		{"date in the past", func() []string { return []string{"503 X\r\nRetry-After: " + inSeconds(-30)} }, 250 * time.Millisecond},
		{"garbage", func() []string { return []string{"503 X\r\nRetry-After: soon"} }, 250 * time.Millisecond},
		{"negative", func() []string { return []string{"503 X\r\nRetry-After: -5"} }, 250 * time.Millisecond},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fakeNet{answer: busy(tt.answers()...)}
				c := f.newClient(t, f.options())
				start := time.Now()
				got, err := read(t.Context(), c, "http://example.org/")
				if took := time.Since(start); got != "ok" || took != tt.want {
					t.Errorf("got %q, %v after %v; want ok after %v", got, err, took, tt.want)
				}
			})
		})
	}
}

func TestGivesUpAfterTheRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeNet{}
		c := f.newClient(t, f.options())
		_, err := read(t.Context(), c, "http://example.org/")
		var e *fetch.Error
		if !errors.As(err, &e) || e.Kind != fetch.Temporary || e.Requests != 4 || len(f.dials) != 4 {
			t.Errorf("got %v after %d dials, want a temporary failure after 4 requests", err, len(f.dials))
		}
		if !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("%v does not name the cause", err)
		}
	})
}

func TestWhatAnotherTryWontChangeIsNotTriedAgain(t *testing.T) {
	for _, a := range []string{"404 X", "403 X", "500 X", "400 X", "301 X"} {
		synctest.Test(t, func(t *testing.T) {
			f := &fakeNet{answer: busy(a)}
			c := f.newClient(t, f.options())
			if got, err := read(t.Context(), c, "http://example.org/"); err == nil {
				t.Errorf("%s: got %q from another try", a, got)
			}
		})
	}
}

// A caller with other places to ask does not wait for this one.
func TestOnceIsOneTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeNet{answer: busy("503 X")}
		c := f.newClient(t, f.options())
		begin := time.Now()
		if resp, err := c.Get(t.Context(), fetch.Request{URL: "http://example.org/", Once: true}); err == nil {
			_ = resp.Body.Close()
			t.Error("got an answer from another try")
		}
		if waited := time.Since(begin); waited != 0 {
			t.Errorf("waited %v", waited)
		}
	})
}

func TestCancellationEndsTheWaitBetweenTries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeNet{answer: busy("503 X\r\nRetry-After: 60")}
		c := f.newClient(t, f.options())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		_, err := read(ctx, c, "http://example.org/")
		if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || took != time.Second {
			t.Errorf("got %v after %v, want the deadline after 1s", err, took)
		}
		// The place is free and the host still left alone.
		if _, err := read(t.Context(), c, "http://example.org/"); err != nil || time.Since(start) != time.Minute {
			t.Errorf("got %v after %v, want an answer after 1m", err, time.Since(start))
		}
	})
}

// A host that asks to wait is left alone by every request; other hosts are not
// affected, and nobody waits for longer than MaxWait.
func TestCat_FET_10(t *testing.T) {
	t.Run("freeze", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			first := busy("429 X\r\nRetry-After: 100")
			f := &fakeNet{answer: func(conn net.Conn, r *http.Request) bool {
				if r.Host == "busy.example.org" {
					return first(conn, r)
				}
				return write(conn, okAnswer)
			}}
			c := f.newClient(t, f.options())
			start := time.Now()
			took := map[string]time.Duration{}
			var mu sync.Mutex
			var wg sync.WaitGroup
			get := func(uri string) {
				if got, err := read(t.Context(), c, uri); got != "ok" {
					t.Errorf("%s: got %q, %v", uri, got, err)
				}
				mu.Lock()
				defer mu.Unlock()
				took[uri] = time.Since(start)
			}
			wg.Go(func() { get("http://busy.example.org/1") })
			synctest.Wait()
			for i := range 6 {
				wg.Go(func() { get(fmt.Sprint("http://busy.example.org/", i+2)) })
			}
			wg.Go(func() { get("http://other.example.org/") })
			wg.Wait()
			for uri, d := range took {
				if want := map[bool]time.Duration{true: 100 * time.Second}[strings.Contains(uri, "busy")]; d != want {
					t.Errorf("%s took %v, want %v", uri, d, want)
				}
			}
		})
	})
	for _, after := range []string{"3600", "99999999999999999999", "9223372036854775807", "Fri, 31 Dec 9999 23:59:59 GMT"} {
		t.Run("absurd "+after, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fakeNet{answer: busy("503 X\r\nRetry-After: " + after)}
				c := f.newClient(t, f.options())
				start := time.Now()
				var e *fetch.Error
				for range 3 { // the second and third are not even sent
					_, err := read(t.Context(), c, "http://example.org/")
					if !errors.As(err, &e) {
						t.Fatalf("got %v, want an *Error", err)
					}
					if e.Kind != fetch.Temporary || e.RetryAfter > 24*time.Hour || e.RetryAfter < time.Hour {
						t.Fatalf("got %v (%v), want a temporary failure with a wait up to 24h", err, e.RetryAfter)
					}
				}
				if time.Since(start) != 0 || e.Requests != 0 {
					t.Errorf("waited %v, sent %d", time.Since(start), e.Requests)
				}
				time.Sleep(e.RetryAfter)
				if got, err := read(t.Context(), c, "http://example.org/"); got != "ok" {
					t.Errorf("after the time has passed: %q, %v", got, err)
				}
			})
		})
	}
}

func TestHostThatIsDownIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := false
		f := &fakeNet{}
		o := f.options()
		dial := f.dial
		o.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if up {
				f.answer = busy()
			}
			return dial(ctx, network, addr)
		}
		c := f.newClient(t, o)
		for range 1000 {
			if _, err := read(t.Context(), c, "http://example.org/"); !errors.Is(err, fetch.Temporary) {
				t.Fatalf("got %v", err)
			}
		}
		if n := len(f.dials); n > 40 {
			t.Errorf("%d requests to a host that is down", n)
		}
		up = true
		time.Sleep(30 * time.Second)
		for range 2 {
			if got, err := read(t.Context(), c, "http://example.org/"); got != "ok" {
				t.Errorf("it is up again: %q, %v", got, err)
			}
		}
	})
}

func TestRatePerHostIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeNet{answer: busy()}
		o := f.options()
		o.RatePerHost = rate.Limit(5)
		c := f.newClient(t, o)
		start := time.Now()
		var wg sync.WaitGroup
		for range 51 {
			wg.Go(func() {
				if _, err := read(t.Context(), c, "http://example.org/"); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if took := time.Since(start); took < 9900*time.Millisecond || took > 10500*time.Millisecond {
			t.Errorf("51 requests took %v, want about 10s", took)
		}
	})
}

func TestRequestsAtATimeAreBounded(t *testing.T) {
	for hosts, want := range map[int]int{1: 3, 3: 5} { // by the host, by the total
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			now, most := 0, 0
			count := func(n int) {
				mu.Lock()
				defer mu.Unlock()
				now += n
				most = max(most, now)
			}
			f := &fakeNet{answer: func(conn net.Conn, r *http.Request) bool {
				count(1)
				time.Sleep(time.Second)
				count(-1)
				return write(conn, okAnswer)
			}}
			o := f.options()
			o.PerHost, o.Total = 3, 5
			c := f.newClient(t, o)
			start := time.Now()
			var wg sync.WaitGroup
			for i := range 60 {
				wg.Go(func() {
					if _, err := read(t.Context(), c, fmt.Sprintf("http://h%d.example.org/", i%hosts)); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if most != want {
				t.Errorf("%d hosts: at most %d at a time, want %d", hosts, most, want)
			}
			// At the end only one host may be left, which has 3 places.
			if took := time.Since(start); took < time.Duration(60/want)*time.Second || took > 20*time.Second {
				t.Errorf("%d hosts: all in %v, want %ds", hosts, took, 60/want)
			}
		})
	}
}

// The bodies of all hosts together come no faster than allowed, and a body that we
// hold back ourselves is not too slow.
func TestBandwidthIsKept(t *testing.T) {
	for _, bandwidth := range []int64{500, 10 << 10, 4 << 20} {
		synctest.Test(t, func(t *testing.T) {
			body := strings.Repeat("x", int(bandwidth)*10)
			f := &fakeNet{answer: func(conn net.Conn, _ *http.Request) bool {
				return write(conn, fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
			}}
			o := f.options()
			o.Bandwidth = bandwidth
			c := f.newClient(t, o)
			start := time.Now()
			var wg sync.WaitGroup
			for i := range 3 {
				wg.Go(func() {
					if got, err := read(t.Context(), c, fmt.Sprintf("http://h%d.example.org/", i)); err != nil || len(got) != len(body) {
						t.Errorf("got %d bytes, %v", len(got), err)
					}
				})
			}
			wg.Wait()
			if took := time.Since(start); took < 27*time.Second || took > 31*time.Second {
				t.Errorf("%d bytes at %d a second took %v, want about 30s", 3*len(body), bandwidth, took)
			}
		})
	}
}
