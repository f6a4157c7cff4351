package fetch

import (
	"context"
	"fmt"
	"net/url"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"
)

type hosts struct {
	opt   Options
	total *semaphore.Weighted

	mu sync.Mutex // guards m
	m  map[string]*host
}

type host struct {
	all   *hosts
	slots *slots
	limit *rate.Limiter // limit on the number of requests per second; nil is no limit

	mu     sync.Mutex // guards the fields below
	frozen time.Time
	failed int       // number of consecutive requests without a response
	probe  time.Time // when the next request may be sent to a host that counts as down
}

// After downAfter consecutive requests without a response, a host counts as down. By
// default these are eight requests, each with three retries.
const downAfter = 32

func newHosts(o Options) *hosts {
	return &hosts{opt: o, total: semaphore.NewWeighted(int64(o.Total)), m: map[string]*host{}}
}

func (hs *hosts) get(origin string) *host {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	h := hs.m[origin]
	if h == nil {
		h = &host{all: hs, slots: newSlots(hs.opt.PerHost)}
		if hs.opt.RatePerHost > 0 {
			h.limit = rate.NewLimiter(hs.opt.RatePerHost, 1)
		}
		hs.m[origin] = h
	}
	return h
}

// acquire waits until a request to the host may be sent. The caller must call release when
// the request has ended.
func (h *host) acquire(ctx context.Context, u *url.URL) (release func(), err error) {
	if h.isDown() {
		return nil, &Error{
			Op: "get", URL: u.String(), Kind: Temporary,
			Msg:  fmt.Sprintf("the request was not sent, since the host did not answer %d requests in a row", downAfter),
			Hint: "try again when the host is up",
		}
	}
	if err := h.slots.Acquire(ctx, 1); err != nil {
		return nil, fmt.Errorf("get %q: %w", u, err)
	}
	if err := h.waitTurn(ctx, u); err != nil {
		h.slots.give()
		return nil, err
	}
	if err := h.all.total.Acquire(ctx, 1); err != nil {
		h.slots.give()
		return nil, fmt.Errorf("get %q: %w", u, err)
	}
	return sync.OnceFunc(func() { h.all.total.Release(1); h.slots.give() }), nil
}

// waitTurn waits as long as the host asked, and then until the rate limit allows a
// request.
func (h *host) waitTurn(ctx context.Context, u *url.URL) error {
	for {
		d := h.wait()
		if d <= 0 {
			break
		}
		if d > h.all.opt.MaxWait {
			return &Error{
				Op: "get", URL: u.String(), Kind: Temporary, RetryAfter: d,
				Msg:  "the host asked for a longer pause than this program waits",
				Hint: "try again after " + d.Round(time.Second).String(),
			}
		}
		if err := pause(ctx, d); err != nil {
			return fmt.Errorf("get %q: %w", u, err)
		}
	}
	if h.limit == nil {
		return nil
	}
	now := h.all.opt.Now()
	r := h.limit.ReserveN(now, 1)
	if err := pause(ctx, r.DelayFrom(now)); err != nil {
		r.CancelAt(h.all.opt.Now())
		return fmt.Errorf("get %q: %w", u, err)
	}
	return nil
}

func (h *host) wait() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.frozen.IsZero() {
		return 0
	}
	return h.frozen.Sub(h.all.opt.Now())
}

func (h *host) freeze(d time.Duration) {
	until := h.all.opt.Now().Add(d)
	h.mu.Lock()
	defer h.mu.Unlock()
	if until.After(h.frozen) {
		h.frozen = until
	}
}

// isDown reports whether the host counts as down. Once in every BackoffMax it returns false
// for such a host, so that one request tests the host.
func (h *host) isDown() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.failed < downAfter {
		return false
	}
	now := h.all.opt.Now()
	if now.Before(h.probe) {
		return true
	}
	h.probe = now.Add(h.all.opt.BackoffMax)
	return false
}

func (h *host) answered(yes bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if yes {
		h.failed = 0
		return
	}
	if h.failed++; h.failed == downAfter {
		h.probe = h.all.opt.Now().Add(h.all.opt.BackoffMax)
	}
}

func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
