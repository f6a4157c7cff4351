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
	ErrMaxTransfer = errors.New("the run has reached its transfer limit")
	ErrMaxTime     = errors.New("the run has reached its time limit")
)

type budget struct {
	most  int64     // maximum number of bytes to transfer in the run; 0 for no limit
	until time.Time // time after which no further transfer starts; zero for no limit
	now   func() time.Time
	begun atomic.Int64 // number of bytes in started transfers, and in completed transfers whose length was unknown before
}

func (d *Destination) budget() *budget {
	b := &budget{most: d.MaxTransfer, now: d.Client.Now}
	if d.MaxTime > 0 {
		b.until = b.now().Add(d.MaxTime)
	}
	return b
}

// allow is called before a transfer starts. If it returns an error, the transfer must
// not start.
func (b *budget) allow(a *Action) error {
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

func (b *budget) came(w *harvest.Resource, n int64) {
	if !w.Length.Known() {
		b.begun.Add(n)
	}
}
