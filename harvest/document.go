package harvest

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/url"
	"slices"
	"time"

	"instep/document"
	"instep/evidence"
	"instep/fetch"
	"instep/internal/spool"
	"instep/resourcesync"
)

// Document is a document of the Source that was read to its end tag, with the facts
// that are needed before its entries take effect.
type Document struct {
	*document.Document
	lists  bool                     // some entries name documents of the same capability, as in an index
	last   map[resourcesync.Key]int // for a Resource List: the number of the entry that counts for each resource that has several
	maxAge time.Duration            // how long the response may be cached
	count  int                      // number of usable entries
	after  []*Document              // for a Change List: the documents of its further pages
}

// Close removes the temporary files of the document and of its pages.
func (doc *Document) Close() {
	doc.Document.Close()
	for _, page := range doc.after {
		page.Close()
	}
}

// Read fetches the document at uri, which must have the wanted capability.
func (r *Reader) Read(ctx context.Context, uri string, want resourcesync.Capability) (*Document, error) {
	resp, err := r.Client.Document(ctx, uri, 0, fetch.Validators{})
	if err != nil {
		return r.largePackage(ctx, uri, want, &SourceError{err})
	}
	return r.readResponse(ctx, uri, want, resp)
}

// readFresh is like Read, but each cache on the way must ask the Source whether its
// copy is current.
func (r *Reader) readFresh(ctx context.Context, uri string, want resourcesync.Capability) (*Document, error) {
	resp, err := r.Client.FreshDocument(ctx, uri, 0)
	if err != nil {
		return nil, &SourceError{err}
	}
	return r.readResponse(ctx, uri, want, resp)
}

// readResponse reads a document from a response. If the response is a package, it
// returns a generated dump with that package as its only entry.
func (r *Reader) readResponse(ctx context.Context, uri string, want resourcesync.Capability, resp *fetch.Response) (*Document, error) {
	body := resp.Body
	defer body.Close()
	text := bufio.NewReaderSize(SourceReader{uri, body}, 64<<10)
	if manifestOf[want] != "" && isPackage(text) {
		_ = body.Close() // closed first, because onePackage requests the package again, whole or in parts
		return r.onePackage(ctx, uri, want, resp)
	}
	resp.Body = io.NopCloser(text)
	doc, err := r.decode(uri, resp, want)
	var bad *document.Error
	switch {
	case !errors.As(err, &bad):
		return doc, err
	case bad.Transfer != nil:
		return nil, fmt.Errorf("reading a document: %w", bad.Transfer)
	case bad.Page() != nil: // not a DocumentError, because a later request may return the document instead of this HTML page
		return nil, &SourceError{bad.Page()}
	}
	return nil, unusable(bad)
}

func unusable(bad *document.Error) error {
	return &DocumentError{URI: bad.URI, Reason: "cannot be used", Err: bad.Err}
}

// Keep reads a document from body, such as a manifest in a package. The document must
// have one of the wanted capabilities.
func (r *Reader) Keep(uri string, base *url.URL, body io.Reader, want ...resourcesync.Capability) (*Document, error) {
	doc, err := r.decode(uri, &fetch.Response{URL: base.String(), Body: io.NopCloser(body)}, want...)
	var bad *document.Error
	if !errors.As(err, &bad) {
		return doc, err
	}
	if bad.Transfer == nil {
		_, bad.Transfer = io.Copy(io.Discard, body) // the document is incomplete if the rest of the body cannot be read
	}
	if bad.Transfer != nil {
		return nil, bad.Transfer
	}
	return nil, unusable(bad)
}

// decode returns a *document.Error unchanged; the callers turn it into an error of the
// Source.
func (r *Reader) decode(uri string, resp *fetch.Response, want ...resourcesync.Capability) (_ *Document, err error) {
	var tally resourcesync.NoteTally
	doc := &Document{maxAge: resp.MaxAge()}
	named := spool.NewKeys(r.Spool, namedBudget)
	defer named.Close()
	var failed error // error of the temporary file, which is not an error of the document
	in := document.Reader{Spool: r.Spool, Limit: r.Client.MaxDocument(), Strict: r.Strict, Notes: &tally}
	in.Entry = func(d *document.Document, e *resourcesync.Entry, err error) error {
		failed = r.entry(doc, named, want[0], d, e, err)
		return failed
	}
	if doc.Document, err = in.Take(uri, resp); err != nil {
		return nil, cmp.Or(failed, err)
	}
	r.tolerated(uri, &tally)
	switch got := doc.Header.Capability; {
	case !slices.Contains(want, got):
		err = &DocumentError{URI: uri, Reason: fmt.Sprintf("is a document of capability %q where %q was promised", got, want[0]), other: true}
	case got == resourcesync.CapabilityResourceDumpManifest && doc.Header.Root == resourcesync.SitemapIndex:
		err = &DocumentError{URI: uri, Reason: "is an index of manifests where a manifest was promised"}
	default:
		err = doc.repeated(named)
	}
	if err != nil {
		doc.Close()
		return nil, err
	}
	return doc, nil
}

