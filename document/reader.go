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

// Fetcher gets documents. [*fetch.Client] is one.
type Fetcher interface {
	// Document returns the answer to a request for the document at uri, of which at most limit
	// bytes are read. The caller closes the body.
	Document(ctx context.Context, uri string, limit int64, v fetch.Validators) (*fetch.Response, error)
}

// Opener is a Fetcher of documents that have a name instead of a URI: files, objects in a
// bucket. Their entries stay unresolved.
type Opener func(ctx context.Context, name string) (io.ReadCloser, error)

// Document implements Fetcher.
func (open Opener) Document(ctx context.Context, name string, _ int64, _ fetch.Validators) (*fetch.Response, error) {
	body, err := open(ctx, name)
	if err != nil {
		return nil, err
	}
	return &fetch.Response{Body: body, ContentLength: -1}, nil
}

// Reader has the origin of documents and the options. All fields but From may be zero.
type Reader struct {
	From   Fetcher
	Spool  string              // directory of temporary files; "": the system's
	Limit  int64               // bytes of a document on the wire, and decompressed if that is more than fetch.MaxDocument; 0: fetch.MaxDocument
	Head   int64               // bytes within which its header has to be found; 0: Limit
	Limits resourcesync.Limits // limits of the decoder; zero is good
	Strict bool                // refuse documents with values that the standard does not allow
	Once   bool                // keep no bytes: the document has its header, but neither Raw nor Entries

	Notes *resourcesync.NoteTally // collects the notes, also those of an unusable document; may be nil

	// Enough is asked before the first entry; md says that the rs:md of the header was read. The
	// rest is not read, and not checked, if it returns true. May be nil.
	Enough func(d *Document, md bool) bool

	// Entry is called with each entry as it is read, unresolved, or with the error of an
	// unusable one, of which only the line is known. The entry is valid until Entry
	// returns. The document may still be incomplete, so nothing may act on it. An error
	// ends the reading. May be nil.
	Entry func(d *Document, e *resourcesync.Entry, err error) error
}

// Read gets the document at uri and reads it to its end. Errors of From are returned
// unchanged; all others are an [*Error].
func (r *Reader) Read(ctx context.Context, uri string) (*Document, error) {
	resp, err := r.From.Document(ctx, uri, r.limit(), fetch.Validators{})
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return r.Take(uri, resp)
}

// Take reads the document of an answer to its end. It does not close the body. The error is an [*Error].
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
	in := &intake{from: resp.Body, most: cmp.Or(r.Head, r.limit()), keep: max(r.Head, fetch.PageHead)}
	in.left = in.most
	if !r.Once {
		d.file.Grow(resp.ContentLength)
		in.from = io.TeeReader(resp.Body, d.file)
	}
	headless, err := r.decode(d, in)
	if err == nil && !r.Once {
		_, err = io.Copy(io.Discard, in) // bytes after the end tag belong to the raw bytes
	}
	if err == nil {
		return d, nil
	}
	d.Close()
	if de, ok := errors.AsType[*resourcesync.DecodeError](err); ok && de.Size {
		err = fmt.Errorf("%w; %s", err, fetch.LargerDocuments)
	}
	return nil, &Error{URI: uri, Err: err, Transfer: in.failed, Headless: headless, Head: in.head}
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

// decode reads the document to its end. headless says that not even its header was found.
func (r *Reader) decode(d *Document, in *intake) (headless bool, err error) {
	opts := r.options()
	if r.Notes != nil {
		opts = append(opts, resourcesync.WithNotes(r.Notes.Take))
	}
	dec := resourcesync.NewDecoder(in, opts...)
	if d.Header, err = dec.Header(); err != nil {
		return true, err
	}
	in.headFound(r.limit())
	if r.Enough != nil && r.Enough(d, dec.SeenRoot().Metadata) {
		return false, nil
	}
	var entry resourcesync.Entry // allocated once for all of them
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
