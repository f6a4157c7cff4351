package destination

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"instep/evidence"
	"instep/fetch"
	"instep/harvest"
	"instep/resourcesync"
	"instep/transfer"
)

// SkipDisputed means that neither the documents nor a request for the URI show whether
// the resource exists, or which of its versions is the last one.
const SkipDisputed Skip = "described by documents that contradict each other"

// maxQuestions is the maximum number of disputed URIs that are requested for one plan.
const maxQuestions = 10_000

// maxNamed is the maximum number of disputed URIs that are reported one by one.
const maxNamed = 20

// maxAnswer is the maximum number of bytes read from the response for a disputed URI
// that the mirror does not hold. The transfer of a larger resource verifies its bytes
// later.
const maxAnswer = 16 << 20

// question is a planned request for a URI, because the documents do not show whether
// its resource exists.
type question struct {
	word
	held Held

	gone  bool  // result of the request: the URI does not exist
	kept  bool  // result of the request: the URI has the bytes that the mirror holds
	trust error // error because of which the request has no result
}

// ask adds a request for a disputed URI. The requests are sent while the plan is made:
// an answer may lead to a deletion, and the limit counts all deletions of the plan.
func (pl *planner) ask(ctx context.Context, w word, h *Held) error {
	want := *w.want
	w.want = &want
	q := question{word: w, held: *h}
	if pl.asks++; pl.asks > maxQuestions {
		q.trust = fmt.Errorf("a plan requests at most %d disputed URIs", maxQuestions)
		return pl.conclude(ctx, &q)
	}
	pl.questions = append(pl.questions, q)
	if len(pl.questions) < lookupBatch {
		return nil
	}
	return pl.askQuestions(ctx)
}

func (pl *planner) askQuestions(ctx context.Context) error {
	all := pl.questions
	pl.questions = nil
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(pl.d.workers())
	var silent atomic.Int64 // approximate number of consecutive requests without an answer
	for i := range all {
		g.Go(func() error {
			q := &all[i]
			if silent.Load() >= maxOutage {
				q.trust = ErrOutage
				return gctx.Err()
			}
			q.send(gctx, pl.d.Client)
			if silent.Add(1); q.gone || !isSilence(q.trust) {
				silent.Store(0)
			}
			return gctx.Err()
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for i := range all {
		if err := pl.conclude(ctx, &all[i]); err != nil {
			return err
		}
	}
	return nil
}

func (pl *planner) conclude(ctx context.Context, q *question) error {
	exists := q.Kind != evidence.Deleted && q.Kind != evidence.Absent
	// a document or the mirror says that the resource was deleted
	deleted := q.Denied || !exists || !q.held.Gone.IsZero() || pl.lacked(q)
	switch {
	case q.gone && !deleted:
	case q.gone && q.held.Member:
		q.want.Told = true
		return pl.remove(&q.held, q.want, false)
	case q.gone:
		return nil
	case q.trust == nil && q.kept && exists && !q.held.Member: // nothing to fetch: another set of the mirror contains the URI with these bytes
		return pl.do(ctx, evidence.Confirm, q.want, q.from, &q.held)
	case q.trust == nil && q.kept && q.held.Member && !q.want.Told && match(&q.held, q.want) == evidence.Same:
		pl.Same++
		return pl.mark(q.want, &q.held) // so that the next run does not request the URI because of the same list
	case q.trust == nil && q.kept && q.held.Member:
		return pl.do(ctx, evidence.Keep, q.want, q.from, &q.held)
	case q.trust == nil && exists:
		return pl.do(ctx, evidence.Fetch, q.want, q.from, &q.held)
	case q.trust == nil:
		q.trust = errors.New("the URI exists, but its bytes differ from those in the mirror")
	}
	pl.skip(SkipDisputed, 1)
	if pl.stays = true; pl.Skipped[SkipDisputed] > maxNamed {
		return nil
	}
	open := "which version is the last one"
	if deleted {
		open = "which is later, its deletion or its last version"
	}
	pl.d.note(pl.Set, fmt.Sprintf("%s: the documents do not show %s, and a request for it did not show it either: %v", q.want.URI, open, q.trust))
	return nil
}

func (pl *planner) lacked(q *question) bool {
	known := pl.d.evidenceOf(evidence.Absent, &q.held, pl.known, pl.sent())
	return !known.Member && !known.At.IsZero() && !q.From.After(known.At)
}

// send requests the URI. It reads no more of the response than the comparison needs.
func (q *question) send(ctx context.Context, client *fetch.Client) {
	held := q.held.Stored && q.held.Due == "" && len(q.held.Digests) > 0
	told := []*harvest.Resource{q.want}
	if q.or != nil {
		told = append(told, q.or)
	}
	var most int64
	digests := slices.Clone(q.held.Digests)
	for _, w := range told {
		most = min(max(most, w.Length.Int64()), maxAnswer)
		digests = append(digests, w.Digests...)
	}
	var algs []resourcesync.Algorithm
	for _, d := range digests {
		algs = append(algs, d.Algorithm())
	}
	if held {
		most = max(most, q.held.Length.Int64())
	}
	resp, err := client.Get(ctx, fetch.Request{URL: q.want.URI, MaxBytes: transfer.MaxResource, Fresh: true})
	if err != nil {
		q.gone, q.trust = errors.Is(err, fetch.NotFound), err
		return
	}
	defer resp.Body.Close()
	slices.Sort(algs)
	h := resourcesync.NewHasher(slices.Compact(algs)...)
	n, err := io.Copy(h, io.LimitReader(resp.Body, most+1))
	if err != nil {
		q.trust = err
		return
	}
	came := harvest.Resource{Length: resourcesync.Bytes(n), Digests: h.Digests()}
	unbounded := func(w *harvest.Resource) bool { return !w.Length.Known() || w.Length.Int64() > most }
	switch whole := n <= most; {
	case held && whole && !came.Contradicts(q.held.Length, q.held.Digests):
		q.kept = true
		return
	case !whole && slices.ContainsFunc(told, unbounded): // too long to compare here: the transfer of the resource verifies the bytes
		return
	}
	if i := slices.IndexFunc(told, func(w *harvest.Resource) bool { return !came.Contradicts(w.Length, w.Digests) }); i < 0 {
		q.trust = errors.New("the URI exists, but its bytes differ from those in the mirror and from the descriptions")
	} else if i > 0 {
		q.want, q.from = told[i], harvest.Location{}
	}
}
