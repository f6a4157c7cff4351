package destination

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
)

// No more jobs than workers run at a time, all of them run, and close waits for them.
func TestCrewWorksSoManyAtATime(t *testing.T) {
	const workers, jobs = 3, 200
	c := newCrew(workers)
	var now, most, done atomic.Int64
	var together sync.WaitGroup // all workers meet once
	together.Add(workers)
	for i := range jobs {
		if err := c.take(t.Context()); err != nil {
			t.Fatal(err)
		}
		if i%50 == 49 {
			c.leave() // nothing to do after all
			continue
		}
		c.do(func() {
			most.Store(max(most.Load(), now.Add(1)))
			if i < workers {
				together.Done()
				together.Wait()
			}
			now.Add(-1)
			done.Add(1)
		})
	}
	c.close()
	if done.Load() != jobs-jobs/50 || most.Load() > workers {
		t.Errorf("got %d jobs done and %d at a time, want %d and %d", done.Load(), most.Load(), jobs-jobs/50, workers)
	}
}

func TestCrewIsNotWaitedForInVain(t *testing.T) {
	c := newCrew(1)
	ctx, cancel := context.WithCancel(t.Context())
	begun, end := make(chan struct{}), make(chan struct{})
	for _, job := range []func(){func() { close(begun); <-end }, func() {}} { // one is done and one waits
		if err := c.take(ctx); err != nil {
			t.Fatal(err)
		}
		c.do(job)
	}
	<-begun
	cancel()
	if err := c.take(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that the context ended", err)
	}
	close(end)
	c.close()
}
