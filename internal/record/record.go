// Package record takes the changes that applications push, as JSON Lines from a
// reader or over a socket, records them in a set and publishes them soon after.
//
// A Recorder is the core: it records what comes in batches, each one transaction,
// and answers a line when its change is durable. [Recorder.Read] takes the lines of
// one reader, [Recorder.Serve] those of any number of connections. Every queue is
// bounded: who pushes faster than changes are recorded waits.
package record

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"instep/internal/catalog"
	"instep/internal/publish"
	"instep/resourcesync"
)

const (
	queueSize = 2 * catalog.MaxChanges // lines that wait to be recorded
	// stopTime is how long a Recorder works on after its context has ended: what it was
	// given is recorded and published.
	stopTime = 4 * time.Second
	attempts = 3 // to record a batch while a scan records as well
)

// Session is the part of a publish.Session that is needed.
type Session interface {
	Known(ctx context.Context, set string, uris []string) ([]catalog.Resource, error)
	Look(ctx context.Context, set, path string) (r catalog.Resource, release func(), err error)
	Accept(ctx context.Context, set string, told catalog.Resource) (r catalog.Resource, release func(), err error)
	URIOf(ctx context.Context, path string) (string, error)
	Record(ctx context.Context, set string, changes []catalog.Change) error
	Publish(ctx context.Context, what publish.What) (publish.Report, error)
}

// Recorder records changes of one set and publishes them. All but Set is required.
type Recorder struct {
	Session Session
	Set     string
	Every   time.Duration // between two publications
	Now     func() time.Time
	// Published is called after each publication, also after one that failed and will be
	// repeated.
	Published func(publish.Report, error)
	// Answered is called with each answer, never concurrently with itself; nil is none.
	Answered func(Answer)

	answering sync.Mutex // guards Answered
	queue     chan request
	fresh     atomic.Bool // something was recorded since the last publication began
}

// Answer is what became of a line.
type Answer struct {
	Line   int    `json:"line"` // from 1
	OK     bool   `json:"ok"`
	URI    string `json:"uri,omitempty"`
	Change string `json:"change,omitempty"` // created, updated, deleted, or unchanged: then nothing was recorded
	Error  string `json:"error,omitempty"`
}

// request is a line, as far as it could be parsed.
type request struct {
	line    int
	change  catalog.Change // without Change: decided by what is known
	wrong   error
	release func()        // ends what is held for the change; nil is nothing
	answers chan<- Answer // never blocks
}

// drop is the end of a request without an answer.
func (r *Recorder) drop(q *request) {
	if q.release != nil {
		q.release()
		r.fresh.Store(true) // if it was without success, the next publication tidies up
	}
}

func (r *Recorder) answer(q *request, change string, err error) {
	r.drop(q)
	a := Answer{Line: q.line, OK: err == nil, URI: q.change.URI, Change: change}
	if err != nil {
		a.Error = err.Error()
	}
	if r.Answered != nil {
		r.answering.Lock()
		r.Answered(a)
		r.answering.Unlock()
	}
	q.answers <- a
}

// Run records what intake takes, and publishes, until intake has returned and all of
// it is recorded and published. When ctx ends intake has to return; then there are
// four seconds for the rest. An error of intake, or one that kept changes from being
// recorded, is returned.
func (r *Recorder) Run(ctx context.Context, intake func(context.Context) error) error {
	r.queue = make(chan request, queueSize)
	work, stop := workContext(ctx)
	defer stop()
	taking, refuse := context.WithCancel(ctx)
	defer refuse()
	ended := make(chan struct{})
	var intakeErr, recordErr error
	go func() {
		defer close(ended)
		intakeErr = intake(taking)
	}()
	done := make(chan struct{})
	go func() {
		defer close(done)
		recordErr = r.record(work, ended, refuse)
	}()
	r.publishEvery(work, done)
	<-ended
	var err error
	if r.fresh.Load() {
		err = r.publish(work)
	}
	if recordErr != nil {
		intakeErr = nil // the context ended because of that
	}
	return errors.Join(recordErr, intakeErr, err)
}

// workContext ends stopTime after ctx.
func workContext(ctx context.Context) (context.Context, context.CancelFunc) {
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var late *time.Timer
	started := make(chan struct{})
	release := context.AfterFunc(ctx, func() {
		late = time.AfterFunc(stopTime, cancel)
		close(started)
	})
	return work, func() {
		if !release() {
			<-started
			late.Stop()
		}
		cancel()
	}
}

// publishEvery publishes what is recorded until recording is done.
func (r *Recorder) publishEvery(ctx context.Context, done <-chan struct{}) {
	tick := time.NewTicker(r.Every)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
			if r.fresh.Load() && r.publish(ctx) != nil {
				r.fresh.Store(true)
			}
		}
	}
}

