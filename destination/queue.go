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

// queue fills one batch of actions while the previous batch is committed.
type queue struct {
	r      *runner
	save   context.Context // context for writes that must not be lost when the run is interrupted
	open   *openBatch
	before *openBatch // the previous batch
	commit chan error // receives the result of the running commit; nil if no commit is running
}

// openBatch is a batch that is being filled or committed.
type openBatch struct {
	r       *runner
	b       Batch
	n       int          // sum of the sizes of the actions (see the function size)
	more    atomic.Int64 // size added by resources that, contrary to the plan, needed a request of their own
	bytes   int64
	uris    map[resourcesync.Key]bool
	waiting []Action // actions whose transfers have not started
	workers sync.WaitGroup

	marks []Action // actions that need no bytes, applied after the transfers

	ended   chan struct{} // closed when all transfers of the batch have ended and its bytes are durable; nil until syncWhenDone is called
	syncErr error

	mu   sync.Mutex // guards done
	done []outcome
}

// outcome is the result of an action: the number of bytes, or an error.
type outcome struct {
	Action
	n   int64
	err error
}

func (a *Action) brief() bool { return a.Kind == Mark || a.Kind == Delete || a.Kind == Remember }

func weight(a *Action) int64 {
	if a.brief() {
		return 0
	}
	return harvest.LengthOr(a.Want.Length)
}

// size returns the size of an action in a batch. The other attributes of the resource
// add to the size, because they stay in memory until the batch is committed.
func size(a *Action) int {
	n := 1
	if a.Kind == Fetch && !a.packaged() {
		n = requestSize
	}
	return n + a.Want.Remainder.Held()/textRoom
}

// full reports whether the batch has no room for the action. A batch does not have two
// actions for the same URI.
func (l *openBatch) full(a *Action, key resourcesync.Key) bool {
	return l.n > 0 && (l.n+int(l.more.Load()) >= halfResources*requestSize || l.bytes+weight(a) > halfBytes || l.uris[key])
}

// lookAhead is the number of URIs that the mirror looks up together.
const lookAhead = 64

// add adds an action to the open batch. It starts the waiting transfers when there are
// lookAhead of them, and returns when each has a worker.
func (q *queue) add(ctx context.Context, a Action) error {
	key := resourcesync.KeyOf(a.Want.URI)
	if q.open != nil && q.open.full(&a, key) {
		if err := q.flush(ctx); err != nil {
			return err
		}
		if err := q.commitOpen(); err != nil {
			return err
		}
	}
	// Actions for the same URI must be committed one after the other.
	if q.commit != nil && q.before.uris[key] {
		if err := q.awaitCommit(); err != nil {
			return err
		}
	}
	if q.open == nil {
		if err := q.begin(); err != nil {
			return err
		}
	}
	l := q.open
	l.n += size(&a)
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

func (q *queue) begin() error {
	b, err := q.r.d.Mirror.Begin(q.save)
	if err == nil {
		q.open = &openBatch{r: q.r, b: b, uris: map[resourcesync.Key]bool{}}
	}
	return err
}

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
		if err := q.r.budget.allow(a); err != nil {
			q.r.slots.Release(1)
			q.r.startNoMore(err)
			return nil
		}
		l.workers.Go(func() {
			defer q.r.slots.Release(1)
			l.transfer(ctx, a)
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

// commitOpen starts to commit the open batch when the previous commit has ended.
func (q *queue) commitOpen() error {
	l := q.open
	l.syncWhenDone(q.save)
	if err := q.awaitCommit(); err != nil {
		return err
	}
	q.open, q.before = nil, l
	done := make(chan error, 1)
	q.commit = done
	go func() { done <- l.finish(q.save, nil) }()
	return nil
}

// finish commits the last batches. It moves the cursor if the whole plan was carried
// out, which is known only when all transfers have ended.
func (q *queue) finish() {
	r := q.r
	if q.open != nil {
		q.open.syncWhenDone(q.save)
	}
	if err := q.awaitCommit(); err != nil {
		r.stop(err)
	}
	if q.open == nil && r.allowedMove() != nil {
		if err := q.begin(); err != nil {
			r.stop(err)
		}
	}
	if l := q.open; l != nil {
		l.syncWhenDone(q.save)
		l.workers.Wait()
		if err := l.finish(q.save, r.allowedMove()); err != nil {
			r.stop(err)
		}
	}
}

func (q *queue) awaitCommit() error {
	if q.commit == nil {
		return nil
	}
	err := <-q.commit
	q.commit = nil
	return err
}

// syncWhenDone starts a goroutine that waits for the transfers of the batch and makes
// their bytes durable, while the previous batch is committed.
func (l *openBatch) syncWhenDone(ctx context.Context) {
	if l.ended != nil {
		return
	}
	l.ended = make(chan struct{})
	go func() {
		defer close(l.ended)
		l.workers.Wait()
		l.syncErr = l.b.Sync(ctx)
	}()
}

func (l *openBatch) transfer(ctx context.Context, a *Action) {
	l.r.d.observe(Event{Kind: EventBegun, Set: l.r.rep.Set, Action: *a})
	planned := size(a)
	n, err := l.r.transfer(ctx, l.b, a)
	l.more.Add(int64(size(a) - planned))
	switch {
	// An interrupted action is neither done nor failed, so the run ends without moving the
	// cursor.
	case err != nil && ctx.Err() != nil:
		l.r.stop(context.Cause(ctx))
	case errors.Is(err, ErrStale):
		// the mirror already has a newer state, so there is nothing to report
	case err == nil || harvest.IsSourceError(err) || errors.Is(err, ErrOccupied) || errors.Is(err, ErrNoPlace):
		if err != nil {
			n = 0
		}
		l.mu.Lock()
		l.done = append(l.done, outcome{*a, n, err})
		l.mu.Unlock()
		l.r.d.observe(Event{Kind: EventTransferred, Set: l.r.rep.Set, Action: *a, Bytes: n, Err: err})
		l.r.countAnswer(a, !isSilence(err))
	default:
		l.r.stop(err)
	}
}

func (r *runner) countAnswer(a *Action, ok bool) {
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

// skipRetry returns an error for a retry after maxOutage failed retries in a row.
func (r *runner) skipRetry(a *Action) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !a.Again || r.retryFailures < maxOutage {
		return nil
	}
	return &harvest.SourceError{Err: fmt.Errorf("%s was not requested, because %d other retries in a row failed: %w", a.Want.URI, maxOutage, ErrOutage)}
}

// isSilence reports whether the Source did not answer or was too busy. Status 500, an
// error for one resource, is an answer.
func isSilence(err error) bool {
	var fe *fetch.Error
	return errors.As(err, &fe) && fe.Kind == fetch.Temporary && fe.Status != http.StatusInternalServerError || errors.Is(err, ErrOutage)
}

// maxReason is the maximum length in bytes of the reason that the mirror stores for
// fetching a resource again.
const maxReason = 500

func reason(err error) string {
	s := err.Error()
	return strings.ToValidUTF8(s[:min(len(s), maxReason)], "")
}

func (l *openBatch) finish(ctx context.Context, move *CursorMove) error {
	<-l.ended
	defer func() { _ = l.b.Discard() }()
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
		// An action of another set has changed the bytes of the URI since the plan was made.
		case errors.Is(err, ErrNotHeld):
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
		// The mirror cannot store a reason for a URI without a path; the next list contains
		// the resource again.
		case errors.Is(o.err, ErrNoPlace):
		// The mirror already stores the reason of an earlier failure, which says more than
		// ErrOutage.
		case o.Again && errors.Is(o.err, ErrOutage):
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
