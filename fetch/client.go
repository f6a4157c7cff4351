package fetch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/time/rate"
)

const (
	maxHeader   = 64 << 10 // length limit of a response header
	maxResource = 10 << 30 // length limit of a body if the request sets none
)

// MaxDocument is the default of Options.MaxDocument (FAULTS §5).
const MaxDocument = 200 << 20

// LargerDocuments is the hint on how to read documents larger than MaxDocument.
const LargerDocuments = "--max-document raises the bound, in a configuration from.max_document"

// New returns a Client. It fails if an origin, an address or a credential in o is
// malformed or not allowed.
func New(o Options) (*Client, error) {
	c := &Client{opt: withDefaults(o), creds: map[string]http.Header{}, origin: map[string]bool{}, certified: map[string]*http.Transport{}}
	for _, s := range o.AllowOrigins {
		u, err := parseOrigin(s)
		if err != nil {
			return nil, fmt.Errorf("allowed origin: %w", err)
		}
		c.origin[Origin(u)] = true
	}
	for i := range o.Credentials {
		if err := c.addCredential(&o.Credentials[i]); err != nil {
			return nil, fmt.Errorf("credential: %w", err)
		}
	}
	var err error
	if c.policy, err = newAddressPolicy(o.AllowPrivate, o.PrivateHint); err != nil {
		return nil, err
	}
	c.hosts = newHosts(c.opt)
	if n := o.Bandwidth; n > 0 {
		c.bytes = rate.NewLimiter(rate.Limit(n), int(min(max(n/10, 1<<8), 1<<20)))
	}
	c.rt = c.transport()
	return c, nil
}

func withDefaults(o Options) Options {
	o.Version = cmp.Or(o.Version, "dev")
	o.UserAgent = cmp.Or(o.UserAgent, "instep/"+o.Version+" (+ResourceSync)")
	o.PerHost = cmp.Or(max(o.PerHost, 0), 4)
	o.Total = cmp.Or(max(o.Total, 0), 32)
	o.MaxRetries = cmp.Or(o.MaxRetries, 3)
	o.Backoff = cmp.Or(o.Backoff, 500*time.Millisecond)
	o.BackoffMax = cmp.Or(o.BackoffMax, 30*time.Second)
	o.RetryAfterMax = cmp.Or(o.RetryAfterMax, 24*time.Hour)
	o.MaxWait = cmp.Or(o.MaxWait, 2*time.Minute)
	o.ConnectTimeout = cmp.Or(o.ConnectTimeout, 10*time.Second)
	o.HeaderTimeout = cmp.Or(o.HeaderTimeout, 30*time.Second)
	o.IdleTimeout = cmp.Or(o.IdleTimeout, 60*time.Second)
	o.MinRate = cmp.Or(o.MinRate, 1<<10)
	o.RateWindow = cmp.Or(o.RateWindow, 60*time.Second)
	o.MaxRedirects = cmp.Or(o.MaxRedirects, 5)
	o.MaxBytes = cmp.Or(o.MaxBytes, maxResource)
	o.MaxDocument = cmp.Or(o.MaxDocument, MaxDocument)
	realWorld(&o)
	return o
}

// parseOrigin parses scheme://host[:port], optionally with a slash at the end.
func parseOrigin(s string) (*url.URL, error) {
	u, err := Parse(s)
	if err != nil {
		return nil, err
	}
	if (u.Path != "" && u.Path != "/") || u.RawQuery != "" {
		return nil, fmt.Errorf("%q: expected scheme://host[:port] only", shorten(s))
	}
	return u, nil
}

// Now returns the time of the client's clock.
func (c *Client) Now() time.Time { return c.opt.Now() }

// Close closes idle connections.
func (c *Client) Close() {
	c.rt.CloseIdleConnections()
	for _, t := range c.certified {
		t.CloseIdleConnections()
	}
}

// Document requests a ResourceSync document: it is Get with the media types of
// documents and, if limit is 0, the bound Options.MaxDocument on the transferred bytes.
// If v is empty and the document is cached ([Client.WithCache]), it sends the cached
// validators, or returns the cached copy without a request if that is Final.
func (c *Client) Document(ctx context.Context, uri string, limit int64, v Validators) (*Response, error) {
	r := c.document(uri, limit)
	r.Validators = v
	if c.cache == nil || v != (Validators{}) {
		return bounded(c.Get(ctx, r))
	}
	return bounded(c.throughCache(ctx, r))
}

// bounded adds a hint on how to raise the limit to the error about a document that is
// too large.
func bounded(resp *Response, err error) (*Response, error) {
	var fe *Error
	if errors.As(err, &fe) && fe.Kind == TooLarge {
		fe.Hint = LargerDocuments
	}
	return resp, err
}

// FreshDocument is Document without caches: proxies that honour Cache-Control: no-cache
// are bypassed, and the Client's cache is not read, but stores the response.
func (c *Client) FreshDocument(ctx context.Context, uri string, limit int64) (*Response, error) {
	r := c.document(uri, limit)
	if r.Fresh = true; c.cache == nil {
		return bounded(c.Get(ctx, r))
	}
	return bounded(c.keep(ctx, r))
}

// MaxDocument returns the largest allowed size of a document in bytes.
func (c *Client) MaxDocument() int64 { return c.opt.MaxDocument }

func (c *Client) document(uri string, limit int64) Request {
	return Request{URL: uri, Accept: "application/xml, text/xml;q=0.9, */*;q=0.1", MaxBytes: cmp.Or(limit, c.opt.MaxDocument)}
}

// Get requests a resource and returns when the header of the response has arrived. It
// follows redirects and retries as the Options allow. Any status is an *Error, except
// 200, 206 if a part was requested, and 304 if validators were sent. If ctx is done,
// its error is wrapped.
func (c *Client) Get(ctx context.Context, r Request) (*Response, error) {
	a, err := c.newAttempt(r)
	if err != nil {
		return nil, err
	}
	resp, err := a.withRetries(ctx)
	if err != nil {
		if cause := ctx.Err(); cause != nil && !errors.Is(err, cause) {
			err = fmt.Errorf("get %q: %w", r.URL, cause)
		}
		var fe *Error
		if errors.As(err, &fe) {
			fe.Requests = a.sent
		}
		return nil, err
	}
	resp.Requests = a.sent
	if version := resp.Resumable(r.Resume); version != "" {
		resp.Body = newResumed(ctx, a, resp, version)
	}
	return resp, nil
}
