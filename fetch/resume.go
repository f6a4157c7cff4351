package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// Resume selects the proof by which a body that breaks off is continued: the rest is
// requested up to MaxRetries times in a row, after the usual back-off. Bytes of two
// versions are never joined knowingly.
type Resume uint8

// The proofs that the rest belongs to the bytes before it.
const (
	ResumeNever    Resume = iota // a body that breaks off ends with an error
	ResumeStrong                 // a strong ETag
	ResumeVerified               // or the same Last-Modified: the caller checks a digest of the whole body
)

// Resumable returns the Part.IfRange that requests the rest of resp with the proof how; ""
// if nothing proves that the rest belongs to the same version.
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

// progress is the number of bytes after which the count of tries starts again.
const progress = 1 << 20

// resumed is a body that is continued by further requests when it breaks off.
type resumed struct {
	ctx     context.Context // of the Get
	c       *Client
	req     Request
	version string // the validator of this version of the bytes
	coding  string // Content-Encoding of the first answer; positions and lengths count bytes in this coding
	total   int64  // length of the whole resource; -1: unknown
	next    int64  // position of the next byte in the resource
	end     int64  // offset after the last byte; -1: unknown
	left    int64  // bytes allowed yet

	body  io.ReadCloser
	broke *Error // the reason why body ended early; reported if it cannot continue
	err   error  // the error of every further Read
	came  int64  // bytes since the last break
	tries int    // failed in a row
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

// Read reads on, asking for the rest where the body broke off.
func (r *resumed) Read(p []byte) (int, error) {
	for r.err == nil {
		if r.broke != nil {
			if r.err = r.goOn(); r.err != nil {
				break
			}
		}
		n, err := r.body.Read(p)
		r.next, r.left = r.next+int64(n), r.left-int64(n)
		if r.came += int64(n); r.came >= progress {
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

// goOn requests the rest until it arrives or trying again is useless.
func (r *resumed) goOn() error {
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
		resp, err := a.once(r.ctx)
		if err == nil {
			return r.join(resp)
		}
		var fe *Error
		if !errors.As(err, &fe) || !fe.retry || fe.delay > r.c.opt.MaxWait {
			return r.gaveUp(err)
		}
		delay = fe.delay
	}
	e := *r.broke
	e.Restart = false // the number of tries is used up
	return &e
}

// gaveUp is the error for a rest that cannot be had.
func (r *resumed) gaveUp(err error) error {
	var fe *Error
	switch {
	case errors.As(err, &fe) && fe.Status == http.StatusRequestedRangeNotSatisfiable:
		return r.changed("the resource ends before that now")
	case errors.Is(err, TooLarge): // a server that has another version sends all of it
		return r.changed("the server began anew, with more bytes than were left")
	}
	return err
}

// join continues with an answer if it holds the rest.
func (r *resumed) join(resp *Response) error {
	why := ""
	switch {
	case resp.Status != http.StatusPartialContent:
		why = "the server began anew"
	case resp.Header.Get("Content-Encoding") != r.coding:
		why = "the rest is in another content coding"
	case r.total >= 0 && resp.Total >= 0 && resp.Total != r.total:
		why = fmt.Sprintf("expected a resource of %d bytes, got a part of one of %d", r.total, resp.Total)
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
		Msg: fmt.Sprintf("the body broke off after %d bytes and cannot go on: %s", r.next, why), Err: r.broke, Restart: true,
	}
}

// Close ends the exchange that is open.
func (r *resumed) Close() error {
	if r.err == nil {
		r.err = errors.New("read after Close")
	}
	return r.body.Close()
}
