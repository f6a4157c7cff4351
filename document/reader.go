package document

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"instep/fetch"
	"instep/internal/spool"
	"instep/resourcesync"
)

// Fetcher requests documents. [*fetch.Client] implements it.
type Fetcher interface {
	// Document returns the response to a request for the document at uri. The caller
	// reads at most limit bytes of the body, and closes it.
	Document(ctx context.Context, uri string, limit int64, v fetch.Validators) (*fetch.Response, error)
}

// Opener is a Fetcher for documents that have a name instead of a URI, such as files or
// objects in a bucket. Relative URIs in these documents are not resolved.
type Opener func(ctx context.Context, name string) (io.ReadCloser, error)

// Document implements Fetcher.
func (open Opener) Document(ctx context.Context, name string, _ int64, _ fetch.Validators) (*fetch.Response, error) {
	body, err := open(ctx, name)
	if err != nil {
		return nil, err
	}
	return &fetch.Response{Body: body, ContentLength: -1}, nil
}

// Reader reads documents. Only From is required.
type Reader struct {
	From   Fetcher
	Spool  string              // directory for temporary files; "" means the default directory of the system
	Limit  int64               // largest size in bytes of a document as transferred; 0 means fetch.MaxDocument. If it is more than fetch.MaxDocument, it also limits the decompressed size
	Head   int64               // largest length of the header in bytes; 0 means Limit
	Limits resourcesync.Limits // limits of the decoder; zero values are the defaults
	Strict bool                // whether documents with values that the standard does not allow are refused
	Once   bool                // whether the bytes are not stored; the Document then has a header, but neither Raw nor Entries

	Notes *resourcesync.NoteTally // collects the notes about all documents that are read, even unusable ones; may be nil

	// Enough is called before the first entry. md reports whether the header contained
	// an rs:md element. If Enough returns true, the rest of the document is neither
	// read nor checked. Enough may be nil.
	Enough func(d *Document, md bool) bool

	// Entry is called with each entry while the document is read. The URIs in the entry
	// are not resolved yet. For an unusable entry err is set, and only e.Line is known. e
	// is valid until Entry returns. Entry must not change anything outside of the program
	// yet, because the document may be incomplete. If Entry returns an error, reading
	// ends. Entry may be nil.
	Entry func(d *Document, e *resourcesync.Entry, err error) error
}

// Read requests the document at uri and reads it completely. It returns an error of From
// unchanged. All other errors are an [*Error].
func (r *Reader) Read(ctx context.Context, uri string) (*Document, error) {
	resp, err := r.From.Document(ctx, uri, r.limit(), fetch.Validators{})
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return r.Take(uri, resp)
}

// Take reads the document in a response completely. It does not close the body. The
// error is an [*Error].
func (r *Reader) Take(uri string, resp *fetch.Response) (*Document, error) {
	d := &Document{URI: uri, file: spool.NewFile(r.Spool, r.limit()), opts: r.options()}
	if resp.URL != "" {
		var err error
		if d.Base, err = url.Parse(resp.URL); err != nil {
			return nil, &Error{URI: uri, Err: err, Headless: true}
		}
	}
	d.Served = resp.Date()
	d.Modified, _ = http.ParseTime(resp.Header.Get("Last-Modified"))
	in := &intake{from: resp.Body, limit: cmp.Or(r.Head, r.limit()), keep: max(r.Head, fetch.PageHead)}
	in.left = in.limit
	if !r.Once {
		d.file.Grow(resp.ContentLength)
		in.from = io.TeeReader(resp.Body, d.file)
	}
	headless, err := r.decode(d, in)
	if err == nil && !r.Once {
		_, err = io.Copy(io.Discard, in) // store the bytes after the end tag for Raw, too
	}
	if err == nil {
		return d, nil
	}
	d.Close()
	if de, ok := errors.AsType[*resourcesync.DecodeError](err); ok && de.Size {
		err = fmt.Errorf("%w; %s", err, fetch.LargerDocuments)
	}
	return nil, &Error{URI: uri, Err: err, Transfer: in.transferErr, Headless: headless, Head: in.head}
}

func (r *Reader) limit() int64 { return cmp.Or(r.Limit, fetch.MaxDocument) }

func (r *Reader) options() []resourcesync.Option {
	limits := r.Limits
	limits.Bytes = cmp.Or(limits.Bytes, max(r.limit(), fetch.MaxDocument))
	limits.Entries = cmp.Or(limits.Entries, EntriesWithin(r.limit()))
	opts := []resourcesync.Option{resourcesync.WithLimits(limits)}
	if r.Strict {
		opts = append(opts, resourcesync.WithTolerance(resourcesync.Strict))
	}
	return opts
}

// decode reads the header and the entries of a document. If the header cannot be read,
// it returns headless=true.
func (r *Reader) decode(d *Document, in *intake) (headless bool, err error) {
	opts := r.options()
	if r.Notes != nil {
		opts = append(opts, resourcesync.WithNotes(r.Notes.Take))
	}
	dec := resourcesync.NewDecoder(in, opts...)
	if d.Header, err = dec.Header(); err != nil {
		return true, err
	}
	in.found, in.limit, in.left, in.keep = true, r.limit(), r.limit(), fetch.PageHead
	if r.Enough != nil && r.Enough(d, dec.SeenRoot().Metadata) {
		return false, nil
	}
	var entry resourcesync.Entry // declared outside of the loop, so that it is allocated only once
	for e, err := range dec.Entries() {
		bad := errors.Is(err, resourcesync.BadEntry)
		if err != nil && !bad {
			return false, err
		}
		if bad {
			d.Bad++
		}
		if r.Entry != nil {
			entry = e
			if err := r.Entry(d, &entry, err); err != nil {
				return false, err
			}
		}
	}
	d.Header, err = dec.Header()
	return false, err
}
