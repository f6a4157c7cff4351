package watch

import (
	"context"
	"sync"
	"time"
)

// mirror watches a mirror for completed runs (synchronisations) by asking its catalog
// at intervals. It does not watch the files of the mirror, because a file exists before
// the catalog records it.
type mirror struct {
	changes chan change // a channel of reported changes, which is closed after the last one

	runs func(context.Context) (string, error)
	warn func(error)
	stop context.CancelFunc
	done sync.WaitGroup
}

// watchMirror reports each run (synchronisation) of the mirror that is completed from
// now on, until ctx is done or close is called. If the same error occurs several times
// in a row, it warns only once.
func watchMirror(ctx context.Context, every time.Duration, runs func(context.Context) (string, error), warn func(error)) *mirror {
	m := &mirror{changes: make(chan change), runs: runs, warn: warn}
	ctx, m.stop = context.WithCancel(ctx)
	known, err := runs(ctx)
	m.done.Go(func() {
		defer close(m.changes)
		ticks := time.NewTicker(every)
		defer ticks.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticks.C:
				known, err = m.ask(ctx, known, err)
			}
		}
	})
	return m
}

// ask reports a change if the mirror has completed further runs (synchronisations).
// known and before are the results of the previous call.
func (m *mirror) ask(ctx context.Context, known string, before error) (string, error) {
	now, err := m.runs(ctx)
	if err != nil {
		if before == nil && ctx.Err() == nil {
			m.warn(err)
		}
		return known, err
	}
	if now == known {
		return known, nil
	}
	select {
	case <-ctx.Done():
		return known, nil
	case m.changes <- change{everything: true}:
		return now, nil
	}
}

func (m *mirror) close() {
	m.stop()
	m.done.Wait()
}
