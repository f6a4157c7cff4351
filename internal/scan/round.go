package scan

import (
	"context"
	"errors"
	"runtime"
	"sync"

	"golang.org/x/sync/errgroup"

	"instep/blob"
)

const (
	// batchBytes is the number of bytes that are hashed before their results are recorded
	// in a transaction. It is small, so that little has to be hashed again after a crash.
	// The number of files in a transaction is limited as well.
	batchBytes = 256 << 20
	// enrollSize is the largest number of files whose results are recorded in one
	// transaction, if no changes are logged for them.
	enrollSize = 4000
)

// round is the group of files whose results are recorded in one transaction.
type round struct {
	keep blob.Batch // the copies of the files' bytes; nil if no copies are stored
}

// job is a file to read, with a channel for its result. A job without a channel marks the
// end of a round (the files of one transaction).
type job struct {
	item
	round *round
	out   chan hashed // holds one
}

// pipeline reads the files of a plan in parallel, and returns the results in the order of
// the plan.
type pipeline struct {
	d     *Dir
	jobs  chan job
	order chan job  // the jobs that have no result yet, in the order of the plan; a buffered channel, so that workers continue during a large file or a transaction
	outs  sync.Pool // of job.out

	mu     sync.Mutex
	rounds []*round // the rounds whose copies of bytes are neither committed nor discarded yet
}

// readAll reads the files of a plan. It passes each result to the function take, in the
// order of the plan, and calls the function end after each round (the files of one
// transaction). It stops at the first error of take or end. While one round is recorded,
// at most one more round is read.
func (d *Dir) readAll(ctx context.Context, p *Plan, take func(hashed) error, end func(*round) error) (err error) {
	l := pipeline{d: d, jobs: make(chan job), order: make(chan job, d.roundSize())}
	l.outs.New = func() any { return make(chan hashed, 1) }
	defer func() { err = errors.Join(err, l.close()) }()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer close(l.order)
		defer close(l.jobs)
		return l.queue(ctx, p)
	})
	for range d.workers() {
		g.Go(func() error {
			r := reader{d: d, buffer: make([]byte, bufferSize)}
			for j := range l.jobs {
				j.out <- r.read(ctx, j)
			}
			return r.close()
		})
	}
	g.Go(func() error {
		for j := range l.order {
			if err := l.pass(ctx, j, take, end); err != nil {
				return err
			}
		}
		return ctx.Err()
	})
	return g.Wait()
}

func (r *reader) read(ctx context.Context, j job) hashed {
	if j.Label {
		return r.relabel(ctx, j.item)
	}
	return r.hash(ctx, j.item, j.round.keep)
}

func (d *Deps) workers() int {
	if d.Workers > 0 {
		return d.Workers
	}
	return runtime.GOMAXPROCS(0)
}

// queue divides the files of the plan into rounds (the files of one transaction each)
// and sends them to the workers.
func (l *pipeline) queue(ctx context.Context, p *Plan) error {
	size := l.d.roundSize()
	var now *round
	n, bytes := 0, int64(0)
	for it, err := range p.work.All() {
		if err == nil && now == nil {
			now, err = l.begin(ctx)
		}
		if err != nil {
			return err
		}
		j := job{item: it, round: now, out: l.outs.Get().(chan hashed)}
		if err := send(ctx, l.order, j); err != nil {
			return err
		}
		if err := send(ctx, l.jobs, j); err != nil {
			return err
		}
		if n, bytes = n+1, bytes+it.Print[0]; n < size && bytes < batchBytes {
			continue
		}
		if err := send(ctx, l.order, job{round: now}); err != nil {
			return err
		}
		now, n, bytes = nil, 0, 0
	}
	if now == nil {
		return nil
	}
	return send(ctx, l.order, job{round: now})
}

func (d *Deps) roundSize() int {
	if d.Unpublished {
		return enrollSize
	}
	return batchSize
}

func send[T any](ctx context.Context, to chan<- T, v T) error {
	select {
	case to <- v:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *pipeline) begin(ctx context.Context) (*round, error) {
	r := &round{}
	if l.d.Keep == nil {
		return r, nil
	}
	var err error
	r.keep, err = l.d.Keep.Begin(ctx)
	if err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.rounds = append(l.rounds, r)
	}
	return r, err
}

func (l *pipeline) pass(ctx context.Context, j job, take func(hashed) error, end func(*round) error) error {
	if j.out == nil {
		err := end(j.round)
		if err == nil {
			l.removeRound(j.round)
		}
		return err
	}
	select {
	case h := <-j.out:
		l.outs.Put(j.out)
		if err := ctx.Err(); err != nil { // do not use the result, because the cancellation may have caused an error in it
			return err
		}
		return take(h)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *pipeline) removeRound(r *round) {
	if r.keep == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rounds = l.rounds[1:] // remove the first round, because rounds end in the order in which they began
}

func (l *pipeline) close() error {
	var errs []error
	for _, r := range l.rounds {
		errs = append(errs, r.keep.Discard())
	}
	return errors.Join(errs...)
}
