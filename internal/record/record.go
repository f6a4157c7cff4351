// Package record receives changes that applications send as JSON Lines, through a reader or
// over a socket. It records the changes in a set and publishes them soon after.
//
// A Recorder records lines in batches, one transaction for each batch, and answers a line
// when its change is durable. [Recorder.Read] receives the lines of one reader,
// [Recorder.Serve] those of any number of connections. Every queue is bounded, so a client
// that sends changes faster than they are recorded has to wait.
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
	queueSize = 2 * catalog.MaxChanges // the largest number of lines that wait to be recorded
	// stopTime is how long a Recorder may still record and publish accepted lines
	// after its context has ended.
	stopTime    = 4 * time.Second
	maxAttempts = 3 // the number of attempts to record a batch while a scan records changes, too
)

// Session is the part of publish.Session that a Recorder needs.
type Session interface {
	Known(ctx context.Context, set string, uris []string) ([]catalog.Resource, error)
	Look(ctx context.Context, set, path string) (r catalog.Resource, release func(), err error)
	Accept(ctx context.Context, set string, described catalog.Resource) (r catalog.Resource, release func(), err error)
	URIOf(ctx context.Context, path string) (string, error)
	Record(ctx context.Context, set string, changes []catalog.Change) error
	Publish(ctx context.Context, what publish.What) (publish.Report, error)
}

// Recorder records changes of one set and publishes them. All fields but Set are
// required.
type Recorder struct {
	Session Session
	Set     string
	Every   time.Duration // time from one publication to the next
	Now     func() time.Time
	// Published is called after each attempt to publish. A failed attempt will be repeated.
	Published func(publish.Report, error)
	// Answered is called with each answer, never concurrently. It may be nil.
	Answered func(Answer)

	answering sync.Mutex // guards Answered
	queue     chan request
	fresh     atomic.Bool // whether changes were recorded after the start of the last publication
}

// Answer says whether the change in a line was recorded.
type Answer struct {
	Line   int    `json:"line"` // number of the line, counted from 1
	OK     bool   `json:"ok"`
	URI    string `json:"uri,omitempty"`
	Change string `json:"change,omitempty"` // "created", "updated" or "deleted"; "unchanged" if nothing was recorded
	Error  string `json:"error,omitempty"`
}

type request struct {
	line    int
	change  catalog.Change // the change that the line describes; kindOfChange sets its kind later
	wrong   error          // the error in the line, or nil
	release func()         // frees the bytes stored for the change; may be nil
	answers chan<- Answer  // the buffer of the channel is large enough for all answers
}

func (r *Recorder) drop(q *request) {
	if q.release != nil {
		q.release()
		r.fresh.Store(true) // so that the next publication removes the bytes that were stored for the change
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

// Run records and publishes the lines that intake reads with Read or Serve. It returns when
// intake has returned and all changes are published. When ctx is done, intake must return,
// and Run spends at most four more seconds on recording and publishing. Run returns the error
// of intake, or the error that prevented recording.
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
		intakeErr = nil // this error is only a consequence: record cancelled the context of intake
	}
	return errors.Join(recordErr, intakeErr, err)
}

// workContext returns a context that ends stopTime later than ctx.
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

// record records the requests in the queue until intake has ended and the queue is empty.
// If recording fails, record calls the function refuse, which cancels the context of
// intake, and answers all remaining requests with the error.
func (r *Recorder) record(ctx context.Context, ended <-chan struct{}, refuse func()) (failed error) {
	var next *request // a request for the next batch, because its resource has a change in the current one
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

// gather waits for a request and returns a batch with all requests in the queue. The changes of
// a batch are recorded with the same time, so a second change of a resource ends the batch
// and is returned as next.
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

// recordBatch records a batch and answers its lines. It tries again if a scan has recorded
// changes of the same resources in the meantime.
func (r *Recorder) recordBatch(ctx context.Context, batch []request) error {
	var kinds []string
	var err error
	for range maxAttempts {
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

// tryBatch records a batch. kinds has the result for each request: "created", "updated",
// "deleted" or "unchanged", or "" for an invalid line.
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
		change.Change = kindOfChange(&known[i], &change)
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

// kindOfChange compares a change with the recorded state. It returns "" if nothing changes, so
// that an application can send a line again if the answer was lost.
func kindOfChange(known *catalog.Resource, change *catalog.Change) resourcesync.Change {
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

// sameBytes returns false if a line states no digest.
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
