// Package watch publishes a directory again and again, soon after something in it changed:
// the kernel reports what changes, and everything is looked at from time to time.
package watch

import (
	"context"
	"sync"
	"time"

	"instep/internal/publish"
)

const (
	// SnapshotEvery is the least time between two Resource Lists while watching: each
	// costs as much as the set is large, and the Change List says the same sooner.
	SnapshotEvery = time.Minute
	// settleTime is how long a burst of changes is waited for.
	settleTime = 200 * time.Millisecond
	// retryTime is how long a publication that failed waits to be tried again.
	retryTime = time.Minute
	// maxPaths is how many changed paths are remembered; more are a look at everything.
	maxPaths = 10_000
)

// Session publishes; a *publish.Session does.
type Session interface {
	Publish(ctx context.Context, what publish.What) (publish.Report, error)
}

// Options say what is watched, and how often it is published.
type Options struct {
	// Dir is the directory, of which no changes are reported in Out below it. "" is none: what
	// is published is looked at each Rescan alone.
	Dir, Out string
	// Runs, if not nil, says that Dir is a mirror: its files are not watched, and everything
	// is published when the text that it returns is another one.
	Runs func(context.Context) (string, error)
	// Every is the least time between two publications.
	Every time.Duration
	// Rescan is the time after which everything is looked at again; above 0.
	Rescan time.Duration
	// The first publication; its Sets are also published later.
	What publish.What
	Now  func() time.Time // required
	// Report is called after each publication, with what it did before it failed if it did.
	Report func(*publish.Report)
	// Warn is called with each error after which watching continues: one of a later
	// publication, which is tried again, or a *LateError. It is not called beside Report.
	Warn func(error)
}

// Run publishes everything, and then what changes, until ctx ends. It returns the error of
// the first publication only.
func Run(ctx context.Context, s Session, o Options) error {
	var calls sync.Mutex // of Report and Warn: the kernel's watcher has a goroutine of its own
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

// loop gathers changes and publishes them together.
type loop struct {
	changes       <-chan change // closed or nil: there are none to come
	every, rescan time.Duration
	what          publish.What // of the first publication
	publish       func(context.Context, publish.What) error
	failed        func(error) // a publication failed; it is tried again
	now           func() time.Time

	paths      map[string]struct{}
	everything bool
	last       time.Time // when the last publication ended
}

// run publishes everything, and then what changes, until ctx ends. Only the first
// publication's error ends it before.
func (l *loop) run(ctx context.Context) error {
	if err := l.publish(ctx, l.what); err != nil {
		if ctx.Err() != nil {
			return nil // it was told to stop; the next run continues
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
				l.changes = nil // none to come: a nil channel is never ready
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

// note remembers what changed, as far as that pays.
func (l *loop) note(c change) {
	l.everything = l.everything || c.everything || len(l.paths) >= maxPaths
	if l.everything {
		clear(l.paths)
		return
	}
	l.paths[c.path] = struct{}{}
}

// round publishes what changed. What could not be published is looked for again.
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
