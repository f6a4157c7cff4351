package destination

import (
	"context"
	"sync"
)

// crew is workers that stay: their stacks grow once, not with every resource. For each of
// them one more job may wait, so that nobody is idle while the next jobs are prepared.
type crew struct {
	most int           // workers
	room chan struct{} // has room for as many jobs as may be done or wait
	jobs chan func()
	all  sync.WaitGroup
	n    int // workers begun; for who gives out the jobs
}

func newCrew(n int) *crew {
	return &crew{most: n, room: make(chan struct{}, 2*n), jobs: make(chan func(), 2*n)}
}

// take waits for room for a job, which is then owed with do, or given up with leave.
func (c *crew) take(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case c.room <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *crew) leave() { <-c.room }

// do gives out a job for which room was taken.
func (c *crew) do(job func()) {
	if c.n < c.most {
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

// close waits until all jobs are done. No room may be taken any more.
func (c *crew) close() {
	close(c.jobs)
	c.all.Wait()
}
