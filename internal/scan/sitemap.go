package scan

import (
	"context"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"time"

	"instep/document"
	"instep/fetch"
	"instep/resourcesync"
)

const (
	maxDocuments = 50_001 // the largest number of documents that are read: a full Sitemap index and its Sitemaps
	maxLevels    = 4      // the largest depth of lists that link to further lists; the Sitemap protocol and 1.1 §10.2 allow one level of indexes
)

// Sitemap is a listing of the resources in a Sitemap or Sitemap index, which may be
// compressed with gzip and may be a Resource List (1.1 §10).
type Sitemap struct {
	Client *fetch.Client
	// At is the URL of the Sitemap, or the name of its file. If At is a URL, all resources,
	// and all documents that an index links to, must have the same origin as that URL.
	At           string
	AllowOrigins []string // further allowed origins (scheme://host[:port])
	Open         func(name string) (io.ReadCloser, error)
	Spool        string // the directory for temporary files; "" means the directory of the operating system
}

// List implements Listing.
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

// listReader reads lists of resources, and the further lists to which these link.
type listReader struct {
	ctx     context.Context
	client  *fetch.Client
	open    func(name string) (io.ReadCloser, error)
	spool   string
	origins []string // the allowed origins of documents and resources; nil allows any origin
	dated   bool     // whether each list must have the "at" attribute; without it, the listing counts as incomplete
	since   time.Time
	oldest  time.Time // the earliest "at" time of the lists read so far, because an index and its parts may have different times
	yield   func(Listed, error) bool
	read    map[string]bool
}

func (r *listReader) yieldLost(err error) bool { return r.yield(Listed{}, err) && r.ctx.Err() == nil }

// document yields the entries of a document and of its next pages. It yields either all
// entries of a page or none. It returns false if the consumer has stopped.
func (r *listReader) document(at string, level int) bool {
	for at != "" && !r.read[at] {
		if len(r.read) == maxDocuments {
			return r.yieldLost(fmt.Errorf("%s: expected at most %d documents in all", at, maxDocuments))
		}
		r.read[at] = true
		next, more := r.readDocument(at, level)
		if !more {
			return false
		}
		at = next
	}
	return true
}

func (r *listReader) readDocument(at string, level int) (next string, more bool) {
	from := document.Fetcher(r.client)
	if !isURL(at) {
		from = document.Opener(func(_ context.Context, name string) (io.ReadCloser, error) { return r.open(name) })
	}
	doc, err := (&document.Reader{From: from, Limit: r.maxDocumentSize(), Spool: r.spool}).Read(r.ctx, at)
	if err != nil {
		return "", r.yieldLost(err)
	}
	defer doc.Close()
	if err := r.checkList(at, &doc.Header); err != nil {
		return "", r.yieldLost(err)
	}
	r.oldest = earliest(r.oldest, doc.Header.At.Time())
	if doc.Bad > 0 && !r.yieldLost(fmt.Errorf("%s: %d entries cannot be used", at, doc.Bad)) {
		return "", false
	}
	if !r.entries(doc, level) {
		return "", false
	}
	if next = doc.Header.Link("next"); next != "" {
		next = doc.Absolute(next)
		if err := r.allowed(next); err != nil {
			return "", r.yieldLost(err)
		}
	}
	return next, true
}

// maxDocumentSize returns the largest permitted size of a document in bytes; 0 means the
// default of package document.
func (r *listReader) maxDocumentSize() int64 {
	if r.client == nil {
		return 0
	}
	return r.client.MaxDocument()
}

func (r *listReader) checkList(at string, h *resourcesync.Header) error {
	switch {
	case h.Capability != "" && h.Capability != resourcesync.CapabilityResourceList:
		return fmt.Errorf("%s: expected a Sitemap or a Resource List, found a document of capability %q", at, h.Capability)
	case r.dated && h.Capability == "":
		return fmt.Errorf("%s: expected a Resource List, found a plain Sitemap", at)
	case h.At.IsZero() && r.dated:
		return fmt.Errorf("%s: expected an \"at\" attribute in the Resource List, found none", at)
	case !h.At.IsZero() && h.At.Time().Before(r.since):
		return fmt.Errorf("%s: the list of %s is older than the list of %s that an earlier scan read", at, h.At, r.since.Format(time.RFC3339Nano))
	}
	return nil
}

// earliest returns the earlier of two times. A zero time does not count.
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

// OriginError reports that a list links to a document or a resource whose origin is not
// allowed.
type OriginError struct{ URI, Origin string }

func (e *OriginError) Error() string {
	return fmt.Sprintf("%s has another origin than the list: allow the origin %s if the resource belongs to the set", e.URI, e.Origin)
}

// entries yields the entries of a document, and then the entries of the lists to which the
// document links.
func (r *listReader) entries(d *document.Document, level int) bool {
	var parts []string
	for e, err := range d.Entries() {
		switch {
		case err != nil:
			return r.yieldLost(err)
		case d.Header.Root == resourcesync.SitemapIndex || e.Capability == resourcesync.CapabilityResourceList:
			if parts = append(parts, e.Loc); len(parts) > maxDocuments {
				return r.yieldLost(fmt.Errorf("%s: expected at most %d documents in all", e.Loc, maxDocuments))
			}
		case !r.resource(d, &e):
			return false
		}
	}
	for _, uri := range parts {
		if !r.part(uri, level+1) {
			return false
		}
	}
	return true
}

func (r *listReader) part(uri string, level int) bool {
	err := r.allowed(uri)
	if err == nil && level >= maxLevels {
		err = fmt.Errorf("%s: expected lists at most %d deep", uri, maxLevels)
	}
	if err != nil {
		return r.yieldLost(err)
	}
	return r.document(uri, level)
}

func (r *listReader) resource(d *document.Document, e *resourcesync.Entry) bool {
	l := Listed{URI: e.Loc, LastMod: e.LastMod, Length: e.Length, Digests: e.Digests, Type: e.Type, Encoding: e.Encoding,
		ChangeFreq: e.ChangeFreq, URL: e.Loc, At: earliest(r.oldest, d.Header.At.Time())}
	return r.yield(l, r.allowed(e.Loc))
}
