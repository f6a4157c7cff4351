package destination

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"instep/fetch"
	"instep/harvest"
	"instep/resourcesync"
	"instep/transfer"
)

// transfer brings the bytes of one resource into a batch, verified. An action that
// could not copy becomes a fetch.
func (r *runner) transfer(ctx context.Context, b Batch, a *Action) (int64, error) {
	if a.Kind == Copy || a.Kind == Adopt {
		if n, done, err := r.fromHere(ctx, b, a); done {
			return n, err
		}
	}
	if a.packaged() {
		n, err := r.fromPackage(ctx, b, a)
		if err == nil || a.packaged() {
			return n, err
		}
	}
	if err := r.skipRetry(a); err != nil {
		return 0, err
	}
	if !r.sp.Moment.IsZero() {
		return r.asThen(ctx, b, a)
	}
	return r.fromAnywhere(ctx, b, a.Want)
}

// fromHere takes the bytes of a Copy or an Adopt from what is here. If that is not
// what it was taken for, the action becomes a fetch.
func (r *runner) fromHere(ctx context.Context, b Batch, a *Action) (n int64, done bool, err error) {
	if a.Kind == Copy {
		n, err = b.Copy(ctx, r.sp.Set, a.Want, a.From)
	} else {
		n, err = b.Adopt(ctx, r.sp.Set, a.Want, a.From)
	}
	if err == nil || ctx.Err() != nil {
		return n, true, err
	}
	text := "the same bytes could not be copied from %s, so they are fetched: %v"
	if a.Kind == Adopt {
		text = "the file %q could not be adopted, so the bytes are fetched: %v"
	}
	r.d.note(r.sp.Set, a.Want.URI+": "+fmt.Sprintf(text, a.From, err))
	a.Kind, a.Via, a.From = Fetch, ViaGet, ""
	return 0, false, nil
}

// fromWeb brings the bytes of w that are served at a URI.
func (r *runner) fromWeb(ctx context.Context, b Batch, w harvest.Resource, at string) (int64, error) {
	n, coding, err := r.persist(ctx, b, w, at)
	if coding == "" {
		return n, err
	}
	// Sources describe either body: the one in the content coding it was sent in, or
	// the one without it.
	if err == nil {
		if !strings.EqualFold(coding, w.Encoding) {
			r.odd.add(oddSent, w.URI)
		}
		return n, nil
	}
	if ctx.Err() != nil || !transfer.IsMismatch(err) {
		return n, err
	}
	n, _, decoded := r.get(ctx, b, w, at, true)
	if decoded != nil {
		return n, err
	}
	return n, nil
}

// get fetches the bytes served at a URI into a batch, verified, and as they are sent or
// without their content coding. It returns the coding in which they are kept, or were
// refused.
func (r *runner) get(ctx context.Context, b Batch, w harvest.Resource, at string, decode bool) (n int64, coding string, err error) {
	if !decode && w.Length.Known() {
		if p := r.part(ctx, &w, w.Length.Int64()); p != nil {
			return r.getPart(ctx, b, w, at, p, nil)
		}
	}
	req := request(&w, at)
	resp, err := r.d.Client.Get(ctx, req)
	if err != nil {
		return 0, "", &harvest.SourceError{Err: err}
	}
	decode = decode || surprising(&w, resp)
	if !decode && !w.Length.Known() && resp.Resumable(req.Resume) != "" {
		if p := r.part(ctx, &w, resp.ContentLength); p != nil {
			return r.getPart(ctx, b, w, at, p, resp)
		}
	}
	coding = transfer.CodingOf(resp)
	body, page, err := transfer.Body(&w, resp, decode, r.d.Spool)
	if err != nil {
		return 0, coding, &harvest.SourceError{Err: err}
	}
	defer body.Close()
	r.arrive(&w, resp, at)
	w.Modified = resp.Modified()
	verified := resourcesync.NewVerifyReader(body, w.Length.Int64(), w.Digests, resourcesync.SHA256)
	n, err = b.Put(ctx, r.sp.Set, w, hashedReader{harvest.SourceReader{URI: at, Body: verified}, verified}, w.Provable())
	if decode {
		coding = ""
	}
	if err != nil {
		return n, coding, err
	}
	if decode {
		r.odd.add(oddDecoded, w.URI)
	}
	if page {
		r.odd.add(oddPage, w.URI)
	}
	r.lookWhole(&w, resp)
	return n, coding, nil
}

// request is the request for w at a URI. A duplicate is asked for once: there are other places.
func request(w *harvest.Resource, at string) fetch.Request {
	req := transfer.Request(w)
	req.URL, req.Once = at, !isOwn(w, at)
	return req
}

// isOwn reports whether a URI is not that of a duplicate.
func isOwn(w *harvest.Resource, at string) bool {
	return at == w.URI || at == w.Memento || at == w.BytesAt
}

