package discover

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"

	"instep/document"
	"instep/fetch"
	"instep/resourcesync"
)

type doc struct {
	base    *url.URL // URL of the document
	header  resourcesync.Header
	entries []entry // entries of a Source Description or a Capability List; nil for other documents
	leads   bool    // whether an entry has a capability that occurs only in Source Descriptions
}

// entry is an entry of a Source Description or a Capability List.
type entry struct {
	loc         string
	capability  resourcesync.Capability
	describedBy string
	line        int
	freq        resourcesync.ChangeFreq
}

type notDocumentError struct {
	uri, what string
	plain     bool         // whether the response is a Sitemap without ResourceSync elements
	page      *fetch.Error // error about the HTML page in the response; nil if it is no page
	err       error
}

func (e *notDocumentError) Error() string {
	if e.err != nil {
		return fmt.Sprintf("%q: not a ResourceSync document: %v", e.uri, e.err)
	}
	return fmt.Sprintf("%q: not a ResourceSync document but %s", e.uri, e.what)
}
func (e *notDocumentError) Unwrap() error { return e.err }

func (t *trip) load(ctx context.Context, uri string) (*doc, error) {
	resp, err := t.open(ctx, uri, 0)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	d, _, err := t.read(resp)
	return d, err
}

// open requests a document, and counts the requests. It limits the body to limit bytes;
// 0 means the default limit.
func (t *trip) open(ctx context.Context, uri string, limit int64) (*fetch.Response, error) {
	if t.s.docsLeft.Add(-1) < 0 {
		return nil, fmt.Errorf("more than %d documents to read", t.s.maxDocs)
	}
	resp, err := t.s.f.Client.Document(ctx, uri, limit, fetch.Validators{})
	if err != nil {
		var fe *fetch.Error
		if errors.As(err, &fe) {
			t.requests += fe.Requests
		}
		return nil, err
	}
	t.requests += resp.Requests
	return resp, nil
}

// maxHead is the number of bytes within which the header of a document must be
// complete. A longer header belongs to an HTML page or an attack.
const maxHead = 512 << 10

// read reads the document in a response. If there is no complete document, read
// returns an error and the bytes that it has read: the caller may find links in them if
// they are HTML.
func (t *trip) read(resp *fetch.Response) (_ *doc, begin []byte, err error) {
	base, err := fetch.Parse(resp.URL)
	if err != nil {
		return nil, nil, err
	}
	d, uri := &doc{base: base}, base.String()
	var tally resourcesync.NoteTally
	keep, total := false, 0
	in := document.Reader{Once: true, Head: maxHead, Limit: t.s.f.Client.MaxDocument(), Limits: t.s.f.Limits, Strict: t.s.f.Strict, Notes: &tally}
	in.Enough = func(whole *document.Document, _ bool) bool {
		c := whole.Header.Capability
		keep = listsDocuments(c) || c == ""
		return c == "" && t.headersOnly
	}
	in.Entry = func(_ *document.Document, e *resourcesync.Entry, err error) error {
		if err != nil {
			t.leaveOut(uri, e.Line, err)
			return nil
		}
		d.leads = d.leads || e.Capability != "" && !isListing(e.Capability)
		if total++; keep && total <= t.s.maxDocs {
			return d.storeEntry(t, e)
		}
		return nil
	}
	whole, err := in.Take(uri, resp)
	t.addNotices(uri, &tally)
	var bad *document.Error
	switch {
	case err == nil:
	case errors.As(err, &bad) && bad.Headless:
		return nil, bad.Head, headerError(bad)
	default:
		return nil, nil, &brokenError{uri, bad.Err}
	}
	d.header = whole.Header
	d.header.Capability = brief(d.header.Capability)
	switch {
	case !listsDocuments(d.header.Capability):
		d.dropEntries(t)
	case total > len(d.entries):
		return nil, nil, &brokenError{uri, fmt.Errorf("the document links %d documents, more than the %d allowed", total, t.s.maxDocs)}
	}
	return d, nil, nil
}

