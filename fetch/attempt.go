package fetch

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/url"
	"syscall"
	"time"
)

type attempt struct {
	c     *Client
	req   Request
	start *url.URL
	span  string // value of the Range header field; "" if the whole resource is requested
	tries int
	sent  int
}

func (c *Client) newAttempt(r Request) (*attempt, error) {
	u, err := Parse(r.URL)
	if err != nil {
		return nil, err
	}
	a := &attempt{c: c, req: r, start: u}
	if a.req.MaxBytes <= 0 {
		a.req.MaxBytes = c.opt.MaxBytes
	}
	if r.Part != nil {
		if a.span, err = r.Part.header(r.Resume); err != nil {
			return nil, &Error{Op: "get", URL: u.String(), Kind: Refused, Msg: err.Error()}
		}
	}
	return a, nil
}

// sendOnce follows redirects, but does not retry.
func (a *attempt) sendOnce(ctx context.Context) (*Response, error) {
	a.tries++
	u := a.start
	var redirects []int
	for hops := 0; ; hops++ {
		ex, err := a.send(ctx, u)
		if err != nil {
			return nil, err
		}
		if !isRedirect(ex.resp.StatusCode) {
			resp, err := a.answer(ex)
			if err == nil {
				resp.Redirects = redirects
			}
			return resp, err
		}
		redirects = append(redirects, ex.resp.StatusCode)
		next, err := a.redirect(ex, hops)
		ex.discard()
		if err != nil {
			return nil, err
		}
		u = next
	}
}

// An exchange is one HTTP request with its response. Until the exchange is closed, it
// takes one of the slots for concurrent requests to its host.
type exchange struct {
	url     *url.URL
	resp    *http.Response
	ctx     context.Context
	cancel  context.CancelCauseFunc
	release func()
	host    *host
	sent    time.Time
}

// drain reads the rest of a body of which n bytes were read, so that the connection can be
// reused. It does nothing if more than maxDrain bytes remain, and gives up after drainTime.
func (ex *exchange) drain(n int64) {
	if ex.resp.ContentLength-n > maxDrain {
		return
	}
	watch := time.AfterFunc(drainTime, func() { ex.cancel(nil) })
	_, _ = io.CopyN(io.Discard, ex.resp.Body, maxDrain+1)
	watch.Stop()
}

func (ex *exchange) close() {
	_ = ex.resp.Body.Close()
	ex.cancel(nil)
	ex.release()
}

func (ex *exchange) discard() {
	ex.drain(0)
	ex.close()
}

func (a *attempt) send(ctx context.Context, u *url.URL) (*exchange, error) {
	c := a.c
	if err := c.policy.checkURL(u); err != nil {
		return nil, err
	}
	origin := Origin(u)
	h := c.hosts.get(origin)
	release, err := h.acquire(ctx, u)
	if err != nil {
		return nil, err
	}
	own, cancel := context.WithCancelCause(ctx)
	begin := c.opt.Now()
	a.sent++
	resp, err := c.roundTripper(origin).RoundTrip(a.newRequest(own, u, origin)) // the transport limits the time until the header is complete, and type body the time after it
	if c.opt.Observe != nil {
		ev := Event{URL: u.String(), Err: err, Took: c.opt.Now().Sub(begin)}
		if resp != nil {
			ev.Status = resp.StatusCode
		}
		c.opt.Observe(ev)
	}
	if err != nil {
		cancel(nil)
		release()
		err = a.noAnswer(ctx, u, err)
		if errors.Is(err, Temporary) {
			h.answered(false)
		}
		return nil, err
	}
	h.answered(true)
	return &exchange{u, resp, own, cancel, release, h, begin}, nil
}

