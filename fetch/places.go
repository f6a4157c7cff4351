package fetch

import (
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// places are the slots for concurrent requests to a host: a request acquires one and
// gives it back with give. Their number is halved when the host answers that it is too
// busy, and grows by one after growAfter other responses, up to the original number.
type places struct {
	*semaphore.Weighted
	most int

	mu     sync.Mutex // guards the fields below
	open   int        // current number of slots
	excess int        // number of occupied slots that are removed when they are given back
	good   int        // number of good responses since the last change
	shrunk time.Time  // time of the last reduction
}

// growAfter is the number of good responses after which a slot is added again.
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

// add makes one more slot free, unless there are too many. The caller holds mu.
func (p *places) add() {
	if p.excess > 0 {
		p.excess--
		return
	}
	p.Release(1)
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
