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
// again. [Client.Document] reads and fills the Cache; [Client.FreshDocument] only fills
// it. A Cache must be safe for concurrent use.
type Cache interface {
	// Load returns the cached document at a URI, or nil if there is none or the copy is
	// damaged. If Load returns an error, the request fails with this error.
	Load(ctx context.Context, uri string) (*Cached, error)
	// Store stores the document at a URI. If Store fails, it removes the earlier
	// document at that URI.
	Store(ctx context.Context, uri string, d *Cached)
}

// Cached is a document in a [Cache].
type Cached struct {
	URL        string      // URL of the document after redirects
	Header     http.Header // those header fields of the response that describe the document
	Validators Validators
	Length     int64 // length of Body in bytes

	// Final means that the Client returns the document without a request to its server.
	Final bool
	// Body contains the bytes of the document. The caller of Load must close it. Store
	// reads Body but must not close it.
	Body io.ReadCloser
}

// MaxCached is the largest document that is stored in a [Cache], in bytes.
const MaxCached = 4 << 20

var keptFields = []string{"Content-Type", "Link", "Cache-Control"}

// WithCache returns a copy of c that stores documents in the given cache.
func (c *Client) WithCache(cache Cache) *Client {
	with := *c
	with.cache = cache
	return &with
}

// HasCache reports whether the Client caches documents.
func (c *Client) HasCache() bool { return c.cache != nil }

// throughCache works like Get, but returns the cached document if that is still current.
func (c *Client) throughCache(ctx context.Context, r Request) (*Response, error) {
	kept, err := c.cache.Load(ctx, r.URL)
	if err != nil {
		return nil, err
	}
	if kept == nil {
		return c.getAndKeep(ctx, r)
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

// revalidate asks the server whether a cached document is still current. If the URL or
// the validators of a 304 response differ from those of the cached document, revalidate
// requests the document again without validators.
func (c *Client) revalidate(ctx context.Context, r Request, kept *Cached) (*Response, error) {
	r.Validators = kept.Validators
	resp, err := c.getAndKeep(ctx, r)
	if err != nil || resp.Status != http.StatusNotModified {
		_ = kept.Body.Close()
		return resp, err
	}
	_ = resp.Body.Close()
	if resp.URL != kept.URL || !kept.Validators.compatible(resp.Validators) {
		_ = kept.Body.Close()
		r.Validators = Validators{}
		again, err := c.getAndKeep(ctx, r)
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

// compatible reports whether both validators may belong to the same version of a document.
// The status 304 does not prove that: servers that compare only modification times send it
// even if their document is older than the cached document.
func (v Validators) compatible(other Validators) bool {
	weak := func(etag string) string { return strings.TrimPrefix(etag, "W/") }
	same := func(a, b string) bool { return a == "" || b == "" || a == b }
	return same(weak(v.ETag), weak(other.ETag)) && same(v.LastModified, other.LastModified)
}

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

// getAndKeep works like Get, but also stores a cacheable response in the cache.
func (c *Client) getAndKeep(ctx context.Context, r Request) (*Response, error) {
	resp, err := c.Get(ctx, r)
	if err == nil && resp.Status == http.StatusOK && resp.ContentLength <= MaxCached && !resp.Endless && cacheable(resp) {
		resp.Body = &cachingBody{ReadCloser: resp.Body, ctx: ctx, cache: c.cache, uri: r.URL, resp: resp}
	}
	return resp, err
}

// A document is cached only if its Last-Modified was at least minCachedAge before the
// response. A younger document may change again without a change of its Last-Modified or,
// on some servers, of its ETag.
const minCachedAge = 2 * time.Second

// cacheable reports whether a cache may store the response: HTTP must allow it, and the
// validators must differ after each change of the document.
func cacheable(resp *Response) bool {
	if strings.Contains(strings.ToLower(resp.Header.Get("Cache-Control")), "no-store") || resp.Header.Get("Content-Encoding") != "" {
		return false
	}
	v := resp.Validators
	modified, err := http.ParseTime(v.LastModified)
	if err != nil {
		return v.ETag != "" && v.LastModified == ""
	}
	date, err := http.ParseTime(resp.Header.Get("Date"))
	return err == nil && date.Sub(modified) >= minCachedAge
}

// A cachingBody copies the bytes that are read from a response body, and stores them in
// the cache when the whole body was read.
type cachingBody struct {
	io.ReadCloser
	ctx   context.Context
	cache Cache
	uri   string
	resp  *Response
	buf   bytes.Buffer
	over  bool // whether copying has ended, because the body is too long, broke off or was stored
}

func (k *cachingBody) Read(p []byte) (int, error) {
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

func (k *cachingBody) store() {
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
