package fetch

import (
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// places are the slots for concurrent requests to a host. A request takes a slot with
// Acquire and returns it with give. The number of slots is halved when the host answers
// that it is too busy. It grows by one after growAfter other responses, up to the
// original number.
type places struct {
	*semaphore.Weighted
	most int

	mu     sync.Mutex // guards the fields below
	open   int        // current number of slots
	excess int        // number of occupied slots to remove when they are returned
	good   int        // number of responses, since open last changed, that did not say that the host is too busy
	shrunk time.Time  // when the number of slots was last halved
}

// growAfter is the number of good responses after which there is one more slot.
const growAfter = 32

func newPlaces(n int) *places {
	return &places{Weighted: semaphore.NewWeighted(int64(n)), most: n, open: n}
}

// give returns a slot after use.
func (p *places) give() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.add()
}

// add makes one slot available, unless more slots are occupied than there should be.
// The caller holds mu.
func (p *places) add() {
	if p.excess > 0 {
		p.excess--
		return
	}
	p.Release(1)
}

// shrink halves the number of slots after a response that the host is too busy. sent is
// the time of the request: requests sent before the last reduction have no effect.
func (p *places) shrink(sent, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.good = 0
	if !sent.After(p.shrunk) {
		return
	}
	before := p.open
	p.open, p.shrunk = max(p.open/2, 1), now
	for p.excess += before - p.open; p.excess > 0 && p.TryAcquire(1); {
		p.excess--
	}
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
	p.add()
}
