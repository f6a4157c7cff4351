package destination

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"instep/fetch"
	"instep/internal/spool"
	"instep/resourcesync"
)

// DocumentError says that a document of the Source cannot be used, and why. Nothing
// was done on its word.
type DocumentError struct {
	URI    string
	Reason string // continues "URI …"
	Err    error  // from the decoder; may be nil
}

func (e *DocumentError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s %s: %v", e.URI, e.Reason, e.Err)
	}
	return e.URI + " " + e.Reason
}

func (e *DocumentError) Unwrap() error { return e.Err }

// ofSource reports whether err is about the documents of the Source: it concerns one
// set, not the mirror or the run.
func ofSource(err error) bool {
	var de *DocumentError
	return isRemote(err) || errors.As(err, &de)
}

// document is a document of the Source, fetched and read to its end tag.
type document struct {
	uri    string
	header resourcesync.Header // as known at the end of the document
	bad    int                 // entries without a usable URI: what they speak of is unknown
	file   *spool.File
	opts   []resourcesync.Option
}

// maxTransfer bounds a document on the wire, in bytes (FAULTS §5).
const maxTransfer = 100 << 20

// read fetches the document at uri, which must have the capability that was promised.
func (d *Destination) read(ctx context.Context, uri string, want resourcesync.Capability) (_ *document, err error) {
	resp, err := d.Client.Get(ctx, fetch.Request{URL: uri, MaxBytes: maxTransfer})
	if err != nil {
		return nil, &remoteError{err}
	}
	defer resp.Body.Close()
	doc := &document{uri: uri, file: spool.NewFile(d.Spool, maxTransfer), opts: d.decoderOptions()}
	defer func() {
		if err != nil {
			doc.close()
		}
	}()
	if _, err := io.Copy(doc.file, remoteReader{uri, resp.Body}); err != nil {
		return nil, fmt.Errorf("reading a document: %w", err)
	}
	dec := resourcesync.NewDecoder(doc.file.Reader(), doc.opts...)
	for _, err := range dec.Entries() {
		if errors.Is(err, resourcesync.BadEntry) {
			d.note("", uri+": "+err.Error())
			doc.bad++
		} else if err != nil {
			return nil, &DocumentError{URI: uri, Reason: "cannot be used", Err: err}
		}
	}
	if doc.header, err = dec.Header(); err != nil {
		return nil, &DocumentError{URI: uri, Reason: "cannot be used", Err: err}
	}
	if got := doc.header.Capability; got != want {
		return nil, &DocumentError{URI: uri, Reason: fmt.Sprintf("is a document of capability %q where %q was promised", got, want)}
	}
	return doc, nil
}

func (d *Destination) decoderOptions() []resourcesync.Option {
	if d.Strict {
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

// entries yields the usable entries of the document, any number of times.
func (doc *document) entries() iter.Seq2[resourcesync.Entry, error] {
	return func(yield func(resourcesync.Entry, error) bool) {
		for e, err := range resourcesync.NewDecoder(doc.file.Reader(), doc.opts...).Entries() {
			if errors.Is(err, resourcesync.BadEntry) {
				continue
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

func (doc *document) close() { doc.file.Close() }

// wanted is what an entry says of a resource.
func wanted(e *resourcesync.Entry, changed time.Time) Wanted {
	return Wanted{URI: e.Loc, LastMod: e.LastMod, Length: e.Length, Digests: e.Digests, Type: e.Type, Changed: changed}
}
