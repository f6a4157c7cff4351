package fetch

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Cache keeps documents from one run to the next, so that what has not changed is not
// transferred again. Only [Client.Document] uses it. It is safe for concurrent use.
type Cache interface {
	// Load returns what is kept of the document at a URI, or nil. Its bytes are those
	// that were stored: what is damaged counts as not kept. An error ends the request.
	Load(ctx context.Context, uri string) (*Cached, error)
	// Store keeps a document in place of what was kept of it. A cache that cannot, or
	// has no room, keeps nothing of it.
	Store(ctx context.Context, uri string, d *Cached)
}

// Cached is a document as a [Cache] keeps it.
type Cached struct {
	URL        string      // where it came from, after redirects
	Header     http.Header // the fields of its answer that say something of it
	Validators Validators
	Length     int64 // of Body, in bytes

	// Final says that no server is asked whether the document has changed.
	Final bool
	// Body is the document. The caller of Load closes it; Store only reads it.
	Body io.ReadCloser
}

// MaxCached is the longest document that is given to a [Cache], in bytes.
const MaxCached = 4 << 20

// keptFields are those of an answer that are kept with a document.
var keptFields = []string{"Content-Type", "Link", "Cache-Control"}

// WithCache returns a Client that is c in everything but that it keeps documents in
// cache.
func (c *Client) WithCache(cache Cache) *Client {
	with := *c
	with.cache = cache
	return &with
}

// HasCache reports whether the Client keeps documents.
func (c *Client) HasCache() bool { return c.cache != nil }

// throughCache is Get for a document that may be kept.
func (c *Client) throughCache(ctx context.Context, r Request) (*Response, error) {
	kept, err := c.cache.Load(ctx, r.URL)
	if err != nil {
		return nil, err
	}
	if kept == nil {
		return c.keep(ctx, r)
	}
	if kept.Length > r.MaxBytes {
		_ = kept.Body.Close()
		return nil, &Error{Op: "get", URL: r.URL, Kind: TooLarge, Msg: fmt.Sprintf("expected at most %d bytes, got %d", r.MaxBytes, kept.Length)}
	}
	if kept.Final {
		return kept.response(), nil
	}
	return c.revalidate(ctx, r, kept)
}

// revalidate asks whether a document is still as it was kept. An answer that it is
// counts only if it is about the same version at the same place.
func (c *Client) revalidate(ctx context.Context, r Request, kept *Cached) (*Response, error) {
	r.Validators = kept.Validators
	resp, err := c.keep(ctx, r)
	if err != nil || resp.Status != http.StatusNotModified {
		_ = kept.Body.Close()
		return resp, err
	}
	_ = resp.Body.Close()
	if resp.URL != kept.URL || !kept.Validators.agree(resp.Validators) {
		_ = kept.Body.Close()
		r.Validators = Validators{}
		again, err := c.keep(ctx, r)
		if err == nil {
			again.Requests += resp.Requests
		}
		return again, err
	}
	same := kept.response()
	for name, values := range resp.Header {
		same.Header[name] = values
	}
	same.Requests = resp.Requests
	return same, nil
}

// agree reports whether what a 304 says of its version is not another one than v. A
// server that only looks whether something was modified since answers 304 for anything
// that is older than what is kept.
func (v Validators) agree(other Validators) bool {
	weak := func(etag string) string { return strings.TrimPrefix(etag, "W/") }
	same := func(a, b string) bool { return a == "" || b == "" || a == b }
	return same(weak(v.ETag), weak(other.ETag)) && same(v.LastModified, other.LastModified)
}

// response answers with what is kept.
func (d *Cached) response() *Response {
	h := d.Header.Clone()
	if h == nil {
		h = http.Header{}
	}
	return &Response{
		URL: d.URL, Status: http.StatusOK, Header: h, ContentType: h.Get("Content-Type"),
		ContentLength: d.Length, Total: d.Length, Validators: d.Validators, Body: d.Body, Unchanged: true,
	}
}

// keep is Get that gives the cache what it may keep of the answer.
func (c *Client) keep(ctx context.Context, r Request) (*Response, error) {
	resp, err := c.Get(ctx, r)
	if err == nil && resp.Status == http.StatusOK && resp.ContentLength <= MaxCached && !resp.Endless && lasting(resp) {
		resp.Body = &keeping{ReadCloser: resp.Body, ctx: ctx, cache: c.cache, uri: r.URL, resp: resp}
	}
	return resp, err
}

// settled is how long before an answer a document has to be modified: what is
// written later may have the same time and, with some servers, the same ETag.
const settled = 2 * time.Second

// lasting reports whether an answer may be kept, and a later version of it would have
// other validators.
func lasting(resp *Response) bool {
	if strings.Contains(strings.ToLower(resp.Header.Get("Cache-Control")), "no-store") || resp.Header.Get("Content-Encoding") != "" {
		return false
	}
	v := resp.Validators
	modified, err := http.ParseTime(v.LastModified)
	if err != nil {
		return v.ETag != "" && v.LastModified == ""
	}
	date, err := http.ParseTime(resp.Header.Get("Date"))
	return err == nil && date.Sub(modified) >= settled
}

// keeping is the body of an answer that goes into a cache once it was read to its end.
type keeping struct {
	io.ReadCloser
	ctx   context.Context
	cache Cache
	uri   string
	resp  *Response
	buf   bytes.Buffer
	over  bool // too long to be kept, or done
}

func (k *keeping) Read(p []byte) (int, error) {
	n, err := k.ReadCloser.Read(p)
	switch {
	case k.over:
	case k.buf.Len()+n > MaxCached, err != nil && err != io.EOF:
		k.over, k.buf = true, bytes.Buffer{}
	default:
		k.buf.Write(p[:n])
		if err == io.EOF {
			k.over = true
			k.store()
		}
	}
	return n, err
}

func (k *keeping) store() {
	h := http.Header{}
	for _, name := range keptFields {
		if values := k.resp.Header.Values(name); len(values) > 0 {
			h[name] = values
		}
	}
	k.cache.Store(k.ctx, k.uri, &Cached{
		URL: k.resp.URL, Header: h, Validators: k.resp.Validators, Length: int64(k.buf.Len()),
		Body: io.NopCloser(bytes.NewReader(k.buf.Bytes())),
	})
	k.buf = bytes.Buffer{}
}
