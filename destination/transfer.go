package destination

import (
	"context"
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
	if err := r.resigned(a); err != nil {
		return 0, err
	}
	n, err := r.fromWeb(ctx, b, a.Want, a.Want.URI)
	if harvest.IsSourceError(err) && ctx.Err() == nil {
		return r.fromDuplicates(ctx, b, a.Want, err)
	}
	return n, err
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
	req := transfer.Request(&w)
	req.URL = at
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
	r.arrive(&w, resp)
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

// arrive notes when the bytes of w came, if anything depends on that. An answer that has no
// Date came after the documents of the plan.
func (r *runner) arrive(w *harvest.Resource, resp *fetch.Response) {
	if !timed(w) {
		return
	}
	if w.Came = resp.Date(); w.Came.IsZero() {
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
