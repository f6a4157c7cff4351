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

// hosts has the state of every origin, and the slots that all requests share.
type hosts struct {
	opt   Options
	total *semaphore.Weighted

	mu sync.Mutex // guards m
	m  map[string]*host
}

// host is the state of one origin: its slots for concurrent requests, its rate limit,
// and the time until which requests have to wait.
type host struct {
	all    *hosts
	places *places
	limit  *rate.Limiter // limit on the rate of requests; nil is no limit

	mu     sync.Mutex // guards the fields below
	frozen time.Time
	failed int       // number of consecutive requests without a response
	probe  time.Time // while the host counts as down: the time from which one request may be sent to test it
}

// downAfter is the number of consecutive requests that must fail before a host counts
// as down. With four concurrent requests and three retries of each, eight requests have
// then failed for good.
const downAfter = 32

func newHosts(o Options) *hosts {
	return &hosts{opt: o, total: semaphore.NewWeighted(int64(o.Total)), m: map[string]*host{}}
}

func (hs *hosts) get(origin string) *host {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	h := hs.m[origin]
	if h == nil {
		h = &host{all: hs, places: newPlaces(hs.opt.PerHost)}
		if hs.opt.RatePerHost > 0 {
			h.limit = rate.NewLimiter(hs.opt.RatePerHost, 1)
		}
		hs.m[origin] = h
	}
	return h
}

// acquire takes a slot and waits until a request to the host may be sent. release gives
// the slot back.
func (h *host) acquire(ctx context.Context, u *url.URL) (release func(), err error) {
	if h.down() {
		return nil, &Error{
			Op: "get", URL: u.String(), Kind: Temporary,
			Msg:  fmt.Sprintf("the request was not sent, since the host did not answer %d requests in a row", downAfter),
			Hint: "try again when the host is up",
		}
	}
	if err := h.places.Acquire(ctx, 1); err != nil {
		return nil, fmt.Errorf("get %q: %w", u, err)
	}
	if err := h.turn(ctx, u); err != nil {
		h.places.give()
		return nil, err
	}
	if err := h.all.total.Acquire(ctx, 1); err != nil {
		h.places.give()
		return nil, fmt.Errorf("get %q: %w", u, err)
	}
	return sync.OnceFunc(func() { h.all.total.Release(1); h.places.give() }), nil
}

// turn waits until a request to the host may be sent: for the time for which the host
// asked to wait, and then until the rate limit allows it.
func (h *host) turn(ctx context.Context, u *url.URL) error {
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

// freeze makes every request to the host wait for the duration d.
func (h *host) freeze(d time.Duration) {
	until := h.all.opt.Now().Add(d)
	h.mu.Lock()
	defer h.mu.Unlock()
	if until.After(h.frozen) {
		h.frozen = until
	}
}

// down reports whether the host counts as down, so that no request is sent. At
// intervals it returns false, so that one request tests the host.
func (h *host) down() bool {
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

// answered records whether a request to the host got a response.
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

// pause waits for the duration d, or until ctx is done.
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
