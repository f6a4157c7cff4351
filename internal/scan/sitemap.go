package scan

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/url"
	"slices"
	"strings"
	"time"

	"instep/fetch"
	"instep/internal/spool"
	"instep/resourcesync"
)

const (
	maxDocuments = 50_001    // a full Sitemap index and its Sitemaps
	maxLevels    = 4         // lists that are named by lists; the Sitemap protocol and 1.1 §10.2 have one level
	maxListBytes = 100 << 20 // of one document, as it is transferred
)

// Sitemap lists the resources of a Sitemap or a Sitemap index, which may be
// compressed with gzip, and may be Resource Lists (1.1 §10).
type Sitemap struct {
	Client *fetch.Client
	// At is the URL of the document, or the name of a file. The documents that an
	// index at a URL names, and the resources, are of its origin.
	At           string
	AllowOrigins []string // further origins (scheme://host[:port])
	Open         func(name string) (io.ReadCloser, error)
	Spool        string // directory for temporary files; "" is the system's
}

// List is a Listing.
func (s Sitemap) List(ctx context.Context, since time.Time) iter.Seq2[Listed, error] {
	return func(yield func(Listed, error) bool) {
		r := listReader{ctx: ctx, client: s.Client, open: s.Open, spool: s.Spool, since: since, yield: yield, read: map[string]bool{}}
		if isURL(s.At) {
			u, err := fetch.Parse(s.At)
			if err == nil {
				err = s.Client.TrustSource(ctx, s.At)
			}
			if err != nil {
				yield(Listed{}, err)
				return
			}
			r.origins = append(slices.Clone(s.AllowOrigins), fetch.Origin(u))
		}
		r.document(s.At, 0)
	}
}

func isURL(s string) bool { return strings.Contains(s, "://") }

// listReader reads lists and the lists that they name.
type listReader struct {
	ctx     context.Context
	client  *fetch.Client
	open    func(name string) (io.ReadCloser, error)
	spool   string
	origins []string // nil: any
	dated   bool     // a list that does not say its moment is doubt
	since   time.Time
	oldest  time.Time // of the moments that the lists read so far say; an index may begin before its parts
	yield   func(Listed, error) bool
	read    map[string]bool
}

// lost yields that a part could not be read.
func (r *listReader) lost(err error) bool { return r.yield(Listed{}, err) && r.ctx.Err() == nil }

// document yields what the document at a place lists, whole or not at all, with the
// pages after it. It returns false when the consumer has had enough.
func (r *listReader) document(at string, level int) bool {
	for at != "" && !r.read[at] {
		if len(r.read) == maxDocuments {
			return r.lost(fmt.Errorf("%s: expected at most %d documents in all", at, maxDocuments))
		}
		r.read[at] = true
		next, more := r.one(at, level)
		if !more {
			return false
		}
		at = next
	}
	return true
}

// one yields what one document lists; next is the page after it.
func (r *listReader) one(at string, level int) (next string, more bool) {
	file := spool.NewFile(r.spool, maxListBytes)
	defer file.Close()
	base, err := r.load(at, file)
	if err != nil {
		return "", r.lost(err)
	}
	header, bad, err := examine(file)
	if err != nil {
		return "", r.lost(fmt.Errorf("%s: %w", at, err))
	}
	if err := r.judge(at, &header); err != nil {
		return "", r.lost(err)
	}
	r.oldest = earliest(r.oldest, header.At.Time())
	if bad > 0 && !r.lost(fmt.Errorf("%s: %d entries cannot be used", at, bad)) {
		return "", false
	}
	d := listDocument{reader: r, header: &header, base: base, level: level}
	if !d.entries(file) {
		return "", false
	}
	if next = header.Link("next"); next != "" {
		next = d.absolute(next)
		if err := r.allowed(next); err != nil {
			return "", r.lost(err)
		}
	}
	return next, true
}

// load reads the bytes of a document. base is nil if it is a file.
func (r *listReader) load(at string, to io.Writer) (base *url.URL, err error) {
	if !isURL(at) {
		return nil, loadFile(r.open, at, to)
	}
	resp, err := r.client.Document(r.ctx, at, maxListBytes, fetch.Validators{})
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(to, resp.Body); err != nil {
		return nil, fmt.Errorf("%s: %w", at, err)
	}
	return url.Parse(resp.URL)
}

