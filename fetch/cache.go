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

// Cache stores documents between runs, so that unchanged documents are not transferred
// again. [Client.Document] reads and fills it, and [Client.FreshDocument] only fills
// it. A Cache is safe for concurrent use.
type Cache interface {
	// Load returns the cached document at a URI, or nil if there is none or it was
	// damaged after it was stored. If Load returns an error, so does the request.
	Load(ctx context.Context, uri string) (*Cached, error)
	// Store stores the document at a URI. If that fails, it removes the earlier
	// document at that URI.
	Store(ctx context.Context, uri string, d *Cached)
}

// Cached is a document in a [Cache].
type Cached struct {
	URL        string      // final URL of the document, after redirects
	Header     http.Header // header fields of the response that describe the document
	Validators Validators
	Length     int64 // length of Body in bytes

	// Final is set if the document may be used without asking its server whether it is
	// still current.
	Final bool
	// Body contains the bytes of the document. Whoever calls Load must close it. Store
	// reads it and must not close it.
	Body io.ReadCloser
}

// MaxCached is the largest document that is stored in a [Cache], in bytes.
const MaxCached = 4 << 20

// keptFields are the header fields that are cached with a document.
var keptFields = []string{"Content-Type", "Link", "Cache-Control"}

// WithCache returns a copy of c that caches documents in cache.
func (c *Client) WithCache(cache Cache) *Client {
	with := *c
	with.cache = cache
	return &with
}

// HasCache reports whether the Client caches documents.
func (c *Client) HasCache() bool { return c.cache != nil }

// throughCache does what Get does, except that it returns the cached document if that
// is still current.
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

// revalidate asks the server whether a cached document is still current. It accepts a
// 304 only if URL and validators of the response agree with the cached document.
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

// agree reports whether v and the validators of a 304 response may belong to the same
// version of a document. This is checked because a server that compares only
// modification times answers 304 even if its document is older than the cached one.
func (v Validators) agree(other Validators) bool {
	weak := func(etag string) string { return strings.TrimPrefix(etag, "W/") }
	same := func(a, b string) bool { return a == "" || b == "" || a == b }
	return same(weak(v.ETag), weak(other.ETag)) && same(v.LastModified, other.LastModified)
}

// response makes the Response that the server would have sent for a cached document.
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

// keep does what Get does, and lets the response be stored in the cache if that is
// allowed.
func (c *Client) keep(ctx context.Context, r Request) (*Response, error) {
	resp, err := c.Get(ctx, r)
	if err == nil && resp.Status == http.StatusOK && resp.ContentLength <= MaxCached && !resp.Endless && lasting(resp) {
		resp.Body = &keeping{ReadCloser: resp.Body, ctx: ctx, cache: c.cache, uri: r.URL, resp: resp}
	}
	return resp, err
}

// settled is the minimum age of a document, according to its Last-Modified at the time
// of the response, for which it is cached. A younger document may be written again with
// the same Last-Modified and, on some servers, the same ETag.
const settled = 2 * time.Second

// lasting reports whether a response may be cached: HTTP allows it, and its validators
// will be different when the document changes.
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

// keeping is a response body that is being read, and that is stored in the cache after
// it was read completely.
type keeping struct {
	io.ReadCloser
	ctx   context.Context
	cache Cache
	uri   string
	resp  *Response
	buf   bytes.Buffer
	over  bool // set if no more bytes are collected, because the document is too long or was stored
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
