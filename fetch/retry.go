package fetch

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
)

// retryPolicy retries after an Error that is marked for it (retry), once its delay has
// passed. If the delay exceeds MaxWait, it gives up at once.
func retryPolicy(o *Options) retrypolicy.RetryPolicy[*Response] {
	return retrypolicy.NewBuilder[*Response]().
		HandleIf(func(_ *Response, err error) bool {
			var fe *Error
			return errors.As(err, &fe) && fe.retry && fe.delay <= o.MaxWait
		}).
		WithMaxRetries(max(o.MaxRetries, 0)).
		WithDelayFunc(func(x failsafe.ExecutionAttempt[*Response]) time.Duration {
			var fe *Error
			if !errors.As(x.LastError(), &fe) { // the context has ended
				return 0
			}
			return fe.delay
		}).
		ReturnLastFailure().
		Build()
}

// withRetries runs the request until it succeeds, fails for good or has used all its tries.
func (a *attempt) withRetries(ctx context.Context) (*Response, error) {
	last, failed := a.once(ctx)
	if failed == nil || a.req.Once {
		return last, failed // most requests succeed at once and skip the rest of this function
	}
	resp, err := failsafe.With(a.c.retry).WithContext(ctx).Get(func() (_ *Response, err error) {
		if err = failed; err != nil { // the first try is over
			failed = nil
			return nil, err
		}
		last, err = a.once(ctx)
		return last, err
	})
	if err != nil && last != nil { // the context ended at the moment when the answer arrived
		_ = last.Body.Close()
	}
	return resp, err
}

// backOff is how long to wait after n tries have failed.
func (o *Options) backOff(n int) time.Duration {
	back := o.BackoffMax
	if n < 30 {
		back = min(back, o.Backoff<<(n-1))
	}
	return back/2 + time.Duration(float64(back/2)*o.Rand())
}

// Again reports whether a request that failed so many times, at last with err, is to be
// sent again from the beginning, and waits before that as the Options say. It returns true
// only for a body that broke off and cannot be continued, up to MaxRetries times, and never
// after ctx has ended.
func (c *Client) Again(ctx context.Context, failed int, err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Restart && failed <= c.opt.MaxRetries && pause(ctx, c.opt.backOff(failed)) == nil
}

// later marks e as worth another try and sets the pause before it: the longer of the
// back-off and the wait that the host asked for, of which at most RetryAfterMax counts.
func (a *attempt) later(e *Error, h http.Header) *Error {
	o := &a.c.opt
	e.retry = true
	e.delay = o.backOff(a.tries)
	if h == nil {
		return e
	}
	if d, ok := retryAfter(h.Get("Retry-After"), o.Now()); ok {
		e.RetryAfter = min(d, o.RetryAfterMax)
		e.delay = max(e.delay, e.RetryAfter)
		e.Hint = "the host asks to come back after " + e.RetryAfter.Round(time.Second).String()
	}
	return e
}

// retryAfter reads a Retry-After field: seconds or an HTTP date.
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