func (r *Recorder) publish(ctx context.Context) error {
	r.fresh.Store(false)
	rep, err := r.Session.Publish(ctx, publish.What{Sets: []string{r.Set}, NoScan: true})
	r.Published(rep, err)
	return err
}

// record records what is in the queue until intake has ended and the queue is empty.
// After an error nothing more is recorded: refuse ends the intake, and what is left is
// answered with the error.
func (r *Recorder) record(ctx context.Context, ended <-chan struct{}, refuse func()) (failed error) {
	var next *request // a second change of a resource begins another batch
	for {
		var batch []request
		batch, next = r.gather(next, ended)
		if len(batch) == 0 {
			return failed
		}
		if failed == nil {
			if failed = r.recordBatch(ctx, batch); failed != nil {
				refuse()
			}
			continue
		}
		for i := range batch {
			r.answer(&batch[i], "", failed)
		}
	}
}

// gather waits for a request and takes those that wait behind it. A resource comes
// once in a batch, as all changes of one have the same time; what would be its second
// one is returned apart.
func (r *Recorder) gather(first *request, ended <-chan struct{}) (batch []request, next *request) {
	taken := map[string]bool{}
	if first != nil {
		batch = append(batch, *first)
	} else {
		q, ok := r.wait(ended)
		if !ok {
			return nil, nil
		}
		batch = append(batch, q)
	}
	taken[batch[0].change.URI] = true
	for len(batch) < catalog.MaxChanges {
		select {
		case q := <-r.queue:
			if q.wrong == nil && taken[q.change.URI] {
				return batch, &q
			}
			taken[q.change.URI] = true
			batch = append(batch, q)
		default:
			return batch, nil
		}
	}
	return batch, nil
}

func (r *Recorder) wait(ended <-chan struct{}) (request, bool) {
	select {
	case q := <-r.queue:
		return q, true
	case <-ended:
	}
	select {
	case q := <-r.queue:
		return q, true
	default:
		return request{}, false
	}
}

// recordBatch records a batch and answers its lines. Between the look at what is known
// and the recording a scan may have recorded something else.
func (r *Recorder) recordBatch(ctx context.Context, batch []request) error {
	var kinds []string
	var err error
	for range attempts {
		kinds, err = r.tryBatch(ctx, batch)
		if !errors.Is(err, catalog.ErrState) {
			break
		}
	}
	for i := range batch {
		q := &batch[i]
		switch {
		case q.wrong != nil:
			r.answer(q, "", q.wrong)
		case err != nil:
			r.answer(q, "", err)
		default:
			r.answer(q, kinds[i], nil)
		}
	}
	if err != nil {
		return fmt.Errorf("changes were not recorded: %w", err)
	}
	return nil
}

const unchanged = "unchanged"

// tryBatch records a batch; kinds are what became of each.
func (r *Recorder) tryBatch(ctx context.Context, batch []request) (kinds []string, err error) {
	uris := make([]string, len(batch))
	for i := range batch {
		uris[i] = batch[i].change.URI
	}
	known, err := r.Session.Known(ctx, r.Set, uris)
	if err != nil {
		return nil, err
	}
	var changes []catalog.Change
	kinds = make([]string, len(batch))
	for i := range batch {
		if batch[i].wrong != nil {
			continue
		}
		change := batch[i].change
		change.Change = decide(&known[i], &change)
		if change.Change == "" {
			kinds[i] = unchanged
			continue
		}
		kinds[i] = string(change.Change)
		changes = append(changes, change)
	}
	if len(changes) == 0 {
		return kinds, nil
	}
	if err := r.Session.Record(ctx, r.Set, changes); err != nil {
		return nil, err
	}
	r.fresh.Store(true)
	return kinds, nil
}

// decide says what a change is to what is known; "" is none. A line that comes twice,
// as after an answer that was lost, does no harm.
func decide(known *catalog.Resource, change *catalog.Change) resourcesync.Change {
	switch {
	case change.Change == resourcesync.Deleted && !known.Member:
		return ""
	case change.Change == resourcesync.Deleted:
		return resourcesync.Deleted
	case !known.Member:
		return resourcesync.Created
	case known.Due == "" && known.Path == change.Path && sameBytes(known, &change.Resource):
		return ""
	}
	return resourcesync.Updated
}

// sameBytes reports whether all that is said of the bytes is known of them, and
// a digest is.
func sameBytes(known, said *catalog.Resource) bool {
	if len(said.Digests) == 0 || said.Length.Known() && said.Length != known.Length {
		return false
	}
	for _, d := range said.Digests {
		if known.Digests.Get(d.Algorithm()) != d {
			return false
		}
	}
	return true
}
