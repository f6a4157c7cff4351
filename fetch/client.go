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
	maxHeader   = 64 << 10 // largest response header in bytes
	maxResource = 10 << 30 // largest response body in bytes, if the request sets no limit

	maxRedirects   = 5                // largest number of redirects that a request follows
	connectTimeout = 10 * time.Second // limit on the time to connect, and also on the time for the TLS handshake
	maxRetryAfter  = 24 * time.Hour   // largest value of Retry-After that is honoured; a larger value is reduced to this one
)

// MaxDocument is the default of Options.MaxDocument, in bytes.
const MaxDocument = 200 << 20

// LargerDocuments tells the user how to permit documents larger than MaxDocument.
const LargerDocuments = "raise the limit with --max-document, or with from.max_document in a configuration file"

// New returns a Client. It fails if an origin, an address or a credential in o is not
// valid.
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
	o.MaxWait = cmp.Or(o.MaxWait, 2*time.Minute)
	o.HeaderTimeout = cmp.Or(o.HeaderTimeout, 30*time.Second)
	o.IdleTimeout = cmp.Or(o.IdleTimeout, 60*time.Second)
	o.MaxBytes = cmp.Or(o.MaxBytes, maxResource)
	o.MaxDocument = cmp.Or(o.MaxDocument, MaxDocument)
	useSystem(&o)
	return o
}

// parseOrigin parses scheme://host[:port], which may end with a slash.
func parseOrigin(s string) (*url.URL, error) {
	u, err := Parse(s)
	if err != nil {
		return nil, err
	}
	if (u.Path != "" && u.Path != "/") || u.RawQuery != "" {
		return nil, fmt.Errorf("%q: expected only scheme://host[:port]", shorten(s))
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

// Document requests a ResourceSync document of at most limit bytes; 0 is
// Options.MaxDocument. If v is empty and the cache ([Client.WithCache]) has the document,
// the request has the validators of the cached document, or is not sent at all if the cached
// document is Final.
func (c *Client) Document(ctx context.Context, uri string, limit int64, v Validators) (*Response, error) {
	r := c.document(uri, limit)
	r.Validators = v
	if c.cache == nil || v != (Validators{}) {
		return withLimitHint(c.Get(ctx, r))
	}
	return withLimitHint(c.throughCache(ctx, r))
}

func withLimitHint(resp *Response, err error) (*Response, error) {
	var fe *Error
	if errors.As(err, &fe) && fe.Kind == TooLarge {
		fe.Hint = LargerDocuments
	}
	return resp, err
}

// FreshDocument requests a document as Document does, but bypasses the cache of the
// Client and, by Cache-Control, the caches of proxies. It stores the document in the
// cache of the Client.
func (c *Client) FreshDocument(ctx context.Context, uri string, limit int64) (*Response, error) {
	r := c.document(uri, limit)
	if r.Fresh = true; c.cache == nil {
		return withLimitHint(c.Get(ctx, r))
	}
	return withLimitHint(c.getAndKeep(ctx, r))
}

// MaxDocument returns the largest size of a document in bytes that the Options allow.
func (c *Client) MaxDocument() int64 { return c.opt.MaxDocument }

func (c *Client) document(uri string, limit int64) Request {
	return Request{URL: uri, Accept: "application/xml, text/xml;q=0.9, */*;q=0.1", MaxBytes: cmp.Or(limit, c.opt.MaxDocument)}
}

// Get requests a resource and returns when the response header has arrived. It follows
// redirects and retries as the Options allow. The status must be 200, 206 (if a part was
// requested) or 304 (if validators were sent); for any other status Get returns an
// *Error. If ctx is cancelled, the error wraps ctx.Err().
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
