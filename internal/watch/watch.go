// Package watch publishes a directory again whenever something in it has changed. The
// kernel reports changes. In addition, full scans run at intervals.
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
	// SnapshotEvery is the minimum time between two Resource Lists while a directory is watched.
	// Writing a Resource List takes time in proportion to the size of the set, and Change Lists
	// are sufficient in between.
	SnapshotEvery = time.Minute
	// settleTime is the time from a change until it is published. Changes during this
	// time are published together.
	settleTime = 200 * time.Millisecond
	// retryTime is the time from a failed publication until the next attempt.
	retryTime = time.Minute
	// maxPaths is the largest number of changed paths that are collected. If more paths
	// change, a full scan is made.
	maxPaths = 10_000
)

// Session publishes a site; *publish.Session implements it.
type Session interface {
	Publish(ctx context.Context, what publish.What) (publish.Report, error)
}

// Options configure what is watched and how often it is published.
type Options struct {
	// Dir is the watched directory. If it is "", there are only full scans. Changes in
	// Out, the directory of the published documents, are ignored if Out is inside Dir.
	Dir, Out string
	// Runs is set only if Dir is a mirror. Then the files are not watched. Instead,
	// everything is published when Runs returns another text than before.
	Runs func(context.Context) (string, error)
	// Every is the minimum time between two publications.
	Every time.Duration
	// Rescan is the time between two full scans. It must be positive.
	Rescan time.Duration
	// What describes the first publication. The later publications publish the same Sets.
	What publish.What
	Now  func() time.Time // required
	// Report is called with the result of each publication, even if the publication
	// failed.
	Report func(*publish.Report)
	// Warn is called with each error after which watching continues: a *LateError, or
	// the error of a publication that will be tried again. Warn and Report are never
	// called at the same time.
	Warn func(error)
}

// Run publishes everything, and then publishes each change, until ctx is done. It
// returns an error only if the first publication fails.
func Run(ctx context.Context, s Session, o Options) error {
	var calls sync.Mutex // Report and Warn are called with this lock, so that they never run concurrently
	warn := func(err error) {
		calls.Lock()
		defer calls.Unlock()
		o.Warn(err)
	}
	l := &loop{every: o.Every, rescan: o.Rescan, what: o.What, now: o.Now, warn: warn}
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

type loop struct {
	changes       <-chan change // reported changes; nil or closed if none are reported
	every, rescan time.Duration
	what          publish.What // describes the first publication
	publish       func(context.Context, publish.What) error
	warn          func(error) // called with the error of a publication that will be tried again
	now           func() time.Time

	paths      map[string]struct{}
	everything bool
	last       time.Time // the time at which the last publication ended
}

func (l *loop) run(ctx context.Context) error {
	if err := l.publish(ctx, l.what); err != nil {
		if ctx.Err() != nil {
			return nil // no error, because the next run of the program completes the publication
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
				l.changes = nil // set to nil, because select would choose a closed channel again and again
				continue
			}
			l.collect(c)
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

func (l *loop) collect(c change) {
	l.everything = l.everything || c.everything || len(l.paths) >= maxPaths
	if l.everything {
		clear(l.paths)
		return
	}
	l.paths[c.path] = struct{}{}
}

// round publishes the collected changes. If it fails, the next round publishes everything.
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
	l.warn(err)
	return err
}
