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

// maxDrain is the number of bytes that are read from the rest of an unwanted response,
// and drainTime the time spent on that. A connection can be reused only after the rest
// has been read.
const (
	maxDrain  = 16 << 10
	drainTime = 100 * time.Millisecond
)

// errWatch is the reason given when an exchange is cancelled because its body arrives
// too slowly.
var errWatch = errors.New("waited too long")

// body is a response body with limits on its size, on the wait for the next byte and on
// the rate. At its end the host's next request may begin.
type body struct {
	ex   *exchange
	opt  *Options
	all  *rate.Limiter // limit on the total rate of all bodies; nil is no limit
	max  int64         // largest allowed number of bytes
	want int64         // expected number of bytes; -1 if unknown
	n    int64         // number of bytes read
	err  error         // error that every further Read returns
	idle bool          // set if the timer runs for the longest wait for a byte, and not for the lowest rate
	rate rateWindow

	watch *time.Timer // timer that cancels the exchange; it runs only during a Read
}

func newBody(c *Client, ex *exchange, limit, want int64) *body {
	b := &body{ex: ex, opt: &c.opt, all: c.bytes, max: limit, want: want}
	if ex.resp.Body == http.NoBody {
		_ = b.end(io.EOF)
	}
	return b
}

// Read returns an error if the body stops, arrives too slowly or is too large.
func (b *body) Read(p []byte) (int, error) {
	if b.err != nil || len(p) == 0 {
		return 0, b.err
	}
	rest := b.most() - b.n
	if int64(len(p)) > rest { // one byte more than allowed is read, to detect a body that is too large
		p = p[:rest+1]
	}
	if b.all != nil {
		p = p[:min(len(p), b.all.Burst())]
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
		return n, b.end(b.failed(io.ErrUnexpectedEOF))
	case err == io.EOF && b.want < 0 && b.ex.ctx.Err() != nil: // a body without a known length seems complete if the timer cancelled it
		return n, b.end(b.failed(err))
	case err == io.EOF:
		return n, b.end(io.EOF)
	case err != nil:
		return n, b.end(b.failed(err))
	case !b.rate.add(n, b.opt.Now().Sub(start)):
		return n, b.end(b.tooSlow())
	}
	return n, b.hold(n)
}

// isFramed reports whether the response marks the end of its body. Otherwise the body
// ends with the connection, so that a truncated body looks complete. length is the
// length of the body, -1 if unknown.
func isFramed(resp *http.Response, length int64) bool {
	return length >= 0 || resp.ProtoMajor > 1 || slices.Contains(resp.TransferEncoding, "chunked")
}

// hold waits until the bandwidth limit allows n more bytes. While it waits, unread
// bytes fill the network buffers, which makes the server send more slowly.
func (b *body) hold(n int) error {
	if b.all == nil || n == 0 {
		return nil
	}
	now := b.opt.Now()
	if err := pause(b.ex.ctx, b.all.ReserveN(now, n).DelayFrom(now)); err != nil {
		return b.end(fmt.Errorf("read %q: %w", b.ex.url, err))
	}
	return nil
}

// most returns the largest number of bytes that the body may have.
func (b *body) most() int64 {
	if b.want >= 0 {
		return min(b.max, b.want)
	}
	return b.max
}

// tooMuch returns the error for a body that is longer than expected or allowed.
// net/http does not compare a body with its Content-Range.
func (b *body) tooMuch() error {
	if b.want >= 0 && b.want <= b.max {
		return &Error{
			Op: "read", URL: b.ex.url.String(), Kind: Protocol, Status: b.ex.resp.StatusCode,
			Msg: fmt.Sprintf("expected a range of %d bytes, got more", b.want),
		}
	}
	return tooLarge("read", b.ex.url, b.max, "more")
}

// startWatch starts a timer, which cancels the exchange if the Read that follows takes
// too long.
func (b *body) startWatch() {
	d := min(b.opt.IdleTimeout, b.rate.rest())
	b.idle = d == b.opt.IdleTimeout
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

// end closes the exchange and makes every later Read return err.
func (b *body) end(err error) error {
	b.err = err
	b.ex.close()
	return err
}

// failed returns the error for a body that ended too early.
func (b *body) failed(err error) error {
	switch watched := errors.Is(context.Cause(b.ex.ctx), errWatch); {
	case watched && b.idle:
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

func tooLarge(op string, u *url.URL, most int64, got string) *Error {
	return &Error{Op: op, URL: u.String(), Kind: TooLarge, Msg: fmt.Sprintf("expected at most %d bytes, got %s", most, got)}
}

// The rate of a body is checked at the end of each ratePeriod of waiting for bytes: at
// least minBytes must have arrived in it.
const (
	ratePeriod = 60 * time.Second
	minRate    = 1 << 10 // bytes per second
	minBytes   = minRate * int64(ratePeriod/time.Second)
)

// rateWindow has the number of bytes that arrived and the time spent waiting for them in
// the current period.
type rateWindow struct {
	came   int64
	waited time.Duration
}

// add counts n bytes for which a Read waited for the duration d. At the end of a period
// it returns false if too few bytes arrived in the period.
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

// rest returns the longest permitted wait for the next byte: a longer one would make
// the rate of this period too low.
func (w *rateWindow) rest() time.Duration {
	if w.came >= minBytes {
		return math.MaxInt64
	}
	return ratePeriod - w.waited
}
