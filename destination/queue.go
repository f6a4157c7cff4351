package destination

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"instep/fetch"
	"instep/harvest"
	"instep/resourcesync"
)

// queue fills batches with actions: one is open while the one before commits.
type queue struct {
	r      *runner
	save   context.Context // for writes that must not be lost when the run is interrupted
	open   *openBatch
	before *openBatch // that commits, or has
	commit chan error // result of the batch before; nil: none
}

// openBatch is a batch being filled.
type openBatch struct {
	r       *runner
	b       Batch
	n       int          // resources, in parts of 1 / cheap
	more    atomic.Int64 // the same for resources that were requested individually after all
	bytes   int64
	uris    map[resourcesync.Key]bool
	waiting []Action // not started yet
	workers sync.WaitGroup

	marks []Action // marks and deletions, done after the transfers

	ended   chan struct{} // closed when the transfers have, and what they brought is durable or syncErr; nil: nobody waits
	syncErr error

	mu   sync.Mutex // guards the rest
	done []outcome
}

// outcome is what has become of an action: so many bytes came, or it failed.
type outcome struct {
	Action
	n   int64
	err error
}

// brief reports whether an action moves no bytes.
func (a *Action) brief() bool { return a.Kind == Mark || a.Kind == Delete || a.Kind == Remember }

func weight(a *Action) int64 {
	if a.brief() {
		return 0
	}
	return harvest.LengthOr(a.Want.Length)
}

// room is how much of the room for resources an action takes, in parts of 1 / cheap. What
// is said of the resource takes some, too: it is in memory until the batch is committed.
func room(a *Action) int {
	n := 1
	if a.Kind == Fetch && !a.packaged() {
		n = cheap
	}
	return n + a.Want.Remainder.Held()/textRoom
}

// full reports whether a, whose URI has this key, has to wait for the next batch.
func (l *openBatch) full(a *Action, key resourcesync.Key) bool {
	return l.n > 0 && (l.n+int(l.more.Load()) >= halfResources*cheap || l.bytes+weight(a) > halfBytes || l.uris[key])
}

// lookAhead is how many actions are looked up together.
const lookAhead = 64

// add puts an action into the open batch. It waits for free workers when there are
// enough actions to start.
func (q *queue) add(ctx context.Context, a Action) error {
	key := resourcesync.KeyOf(a.Want.URI)
	if q.open != nil && q.open.full(&a, key) {
		if err := q.flush(ctx); err != nil {
			return err
		}
		if err := q.rotate(nil); err != nil {
			return err
		}
	}
	if q.commit != nil && q.before.uris[key] { // its results count there
		if err := q.committed(); err != nil {
			return err
		}
	}
	if q.open == nil {
		b, err := q.r.d.Mirror.Begin(q.save)
		if err != nil {
			return err
		}
		q.open = &openBatch{r: q.r, b: b, uris: map[resourcesync.Key]bool{}}
	}
	l := q.open
	l.n += room(&a)
	l.bytes += weight(&a)
	l.uris[key] = true
	if a.brief() {
		l.marks = append(l.marks, a)
		return nil
	}
	if l.waiting = append(l.waiting, a); len(l.waiting) < lookAhead {
		return nil
	}
	return q.flush(ctx)
}

// flush starts what waits in the open batch.
func (q *queue) flush(ctx context.Context) error {
	l := q.open
	if l == nil {
		return nil
	}
	waiting := l.waiting
	l.waiting = nil
	if err := l.expect(ctx, waiting); err != nil {
		return err
	}
	for i := range waiting {
		a := &waiting[i]
		if err := q.r.slots.Acquire(ctx, 1); err != nil {
			return err
		}
		if err := q.r.budget.take(a); err != nil {
			q.r.slots.Release(1)
			q.r.exhaust(err)
			return nil
		}
		l.workers.Go(func() {
			defer q.r.slots.Release(1)
			l.bring(ctx, a)
		})
	}
	return nil
}

func (l *openBatch) expect(ctx context.Context, actions []Action) error {
	if len(actions) == 0 {
		return nil
	}
	return l.b.Expect(ctx, l.r.sp.Set, urisOf(actions, func(a *Action) string { return a.Want.URI }))
}

// rotate waits for the last commit and starts the commit of the open batch.
func (q *queue) rotate(move *CursorMove) error {
	q.open.end(q.save)
	if err := q.committed(); err != nil {
		return err
	}
	l := q.open
	if l == nil {
		return nil
	}
	q.open, q.before = nil, l
	done := make(chan error, 1)
	q.commit = done
	go func() { done <- l.finish(q.save, move) }()
	return nil
}

// finish commits what is left, with the cursor if the whole plan was done. That is
// known only when the transfers of both halves have ended.
func (q *queue) finish() {
	r := q.r
	q.open.end(q.save)
	if err := q.committed(); err != nil {
		r.stop(err)
	}
	if q.open == nil && r.move() != nil {
		b, err := r.d.Mirror.Begin(q.save)
		if err != nil {
			r.stop(err)
		} else {
			q.open = &openBatch{r: r, b: b}
		}
	}
	if q.open != nil {
		q.open.workers.Wait()
	}
	if err := q.rotate(r.move()); err != nil {
		r.stop(err)
		_ = q.open.discard()
	}
	if err := q.committed(); err != nil {
		r.stop(err)
	}
}

// committed waits for the commit that is under way, if there is one.
func (q *queue) committed() error {
	if q.commit == nil {
		return nil
	}
	err := <-q.commit
	q.commit = nil
	return err
}

