package fetch

import (
	"context"
	"sync"
	"time"
)

// places are the slots for concurrent requests to a host. Their number is halved when
// the host answers that it is too busy, and grows by one after growAfter other
// responses, up to the original number.
type places struct {
	most int

	mu     sync.Mutex // guards the fields below
	open   int        // current number of slots
	taken  int
	queue  []chan struct{} // waiting requests in order; a channel is closed when its request gets a slot
	good   int             // number of good responses since the last change
	shrunk time.Time       // time of the last reduction
}

// growAfter is the number of good responses after which a slot is added again.
const growAfter = 32

func newPlaces(n int) *places { return &places{most: n, open: n} }

// take takes a slot, and waits if none is free.
func (p *places) take(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	p.mu.Lock()
	if p.taken < p.open && len(p.queue) == 0 {
		p.taken++
		p.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	p.queue = append(p.queue, turn)
	p.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
		p.leave(turn)
		return ctx.Err()
	}
}

// leave removes a waiter from the queue, or releases the slot that it got in the meantime.
func (p *places) leave(turn chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, t := range p.queue {
		if t == turn {
			p.queue = append(p.queue[:i], p.queue[i+1:]...)
			return
		}
	}
	p.taken--
	p.admit()
}

// give releases a slot.
func (p *places) give() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken--
	p.admit()
}

// admit gives free slots to waiting requests. The caller holds mu.
func (p *places) admit() {
	for p.taken < p.open && len(p.queue) > 0 {
		close(p.queue[0])
		p.queue[0] = nil
		p.queue = p.queue[1:]
		p.taken++
	}
}

// shrink halves the number of slots because of a request sent at the given time.
// Requests that were in flight together shrink it only once.
func (p *places) shrink(sent, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.good = 0
	if !sent.After(p.shrunk) {
		return
	}
	p.open, p.shrunk = max(p.open/2, 1), now
}

// grow counts a good response.
func (p *places) grow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open == p.most {
		return
	}
	if p.good++; p.good < growAfter {
		return
	}
	p.open, p.good = p.open+1, 0
	p.admit()
}
