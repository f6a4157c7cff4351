package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/pflag"

	"instep/internal/publish"
)

// watchFlags say how publish --watch goes on.
type watchFlags struct {
	on            bool
	every, rescan time.Duration
}

func (f *watchFlags) register(fs *pflag.FlagSet) {
	fs.BoolVar(&f.on, "watch", false, "keep running, and publish again soon after something changed")
	timeVar(fs, &f.every, "every", 5*time.Second, "with --watch: the least `TIME` between two publications")
	timeVar(fs, &f.rescan, "rescan", time.Hour, "with --watch: look at everything again after this `TIME`")
}

const (
	// snapshotEvery is the least time between two Resource Lists while watching: each
	// costs as much as the set is large, and the Change List says the same sooner.
	snapshotEvery = time.Minute
	// settleTime is how long a burst of changes is waited for.
	settleTime = 200 * time.Millisecond
	// retryTime is how long a publication that failed waits to be tried again.
	retryTime = time.Minute
	// maxPaths is how many changed paths are remembered; more are a look at everything.
	maxPaths = 10_000
)

// watch publishes, and publishes again when something changed, until ctx ends.
func (a *app) watch(ctx context.Context, site publish.Site, f *publishFlags) (err error) {
	switch {
	case f.dryRun || f.zip != "":
		return usagef("--watch goes with neither --dry-run nor --zip")
	case f.watch.rescan <= 0:
		return usagef("--rescan: expected a time above 0")
	}
	site.RebaseMin = snapshotEvery
	progress := a.newProgress("publish", nil)
	defer progress.stop()
	site.Observe = func(e publish.Event) { a.publishEvent(e, &site, progress) }
	s, err := publish.Open(ctx, site)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	var total publish.SetReport
	l := &watchLoop{every: f.watch.every, rescan: f.watch.rescan, publish: func(ctx context.Context, what publish.What) error {
		rep, err := s.Publish(ctx, what)
		a.reportRound(&rep, &total)
		return err
	}, failed: func(err error) { a.warnOf(ctx, err) }, what: f.what}
	if site.Dir != "" {
		t := watchTree(ctx, site.Dir, site.Out, func(err error) { a.warnOf(ctx, err) })
		defer t.close()
		l.changes = t.changes
	}
	a.out.line("Watching; end with Ctrl-C")
	if err := l.run(ctx); err != nil {
		return err
	}
	progress.stop()
	a.out.end(summary{
		Status: "published", Created: num(total.Created), Updated: num(total.Updated), Deleted: num(total.Deleted),
	}, publishLine("published", &total))
	return nil
}

// warnOf tells of an error that watching goes on after.
func (a *app) warnOf(ctx context.Context, err error) {
	_, hint := explain(ctx, err)
	a.out.warn(record{Message: tell(err).text, Hint: hint})
}

// reportRound tells of one publication, if it published anything.
func (a *app) reportRound(rep *publish.Report, total *publish.SetReport) {
	for i := range rep.Sets {
		s := &rep.Sets[i]
		for _, n := range s.Notes {
			a.out.warn(record{Set: s.CapabilityList, Message: n})
		}
		total.Created += s.Created
		total.Updated += s.Updated
		total.Deleted += s.Deleted
		total.Unchanged, total.Failed = s.Unchanged, s.Failed
		if !s.Published {
			continue
		}
		a.out.record(setRecord(s, false))
		name := ""
		if s.Set != "" {
			name = s.Set + ": "
		}
		a.out.line("%s  %screated=%d, updated=%d, deleted=%d, failed=%d", a.now().UTC().Format(time.RFC3339), name, s.Created, s.Updated, s.Deleted, s.Failed)
	}
}

// change is what may have changed: a path below the directory, or everything.
type change struct {
	path       string // slash-separated
	everything bool
}

// watchLoop gathers changes and publishes them together.
type watchLoop struct {
	changes       <-chan change // closed or nil: there are none to come
	every, rescan time.Duration
	what          publish.What // of the first publication
	publish       func(context.Context, publish.What) error
	failed        func(error) // a publication failed; it is tried again

	paths      map[string]struct{}
	everything bool
	last       time.Time // when the last publication ended
}

// run publishes everything, and then what changes, until ctx ends. Only the first
// publication's error ends it before.
func (l *watchLoop) run(ctx context.Context) error {
	if err := l.publish(ctx, l.what); err != nil {
		if ctx.Err() != nil {
			return nil // it was told to stop: the next run goes on
		}
		return err
	}
	l.paths, l.last = map[string]struct{}{}, time.Now()
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
			due.Reset(max(settleTime, time.Until(l.last.Add(l.every))))
			waiting = true
		}
	}
}

// note remembers what changed, as far as that pays.
func (l *watchLoop) note(c change) {
	l.everything = l.everything || c.everything || len(l.paths) >= maxPaths
	if l.everything {
		clear(l.paths)
		return
	}
	l.paths[c.path] = struct{}{}
}

// round publishes what changed. What could not be published is looked for again.
func (l *watchLoop) round(ctx context.Context) error {
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
	l.last = time.Now()
	if err == nil || ctx.Err() != nil {
		return nil
	}
	l.everything = true
	l.failed(err)
	return err
}

// watchError says that changes will be seen late.
type watchError struct{ err error }

func (e *watchError) Error() string {
	return "changes are found only when everything is looked at again (--rescan): " + e.err.Error()
}

func (e *watchError) Unwrap() error { return e.err }
