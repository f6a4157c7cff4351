package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"slices"
	"time"

	"golang.org/x/time/rate"
)

// A connection can be reused only after the whole response body was read. So the client
// reads the rest of a body that it does not need: at most maxDrain bytes, for at most
// drainTime.
const (
	maxDrain  = 16 << 10
	drainTime = 100 * time.Millisecond
)

// errWatch is the cause of the cancellation when a body arrives too slowly.
var errWatch = errors.New("waited too long")

// body is a response body with a limit on its size, on the wait for the next byte and on
// the transfer rate. When the body ends, the slot of the request is free for another
// request.
type body struct {
	ex          *exchange
	opt         *Options
	bandwidth   *rate.Limiter // limit on the transfer rate of all bodies together; nil is no limit
	max         int64         // largest allowed length of the body in bytes
	want        int64         // expected length of the body in bytes; -1 if unknown
	n           int64         // number of bytes read from the body
	err         error         // error that every further Read returns
	isIdleWatch bool          // whether the timer enforces Options.IdleTimeout, and not the minimum transfer rate
	rate        rateWindow

	watch *time.Timer // cancels the exchange if a Read takes too long; does not run between two Reads
}

func newBody(c *Client, ex *exchange, limit, want int64) *body {
	b := &body{ex: ex, opt: &c.opt, bandwidth: c.bytes, max: limit, want: want}
	if ex.resp.Body == http.NoBody {
		_ = b.end(io.EOF)
	}
	return b
}

func (b *body) Read(p []byte) (int, error) {
	if b.err != nil || len(p) == 0 {
		return 0, b.err
	}
	rest := b.largestLength() - b.n
	if int64(len(p)) > rest { // read one byte more than allowed, to detect a body that is too large
		p = p[:rest+1]
	}
	if b.bandwidth != nil {
		p = p[:min(len(p), b.bandwidth.Burst())]
	}
	start := b.opt.Now()
	b.startWatch()
	n, err := b.ex.resp.Body.Read(p)
	b.watch.Stop()
	if b.opt.Received != nil {
		b.opt.Received(n)
	}
	if int64(n) > rest {
		b.n += rest
		return int(rest), b.end(b.tooMuch())
	}
	b.n += int64(n)
	switch {
	case err == io.EOF && b.n < b.want:
		return n, b.end(b.brokeOff(io.ErrUnexpectedEOF))
	case err == io.EOF && b.want < 0 && b.ex.ctx.Err() != nil: // the body is not complete: net/http reports a normal end if the timer cancels a request whose body has no stated length
		return n, b.end(b.brokeOff(err))
	case err == io.EOF:
		return n, b.end(io.EOF)
	case err != nil:
		return n, b.end(b.brokeOff(err))
	case !b.rate.add(n, b.opt.Now().Sub(start)):
		return n, b.end(b.tooSlow())
	}
	return n, b.throttle(n)
}

// isFramed reports whether the response states where its body ends. Otherwise the body ends
// with the connection, and a truncated body looks complete. A length of -1 is unknown.
func isFramed(resp *http.Response, length int64) bool {
	return length >= 0 || resp.ProtoMajor > 1 || slices.Contains(resp.TransferEncoding, "chunked")
}

// throttle waits until the bandwidth limit allows n more bytes. During the wait the network
// buffers fill up, so that the server must wait, too.
func (b *body) throttle(n int) error {
	if b.bandwidth == nil || n == 0 {
		return nil
	}
	now := b.opt.Now()
	if err := pause(b.ex.ctx, b.bandwidth.ReserveN(now, n).DelayFrom(now)); err != nil {
		return b.end(fmt.Errorf("read %q: %w", b.ex.url, err))
	}
	return nil
}

func (b *body) largestLength() int64 {
	if b.want >= 0 {
		return min(b.max, b.want)
	}
	return b.max
}

// tooMuch returns the error for a body that is too long. net/http does not compare the
// length of a body with its Content-Range.
func (b *body) tooMuch() error {
	if b.want >= 0 && b.want <= b.max {
		return &Error{
			Op: "read", URL: b.ex.url.String(), Kind: Protocol, Status: b.ex.resp.StatusCode,
			Msg: fmt.Sprintf("expected a range of %d bytes, got more", b.want),
		}
	}
	return tooLarge("read", b.ex.url, b.max, "more")
}

func (b *body) startWatch() {
	d := min(b.opt.IdleTimeout, b.rate.longestWait())
	b.isIdleWatch = d == b.opt.IdleTimeout
	if b.watch == nil {
		b.watch = time.AfterFunc(d, func() { b.ex.cancel(errWatch) })
		return
	}
	b.watch.Reset(d)
}

// Close ends the exchange. It first reads the rest of the body if that is small, so
// that the connection can be reused.
func (b *body) Close() error {
	if b.err == nil {
		b.ex.drain(b.n)
		_ = b.end(errors.New("read after Close"))
	}
	return nil
}

func (b *body) end(err error) error {
	b.err = err
	b.ex.close()
	return err
}

func (b *body) brokeOff(err error) error {
	switch watched := errors.Is(context.Cause(b.ex.ctx), errWatch); {
	case watched && b.isIdleWatch:
		return b.temporary(fmt.Sprintf("no byte of the body arrived for %v", b.opt.IdleTimeout), nil)
	case watched:
		return b.tooSlow()
	case b.ex.ctx.Err() != nil:
		return fmt.Errorf("read %q: %w", b.ex.url, b.ex.ctx.Err())
	case errors.Is(err, io.ErrUnexpectedEOF) && b.want >= 0:
		return b.temporary(fmt.Sprintf("the body was cut off: expected %d bytes, got %d", b.want, b.n), err)
	}
	return b.temporary(fmt.Sprintf("the body broke off after %d bytes", b.n), err)
}

func (b *body) temporary(msg string, err error) error {
	return &Error{Op: "read", URL: b.ex.url.String(), Kind: Temporary, Status: b.ex.resp.StatusCode, Msg: msg, Err: err, Restart: true}
}

func (b *body) tooSlow() error {
	return b.temporary(fmt.Sprintf("the body arrives too slowly: expected %d bytes per second, got %d bytes in %v",
		minRate, b.rate.came, b.rate.waited.Round(time.Second)), nil)
}

func tooLarge(op string, u *url.URL, limit int64, got string) *Error {
	return &Error{Op: op, URL: u.String(), Kind: TooLarge, Msg: fmt.Sprintf("expected at most %d bytes, got %s", limit, got)}
}

// In each ratePeriod that a client spends waiting for bytes of a body, at least minBytes must
// arrive.
const (
	ratePeriod = 60 * time.Second
	minRate    = 1 << 10 // bytes per second
	minBytes   = minRate * int64(ratePeriod/time.Second)
)

type rateWindow struct {
	came   int64         // number of bytes that arrived in the current ratePeriod
	waited time.Duration // time that the client waited for bytes in the current ratePeriod
}

// add counts n bytes for which the client waited for the duration d. It returns false if the
// period is over and fewer than minBytes arrived.
func (w *rateWindow) add(n int, d time.Duration) bool {
	w.came += int64(n)
	w.waited += d
	if w.waited < ratePeriod {
		return true
	}
	if w.came < minBytes {
		return false
	}
	*w = rateWindow{}
	return true
}

// longestWait returns how long the client may wait for the next byte before the transfer
// rate is too low.
func (w *rateWindow) longestWait() time.Duration {
	if w.came >= minBytes {
		return math.MaxInt64
	}
	return ratePeriod - w.waited
}
