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

// Store stores the bytes of the resources of a set.
type Store interface {
	// Put reads r to its end. r verifies the bytes: if it fails, Put keeps nothing of
	// this resource and returns the error. verified reports whether r checked a length
	// or a digest.
	Put(ctx context.Context, set string, w harvest.Resource, r io.Reader, verified bool) (n int64, err error)
	// PutPart is like Put, for a Part that has been verified: its bytes are not copied.
	// On success the Part is used up. It returns an ErrNotHeld if the Part does not
	// hold the bytes of w, for example after a disk error. It is called only if the
	// Fetcher has Parts.
	PutPart(ctx context.Context, set string, w harvest.Resource, p Part, verified bool) (n int64, err error)
}

// ErrNotHeld means that bytes which should already be stored are not the described
// ones. They have to be fetched.
var ErrNotHeld = errors.New("not what the mirror holds")

// Hashed may be implemented by a reader passed to a Store. It has hashed the bytes that
// were read, so that the Store need not hash them again.
type Hashed interface {
	// Digests returns the digests of the bytes read so far. The algorithms never
	// change.
	Digests() resourcesync.Digests
}

// Verified is a body whose digests are computed while it is read.
type Verified struct {
	io.Reader
	Hashed
}

// Fetcher fetches and verifies the resources of one set, and passes them to a Store. It
// is safe for concurrent use.
type Fetcher struct {
	Client     *fetch.Client
	Spool      string // directory for temporary files; "" is the system's
	Parts      Parts  // stores interrupted large transfers; nil stores none
	Set        string
	AsOf       time.Time // when the Source sent its documents, by its own clock; zero if unknown
	Duplicates *Origins
	Tell       func(text string)                      // called with one sentence about what happened to a resource
	Odd        func(o Oddity, uri string)             // called for each unusual response that was tolerated
	Came       func(w *harvest.Resource, bytes int64) // called for each response whose bytes were stored
}

// Oddity is unusual behaviour of a server that was tolerated.
type Oddity int

// The oddities.
const (
	OddSent      Oddity = iota // the body has a content coding that was not requested, and is kept encoded
	OddDecoded                 // the body has a content coding that was not requested, and is kept decoded
	OddRange                   // the whole resource with a Content-Range
	OddPage                    // XML served as text/html
	OddDuplicate               // fetched from a duplicate
	OddEnd                     // the body ends with its connection, so it may be incomplete
	Oddities                   // number of values
)

// fetchAt fetches the bytes of w at a URI.
func (f *Fetcher) fetchAt(ctx context.Context, s Store, w harvest.Resource, at string) (int64, error) {
	n, coding, err := f.persist(ctx, s, w, at)
	if coding == "" {
		return n, err
	}
	// A Source may describe the body either encoded, as sent, or decoded.
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

// persist is like get, but tries again, as often as any request is retried, if a body
// broke off and could not be continued.
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

// get fetches the bytes at a URI, encoded as sent or decoded, and stores them after
// verification. It returns the coding with which they were stored or refused.
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

// requestAt returns the request for w at a URI. A duplicate is requested without
// retries, since there are other places.
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

// arrive records the time of the response with the bytes of w, if that time is needed. If it cannot
// be compared with the time of the documents (no Date, or another host with its own clock), the
// response counts as later.
func (f *Fetcher) arrive(w *harvest.Resource, resp *fetch.Response, at string) {
	if !Timed(w) {
		return
	}
	if w.Came = resp.Date(); w.Came.IsZero() || at != w.URI {
		w.Came = f.AsOf
	}
}

// Timed reports whether the time matters at which the bytes of w arrived: if they
// belong to a change, or if only their lastmod connects them with the listed state.
func Timed(w *harvest.Resource) bool { return w.Told || len(w.Digests) == 0 && !w.LastMod.IsZero() }

// lookWhole reports w if the Source gives no length and no digest of it, and the
// response may be incomplete.
func (f *Fetcher) lookWhole(w *harvest.Resource, resp *fetch.Response) {
	switch {
	case w.Provable():
	case resp.Status == http.StatusOK && resp.Header.Get("Content-Range") != "":
		f.Odd(OddRange, w.URI)
	case resp.Endless:
		f.Odd(OddEnd, w.URI)
	}
}

// surprising reports whether the body has a content coding that was not requested and
// that no fact in the Source's entry would reveal. The encoded bytes are then not those
// of the resource.
func surprising(w *harvest.Resource, resp *fetch.Response) bool {
	coding := CodingOf(resp)
	return coding != "" && !w.Provable() && !strings.EqualFold(coding, w.Encoding)
}

// part opens the stored beginning of a transfer of the given length (-1 if unknown). It
// returns nil if the transfer is too short to be stored.
func (f *Fetcher) part(ctx context.Context, w *harvest.Resource, length int64) Part {
	if f.Parts == nil || length >= 0 && length <= CheckpointBytes {
		return nil
	}
	p, err := f.Parts.Part(ctx, w.URI)
	if err != nil {
		f.Tell(fmt.Sprintf("%s: if the transfer breaks off, it has to begin again: %v", w.URI, err))
		return nil
	}
	return p
}

// getPart is like get, but fetches into a part. first is the response if the request
// has already been sent.
func (f *Fetcher) getPart(ctx context.Context, s Store, w harvest.Resource, at string, p Part, first *fetch.Response) (n int64, coding string, err error) {
	dl := &Download{
		Client: f.Client, Part: p, Request: requestAt(&w, at), Length: w.Length, Digests: w.Digests,
		Accept: func(resp *fetch.Response) error {
			if surprising(&w, resp) { // it was not encoded when the transfer began
				return fmt.Errorf("%s: the server now sends the content coding %q, which was not requested", w.URI, CodingOf(resp))
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

// putPart passes the fetched part to the Store. If the disk has lost bytes that an
// earlier run had verified, everything is fetched once more.
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
