package harvest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"instep/evidence"
	"instep/fetch"
	"instep/internal/spool"
	"instep/resourcesync"
)

// Document is a document of the Source, fetched and read to its end tag.
type Document struct {
	URI      string                   // as it was asked for
	base     *url.URL                 // where it came from
	served   time.Time                // the Date that it was sent with; zero if there was none
	modified time.Time                // its Last-Modified; zero if there was none
	Header   resourcesync.Header      // as known at the end of the document
	bad      int                      // entries without a usable URI: what they speak of is unknown
	lists    bool                     // some entries are documents of its own capability, as in an index
	last     map[resourcesync.Key]int // of a Resource List: the position of the last entry of each resource that has several
	maxAge   time.Duration            // for so long it is told not to change
	file     *spool.File
	opts     []resourcesync.Option
}

// MaxDocument bounds a document on the wire, in bytes (FAULTS §5).
const MaxDocument = 100 << 20

// Read fetches the document at uri, which must have the capability that was promised.
func (r *Reader) Read(ctx context.Context, uri string, want resourcesync.Capability) (*Document, error) {
	resp, err := r.Client.Document(ctx, uri, MaxDocument, fetch.Validators{})
	if err != nil {
		return r.largePackage(ctx, uri, want, &SourceError{err})
	}
	return r.take(ctx, uri, want, resp)
}

// readFresh is read past every cache that honours it.
func (r *Reader) readFresh(ctx context.Context, uri string, want resourcesync.Capability) (*Document, error) {
	resp, err := r.Client.FreshDocument(ctx, uri, MaxDocument)
	if err != nil {
		return nil, &SourceError{err}
	}
	return r.take(ctx, uri, want, resp)
}

// take reads the document of an answer.
func (r *Reader) take(ctx context.Context, uri string, want resourcesync.Capability, resp *fetch.Response) (_ *Document, err error) {
	defer resp.Body.Close()
	served := DateOf(resp)
	modified, _ := http.ParseTime(resp.Header.Get("Last-Modified"))
	base, err := url.Parse(resp.URL)
	if err != nil {
		return nil, &SourceError{err}
	}
	doc := &Document{URI: uri, base: base, served: served, modified: modified, maxAge: maxAge(resp.Header), file: spool.NewFile(r.Spool, MaxDocument), opts: r.decoderOptions()}
	defer func() {
		if err != nil {
			doc.Close()
		}
	}()
	body := bufio.NewReaderSize(SourceReader{uri, resp.Body}, 64<<10)
	if manifestOf[want] != "" && isPackage(body) {
		_ = resp.Body.Close() // the package is read by its parts, or anew
		return doc, r.onePackage(ctx, doc, resp.ContentLength, want)
	}
	if err := r.receive(doc, body, want); err != nil {
		return nil, doc.orPage(err)
	}
	if got := doc.Header.Capability; got != want {
		return nil, &DocumentError{URI: uri, Reason: fmt.Sprintf("is a document of capability %q where %q was promised", got, want)}
	}
	return doc, nil
}

// Keep reads a document that came in another way than by its URI, such as a manifest in a
// package. It has to be of one of these capabilities.
func (r *Reader) Keep(uri string, base *url.URL, body io.Reader, want ...resourcesync.Capability) (*Document, error) {
	doc := &Document{URI: uri, base: base, file: spool.NewFile(r.Spool, MaxDocument), opts: r.decoderOptions()}
	_, err := io.Copy(doc.file, body)
	if err == nil {
		err = r.scan(doc, doc.file.Reader(), want[0])
	}
	if got := doc.Header.Capability; err == nil && !slices.Contains(want, got) {
		err = &DocumentError{URI: uri, Reason: fmt.Sprintf("is a document of capability %q where %q was promised", got, want[0])}
	}
	if err != nil {
		doc.Close()
		return nil, err
	}
	return doc, nil
}

// Raw returns the bytes of the document as they came.
func (doc *Document) Raw() io.Reader { return doc.file.Reader() }

// DateOf is the time by the clock of who answered; zero if he does not say.
func DateOf(resp *fetch.Response) time.Time {
	t, _ := http.ParseTime(resp.Header.Get("Date"))
	return t
}

// orPage tells a page that answered in place of a document from one that cannot be
// used: the Source may send the document another time.
func (doc *Document) orPage(err error) error {
	var de *resourcesync.DecodeError
	if !errors.As(err, &de) {
		return err
	}
	head := make([]byte, fetch.PageHead)
	n, _ := io.ReadFull(doc.file.Reader(), head) // most are shorter
	if head = head[:n]; fetch.IsPage(head) {
		return &SourceError{fetch.Blocked(doc.URI, head)}
	}
	return err
}

// errUnusable stops the transfer of a document that cannot be used.
var errUnusable = errors.New("the rest is not wanted")

