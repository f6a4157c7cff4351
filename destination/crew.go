package destination

import (
	"context"
	"sync"
)

// crew is workers that stay: their stacks grow once, not with every resource.
type crew struct {
	free chan struct{} // has room for as many as may work at a time
	jobs chan func()
	all  sync.WaitGroup
	n    int // workers begun; for who gives out the jobs
}

func newCrew(n int) *crew { return &crew{free: make(chan struct{}, n), jobs: make(chan func())} }

// take waits for a free worker, who is owed a job with do, or freed with leave.
func (c *crew) take(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case c.free <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *crew) leave() { <-c.free }

// do gives a job to the worker who was taken.
func (c *crew) do(job func()) {
	select {
	case c.jobs <- job:
		return
	default:
	}
	if c.n < cap(c.free) {
		c.n++
		c.all.Go(c.work)
	}
	c.jobs <- job
}

func (c *crew) work() {
	for job := range c.jobs {
		job()
		c.leave()
	}
}

// close waits until all jobs are done. Nobody may be taken any more.
func (c *crew) close() {
	close(c.jobs)
	c.all.Wait()
}