// examine reads a document to its end: only then its header is known. bad is how
// many entries cannot be used.
func examine(file *spool.File) (header resourcesync.Header, bad int, err error) {
	dec := resourcesync.NewDecoder(file.Reader())
	for _, err := range dec.Entries() {
		switch {
		case errors.Is(err, resourcesync.BadEntry):
			bad++
		case err != nil:
			return header, bad, err
		}
	}
	header, err = dec.Header()
	return header, bad, err
}

// judge says why a document is not to be believed.
func (r *listReader) judge(at string, h *resourcesync.Header) error {
	switch {
	case h.Capability != "" && h.Capability != resourcesync.CapabilityResourceList:
		return fmt.Errorf("%s: expected a Sitemap or a Resource List, found a document of capability %q", at, h.Capability)
	case r.dated && h.Capability == "":
		return fmt.Errorf("%s: expected a Resource List, found a plain Sitemap", at)
	case h.At.IsZero() && r.dated:
		return fmt.Errorf("%s: it does not say its moment (at)", at)
	case !h.At.IsZero() && h.At.Time().Before(r.since):
		return fmt.Errorf("%s: it is of %s, older than the list of %s that was read before", at, h.At, r.since.Format(time.RFC3339Nano))
	}
	return nil
}

// earliest is the earlier of two moments; the zero one is none.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func (r *listReader) allowed(uri string) error {
	u, err := fetch.Parse(uri)
	if err != nil {
		return err
	}
	if origin := fetch.Origin(u); r.origins != nil && !slices.Contains(r.origins, origin) {
		return &OriginError{URI: uri, Origin: origin}
	}
	return nil
}

// OriginError: a list names a document or a resource of another origin.
type OriginError struct{ URI, Origin string }

func (e *OriginError) Error() string {
	return fmt.Sprintf("%s is of another origin than the list: allow %s if it belongs to the set", e.URI, e.Origin)
}

// listDocument is a document whose entries are being yielded.
type listDocument struct {
	reader *listReader
	header *resourcesync.Header
	base   *url.URL
	level  int
}

func (d *listDocument) entries(file *spool.File) bool {
	var parts []string
	for e, err := range resourcesync.NewDecoder(file.Reader()).Entries() {
		switch {
		case errors.Is(err, resourcesync.BadEntry):
			continue // told by examine
		case err != nil:
			return d.reader.lost(err)
		}
		uri := d.absolute(e.Loc)
		if d.header.Root == resourcesync.SitemapIndex || e.Capability == resourcesync.CapabilityResourceList {
			if parts = append(parts, uri); len(parts) > maxDocuments {
				return d.reader.lost(fmt.Errorf("%s: expected at most %d documents in all", uri, maxDocuments))
			}
			continue
		}
		if !d.resource(&e, uri) {
			return false
		}
	}
	for _, uri := range parts {
		if !d.part(uri) {
			return false
		}
	}
	return true
}

func (d *listDocument) part(uri string) bool {
	err := d.reader.allowed(uri)
	if err == nil && d.level+1 >= maxLevels {
		err = fmt.Errorf("%s: expected lists at most %d deep", uri, maxLevels)
	}
	if err != nil {
		return d.reader.lost(err)
	}
	return d.reader.document(uri, d.level+1)
}

func (d *listDocument) resource(e *resourcesync.Entry, uri string) bool {
	l := Listed{URI: uri, LastMod: e.LastMod, Length: e.Length, Digests: e.Digests, Type: e.Type, Encoding: e.Encoding,
		ChangeFreq: e.ChangeFreq, URL: uri, At: earliest(d.reader.oldest, d.header.At.Time())}
	return d.reader.yield(l, d.reader.allowed(uri))
}

// absolute returns a URI as it is written, unless it is relative to the document.
func (d *listDocument) absolute(loc string) string {
	u, err := url.Parse(loc)
	if d.base == nil || err != nil || u.IsAbs() || loc == "" {
		return loc
	}
	return d.base.ResolveReference(u).String()
}