func (a *attempt) newRequest(ctx context.Context, u *url.URL, origin string) *http.Request {
	h := http.Header{}
	set := func(name, value string) {
		if value != "" {
			h[name] = []string{value}
		}
	}
	set("User-Agent", a.c.opt.UserAgent)
	set("Accept", cmp.Or(a.req.Accept, "*/*"))
	set("If-None-Match", a.req.Validators.ETag)
	set("If-Modified-Since", a.req.Validators.LastModified)
	if t := a.req.Datetime; !t.IsZero() {
		set("Accept-Datetime", t.UTC().Format(http.TimeFormat))
	}
	set("Accept-Encoding", "identity")
	if a.req.Gzip {
		set("Accept-Encoding", "gzip")
	}
	if a.req.Fresh {
		set("Cache-Control", "no-cache")
	}
	if p := a.req.Part; p != nil {
		set("Range", a.span)
		set("If-Range", p.IfRange)
	}
	maps.Copy(h, a.c.creds[origin])
	r := &http.Request{Method: http.MethodGet, URL: u, Header: h, Host: u.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
	return r.WithContext(ctx)
}

func (a *attempt) answer(ex *exchange) (*Response, error) {
	resp := ex.resp
	has, err := a.checkRange(ex)
	if err == nil {
		ex.host.slots.grow()
	}
	if err == nil && has.length > a.req.MaxBytes {
		err = tooLarge("get", ex.url, a.req.MaxBytes, fmt.Sprintf("%d", has.length))
	}
	if err != nil {
		ex.discard()
		return nil, err
	}
	return &Response{
		URL:           ex.url.String(),
		Status:        resp.StatusCode,
		Header:        resp.Header,
		ContentType:   resp.Header.Get("Content-Type"),
		ContentLength: has.length,
		Validators:    Validators{resp.Header.Get("Etag"), resp.Header.Get("Last-Modified")},
		Offset:        has.first,
		Total:         has.total,
		Endless:       !isFramed(resp, has.length),
		Body:          newBody(a.c, ex, a.req.MaxBytes, has.length),
	}, nil
}

// checkRange returns the range of bytes in the body of a response. It returns an error if
// the response does not have the status or the range that the request asked for.
func (a *attempt) checkRange(ex *exchange) (byteRange, error) {
	resp := ex.resp
	switch {
	case resp.StatusCode == http.StatusOK,
		resp.StatusCode == http.StatusNotModified && a.req.Validators != Validators{}:
		return wholeRange(resp), nil
	case resp.StatusCode == http.StatusPartialContent && a.req.Part != nil:
		has, err := a.req.Part.check(resp)
		if err != nil {
			return has, &Error{Op: "get", URL: ex.url.String(), Kind: Protocol, Status: resp.StatusCode, Msg: err.Error(), Hint: "the answers of the server to range requests cannot be used"}
		}
		return has, nil
	}
	return byteRange{}, a.refusal(ex)
}

func (a *attempt) refusal(ex *exchange) *Error {
	resp := ex.resp
	e := &Error{Op: "get", URL: ex.url.String(), Kind: Protocol, Status: resp.StatusCode}
	e.Msg = "expected 200, got " + status(resp.StatusCode)
	if a.req.Part != nil {
		e.Msg = "expected 206 or 200, got " + status(resp.StatusCode)
	}
	page := isPage(resp.Header)
	if page && (resp.StatusCode == http.StatusForbidden || resp.StatusCode == http.StatusServiceUnavailable) {
		e.Msg += ": the server sent an HTML page instead of the resource"
	}
	switch code := resp.StatusCode; code {
	case http.StatusNotFound, http.StatusGone:
		e.Kind = NotFound
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired, http.StatusUnavailableForLegalReasons:
		e.Kind = Denied
		origin := Origin(ex.url)
		e.Authorized = len(a.c.creds[origin]) > 0 || a.c.certified[origin] != nil
		if page && code == http.StatusForbidden {
			e.Hint = "the site may block programs; ask its operator to allow this one"
		} else {
			e.Hint = "credentials for this origin may be missing or wrong"
		}
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		e.Kind = Temporary
		e = a.retryLater(e, resp.Header)
		if code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable {
			ex.host.slots.shrink(ex.sent, a.c.opt.Now())
		}
		ex.host.freeze(e.delay)
	case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
	default:
		if code >= 500 {
			e.Kind = Temporary
			e.Hint = "the server reports an internal error, which its operator has to repair"
		}
	}
	return e
}

// noAnswer returns the error for a request without a response.
func (a *attempt) noAnswer(ctx context.Context, u *url.URL, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("get %q: %w", u, ctx.Err())
	}
	var fe *Error
	if errors.As(err, &fe) {
		e := *fe // the error comes from the address policy, which does not know the URL
		e.Op, e.URL = "get", u.String()
		return &e
	}
	e := &Error{Op: "get", URL: u.String(), Kind: Temporary, Msg: "no answer", Err: err}
	var dns *net.DNSError
	var cert *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var op *net.OpError
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		e.Msg, e.Hint = "the host name does not exist", "check the spelling of the host name"
	case errors.As(err, &cert):
		e.Kind, e.Msg, e.Hint = Refused, "the host's certificate is not trusted", "no flag turns this check off; add the CA of the host"
	case errors.As(err, &record) && string(record.RecordHeader[:]) == "HTTP/":
		e.Kind, e.Msg, e.Hint = Protocol, "expected TLS, but the host answers http at this port", "begin the URL with http://"+u.Host
	case errors.As(err, &record):
		e.Kind, e.Msg, e.Hint = Protocol, "expected TLS", "the host may support only http"
	case errors.As(err, &op) && op.Op == "remote error": // crypto/tls calls a TLS alert from the server a remote error
		e.Kind, e.Msg, e.Hint = Protocol, "the host refused the TLS connection", "the host may require a client certificate, or not support TLS 1.2"
	default:
		e.Msg = failureMessage(err)
		return a.retryLater(e, nil)
	}
	return e
}

func failureMessage(err error) string {
	ne, ok := errors.AsType[net.Error](err)
	switch {
	case ok && ne.Timeout():
		return "no response in time"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
		return "the host closed the connection without a response"
	case ok:
		return "no answer"
	}
	return "the response cannot be used"
}

func isPage(h http.Header) bool {
	t, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	return err == nil && (t == "text/html" || t == "application/xhtml+xml")
}

func status(code int) string {
	if t := http.StatusText(code); t != "" {
		return fmt.Sprintf("%d %s", code, t)
	}
	return fmt.Sprint(code)
}
