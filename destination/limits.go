package destination

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"instep/harvest"
)

// ErrMaxTransfer and ErrMaxTime end a run that reaches its limit. Started transfers are
// completed and kept, the cursor does not move, and the next run continues.
var (
	ErrMaxTransfer = errors.New("the run has reached its transfer limit (MaxTransfer)")
	ErrMaxTime     = errors.New("the run has reached its time limit (MaxTime)")
)

// budget contains the limits of a run and what the run has used of them.
type budget struct {
	most  int64            // maximum number of bytes of resources; 0 for no limit
	until time.Time        // end of the run; zero for no limit
	now   func() time.Time // returns the current time
	begun atomic.Int64     // number of bytes in started transfers; a transfer of unknown length is counted when it is complete
}

func (d *Destination) budget() *budget {
	b := &budget{most: d.MaxTransfer, now: d.Client.Now}
	if d.MaxTime > 0 {
		b.until = b.now().Add(d.MaxTime)
	}
	return b
}

// take counts the bytes of an action before its transfer starts. If the run has reached
// a limit, it returns the error of that limit, and the transfer must not start.
func (b *budget) take(a *Action) error {
	if a.Kind != Fetch {
		return nil
	}
	if begun := b.begun.Load(); b.most > 0 && begun >= b.most {
		return fmt.Errorf("%w: transfers of %d bytes were started, the limit is %d", ErrMaxTransfer, begun, b.most)
	}
	if !b.until.IsZero() && !b.now().Before(b.until) {
		return ErrMaxTime
	}
	if a.Want.Length.Known() {
		b.begun.Add(a.cost())
	}
	return nil
}

// came counts the n bytes of a completed transfer whose length was unknown before.
func (b *budget) came(w *harvest.Resource, n int64) {
	if !w.Length.Known() {
		b.begun.Add(n)
	}
}
