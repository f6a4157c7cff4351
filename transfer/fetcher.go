package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"instep/fetch"
	"instep/harvest"
	"instep/resourcesync"
)

// Store takes the bytes of the resources of a set.
type Store interface {
	// Put reads r to its end. r verifies: if it fails, nothing of this resource is kept and
	// its error is returned. verified says that r checked a length or a digest.
	Put(ctx context.Context, set string, w harvest.Resource, r io.Reader, verified bool) (n int64, err error)
	// PutPart is Put of a Part that was verified: its bytes are not copied. The Part
	// is spent unless an error is returned: an ErrNotHeld if it does not hold the bytes
	// of w, as where the disk has damaged it. It is called only for a Store with Parts.
	PutPart(ctx context.Context, set string, w harvest.Resource, p Part, verified bool) (n int64, err error)
}

// ErrNotHeld is what a Store returns (wrapped) where bytes that should be there already are not
// those described. They have to be fetched.
var ErrNotHeld = errors.New("not what the mirror holds")

// Hashed may be implemented by a reader that is given to a Store: it has hashed the bytes
// that were read, so that the Store need not do it again.
type Hashed interface {
	// Digests are those of the bytes read so far. Their algorithms do not change.
	Digests() resourcesync.Digests
}

// Verified is a body of which the digests are computed while it is read.
type Verified struct {
	io.Reader
	Hashed
}

// Fetcher brings the bytes of resources of one set into a Store, verified. It is safe for
// concurrent use.
type Fetcher struct {
	Client     *fetch.Client
	Spool      string // directory of temporary files; "": the system's
	Parts      Parts  // keeps large transfers that broke off; nil: none are kept
	Set        string
	AsOf       time.Time // when the Source sent its documents, by its own clock; zero if unknown
	Duplicates *Origins
	Tell       func(text string)                      // called with what happened to one resource, in one sentence
	Odd        func(o Oddity, uri string)             // called with each answer that a careful server does not give
	Came       func(w *harvest.Resource, bytes int64) // called with each answer whose bytes were stored
}

// Oddity is something that a careful server does not do, and that was tolerated.
type Oddity int

// The oddities.
const (
	OddSent      Oddity = iota // a content coding that nobody asked for; the body is kept in it
	OddDecoded                 // likewise; the body is kept without it
	OddRange                   // the whole with a Content-Range
	OddPage                    // XML as text/html
	OddDuplicate               // fetched from a duplicate
	OddEnd                     // a body that ends with its connection: it may not be the whole
	Oddities                   // number of oddities
)

// fetchAt brings the bytes of w that are served at a URI.
func (f *Fetcher) fetchAt(ctx context.Context, s Store, w harvest.Resource, at string) (int64, error) {
	n, coding, err := f.persist(ctx, s, w, at)
	if coding == "" {
		return n, err
	}
	// Sources describe either body: the one in the content coding it was sent in, or
	// the one without it.
	if err == nil {
		if !strings.EqualFold(coding, w.Encoding) {
			f.Odd(OddSent, w.URI)
		}
		return n, nil
	}
	if ctx.Err() != nil || !IsMismatch(err) {
		return n, err
	}
	if n, _, decoded := f.get(ctx, s, w, at, true); decoded == nil {
		return n, nil
	}
	return n, err
}

// persist is get, tried again as often as any request if a body broke off that could
// not go on.
func (f *Fetcher) persist(ctx context.Context, s Store, w harvest.Resource, at string) (n int64, coding string, err error) {
	for failed := 1; ; failed++ {
		n, coding, err = f.get(ctx, s, w, at, false)
		if err == nil {
			f.Came(&w, n)
		}
		if !isOwn(&w, at) || !f.Client.Again(ctx, failed, err) {
			return n, coding, err
		}
	}
}

// get fetches the bytes served at a URI into a Store, verified, and as they are sent or
// without their content coding. It returns the coding in which they are kept, or were
// refused.
func (f *Fetcher) get(ctx context.Context, s Store, w harvest.Resource, at string, decode bool) (n int64, coding string, err error) {
	if !decode && w.Length.Known() {
		if p := f.part(ctx, &w, w.Length.Int64()); p != nil {
			return f.getPart(ctx, s, w, at, p, nil)
		}
	}
	req := requestAt(&w, at)
	resp, err := f.Client.Get(ctx, req)
	if err != nil {
		return 0, "", &harvest.SourceError{Err: err}
	}
	decode = decode || surprising(&w, resp)
	if !decode && !w.Length.Known() && resp.Resumable(req.Resume) != "" {
		if p := f.part(ctx, &w, resp.ContentLength); p != nil {
			return f.getPart(ctx, s, w, at, p, resp)
		}
	}
	coding = CodingOf(resp)
	body, page, err := Body(&w, resp, decode, f.Spool)
	if err != nil {
		return 0, coding, &harvest.SourceError{Err: err}
	}
	defer body.Close()
	f.arrive(&w, resp, at)
	w.Modified = resp.Modified()
	verified := resourcesync.NewVerifyReader(body, w.Length.Int64(), w.Digests, resourcesync.SHA256)
	n, err = s.Put(ctx, f.Set, w, Verified{harvest.SourceReader{URI: at, Body: verified}, verified}, w.Provable())
	if decode {
		coding = ""
	}
	if err != nil {
		return n, coding, err
	}
	if decode {
		f.Odd(OddDecoded, w.URI)
	}
	if page {
		f.Odd(OddPage, w.URI)
	}
	f.lookWhole(&w, resp)
	return n, coding, nil
}

