// Package transfer fetches the bytes of resources and verifies them. It requests a
// resource at its own URI or at that of a duplicate. A later run can continue the
// interrupted transfer of a large resource. The package also makes new versions of
// resources from patches.
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
	// Put reads all bytes of the resource w from r and stores them. If r returns an error,
	// for example because the bytes are wrong, Put stores nothing and returns that error.
	// verified is true if r checks a length or a digest.
	Put(ctx context.Context, set string, w harvest.Resource, r io.Reader, verified bool) (n int64, err error)
	// PutPart is like Put, but takes over the verified bytes of a Part without copying
	// them. After success the Part must not be used. The error is ErrNotHeld if the Part
	// no longer has the bytes of w, for example after a disk error. PutPart is called only
	// if the Fetcher has Parts.
	PutPart(ctx context.Context, set string, w harvest.Resource, p Part, verified bool) (n int64, err error)
}

// ErrNotHeld means that the described bytes are not stored, so they have to be fetched.
var ErrNotHeld = errors.New("the mirror does not hold the described bytes")

// Hashed is a reader that computes digests of the bytes that are read from it, so that
// a Store need not hash these bytes again.
type Hashed interface {
	// Digests returns the digests of the bytes read so far, always of the same
	// algorithms.
	Digests() resourcesync.Digests
}

// Verified is a body whose digests are computed while it is read.
type Verified struct {
	io.Reader
	Hashed
}

// Fetcher fetches the resources of one set, verifies them, and passes them to a Store. It
// is safe for concurrent use.
type Fetcher struct {
	Client     *fetch.Client
	Spool      string // directory for temporary files; "" for the system's directory
	Parts      Parts  // stores interrupted transfers of large resources; nil to store none
	Set        string
	AsOf       time.Time // time at which the Source sent its documents, by the Source's clock; zero if unknown
	Duplicates *Origins
	Tell       func(text string)                      // called with a sentence for the user about an event, such as an origin that failed
	Odd        func(o Oddity, uri string)             // called for each response that was accepted although it is unusual
	Came       func(w *harvest.Resource, bytes int64) // called for each response whose bytes were stored
}

// Oddity is an unusual behaviour of a server that a Fetcher accepts.
type Oddity int

// These are the values of Oddity.
const (
	OddSent      Oddity = iota // the body has a content coding that was not requested, and was stored encoded
	OddDecoded                 // the body has a content coding that was not requested, and was stored decoded
	OddRange                   // a response has the status 200 and a Content-Range header
	OddPage                    // XML was sent with the media type text/html
	OddDuplicate               // the bytes were fetched from a duplicate
	OddEnd                     // the end of the connection ended the body, so it may be incomplete
	Oddities                   // number of oddities
)

// If the encoded bytes do not match the length and digests of the resource, fetchAt
// fetches and decodes them.
func (f *Fetcher) fetchAt(ctx context.Context, s Store, w harvest.Resource, uri string) (int64, error) {
	n, coding, err := f.getRepeatedly(ctx, s, w, uri)
	if coding == "" {
		return n, err
	}
	// A Source may give the length and digests of the encoded body, as sent, or of the
	// decoded body.
	if err == nil {
		if !strings.EqualFold(coding, w.Encoding) {
			f.Odd(OddSent, w.URI)
		}
		return n, nil
	}
	if ctx.Err() != nil || !IsMismatch(err) {
		return n, err
	}
	if n, _, decoded := f.get(ctx, s, w, uri, true); decoded == nil {
		return n, nil
	}
	return n, err
}

// getRepeatedly calls get again if the body broke off and could not be continued, but
// not for the URI of a duplicate, because the bytes can be fetched from another URI.
func (f *Fetcher) getRepeatedly(ctx context.Context, s Store, w harvest.Resource, uri string) (n int64, coding string, err error) {
	for failed := 1; ; failed++ {
		n, coding, err = f.get(ctx, s, w, uri, false)
		if err == nil {
			f.Came(&w, n)
		}
		if !isOwn(&w, uri) || !f.Client.Again(ctx, failed, err) {
			return n, coding, err
		}
	}
}