// receive scans a document while its bytes come, and keeps them.
func (r *Reader) receive(doc *Document, body io.Reader, want resourcesync.Capability) error {
	out, in := io.Pipe()
	came := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.MultiWriter(doc.file, in), body)
		_ = in.CloseWithError(err) // never fails
		came <- err
	}()
	err := r.scan(doc, out, want)
	if err == nil {
		_, _ = io.Copy(io.Discard, out) // what follows the end tag
	}
	_ = out.CloseWithError(errUnusable) // likewise
	if failed := <-came; failed != nil && !errors.Is(failed, errUnusable) {
		return fmt.Errorf("reading a document: %w", failed)
	}
	return err
}

// scan reads a document to its end and takes down what has to be known of it before
// anything acts on its entries.
func (r *Reader) scan(doc *Document, body io.Reader, want resourcesync.Capability) error {
	var tally resourcesync.NoteTally
	dec := resourcesync.NewDecoder(body, slices.Concat(doc.opts, []resourcesync.Option{resourcesync.WithNotes(tally.Take)})...)
	n, positions := 0, map[resourcesync.Key]int{}
	for e, err := range dec.Entries() {
		if errors.Is(err, resourcesync.BadEntry) {
			r.Note("", doc.URI+": "+err.Error())
			doc.bad++
			continue
		}
		if err != nil {
			return &DocumentError{URI: doc.URI, Reason: "cannot be used", Err: err}
		}
		doc.lists = doc.lists || e.Capability == want
		if want == resourcesync.CapabilityResourceList || want == resourcesync.CapabilityResourceDumpManifest { // a Change List may well name a resource again
			doc.repeated(positions, resourcesync.KeyOf(doc.absolute(e.Loc)), n)
		}
		n++
	}
	var err error
	if doc.Header, err = dec.Header(); err != nil {
		return &DocumentError{URI: doc.URI, Reason: "cannot be used", Err: err}
	}
	r.tolerated(doc.URI, &tally)
	return nil
}

// repeated notes that entry n is about the resource key.
func (doc *Document) repeated(positions map[resourcesync.Key]int, key resourcesync.Key, n int) {
	if _, again := positions[key]; again {
		if doc.last == nil {
			doc.last = map[resourcesync.Key]int{}
		}
		doc.last[key] = n
	}
	positions[key] = n
}

// tolerated reports what was tolerated in a document. What the standard allows is not
// worth a line.
func (r *Reader) tolerated(uri string, tally *resourcesync.NoteTally) {
	for n, times := range tally.All() {
		if n.Legal {
			continue
		}
		text := fmt.Sprintf("%s line %d: %s", uri, n.Line, n.Msg)
		if times > 1 {
			text += fmt.Sprintf(" (and %d more like it)", times-1)
		}
		r.Tell(n.Quirk, "", text)
	}
}

func (r *Reader) decoderOptions() []resourcesync.Option {
	if r.Strict {
		return []resourcesync.Option{resourcesync.WithTolerance(resourcesync.Strict)}
	}
	return nil
}

// flaw says that entries cannot be used; nil if all can.
func (doc *Document) flaw() error {
	if doc.bad == 0 {
		return nil
	}
	return &DocumentError{URI: doc.URI, Reason: fmt.Sprintf("has %d entries that cannot be used", doc.bad)}
}

// Entries yields the usable entries of the document, any number of times, with
// absolute URIs.
func (doc *Document) Entries() iter.Seq2[resourcesync.Entry, error] {
	return beside(func(yield func(resourcesync.Entry, error) bool) {
		for e, err := range resourcesync.NewDecoder(doc.file.Reader(), doc.opts...).Entries() {
			if errors.Is(err, resourcesync.BadEntry) {
				continue
			}
			e.Loc = doc.absolute(e.Loc)
			if !yield(e, err) {
				return
			}
		}
	}, sizeOf)
}

// sizeOf is about how many bytes of memory an entry refers to: the Source decides how many
// links, attributes and foreign elements it has.
func sizeOf(e *resourcesync.Entry) int {
	const fixed = 256 // bytes of a link or a digest
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

// absolute returns a loc as it is written, unless it is relative to the document. One
// that is no URI at all is left for others to refuse.
func (doc *Document) absolute(loc string) string {
	if strings.HasPrefix(loc, "http://") || strings.HasPrefix(loc, "https://") {
		return loc
	}
	u, err := fetch.ParseReference(loc)
	if err != nil || u.IsAbs() || loc == "" {
		return loc
	}
	return doc.base.ResolveReference(u).String()
}

// Close removes the temporary file.
func (doc *Document) Close() { doc.file.Close() }

// clock is when the Source sent the document, by its own clock; zero if that is
// unknown, or before what the document itself says it is of.
func (doc *Document) clock() time.Time {
	h := &doc.Header
	for _, t := range []resourcesync.Datetime{h.At, h.From} {
		if evidence.ToCome(t.Time(), doc.served) {
			return time.Time{}
		}
	}
	return doc.served
}