// addNotices makes notices of the notes about deviations. It skips relative URIs, because
// the function resolve reports those that the search follows.
func (t *trip) addNotices(uri string, tally *resourcesync.NoteTally) {
	for n, times := range tally.All() {
		if n.Legal || n.Quirk == resourcesync.QuirkRelativeURI {
			continue
		}
		t.note(Notice{URI: uri, Line: n.Line, Quirk: n.Quirk, Msg: n.Repeated(times)})
	}
}

// storeEntry stores an entry. It returns an error if the entries of all documents would
// take more than maxKept bytes.
func (d *doc) storeEntry(t *trip, e *resourcesync.Entry) error {
	kept := entry{e.Loc, brief(e.Capability), e.Link("describedby"), e.Line, e.ChangeFreq}
	if t.s.memoryLeft.Add(-kept.size()) < 0 {
		return fmt.Errorf("the links in the documents of the Source take more than the %d MiB of memory allowed", maxKept>>20)
	}
	d.entries = append(d.entries, kept)
	return nil
}

func (d *doc) dropEntries(t *trip) {
	for i := range d.entries {
		t.s.memoryLeft.Add(d.entries[i].size())
	}
	d.entries = nil
}

// size returns the estimated memory of the entry in bytes.
func (e *entry) size() int64 {
	const frame = 64
	return int64(frame + len(e.loc) + len(e.capability) + len(e.describedBy))
}

// brief truncates a capability to 100 bytes, which are enough for every known
// capability.
func brief(c resourcesync.Capability) resourcesync.Capability {
	const limit = 100
	return resourcesync.Capability(truncate(string(c), limit))
}

// headerError distinguishes a broken document from a response that is not a document. A
// bot wall (an HTML page served to programs) is a temporary failure, because the server
// may deliver a document later.
func headerError(bad *document.Error) error {
	if !slices.ContainsFunc([]error{document.ErrNoHead, resourcesync.NotResourceSync, resourcesync.NotWellFormed, resourcesync.LimitReached}, func(k error) bool { return errors.Is(bad.Err, k) }) {
		return &brokenError{bad.URI, bad.Err}
	}
	none := &notDocumentError{uri: bad.URI, err: bad.Err, page: bad.Page()}
	if none.page != nil && fetch.IsWall(bad.Begin()) {
		none.err = none.page
	}
	return none
}

func pageOf(err error) *fetch.Error {
	var none *notDocumentError
	if errors.As(err, &none) {
		return none.page
	}
	return nil
}

// loadNamed loads a document that the Source links. An HTML page instead of the document
// is a temporary error, because the server may be blocking programs or under repair.
func (t *trip) loadNamed(ctx context.Context, uri string) (*doc, error) {
	d, err := t.load(ctx, uri)
	if page := pageOf(err); page != nil {
		return nil, page
	}
	return d, err
}

// listsDocuments reports whether the entries of a document with capability c are
// documents, not resources.
func listsDocuments(c resourcesync.Capability) bool {
	return c == resourcesync.CapabilityDescription || c == resourcesync.CapabilityCapabilityList
}

// leadsToSameKind reports whether the entry lists a document of the same capability, as
// entries of an index do (1.1 §8). Some Sources have such entries in a urlset.
func (d *doc) leadsToSameKind(e *entry) bool {
	return e.capability == d.header.Capability || e.capability == "" && d.header.Root == resourcesync.SitemapIndex
}

func (d *doc) checkKind(r resourcesync.Root, c resourcesync.Capability) error {
	if d.header.Root == r && d.header.Capability == c {
		return nil
	}
	return &CapabilityError{URI: d.base.String(), Want: c, Got: d.header.Capability, Root: d.header.Root}
}

func (d *doc) resolve(t *trip, ref string, line int) (*url.URL, error) {
	u, err := fetch.ParseReference(ref)
	if err != nil {
		return nil, fmt.Errorf("%q is not a URI", ref)
	}
	if !u.IsAbs() {
		u = d.base.ResolveReference(u)
		t.note(Notice{URI: d.base.String(), Line: line, Quirk: resourcesync.QuirkRelativeURI, Msg: fmt.Sprintf("relative URI %q read as %q", ref, u)})
	}
	return fetch.Parse(u.String())
}