// get fetches a resource from a URI. It decodes the body if decode is true, or if the
// server encoded it without being asked (surprising). It returns the content coding of
// the bytes that it stored or rejected.
func (f *Fetcher) get(ctx context.Context, s Store, w harvest.Resource, uri string, decode bool) (n int64, coding string, err error) {
	if !decode && w.Length.Known() {
		if p := f.openPart(ctx, &w, w.Length.Int64()); p != nil {
			return f.getPart(ctx, s, w, uri, p, nil)
		}
	}
	req := requestAt(&w, uri)
	resp, err := f.Client.Get(ctx, req)
	if err != nil {
		return 0, "", &harvest.SourceError{Err: err}
	}
	decode = decode || surprising(&w, resp)
	if !decode && !w.Length.Known() && resp.Resumable(req.Resume) != "" {
		if p := f.openPart(ctx, &w, resp.ContentLength); p != nil {
			return f.getPart(ctx, s, w, uri, p, resp)
		}
	}
	coding = CodingOf(resp)
	body, page, err := Body(&w, resp, decode, f.Spool)
	if err != nil {
		return 0, coding, &harvest.SourceError{Err: err}
	}
	defer body.Close()
	f.setCame(&w, resp, uri)
	w.Modified = resp.Modified()
	verified := resourcesync.NewVerifyReader(body, w.Length.Int64(), w.Digests, resourcesync.SHA256)
	n, err = s.Put(ctx, f.Set, w, Verified{harvest.SourceReader{URI: uri, Body: verified}, verified}, w.Provable())
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
	f.noteIncomplete(&w, resp)
	return n, coding, nil
}

// requestAt returns the request for the resource w at a URI. A request for a duplicate
// is not repeated, because the bytes can be fetched from another URI.
func requestAt(w *harvest.Resource, uri string) fetch.Request {
	req := Request(w)
	req.URL, req.Once = uri, !isOwn(w, uri)
	return req
}

func isOwn(w *harvest.Resource, uri string) bool {
	return uri == w.URI || uri == w.Memento || uri == w.BytesAt
}

// FetchMemento fetches earlier bytes of a resource from the URI w.Memento.
func (f *Fetcher) FetchMemento(ctx context.Context, s Store, w harvest.Resource) (int64, error) {
	return f.fetchAt(ctx, s, w, w.Memento)
}

// setCame uses the Date of the response only if the response is from the resource's own
// URI. The clock of another host cannot be compared with the times in the Source's
// documents, so setCame then uses the time at which the Source sent these.
func (f *Fetcher) setCame(w *harvest.Resource, resp *fetch.Response, uri string) {
	if !Timed(w) {
		return
	}
	if w.Came = resp.Date(); w.Came.IsZero() || uri != w.URI {
		w.Came = f.AsOf
	}
}

// Timed reports whether the mirror must record when the bytes of w arrived: a change
// describes the bytes, or only a lastmod can show that they are the listed version.
func Timed(w *harvest.Resource) bool { return w.Told || len(w.Digests) == 0 && !w.LastMod.IsZero() }

// noteIncomplete calls Odd for a response that may be incomplete. It does nothing if
// the Source gives a length or a digest, which detects missing bytes.
func (f *Fetcher) noteIncomplete(w *harvest.Resource, resp *fetch.Response) {
	switch {
	case w.Provable():
	case resp.Status == http.StatusOK && resp.Header.Get("Content-Range") != "":
		f.Odd(OddRange, w.URI)
	case resp.Endless:
		f.Odd(OddEnd, w.URI)
	}
}

// surprising reports whether the server encoded the body without being asked, and
// nothing shows that the Source means the encoded bytes: the entry does not state the
// coding, and has no length or digest. Then only the decoded bytes are those of the
// resource.
func surprising(w *harvest.Resource, resp *fetch.Response) bool {
	coding := CodingOf(resp)
	return coding != "" && !w.Provable() && !strings.EqualFold(coding, w.Encoding)
}

// openPart opens the Part for a transfer; nil if the transfer is too short to be worth
// storing, or cannot be stored. length is the number of bytes to transfer; -1 if it is
// unknown.
func (f *Fetcher) openPart(ctx context.Context, w *harvest.Resource, length int64) Part {
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

// getPart is like get, but stores the bytes in a Part, so that a later run can continue
// the transfer. first is the response to a request that was already sent, or nil.
func (f *Fetcher) getPart(ctx context.Context, s Store, w harvest.Resource, uri string, p Part, first *fetch.Response) (n int64, coding string, err error) {
	dl := &Download{
		Client: f.Client, Part: p, Request: requestAt(&w, uri), Length: w.Length, Digests: w.Digests,
		Accept: func(resp *fetch.Response) error {
			if surprising(&w, resp) { // encoded bytes cannot follow the bytes in Part, which are not encoded
				return fmt.Errorf("%s: the server now sends the content coding %q, which was not requested", w.URI, CodingOf(resp))
			}
			f.noteIncomplete(&w, resp)
			if resp.Offset == 0 {
				f.setCame(&w, resp, uri)
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

// putPart stores the bytes of a Download. If bytes of an earlier run are lost, it
// fetches all bytes once more.
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