// namedBudget is the memory in bytes for the keys of the resources that a document
// contains. Larger sets of keys are in temporary files.
const namedBudget = 8 << 20

// entry collects facts about an entry that are needed before the document is used. In a
// document that should contain each resource once, it adds the resource to the keys
// named, which detect repeated resources.
func (r *Reader) entry(doc *Document, named *spool.Keys, want resourcesync.Capability, d *document.Document, e *resourcesync.Entry, err error) error {
	if err != nil {
		if d.Bad <= maxNamed {
			r.Note("", d.URI+": "+err.Error())
		}
		return nil
	}
	doc.lists = doc.lists || e.Capability == want
	doc.count++
	switch want {
	// a Change List may contain a resource several times
	case resourcesync.CapabilityResourceList, resourcesync.CapabilityResourceDumpManifest:
		return named.Add(resourcesync.KeyOf(d.Absolute(e.Loc)))
	}
	return nil
}

func (doc *Document) repeated(named *spool.Keys) error {
	twice, err := named.Repeated()
	switch {
	case err != nil || len(twice) == 0:
		return err
	case len(twice) == spool.MaxRepeated:
		return &DocumentError{URI: doc.URI, Reason: fmt.Sprintf("names at least %d resources more than once", len(twice))}
	}
	doc.last = make(map[resourcesync.Key]int, len(twice))
	n, newest := 0, map[resourcesync.Key]resourcesync.Datetime{}
	for e, err := range doc.Document.Entries() {
		if err != nil {
			return err
		}
		if key := resourcesync.KeyOf(e.Loc); twice[key] && !e.LastMod.Before(newest[key]) {
			doc.last[key], newest[key] = n, e.LastMod
		}
		n++
	}
	return nil
}

func (r *Reader) tolerated(uri string, tally *resourcesync.NoteTally) {
	for n, times := range tally.All() {
		// a missing "at" attribute is reported by the type lister, with its consequence
		if n.Legal || n.Rule == "resourcelist-at-required" || n.Rule == "resourcedump-at-required" {
			continue
		}
		r.Tell(n.Quirk, "", fmt.Sprintf("%s line %d: %s", uri, n.Line, n.Repeated(times)))
	}
}

func (doc *Document) flaw() error {
	bad := doc.Bad
	for _, page := range doc.after {
		bad += page.Bad
	}
	if bad == 0 {
		return nil
	}
	return &DocumentError{URI: doc.URI, Reason: Counted(bad, "has %d {entry|entries} that cannot be used", bad)}
}

// Entries yields the usable entries of the document and its pages, with absolute URIs.
// The sequence can be used any number of times. A goroutine decodes entries in advance.
func (doc *Document) Entries() iter.Seq2[resourcesync.Entry, error] {
	return prefetch(func(yield func(resourcesync.Entry, error) bool) {
		for _, page := range append([]*Document{doc}, doc.after...) {
			for e, err := range page.Document.Entries() {
				if !yield(e, err) {
					return
				}
			}
		}
	}, sizeOf)
}

// sizeOf estimates the memory of an entry in bytes. The Source decides how many links,
// attributes and foreign elements an entry has.
func sizeOf(e *resourcesync.Entry) int {
	const fixed = 256 // estimated bytes of a link or a digest
	n := len(e.Loc) + len(e.Type) + len(e.Encoding) + len(e.Path) + len(e.Foreign) + fixed*len(e.Digests) + sizeOfAttrs(e.Attrs)
	for i := range e.Links {
		l := &e.Links[i]
		n += len(l.Rel) + len(l.Href) + len(l.Type) + len(l.Encoding) + len(l.Path) + fixed*(1+len(l.Digests)) + sizeOfAttrs(l.Attrs)
	}
	return n
}

func sizeOfAttrs(attrs []resourcesync.Attr) (n int) {
	for i := range attrs {
		n += 64 + len(attrs[i].Name) + len(attrs[i].Value)
	}
	return n
}

// latest returns the latest possible time of a list without the "at" attribute, and
// describes that time: the "from" attribute of the list, its Last-Modified, or the time
// at which it was sent or read.
func (doc *Document) latest(now time.Time) (at time.Time, by string) {
	sent := doc.clock()
	for _, c := range []struct {
		at time.Time
		by string
	}{{doc.Header.From.Time(), "its from"}, {doc.Modified, "its Last-Modified"}, {sent, "the time it was sent"}} {
		if at = evidence.Placed(c.at, sent, now); !at.IsZero() {
			return at, c.by
		}
	}
	return now, "the time it was read"
}

// clock returns the time at which the Source sent the document, by the Source's clock.
// It returns the zero time if the Source did not give the time, or gave one that is
// more than a day before a time in the document.
func (doc *Document) clock() time.Time {
	h := &doc.Header
	for _, t := range []resourcesync.Datetime{h.At, h.From} {
		if evidence.ToCome(t.Time(), doc.Served) {
			return time.Time{}
		}
	}
	return doc.Served
}