// requestAt is the request for w at a URI. A duplicate is asked for once: there are other places.
func requestAt(w *harvest.Resource, at string) fetch.Request {
	req := Request(w)
	req.URL, req.Once = at, !isOwn(w, at)
	return req
}

// isOwn reports whether a URI is not that of a duplicate.
func isOwn(w *harvest.Resource, at string) bool {
	return at == w.URI || at == w.Memento || at == w.BytesAt
}

// FetchMemento brings the bytes that w had from where they are now.
func (f *Fetcher) FetchMemento(ctx context.Context, s Store, w harvest.Resource) (int64, error) {
	return f.fetchAt(ctx, s, w, w.Memento)
}

// arrive notes when the bytes of w came, if anything depends on that. An answer that has no
// Date, or comes from elsewhere with another clock, came after the documents.
func (f *Fetcher) arrive(w *harvest.Resource, resp *fetch.Response, at string) {
	if !Timed(w) {
		return
	}
	if w.Came = resp.Date(); w.Came.IsZero() || at != w.URI {
		w.Came = f.AsOf
	}
}

// Timed reports whether it counts when the bytes of w came: if a change tells of them, or if
// nothing but their lastmod ties them to what a list says.
func Timed(w *harvest.Resource) bool { return w.Told || len(w.Digests) == 0 && !w.LastMod.IsZero() }

// lookWhole reports w if the Source gives no length and no digest of it, and its answer leaves in
// doubt whether it holds the whole.
func (f *Fetcher) lookWhole(w *harvest.Resource, resp *fetch.Response) {
	switch {
	case w.Provable():
	case resp.Status == http.StatusOK && resp.Header.Get("Content-Range") != "":
		f.Odd(OddRange, w.URI)
	case resp.Endless:
		f.Odd(OddEnd, w.URI)
	}
}

// surprising reports whether the body of an answer is in a content coding that nobody
// asked for, and nothing that the Source says of the resource would show it. Its bytes
// are not those of the resource.
func surprising(w *harvest.Resource, resp *fetch.Response) bool {
	coding := CodingOf(resp)
	return coding != "" && !w.Provable() && !strings.EqualFold(coding, w.Encoding)
}

// part opens what is kept of a transfer of so many bytes (-1: unknown), or nil if
// nothing is worth to be kept.
func (f *Fetcher) part(ctx context.Context, w *harvest.Resource, length int64) Part {
	if f.Parts == nil || length >= 0 && length <= CheckpointBytes {
		return nil
	}
	p, err := f.Parts.Part(ctx, w.URI)
	if err != nil {
		f.Tell(fmt.Sprintf("%s: if its transfer breaks off, nothing of it is kept: %v", w.URI, err))
		return nil
	}
	return p
}

// getPart is get into a part. first is the answer, if it was asked for already.
func (f *Fetcher) getPart(ctx context.Context, s Store, w harvest.Resource, at string, p Part, first *fetch.Response) (n int64, coding string, err error) {
	dl := &Download{
		Client: f.Client, Part: p, Request: requestAt(&w, at), Length: w.Length, Digests: w.Digests,
		Accept: func(resp *fetch.Response) error {
			if surprising(&w, resp) { // it was not surprising when the transfer began
				return fmt.Errorf("%s: now in the content coding %q, which nobody asked for", w.URI, CodingOf(resp))
			}
			f.lookWhole(&w, resp)
			if resp.Offset == 0 {
				f.arrive(&w, resp, at)
			}
			w.Modified = resp.Modified()
			return Plausible(&w, resp)
		},
	}
	if err := dl.Run(ctx, first); err != nil {
		return 0, dl.note.Coding, errors.Join(err, dl.Leave(ctx, err))
	}
	n, err = f.putPart(ctx, s, w, dl)
	return n, dl.note.Coding, err
}

// putPart gives what was brought to the Store. The disk may have lost since what an
// earlier run had verified: then all is brought once more.
func (f *Fetcher) putPart(ctx context.Context, s Store, w harvest.Resource, dl *Download) (n int64, err error) {
	n, err = s.PutPart(ctx, f.Set, w, dl.Part, w.Provable())
	if errors.Is(err, ErrNotHeld) && dl.joined {
		if err := dl.Again(ctx); err != nil {
			return 0, errors.Join(err, dl.Leave(ctx, err))
		}
		n, err = s.PutPart(ctx, f.Set, w, dl.Part, w.Provable())
	}
	switch {
	case errors.Is(err, ErrNotHeld):
		err = errors.Join(err, dl.Part.Discard())
	case err != nil:
		err = errors.Join(err, dl.Part.Close())
	}
	return n, err
}
