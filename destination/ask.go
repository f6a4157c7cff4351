package destination

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	"golang.org/x/sync/errgroup"

	"instep/fetch"
	"instep/internal/evidence"
	"instep/resourcesync"
)

// SkipDisputed is that of a resource of which the documents do not tell whether it exists,
// and the answer of its URI did not settle it.
const SkipDisputed Skip = "whether they exist is disputed"

// question is a URI that is asked because the documents leave it open whether it exists.
type question struct {
	s    evidence.Statement
	want Wanted // what the documents say of the resource if it exists; of a deletion without another word the URI and the moment
	from carrier
	held Held

	gone  bool  // the answer: it is not there
	kept  bool  // it is there, with the bytes held
	trust error // why it cannot be told
}

// ask takes down a question. It is asked while the plan is made, so that the guard counts
// the deletions that follow.
func (pl *planner) ask(ctx context.Context, s evidence.Statement, w *Wanted, from carrier, h *Held) error {
	pl.questions = append(pl.questions, question{s: s, want: *w, from: from, held: *h})
	if len(pl.questions) < lookupBatch {
		return nil
	}
	return pl.settle(ctx)
}

// settle asks what is open, and adds to the plan what follows.
func (pl *planner) settle(ctx context.Context) error {
	all := pl.questions
	pl.questions = nil
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(pl.d.workers())
	for i := range all {
		g.Go(func() error {
			all[i].put(gctx, pl.d.Client)
			return gctx.Err()
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for i := range all {
		if err := pl.answered(ctx, &all[i]); err != nil {
			return err
		}
	}
	return nil
}

func (pl *planner) answered(ctx context.Context, q *question) error {
	exists := q.s.Kind != evidence.Deleted && q.s.Kind != evidence.Absent
	deleted := q.s.Torn || !exists || !q.held.Gone.IsZero() // some word says so
	switch {
	case q.gone && !deleted:
	case q.gone && q.held.Member:
		q.want.Told = true
		return pl.remove(&q.held, &q.want, false)
	case q.gone:
		return nil
	case q.trust == nil && q.kept:
		return pl.do(ctx, evidence.Keep, &q.want, q.from, &q.held)
	case q.trust == nil && exists:
		return pl.do(ctx, evidence.Fetch, &q.want, q.from, &q.held)
	case q.trust == nil:
		q.trust = errors.New("it is there, with other bytes than those held")
	}
	pl.skip(SkipDisputed)
	pl.stays = true
	pl.d.note(pl.Set, fmt.Sprintf("%s: the documents do not tell whether it was deleted before or after it last existed, and asking for it did not settle that: %v", q.want.URI, q.trust))
	return nil
}

// put asks for the resource and compares what comes with what is held, and what is told.
func (q *question) put(ctx context.Context, client *fetch.Client) {
	resp, err := client.Get(ctx, fetch.Request{URL: q.want.URI, MaxBytes: maxResource, Fresh: true})
	if err != nil {
		var fe *fetch.Error
		q.gone = errors.As(err, &fe) && (fe.Status == http.StatusNotFound || fe.Status == http.StatusGone)
		q.trust = err
		return
	}
	defer resp.Body.Close()
	var algs []resourcesync.Algorithm
	for _, d := range slices.Concat(q.held.Digests, q.want.Digests) {
		algs = append(algs, d.Algorithm())
	}
	slices.Sort(algs)
	h := resourcesync.NewHasher(slices.Compact(algs)...)
	n, err := io.Copy(h, resp.Body)
	if err != nil {
		q.trust = err
		return
	}
	came := h.Digests()
	are := func(ds resourcesync.Digests, l resourcesync.Length) bool {
		return (!l.Known() || l.Int64() == n) && !slices.ContainsFunc(ds, func(d resourcesync.Digest) bool { return came.Get(d.Algorithm()) != d })
	}
	switch {
	case q.held.Stored && q.held.Due == "" && len(q.held.Digests) > 0 && are(q.held.Digests, q.held.Length):
		q.kept = true
	case !are(q.want.Digests, q.want.Length):
		q.trust = errors.New("it is there, with other bytes than those held or told of")
	}
}
