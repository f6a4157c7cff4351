package fetch

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"
)

// withRetries sends the request until it succeeds, it fails permanently, or no retries are
// left.
func (a *attempt) withRetries(ctx context.Context) (*Response, error) {
	for {
		resp, err := a.sendOnce(ctx)
		if err == nil || a.req.Once || a.tries > a.c.opt.MaxRetries {
			return resp, err
		}
		delay, ok := a.c.opt.mayRetry(err)
		if !ok || pause(ctx, delay) != nil {
			return nil, err
		}
	}
}

// mayRetry reports whether a request that failed with err may be sent again, and returns
// the pause before the next attempt.
func (o *Options) mayRetry(err error) (pause time.Duration, ok bool) {
	var fe *Error
	if !errors.As(err, &fe) {
		return 0, false
	}
	return fe.delay, fe.retry && fe.delay <= o.MaxWait
}

// backOff returns the pause after n failed attempts. The longest pause doubles with each
// attempt, up to BackoffMax. The pause is random, but at least half of the longest one.
func (o *Options) backOff(n int) time.Duration {
	back := o.BackoffMax
	if n < 30 {
		back = min(back, o.Backoff<<(n-1))
	}
	return back/2 + time.Duration(float64(back/2)*o.Rand())
}

// Again reports whether the caller should send a failed request again from the beginning,
// and waits for the back-off before it returns true. It returns false unless the body broke
// off and cannot be continued, and it returns true at most MaxRetries times. err is the
// last error of the request, and failures the number of errors so far.
func (c *Client) Again(ctx context.Context, failures int, err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Restart && failures <= c.opt.MaxRetries && pause(ctx, c.opt.backOff(failures)) == nil
}

// retryLater marks the error as retryable after the back-off, or after the time in
// Retry-After if that is longer, but at most maxRetryAfter.
func (a *attempt) retryLater(e *Error, h http.Header) *Error {
	o := &a.c.opt
	e.retry = true
	e.delay = o.backOff(a.tries)
	if h == nil {
		return e
	}
	if d, ok := retryAfter(h.Get("Retry-After"), o.Now()); ok {
		e.RetryAfter = min(d, maxRetryAfter)
		e.delay = max(e.delay, e.RetryAfter)
		e.Hint = "the host asks to wait for " + e.RetryAfter.Round(time.Second).String()
	}
	return e
}

// retryAfter parses the value of Retry-After: a number of seconds or an HTTP date.
func retryAfter(s string, now time.Time) (time.Duration, bool) {
	const longest = uint64(math.MaxInt64) / uint64(time.Second)
	if n, err := strconv.ParseUint(s, 10, 64); err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(min(n, longest)) * time.Second, true
	}
	if t, err := http.ParseTime(s); err == nil {
		return max(t.Sub(now), 0), true
	}
	return 0, false
}
