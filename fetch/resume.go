package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// Resume says when the Client may request the rest of a body that broke off: only with
// proof that the rest belongs to the same version of the resource. The Client requests the
// rest up to MaxRetries times in a row, each time after the usual back-off.
type Resume uint8

// Values of Resume, with the required proof.
const (
	ResumeNever    Resume = iota // the rest of a body is never requested
	ResumeStrong                 // a strong ETag is required
	ResumeVerified               // a strong ETag or the same Last-Modified is required, and the caller checks a digest of the whole body
)

// Resumable returns the value of Part.IfRange with which the rest of the body can be
// requested. It returns "" if the response lacks the proof that the Resume requires.
func (resp *Response) Resumable(how Resume) string {
	if how == ResumeNever || resp.Status == http.StatusNotModified {
		return ""
	}
	if tag := resp.Validators.Strong(); tag != "" {
		return tag
	}
	if when := resp.Validators.LastModified; how == ResumeVerified && isTime(when) {
		return when
	}
	return ""
}

// After resetAfter bytes without a break, all retries are allowed again.
const resetAfter = 1 << 20

// resumed is a response body that requests its rest whenever it breaks off.
type resumed struct {
	ctx     context.Context // the context given to Get
	c       *Client
	req     Request
	version string // ETag or Last-Modified of the version from which all bytes must come
	coding  string // Content-Encoding of the first response; all offsets count encoded bytes
	total   int64  // length of the whole resource in bytes; -1 if unknown
	next    int64  // offset in the resource of the next byte to read
	end     int64  // offset in the resource after the last byte of the body; -1 if unknown
	left    int64  // largest number of bytes that the body may still have

	body  io.ReadCloser
	broke *Error // error with which the body broke off; nil while the body can be read
	err   error  // error that every further Read returns
	came  int64  // number of bytes read since the body last broke off
	tries int    // number of consecutive failed requests for the rest of the body
}

func newResumed(ctx context.Context, a *attempt, resp *Response, version string) *resumed {
	r := &resumed{
		ctx: ctx, c: a.c, req: a.req, version: version, body: resp.Body,
		coding: resp.Header.Get("Content-Encoding"), total: resp.Total,
		next: resp.Offset, end: -1, left: a.req.MaxBytes,
	}
	if resp.ContentLength >= 0 {
		r.end = resp.Offset + resp.ContentLength
	}
	return r
}

func (r *resumed) Read(p []byte) (int, error) {
	for r.err == nil {
		if r.broke != nil {
			if r.err = r.continueBody(); r.err != nil {
				break
			}
		}
		n, err := r.body.Read(p)
		r.next, r.left = r.next+int64(n), r.left-int64(n)
		if r.came += int64(n); r.came >= resetAfter {
			r.tries = 0
		}
		var fe *Error
		if !errors.As(err, &fe) || fe.Kind != Temporary {
			r.err = err
			return n, err
		}
		r.broke, r.came = fe, 0
		if n > 0 {
			return n, nil
		}
	}
	return 0, r.err
}

// continueBody requests the rest of the body. It retries until the rest arrives, no
// retries are left, or the error is permanent.
func (r *resumed) continueBody() error {
	part := &Part{From: r.next, IfRange: r.version}
	if r.end >= 0 {
		if part.Length = r.end - r.next; part.Length == 0 {
			return io.EOF
		}
	}
	if r.left == 0 {
		return r.broke
	}
	req := r.req
	req.Part, req.MaxBytes = part, r.left
	a, err := r.c.newAttempt(req)
	if err != nil {
		return err
	}
	a.tries = r.tries
	delay := r.c.opt.backOff(r.tries + 1)
	for r.tries < r.c.opt.MaxRetries {
		r.tries++
		if err := pause(r.ctx, delay); err != nil {
			return fmt.Errorf("read %q: %w", r.req.URL, err)
		}
		resp, err := a.sendOnce(r.ctx)
		if err == nil {
			return r.continueWith(resp)
		}
		var ok bool
		if delay, ok = r.c.opt.mayRetry(err); !ok {
			return r.restFailed(err)
		}
	}
	e := *r.broke
	e.Restart = false // the caller must not retry, because all retries were used
	return &e
}

// restFailed returns the error that Read returns if the request for the rest fails with
// err.
func (r *resumed) restFailed(err error) error {
	var fe *Error
	switch {
	case errors.As(err, &fe) && fe.Status == http.StatusRequestedRangeNotSatisfiable:
		return r.changed("the resource has become shorter")
	case errors.Is(err, TooLarge): // a server that has another version ignores the range and sends all bytes
		return r.changed("the server sent the resource from the first byte again, and more bytes than allowed")
	}
	return err
}

// continueWith makes Read continue with the body of a response. It closes the body and
// returns an error if the body is not the requested rest.
func (r *resumed) continueWith(resp *Response) error {
	why := ""
	switch {
	case resp.Status != http.StatusPartialContent:
		why = "the server sent the resource from the first byte again"
	case resp.Header.Get("Content-Encoding") != r.coding:
		why = "the rest of the body has another content coding"
	case r.total >= 0 && resp.Total >= 0 && resp.Total != r.total:
		why = fmt.Sprintf("the resource had %d bytes before, and has %d now", r.total, resp.Total)
	}
	if why != "" {
		_ = resp.Body.Close()
		return r.changed(why)
	}
	r.body, r.broke = resp.Body, nil
	return nil
}

func (r *resumed) changed(why string) error {
	return &Error{
		Op: "read", URL: r.req.URL, Kind: Temporary,
		Msg: fmt.Sprintf("the body broke off after %d bytes and cannot be continued: %s", r.next, why), Err: r.broke, Restart: true,
	}
}

func (r *resumed) Close() error {
	if r.err == nil {
		r.err = errors.New("read after Close")
	}
	return r.body.Close()
}
