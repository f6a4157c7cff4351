// Package watch publishes a directory repeatedly, soon after something in it changed.
// The kernel reports changes, and a full scan runs at intervals.
package watch

import (
	"context"
	"sync"
	"time"

	"instep/internal/publish"
)

const (
	// SnapshotEvery is the minimum time between two Resource Lists while watching: each
	// costs time in proportion to the set, and Change Lists publish changes sooner.
	SnapshotEvery = time.Minute
	// settleTime is how long to wait for the end of a burst of changes.
	settleTime = 200 * time.Millisecond
	// retryTime is how long to wait before a failed publication is repeated.
	retryTime = time.Minute
	// maxPaths is the largest number of changed paths that are remembered; more cause a
	// full scan.
	maxPaths = 10_000
)

// Session publishes a site; *publish.Session implements it.
type Session interface {
	Publish(ctx context.Context, what publish.What) (publish.Report, error)
}

// Options configure what is watched and how often it is published.
type Options struct {
	// Dir is the watched directory; changes in Out, if that is inside it, are ignored.
	// If "", there is only a full scan every Rescan.
	Dir, Out string
	// Runs, if not nil, means that Dir is a mirror: its files are not watched, and
	// everything is published whenever the returned text changes.
	Runs func(context.Context) (string, error)
	// Every is the minimum time between two publications.
	Every time.Duration
	// Rescan is the time between two full scans; it must be positive.
	Rescan time.Duration
	// What the first publication does; later ones publish the same Sets.
	What publish.What
	Now  func() time.Time // required
	// Report is called after each publication, also after a failed one, with what was
	// done.
	Report func(*publish.Report)
	// Warn is called with each error after which watching continues: one of a later
	// publication, which will be repeated, or a *LateError. It is never called
	// concurrently with Report.
	Warn func(error)
}

// Run publishes everything, and then changes, until ctx is done. It returns an error
// only if the first publication fails.
func Run(ctx context.Context, s Session, o Options) error {
	var calls sync.Mutex // serialises Report and Warn, since the kernel's watcher has a goroutine of its own
	warn := func(err error) {
		calls.Lock()
		defer calls.Unlock()
		o.Warn(err)
	}
	l := &loop{every: o.Every, rescan: o.Rescan, what: o.What, now: o.Now, failed: warn}
	l.publish = func(ctx context.Context, what publish.What) error {
		rep, err := s.Publish(ctx, what)
		calls.Lock()
		defer calls.Unlock()
		o.Report(&rep)
		return err
	}
	switch {
	case o.Runs != nil:
		m := watchMirror(ctx, max(o.Every, settleTime), o.Runs, warn)
		defer m.close()
		l.changes = m.changes
	case o.Dir != "":
		t := watchTree(ctx, o.Dir, o.Out, warn)
		defer t.close()
		l.changes = t.changes
	}
	return l.run(ctx)
}

// loop collects changes and publishes them together.
type loop struct {
	changes       <-chan change // closed or nil if there will be no more
	every, rescan time.Duration
	what          publish.What // what the first publication does
	publish       func(context.Context, publish.What) error
	failed        func(error) // called when a publication failed and will be repeated
	now           func() time.Time

	paths      map[string]struct{}
	everything bool
	last       time.Time // when the last publication ended
}

// run publishes everything, and then changes, until ctx is done. Only an error of the
// first publication ends it earlier.
func (l *loop) run(ctx context.Context) error {
	if err := l.publish(ctx, l.what); err != nil {
		if ctx.Err() != nil {
			return nil // the publication was cancelled; the next run continues
		}
		return err
	}
	l.paths, l.last = map[string]struct{}{}, l.now()
	rescan := time.NewTicker(l.rescan)
	defer rescan.Stop()
	due := time.NewTimer(0)
	due.Stop()
	defer due.Stop()
	for waiting := false; ; {
		select {
		case <-ctx.Done():
			return nil
		case c, ok := <-l.changes:
			if !ok {
				l.changes = nil // closed: a nil channel is never ready
				continue
			}
			l.note(c)
		case <-rescan.C:
			l.everything = true
		case <-due.C:
			waiting = false
			if err := l.round(ctx); err != nil {
				due.Reset(max(retryTime, l.every))
				waiting = true
			}
			continue
		}
		if !waiting {
			due.Reset(max(settleTime, l.last.Add(l.every).Sub(l.now())))
			waiting = true
		}
	}
}

// note remembers a change, unless there are already too many.
func (l *loop) note(c change) {
	l.everything = l.everything || c.everything || len(l.paths) >= maxPaths
	if l.everything {
		clear(l.paths)
		return
	}
	l.paths[c.path] = struct{}{}
}

// round publishes what changed. If that fails, the changes are published again later.
func (l *loop) round(ctx context.Context) error {
	what := publish.What{Sets: l.what.Sets}
	if !l.everything {
		what.Paths = make([]string, 0, len(l.paths))
		for path := range l.paths {
			what.Paths = append(what.Paths, path)
		}
	}
	l.everything = false
	clear(l.paths)
	err := l.publish(ctx, what)
	l.last = l.now()
	if err == nil || ctx.Err() != nil {
		return nil
	}
	l.everything = true
	l.failed(err)
	return err
}
