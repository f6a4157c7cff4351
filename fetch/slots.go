package fetch

import (
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// slots limit the concurrent requests to a host. A request takes a slot with Acquire and
// returns it with give. When the host answers that it is too busy, the number of slots
// is halved. After every growAfter other responses, one slot is added, up to the original
// number.
type slots struct {
	*semaphore.Weighted
	limit int

	mu     sync.Mutex // guards the fields below
	open   int        // current number of slots
	excess int        // number of slots to remove when requests return them
	good   int        // number of responses since open last changed, all of a host that was not too busy
	shrunk time.Time  // when the number of slots was last halved
}

const growAfter = 32

func newSlots(n int) *slots {
	return &slots{Weighted: semaphore.NewWeighted(int64(n)), limit: n, open: n}
}

func (p *slots) give() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.add()
}

// The caller of add must hold mu.
func (p *slots) add() {
	if p.excess > 0 {
		p.excess--
		return
	}
	p.Release(1)
}

// shrink halves the number of slots because the host is too busy, unless the request that the
// host answered was sent before the last halving.
func (p *slots) shrink(sent, now time.Time) {
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

// grow counts a response of a host that is not too busy, and adds a slot after growAfter
// such responses.
func (p *slots) grow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open == p.limit {
		return
	}
	if p.good++; p.good < growAfter {
		return
	}
	p.open, p.good = p.open+1, 0
	p.add()
}
