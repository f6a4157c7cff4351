package fetch

import (
	"context"
	"fmt"
	"net/url"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// hosts holds what is to be kept to per origin, and the places in all.
type hosts struct {
	opt   Options
	total chan struct{}

	mu sync.Mutex // guards m
	m  map[string]*host
}

// host is one origin: its places, its rate and until when it is left alone.
type host struct {
	all    *hosts
	places chan struct{}
	limit  *rate.Limiter // nil is no limit

	mu     sync.Mutex // guards frozen
	frozen time.Time
}

func newHosts(o Options) *hosts {
	return &hosts{opt: o, total: make(chan struct{}, o.Total), m: map[string]*host{}}
}

func (hs *hosts) get(origin string) *host {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	h := hs.m[origin]
	if h == nil {
		h = &host{all: hs, places: make(chan struct{}, hs.opt.PerHost)}
		if hs.opt.RatePerHost > 0 {
			h.limit = rate.NewLimiter(hs.opt.RatePerHost, 1)
		}
		hs.m[origin] = h
	}
	return h
}

// acquire waits until a request to the host may be sent and takes a place, which
// release gives back.
func (h *host) acquire(ctx context.Context, u *url.URL) (release func(), err error) {
	if err := take(ctx, h.places); err != nil {
		return nil, fmt.Errorf("get %q: %w", u, err)
	}
	if err := h.turn(ctx, u); err != nil {
		<-h.places
		return nil, err
	}
	if err := take(ctx, h.all.total); err != nil {
		<-h.places
		return nil, fmt.Errorf("get %q: %w", u, err)
	}
	return sync.OnceFunc(func() { <-h.all.total; <-h.places }), nil
}

// take takes a place if there is one, or waits for it.
func take(ctx context.Context, places chan struct{}) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// turn waits until the host may be asked: after its freeze and by its rate.
func (h *host) turn(ctx context.Context, u *url.URL) error {
	for {
		d := h.wait()
		if d <= 0 {
			break
		}
		if d > h.all.opt.MaxWait {
			return &Error{
				Op: "get", URL: u.String(), Kind: Temporary, RetryAfter: d,
				Msg:  "the host asked to be left alone",
				Hint: "come back after " + d.Round(time.Second).String(),
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

// freeze keeps every request from the host for d.
func (h *host) freeze(d time.Duration) {
	until := h.all.opt.Now().Add(d)
	h.mu.Lock()
	defer h.mu.Unlock()
	if until.After(h.frozen) {
		h.frozen = until
	}
}

// pause waits for d or the end of ctx.
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
