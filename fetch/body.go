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

// maxDrain is how much of an unwanted rest is read to keep the connection, in
// bytes, and drainTime how long that may take.
const (
	maxDrain  = 16 << 10
	drainTime = 100 * time.Millisecond
)

// errWatch ends an exchange whose body comes too slowly.
var errWatch = errors.New("waited too long")

// body watches an answer's body: its size, silence and rate. It gives the place of
// the host back at the end.
type body struct {
	ex   *exchange
	opt  *Options
	all  *rate.Limiter // limits the bytes of all bodies together; nil is no limit
	max  int64         // bytes allowed
	want int64         // bytes announced; -1: unknown
	n    int64         // bytes that came
	err  error         // the error of every further Read
	idle bool          // the event that the watch waits for: any byte, or enough of them
	rate rateWindow

	watch *time.Timer // ends the exchange; runs only during a Read
}

func newBody(c *Client, ex *exchange, limit, want int64) *body {
	b := &body{ex: ex, opt: &c.opt, all: c.bytes, max: limit, want: want}
	if ex.resp.Body == http.NoBody {
		_ = b.end(io.EOF)
	}
	return b
}

// Read reads the body; it fails if the body stops, arrives too slowly or is too large.
func (b *body) Read(p []byte) (int, error) {
	if b.err != nil || len(p) == 0 {
		return 0, b.err
	}
	rest := b.most() - b.n
	if int64(len(p)) > rest { // reading one byte more shows that the body is too large
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
	case err == io.EOF && b.want < 0 && b.ex.ctx.Err() != nil: // the end may be our own doing
		return n, b.end(b.failed(err))
	case err == io.EOF:
		return n, b.end(io.EOF)
	case err != nil:
		return n, b.end(b.failed(err))
	case !b.rate.add(n, b.opt.Now().Sub(start), b.opt):
		return n, b.end(b.tooSlow())
	}
	return n, b.hold(n)
}

// isFramed reports whether the end of a body of so many bytes (-1: unknown) is marked. A
// body that lasts until the connection ends looks complete wherever it is cut off.
func isFramed(resp *http.Response, length int64) bool {
	return length >= 0 || resp.ProtoMajor > 1 || slices.Contains(resp.TransferEncoding, "chunked")
}

// hold waits until n more bytes are allowed. Meanwhile unread bytes fill the network
// buffers, which slows the sender down.
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

// most returns how many bytes the body may have.
func (b *body) most() int64 {
	if b.want >= 0 {
		return min(b.max, b.want)
	}
	return b.max
}

// tooMuch is the error for a body that exceeds its Content-Range. net/http checks a
// Content-Length, but not a Content-Range.
func (b *body) tooMuch() error {
	if b.want >= 0 && b.want <= b.max {
		return &Error{
			Op: "read", URL: b.ex.url.String(), Kind: Protocol, Status: b.ex.resp.StatusCode,
			Msg: fmt.Sprintf("expected the %d bytes of the part, got more", b.want),
		}
	}
	return tooLarge("read", b.ex.url, b.max, "more")
}

// startWatch ends the exchange if the Read that follows waits too long.
func (b *body) startWatch() {
	d := min(b.opt.IdleTimeout, b.rate.rest(b.opt))
	b.idle = d == b.opt.IdleTimeout
	if b.watch == nil {
		b.watch = time.AfterFunc(d, func() { b.ex.cancel(errWatch) })
		return
	}
	b.watch.Reset(d)
}

// Close ends the exchange. A small rest is read, so that the connection lives on.
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

// failed is the error for a body that broke.
func (b *body) failed(err error) error {
	switch watched := errors.Is(context.Cause(b.ex.ctx), errWatch); {
	case watched && b.idle:
		return b.temporary(fmt.Sprintf("no byte of the body came for %v", b.opt.IdleTimeout), nil)
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
	return b.temporary(fmt.Sprintf("the body comes too slowly: expected %d bytes a second, got %d in %v",
		b.opt.MinRate, b.rate.came, b.rate.waited.Round(time.Second)), nil)
}

func tooLarge(op string, u *url.URL, most int64, got string) *Error {
	return &Error{Op: op, URL: u.String(), Kind: TooLarge, Msg: fmt.Sprintf("expected at most %d bytes, got %s", most, got)}
}

// rateWindow counts the bytes that arrived during the time spent waiting for them.
type rateWindow struct {
	came   int64
	waited time.Duration
}

// add counts n bytes that arrived in d and reports whether that is fast enough.
func (w *rateWindow) add(n int, d time.Duration, o *Options) bool {
	w.came += int64(n)
	w.waited += d
	if w.waited < o.RateWindow || o.MinRate < 0 {
		return true
	}
	if w.came < w.least(o) {
		return false
	}
	*w = rateWindow{}
	return true
}

// rest is how long the next byte may take.
func (w *rateWindow) rest(o *Options) time.Duration {
	if o.MinRate < 0 || w.came >= w.least(o) {
		return math.MaxInt64
	}
	return o.RateWindow - w.waited
}

// least returns how many bytes have to arrive in a window.
func (w *rateWindow) least(o *Options) int64 {
	return int64(float64(o.MinRate) * o.RateWindow.Seconds())
}
