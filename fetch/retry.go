package fetch

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"
)

// withRetries sends the request until it succeeds, fails permanently or has used all
// retries.
func (a *attempt) withRetries(ctx context.Context) (*Response, error) {
	for {
		resp, err := a.once(ctx)
		if err == nil || a.req.Once || a.tries > a.c.opt.MaxRetries {
			return resp, err
		}
		delay, ok := a.c.opt.mayRetry(err)
		if !ok || pause(ctx, delay) != nil {
			return nil, err
		}
	}
}

// mayRetry reports whether a request that failed with err may be sent again, and
// returns the pause before that.
func (o *Options) mayRetry(err error) (pause time.Duration, ok bool) {
	var fe *Error
	if !errors.As(err, &fe) {
		return 0, false
	}
	return fe.delay, fe.retry && fe.delay <= o.MaxWait
}

// backOff returns the pause after n failed attempts: a random duration around a value
// that doubles with each attempt.
func (o *Options) backOff(n int) time.Duration {
	back := o.BackoffMax
	if n < 30 {
		back = min(back, o.Backoff<<(n-1))
	}
	return back/2 + time.Duration(float64(back/2)*o.Rand())
}

// Again reports whether the caller should send a request again from the beginning.
// Before it returns true it waits. failed is the number of times that the request has
// failed, and err the last error. Again returns true only for a body that broke off and
// cannot be continued, and at most MaxRetries times.
func (c *Client) Again(ctx context.Context, failed int, err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Restart && failed <= c.opt.MaxRetries && pause(ctx, c.opt.backOff(failed)) == nil
}

// later records in e that the request may be retried, after the back-off or the time in
// Retry-After, whichever is longer. The latter is limited to maxRetryAfter.
func (a *attempt) later(e *Error, h http.Header) *Error {
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

// retryAfter parses the value of a Retry-After header field: seconds or an HTTP date.
func retryAfter(s string, now time.Time) (time.Duration, bool) {
	const most = uint64(math.MaxInt64) / uint64(time.Second)
	if n, err := strconv.ParseUint(s, 10, 64); err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(min(n, most)) * time.Second, true
	}
	if t, err := http.ParseTime(s); err == nil {
		return max(t.Sub(now), 0), true
	}
	return 0, false
}