// arrive notes when the bytes of w came, if anything depends on that. An answer that has no
// Date, or comes from elsewhere with another clock, came after the documents of the plan.
func (r *runner) arrive(w *harvest.Resource, resp *fetch.Response, at string) {
	if !timed(w) {
		return
	}
	if w.Came = resp.Date(); w.Came.IsZero() || at != w.URI {
		w.Came = r.sp.asOf
	}
}

// lookWhole counts w if the Source gives no length and no digest of it, and its answer leaves in
// doubt whether it holds the whole.
func (r *runner) lookWhole(w *harvest.Resource, resp *fetch.Response) {
	switch {
	case w.Provable():
	case resp.Status == http.StatusOK && resp.Header.Get("Content-Range") != "":
		r.odd.add(oddRange, w.URI)
	case resp.Endless:
		r.odd.add(oddEnd, w.URI)
	}
}

// surprising reports whether the body of an answer is in a content coding that nobody
// asked for, and nothing that the Source says of the resource would show it. Its bytes
// are not those of the resource.
func surprising(w *harvest.Resource, resp *fetch.Response) bool {
	coding := transfer.CodingOf(resp)
	return coding != "" && !w.Provable() && !strings.EqualFold(coding, w.Encoding)
}

// hashedReader is a reader of which the digests are computed already.
type hashedReader struct {
	io.Reader
	Hashed
}

// timed reports whether it counts when the bytes came: if a change tells of them, or if
// nothing but their lastmod ties them to what a list says.
func timed(w *harvest.Resource) bool { return w.Told || len(w.Digests) == 0 && !w.LastMod.IsZero() }

// part opens what is kept of a transfer of so many bytes (-1: unknown), or nil if
// nothing is worth to be kept.
func (r *runner) part(ctx context.Context, w *harvest.Resource, length int64) transfer.Part {
	keeper, ok := optional[transfer.Parts](r.d.Mirror)
	if !ok || length >= 0 && length <= transfer.CheckpointBytes {
		return nil
	}
	p, err := keeper.Part(ctx, w.URI)
	if err != nil {
		r.d.note(r.sp.Set, fmt.Sprintf("%s: if its transfer breaks off, nothing of it is kept: %v", w.URI, err))
		return nil
	}
	return p
}

// getPart is get into a part. first is the answer, if it was asked for already.
func (r *runner) getPart(ctx context.Context, b Batch, w harvest.Resource, at string, p transfer.Part, first *fetch.Response) (n int64, coding string, err error) {
	req := request(&w, at)
	dl := &transfer.Download{
		Client: r.d.Client, Part: p, Request: req, Length: w.Length, Digests: w.Digests,
		Accept: func(resp *fetch.Response) error {
			if surprising(&w, resp) { // it was not surprising when the transfer began
				return fmt.Errorf("%s: now in the content coding %q, which nobody asked for", w.URI, transfer.CodingOf(resp))
			}
			r.lookWhole(&w, resp)
			if resp.Offset == 0 {
				r.arrive(&w, resp, at)
			}
			w.Modified = resp.Modified()
			return transfer.Plausible(&w, resp)
		},
	}
	if err := dl.Run(ctx, first); err != nil {
		return 0, dl.Coding(), errors.Join(err, dl.Leave(ctx, err))
	}
	n, err = r.putPart(ctx, b, w, dl)
	return n, dl.Coding(), err
}

// putPart gives what was brought to the batch. The disk may have lost since what an
// earlier run had verified: then all is brought once more.
func (r *runner) putPart(ctx context.Context, b Batch, w harvest.Resource, dl *transfer.Download) (n int64, err error) {
	put := func() (int64, error) {
		return b.PutPart(ctx, r.sp.Set, w, dl.Part, w.Provable())
	}
	n, err = put()
	if errors.Is(err, ErrNotHeld) && dl.Joined() {
		if err := dl.Again(ctx); err != nil {
			return 0, errors.Join(err, dl.Leave(ctx, err))
		}
		n, err = put()
	}
	switch {
	case errors.Is(err, ErrNotHeld):
		err = errors.Join(err, dl.Part.Discard())
	case err != nil:
		err = errors.Join(err, dl.Part.Close())
	}
	return n, err
}

// persist is get, tried again as often as any request if a body broke off that could
// not go on.
func (r *runner) persist(ctx context.Context, b Batch, w harvest.Resource, at string) (n int64, coding string, err error) {
	for failed := 1; ; failed++ {
		n, coding, err = r.get(ctx, b, w, at, false)
		if err == nil {
			r.budget.came(&w, n)
		}
		if !isOwn(&w, at) || !r.d.Client.Again(ctx, failed, err) {
			return n, coding, err
		}
	}
}
