// Package watch publishes a directory whenever something in it has changed. The kernel reports
// changes. In addition a full scan runs at intervals.
package watch

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"instep/internal/publish"
)

const (
	// SnapshotEvery is the minimum time between two Resource Lists while watching. Writing a
	// Resource List takes time in proportion to the set, and Change Lists suffice meanwhile.
	SnapshotEvery = time.Minute
	// settleTime is the delay between a change and its publication, in which further changes
	// are collected.
	settleTime = 200 * time.Millisecond
	// retryTime is the delay before a failed publication is repeated.
	retryTime = time.Minute
	// maxPaths is the largest number of changed paths that are collected. If there are more,
	// everything is scanned.
	maxPaths = 10_000
)

// Session publishes a site; *publish.Session implements it.
type Session interface {
	Publish(ctx context.Context, what publish.What) (publish.Report, error)
}

// Options configure what is watched and how often it is published.
type Options struct {
	// Dir is the watched directory. If it is "", there are only full scans. Changes in Out
	// are ignored if Out is inside Dir.
	Dir, Out string
	// Runs is nil unless Dir is a mirror. The files of a mirror are not watched. Instead
	// everything is published whenever Runs returns another text.
	Runs func(context.Context) (string, error)
	// Every is the minimum time between two publications.
	Every time.Duration
	// Rescan is the time between two full scans, and must be positive.
	Rescan time.Duration
	// What says what the first publication does. Later publications publish the same Sets.
	What publish.What
	Now  func() time.Time // required
	// Report is called with the results of each publication, even of a failed one.
	Report func(*publish.Report)
	// Warn is called with each error after which watching continues: a *LateError, or the
	// error of a publication that will be repeated. It is never called concurrently with
	// Report.
	Warn func(error)
}

// Run publishes everything, and then all changes, until ctx is done. It returns an error only if
// the first publication fails.
func Run(ctx context.Context, s Session, o Options) error {
	var calls sync.Mutex // held during calls of Report and Warn, which two goroutines make
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
	changes       <-chan change // nil or closed if no changes are reported
	every, rescan time.Duration
	what          publish.What // what the first publication does
	publish       func(context.Context, publish.What) error
	failed        func(error) // called with the error of a publication that will be repeated
	now           func() time.Time

	paths      map[string]struct{}
	everything bool
	last       time.Time // end of the last publication
}

// run publishes everything, and then all changes, until ctx is done or the first publication
// fails.
func (l *loop) run(ctx context.Context) error {
	if err := l.publish(ctx, l.what); err != nil {
		if ctx.Err() != nil {
			return nil // the next run completes the cancelled publication
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
				l.changes = nil // unlike a closed channel, a nil channel is never ready
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

// note adds a change to those for the next publication.
func (l *loop) note(c change) {
	l.everything = l.everything || c.everything || len(l.paths) >= maxPaths
	if l.everything {
		clear(l.paths)
		return
	}
	l.paths[c.path] = struct{}{}
}

// round publishes the collected changes. If that fails, the next round publishes everything.
func (l *loop) round(ctx context.Context) error {
	what := publish.What{Sets: l.what.Sets}
	if !l.everything {
		what.Paths = slices.AppendSeq([]string{}, maps.Keys(l.paths))
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
