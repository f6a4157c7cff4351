package destination

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"instep/harvest"
)

// A run that reaches its limits ends early: it completes and keeps started transfers, the
// cursor stays, and the next run continues.
var (
	ErrMaxTransfer = errors.New("the run may transfer no more (MaxTransfer)")
	ErrMaxTime     = errors.New("the run may take no longer (MaxTime)")
)

// budget is the remaining allowance of a run.
type budget struct {
	most  int64            // bytes of resources; 0: no limit
	until time.Time        // zero: no limit
	now   func() time.Time // the clock of until
	begun atomic.Int64     // bytes of started transfers; those of unknown length count when they are complete
}

func (d *Destination) budget() *budget {
	b := &budget{most: d.MaxTransfer, now: d.Client.Now}
	if d.MaxTime > 0 {
		b.until = b.now().Add(d.MaxTime)
	}
	return b
}

// take allows an action, or says why nothing more is begun.
func (b *budget) take(a *Action) error {
	if a.Kind != Fetch {
		return nil
	}
	if begun := b.begun.Load(); b.most > 0 && begun >= b.most {
		return fmt.Errorf("%w: %d bytes of at most %d were begun", ErrMaxTransfer, begun, b.most)
	}
	if !b.until.IsZero() && !b.now().Before(b.until) {
		return ErrMaxTime
	}
	if a.Want.Length.Known() {
		b.begun.Add(a.cost())
	}
	return nil
}

// came counts a transfer whose length was unknown before.
func (b *budget) came(w *harvest.Resource, n int64) {
	if !w.Length.Known() {
		b.begun.Add(n)
	}
}
