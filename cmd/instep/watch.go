package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/pflag"

	"instep/internal/publish"
	"instep/internal/watch"
)

type watchFlags struct {
	on            bool
	every, rescan time.Duration
	runs          func(context.Context) (string, error) // value of watch.Options.Runs
}

func (f *watchFlags) register(fs *pflag.FlagSet) {
	fs.BoolVar(&f.on, "watch", false, "keep running, and publish soon after something has changed")
	timeVar(fs, &f.every, "every", 5*time.Second, "with --watch: minimum `TIME` between two publications")
	timeVar(fs, &f.rescan, "rescan", time.Hour, "with --watch: `TIME` between two full scans of all files")
}

func (a *app) watch(ctx context.Context, site publish.Site, f *publishFlags) (err error) {
	switch {
	case f.dryRun || f.zip != "":
		return usagef("--watch cannot be combined with --dry-run or --zip")
	case f.watch.rescan <= 0:
		return usagef("--rescan: expected a time above 0")
	}
	site.RebaseMin = watch.SnapshotEvery
	progress := a.newProgress("publish", nil)
	defer progress.stop()
	site.Observe = func(e publish.Event) { a.publishEvent(e, &site, progress) }
	s, err := publish.Open(ctx, site)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	var total publish.SetReport
	a.out.line("Watching; end with Ctrl-C")
	err = watch.Run(ctx, s, watch.Options{
		Dir: site.Dir, Out: site.Out, Runs: f.watch.runs, Every: f.watch.every, Rescan: f.watch.rescan, What: f.what, Now: a.now,
		Report: func(rep *publish.Report) { a.reportRound(rep, &total) },
		Warn:   func(err error) { a.warnOf(ctx, err) },
	})
	if err != nil {
		return err
	}
	progress.stop()
	a.out.end(summary{
		Status: "published", Created: num(total.Created), Updated: num(total.Updated), Deleted: num(total.Deleted),
	}, publishLine("published", &total))
	return nil
}

// warnOf prints an error as a warning, because a command with --watch continues after it.
func (a *app) warnOf(ctx context.Context, err error) {
	_, hint := explain(ctx, err)
	a.out.warn(warningRecord{Message: a.out.tell(err).text, Hint: hint})
}

func (a *app) reportRound(rep *publish.Report, total *publish.SetReport) {
	for i := range rep.Sets {
		s := &rep.Sets[i]
		for _, n := range s.Notes {
			a.out.warn(warningRecord{Set: s.CapabilityList, Message: n})
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
