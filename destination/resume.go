package destination

import (
	"context"
	"errors"
	"fmt"

	"instep/fetch"
	"instep/harvest"
	"instep/transfer"
)

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
	req := transfer.Request(&w)
	req.URL = at
	dl := &transfer.Download{
		Client: r.d.Client, Part: p, Request: req, Length: w.Length, Digests: w.Digests,
		Accept: func(resp *fetch.Response) error {
			if surprising(&w, resp) { // it was not, when the transfer began
				return fmt.Errorf("%s: now in the content coding %q, which nobody asked for", w.URI, transfer.CodingOf(resp))
			}
			r.lookWhole(&w, resp)
			if resp.Offset == 0 {
				r.arrive(&w, resp)
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
		if !r.d.Client.Again(ctx, failed, err) {
			return n, coding, err
		}
	}
}
