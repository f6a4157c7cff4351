package watch

import (
	"context"
	"sync"
	"time"
)

// mirror polls the catalog of a mirror for completed runs (synchronisations). It does not watch
// the files of the mirror, because a file exists before the catalog records it.
type mirror struct {
	changes chan change // reported changes; closed after the last one

	runs func(context.Context) (string, error)
	warn func(error)
	stop context.CancelFunc
	done sync.WaitGroup
}

// watchMirror reports each completed run (synchronisation) of a mirror, until ctx is done or
// close is called. It warns only about the first of several errors in a row.
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

// ask calls runs, and reports a change if the result differs from previous, the result of
// the previous call.
func (m *mirror) ask(ctx context.Context, previous string, lastErr error) (string, error) {
	now, err := m.runs(ctx)
	if err != nil {
		if lastErr == nil && ctx.Err() == nil {
			m.warn(err)
		}
		return previous, err
	}
	if now == previous {
		return previous, nil
	}
	select {
	case <-ctx.Done():
		return previous, nil
	case m.changes <- change{everything: true}:
		return now, nil
	}
}

func (m *mirror) close() {
	m.stop()
	m.done.Wait()
}
