package destination

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// What ends a run early because it has done as much as it may. What was begun is
// finished and kept, the cursor stays, and the next run goes on.
var (
	ErrMaxTransfer = errors.New("the run may transfer no more (MaxTransfer)")
	ErrMaxTime     = errors.New("the run may take no longer (MaxTime)")
)

// budget is what a run may do yet.
type budget struct {
	most  int64        // bytes of resources; 0: no limit
	over  atomic.Bool  // the time is up
	timer *time.Timer  // that says so; nil: no limit
	begun atomic.Int64 // bytes of the transfers begun; those of unknown length count when they are here
}

func (d *Destination) budget() *budget {
	b := &budget{most: d.MaxTransfer}
	if d.MaxTime > 0 {
		b.timer = time.AfterFunc(d.MaxTime, func() { b.over.Store(true) })
	}
	return b
}

func (b *budget) close() {
	if b.timer != nil {
		b.timer.Stop()
	}
}

// take allows an action, or says why nothing more is begun.
func (b *budget) take(a *Action) error {
	if a.Kind != Fetch {
		return nil
	}
	if begun := b.begun.Load(); b.most > 0 && begun >= b.most {
		return fmt.Errorf("%w: %d bytes of at most %d were begun", ErrMaxTransfer, begun, b.most)
	}
	if b.over.Load() {
		return ErrMaxTime
	}
	if a.Want.Length.Known() {
		b.begun.Add(a.Want.Length.Int64())
	}
	return nil
}

// came counts a transfer of which the length was not known before.
func (b *budget) came(w *Wanted, n int64) {
	if !w.Length.Known() {
		b.begun.Add(n)
	}
}

// exhaust ends the run for err, but not what is under way.
func (r *runner) exhaust(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = err
	}
}