// end starts a goroutine that waits for the transfers of the batch and makes their bytes
// durable, while the batch before is committed. Nothing may be added to the batch after
// this call.
func (l *openBatch) end(ctx context.Context) {
	if l == nil || l.ended != nil {
		return
	}
	l.ended = make(chan struct{})
	go func() {
		defer close(l.ended)
		l.workers.Wait()
		l.syncErr = l.b.Sync(ctx)
	}()
}

func (l *openBatch) discard() error {
	if l == nil {
		return nil
	}
	<-l.ended
	return l.b.Discard()
}

func (l *openBatch) bring(ctx context.Context, a *Action) {
	l.r.d.observe(Event{Kind: EventBegun, Set: l.r.rep.Set, Action: *a})
	planned := room(a)
	n, err := l.r.transfer(ctx, l.b, a)
	l.more.Add(int64(room(a) - planned))
	switch {
	case err != nil && ctx.Err() != nil: // neither done nor failed: the cursor must not pass it
		l.r.stop(context.Cause(ctx))
	case errors.Is(err, ErrStale):
		// newer here already: neither done nor failed
	case err == nil || harvest.IsSourceError(err) || errors.Is(err, ErrOccupied) || errors.Is(err, ErrNoPlace):
		if err != nil {
			n = 0
		}
		l.mu.Lock()
		l.done = append(l.done, outcome{*a, n, err})
		l.mu.Unlock()
		l.r.d.observe(Event{Kind: EventTransferred, Set: l.r.rep.Set, Action: *a, Bytes: n, Err: err})
		l.r.answered(a, !isSilence(err))
	default:
		l.r.stop(err)
	}
}

// answered counts failures in a row for lack of an answer.
func (r *runner) answered(a *Action, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := &r.failuresInRow
	if a.Again {
		n = &r.retryFailures
	}
	if ok {
		*n = 0
		return
	}
	if *n++; r.failuresInRow >= maxOutage && r.err == nil {
		r.err = ErrOutage
		r.cancel()
	}
}

// skipRetry says why what failed before is not requested again in this run; nil if it is.
func (r *runner) skipRetry(a *Action) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !a.Again || r.retryFailures < maxOutage {
		return nil
	}
	return &harvest.SourceError{Err: fmt.Errorf("%s was not asked for, as %d others that had failed before were in vain: %w", a.Want.URI, maxOutage, ErrOutage)}
}

// isSilence reports whether the Source did not answer, or was too busy to. One that fails
// over a resource (500) has answered.
func isSilence(err error) bool {
	var fe *fetch.Error
	return errors.As(err, &fe) && fe.Kind == fetch.Temporary && fe.Status != http.StatusInternalServerError || errors.Is(err, ErrOutage)
}

// maxReason bounds the reason kept with a resource that is due, in bytes.
const maxReason = 500

func reason(err error) string {
	s := err.Error()
	return strings.ToValidUTF8(s[:min(len(s), maxReason)], "")
}

// finish waits for the transfers, adds the rest and commits.
func (l *openBatch) finish(ctx context.Context, move *CursorMove) error {
	defer func() { _ = l.discard() }()
	<-l.ended
	if l.syncErr != nil {
		return l.syncErr
	}
	set := l.r.sp.Set
	if l.r.sp.consent {
		l.b.Consent()
	}
	if _, doubt := l.r.troubles(); doubt != nil {
		l.marks = slices.DeleteFunc(l.marks, func(a Action) bool { return a.Kind == Delete })
	}
	if err := l.expect(ctx, l.marks); err != nil {
		return err
	}
	for _, a := range l.marks {
		var err error
		switch {
		case a.Kind == Mark:
			err = l.b.Mark(ctx, set, a.Want)
		case a.Want.Told:
			err = l.b.Delete(ctx, set, a.Want.URI, a.Want.Changed)
		default:
			err = l.b.Delete(ctx, set, a.Want.URI, time.Time{})
		}
		switch {
		case errors.Is(err, ErrNotHeld): // another set of this run has changed it since the plan
			l.done = append(l.done, outcome{a, 0, err})
		case err != nil && !errors.Is(err, ErrStale):
			return err
		case a.Kind == Delete:
			l.done = append(l.done, outcome{Action: a})
		}
	}
	for _, o := range l.done {
		switch {
		case o.err == nil:
		case errors.Is(o.err, ErrNoPlace): // nor is there a place to remember it: the list names it again
		case o.Again && errors.Is(o.err, ErrOutage): // it is due already, for a more informative reason
		default:
			if err := l.b.Due(ctx, set, o.Want, reason(o.err)); err != nil {
				return err
			}
		}
	}
	if err := l.b.Commit(ctx, move); err != nil {
		return err
	}
	l.report()
	return nil
}

func (l *openBatch) report() {
	for _, o := range l.done {
		e := Event{Kind: EventDone, Set: l.r.rep.Set, Action: o.Action, Bytes: o.n}
		if o.err != nil {
			e.Kind, e.Err = EventFailed, o.err
		}
		l.r.rep.count(&o)
		l.r.d.observe(e)
	}
}

func (rep *SetReport) count(o *outcome) {
	switch {
	case o.err != nil:
		if rep.Failed++; len(rep.Failures) < maxFailures {
			rep.Failures = append(rep.Failures, Failure{o.Want.URI, o.err})
		}
		return
	case o.Kind == Delete:
		rep.Deleted++
		return
	case o.Change == resourcesync.Created:
		rep.Created++
	default:
		rep.Updated++
	}
	rep.Via[o.Via]++
	if weak(o.Want.Digests) {
		rep.Weak++
	}
	if !o.Want.Provable() {
		rep.Unverified++
	}
	if o.Via == ViaLocal {
		rep.Copied += o.n
	} else {
		rep.Bytes += o.n
	}
}
