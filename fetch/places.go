package fetch

import (
	"context"
	"sync"
	"time"
)

// places are the requests that a host is sent at a time. They become half as many when
// it says that it is too busy, and one more after each growAfter answers in which it
// does not, up to as many as there were.
type places struct {
	most int

	mu     sync.Mutex // guards the rest
	open   int        // slots that exist now
	taken  int
	queue  []chan struct{} // requests that wait, in their order; a channel is closed when its request has a slot
	good   int             // answers since the last change
	shrunk time.Time       // time of the last reduction
}

// growAfter is how many good answers give a place back.
const growAfter = 32

func newPlaces(n int) *places { return &places{most: n, open: n} }

// take takes a place if there is one, or waits for it.
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

// give gives a place back.
func (p *places) give() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken--
	p.admit()
}

// admit lets those in for whom there is a place. mu is held.
func (p *places) admit() {
	for p.taken < p.open && len(p.queue) > 0 {
		close(p.queue[0])
		p.queue[0] = nil
		p.queue = p.queue[1:]
		p.taken++
	}
}

// shrink halves the places for a request sent at the time given. Those that were under
// way together count once.
func (p *places) shrink(sent, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.good = 0
	if !sent.After(p.shrunk) {
		return
	}
	p.open, p.shrunk = max(p.open/2, 1), now
}

// grow counts a good answer.
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
