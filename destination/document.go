package destination

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

	"instep/fetch"
	"instep/internal/spool"
	"instep/resourcesync"
)

// document is a document of the Source, fetched and read to its end tag.
type document struct {
	uri      string                   // as it was asked for
	base     *url.URL                 // where it came from
	served   time.Time                // the Date that it was sent with; zero if there was none
	modified time.Time                // its Last-Modified; zero if there was none
	header   resourcesync.Header      // as known at the end of the document
	bad      int                      // entries without a usable URI: what they speak of is unknown
	lists    bool                     // some entries are documents of its own capability, as in an index
	last     map[resourcesync.Key]int // of a Resource List: the position of the last entry of each resource that has several
	maxAge   time.Duration            // for so long it is told not to change
	file     *spool.File
	opts     []resourcesync.Option
}

// maxTransfer bounds a document on the wire, in bytes (FAULTS §5).
const maxTransfer = 100 << 20

// read fetches the document at uri, which must have the capability that was promised.
func (r *reader) read(ctx context.Context, uri string, want resourcesync.Capability) (*document, error) {
	resp, err := r.client.Document(ctx, uri, maxTransfer, fetch.Validators{})
	if err != nil {
		return r.largePackage(ctx, uri, want, &remoteError{err})
	}
	return r.take(ctx, uri, want, resp)
}

// readFresh is read past every cache that honours it.
func (r *reader) readFresh(ctx context.Context, uri string, want resourcesync.Capability) (*document, error) {
	resp, err := r.client.FreshDocument(ctx, uri, maxTransfer)
	if err != nil {
		return nil, &remoteError{err}
	}
	return r.take(ctx, uri, want, resp)
}

// take reads the document of an answer.
func (r *reader) take(ctx context.Context, uri string, want resourcesync.Capability, resp *fetch.Response) (_ *document, err error) {
	defer resp.Body.Close()
	served := dateOf(resp)
	modified, _ := http.ParseTime(resp.Header.Get("Last-Modified"))
	base, err := url.Parse(resp.URL)
	if err != nil {
		return nil, &remoteError{err}
	}
	doc := &document{uri: uri, base: base, served: served, modified: modified, maxAge: maxAge(resp.Header), file: spool.NewFile(r.spool, maxTransfer), opts: r.decoderOptions()}
	defer func() {
		if err != nil {
			doc.close()
		}
	}()
	body := bufio.NewReaderSize(remoteReader{uri, resp.Body}, 64<<10)
	if manifestOf[want] != "" && isPackage(body) {
		_ = resp.Body.Close() // the package is read by its parts, or anew
		return doc, r.onePackage(ctx, doc, resp.ContentLength, want)
	}
	if err := r.receive(doc, body, want); err != nil {
		return nil, doc.orPage(err)
	}
	if got := doc.header.Capability; got != want {
		return nil, &DocumentError{URI: uri, Reason: fmt.Sprintf("is a document of capability %q where %q was promised", got, want)}
	}
	return doc, nil
}

// dateOf is the time by the clock of who answered; zero if he does not say.
func dateOf(resp *fetch.Response) time.Time {
	t, _ := http.ParseTime(resp.Header.Get("Date"))
	return t
}

// orPage tells a page that answered in place of a document from one that cannot be
// used: the Source may send the document another time.
func (doc *document) orPage(err error) error {
	var de *resourcesync.DecodeError
	if !errors.As(err, &de) {
		return err
	}
	head := make([]byte, fetch.PageHead)
	n, _ := io.ReadFull(doc.file.Reader(), head) // most are shorter
	if head = head[:n]; fetch.IsPage(head) {
		return &remoteError{fetch.Blocked(doc.uri, head)}
	}
	return err
}

// errUnusable stops the transfer of a document that cannot be used.
var errUnusable = errors.New("the rest is not wanted")

// receive scans a document while its bytes come, and keeps them.
func (r *reader) receive(doc *document, body io.Reader, want resourcesync.Capability) error {
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
func (r *reader) scan(doc *document, body io.Reader, want resourcesync.Capability) error {
	var tally resourcesync.NoteTally
	dec := resourcesync.NewDecoder(body, slices.Concat(doc.opts, []resourcesync.Option{resourcesync.WithNotes(tally.Take)})...)
	n, positions := 0, map[resourcesync.Key]int{}
	for e, err := range dec.Entries() {
		if errors.Is(err, resourcesync.BadEntry) {
			r.note("", doc.uri+": "+err.Error())
			doc.bad++
			continue
		}
		if err != nil {
			return &DocumentError{URI: doc.uri, Reason: "cannot be used", Err: err}
		}
		doc.lists = doc.lists || e.Capability == want
		if want == resourcesync.CapabilityResourceList || want == resourcesync.CapabilityResourceDumpManifest { // a Change List may well name a resource again
			doc.repeated(positions, resourcesync.KeyOf(doc.absolute(e.Loc)), n)
		}
		n++
	}
	var err error
	if doc.header, err = dec.Header(); err != nil {
		return &DocumentError{URI: doc.uri, Reason: "cannot be used", Err: err}
	}
	r.tolerated(doc.uri, &tally)
	return nil
}

// repeated notes that entry n is about the resource key.
func (doc *document) repeated(positions map[resourcesync.Key]int, key resourcesync.Key, n int) {
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
func (r *reader) tolerated(uri string, tally *resourcesync.NoteTally) {
	for n, times := range tally.All() {
		if n.Legal {
			continue
		}
		text := fmt.Sprintf("%s line %d: %s", uri, n.Line, n.Msg)
		if times > 1 {
			text += fmt.Sprintf(" (and %d more like it)", times-1)
		}
		r.tell(n.Quirk, "", text)
	}
}

func (r *reader) decoderOptions() []resourcesync.Option {
	if r.strict {
		return []resourcesync.Option{resourcesync.WithTolerance(resourcesync.Strict)}
	}
	return nil
}

// flaw says that entries cannot be used; nil if all can.
func (doc *document) flaw() error {
	if doc.bad == 0 {
		return nil
	}
	return &DocumentError{URI: doc.uri, Reason: fmt.Sprintf("has %d entries that cannot be used", doc.bad)}
}

// entries yields the usable entries of the document, any number of times, with
// absolute URIs.
func (doc *document) entries() iter.Seq2[resourcesync.Entry, error] {
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
func (doc *document) absolute(loc string) string {
	if strings.HasPrefix(loc, "http://") || strings.HasPrefix(loc, "https://") {
		return loc
	}
	u, err := fetch.ParseReference(loc)
	if err != nil || u.IsAbs() || loc == "" {
		return loc
	}
	return doc.base.ResolveReference(u).String()
}

func (doc *document) close() { doc.file.Close() }

// wanted is what an entry says of a resource.
func wanted(e *resourcesync.Entry, changed time.Time) Wanted {
	return Wanted{URI: e.Loc, LastMod: e.LastMod, Length: e.Length, Digests: e.Digests, Type: e.Type, Encoding: e.Encoding, Duplicates: duplicates(e), Remainder: remainderOf(e), Changed: changed}
}
