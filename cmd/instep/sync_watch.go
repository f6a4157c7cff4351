package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"instep/destination"
	"instep/internal/flock"
	"instep/internal/runs"
)

type pollFlags struct {
	on    bool
	every time.Duration
}

func (f *pollFlags) register(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.BoolVar(&f.on, "watch", false, "keep running, and follow the Source until interrupted")
	timeVar(fs, &f.every, "every", 0, "with --watch: ask the Source for changes at intervals of this `TIME` (default: as often as it changes, 10s to 1h)")
}

func (f *pollFlags) check(sync *syncFlags) error {
	switch {
	case f.on && sync.dryRun:
		return usagef("--watch cannot be combined with --dry-run")
	case f.every != 0 && !f.on:
		return usagef("--every requires --watch")
	case f.every > 0 && f.every < time.Second:
		return usagef("--every %v: expected a second or more", f.every)
	}
	return nil
}

// follower prints the results of the repeated runs of sync --watch. It does not print a
// message again while nothing has changed.
type follower struct {
	*syncer
	all         totals // totals of all runs
	begin       time.Time
	ended       error  // error that ended the last run; nil if the run was complete
	interrupted bool   // whether the last run was interrupted
	last        totals // totals of the last complete run

	mu       sync.Mutex      // guards notes, fresh and lastText
	notes    map[string]bool // texts of the notes of the previous run
	fresh    map[string]bool // texts of all notes of this run, including notes that were not printed
	lastText string          // text of the state or error that was printed last
}

// maxNotes is the largest number of different notes that are printed and remembered in a
// run. Notes that are not remembered would be printed again in each run.
const maxNotes = 1000

var moreNotes = fmt.Sprintf("there are more than %d notes; the others are not shown", maxNotes)

func (a *app) watchSource(ctx context.Context, s *syncer) error {
	f := &follower{syncer: s, begin: a.now()}
	s.event, s.report = f.observe, f.reportRound
	w := &destination.Watch{Every: s.f.watch.every, Rand: rand.Float64, Run: f.round, Told: f.tellWait}
	a.out.line("Watching; end with Ctrl-C")
	if err := w.Loop(ctx); err != nil {
		return err
	}
	f.summarise(ctx)
	return nil
}

// round returns no error if another process has locked the mirror, so that the next round tries
// again. Only the first round returns that error.
func (f *follower) round(ctx context.Context) (destination.Pulse, error) {
	f.progress = &progressBar{out: f.a.out, now: f.a.now}
	f.notes, f.fresh = f.fresh, map[string]bool{}
	pulse, err := f.run(ctx)
	var locked *flock.LockedError
	limited := errors.Is(err, destination.ErrMaxTransfer) || errors.Is(err, destination.ErrMaxTime)
	switch {
	case ctx.Err() != nil:
		f.interrupted = pulse.News && errors.As(err, new(reportedError)) || err != nil && f.noRunYet()
		return pulse, err
	case errors.As(err, &locked) && !f.noRunYet():
		f.tellOnce(err.Error(), func() { f.a.warnOf(ctx, err) })
		return destination.Pulse{}, nil
	case limited: // the run reached --max-transfer or --max-time, and the next run continues its transfers
		return pulse, nil
	}
	f.ended = err
	return pulse, err
}

func (f *follower) noRunYet() bool { return f.last.Via == nil }

// observe prints an event of a run, but no note that the previous run also had.
func (f *follower) observe(e destination.Event) {
	switch e.Kind {
	case destination.EventTried:
		if !f.a.out.verbose {
			return
		}
	case destination.EventPlanned:
		if e.Plan.Mode != destination.Baseline && !f.a.out.verbose {
			return
		}
	case destination.EventNote:
		f.mu.Lock()
		if len(f.fresh) >= maxNotes && !f.fresh[e.Text] {
			e.Text, e.Quirk = moreNotes, 0
		}
		known := f.notes[e.Text] || f.fresh[e.Text]
		f.fresh[e.Text] = true
		f.mu.Unlock()
		if known {
			return
		}
	}
	f.a.syncEvent(e, f.progress)
}

// reportRound prints counts only if the run changed something. It prints what the run left undone
// only if that has changed since the previous run.
func (f *follower) reportRound(_ context.Context, rep *destination.Report, err error, log *runLog) {
	t := f.totals(rep)
	f.addTotals(t)
	if err != nil {
		log.EndedBy(err)
	}
	f.addNotes(log, t)
	f.a.out.last = t.summary(t.Status(), &f.net, f.a.now().Sub(f.begin), t.ExitCode())
	if did := t.Created + t.Updated + t.Deleted + t.Failed; did > 0 || err != nil {
		f.a.out.record(&statusRecord{
			Same: num(t.Same), Created: num(t.Created), Updated: num(t.Updated), Deleted: num(t.Deleted), Failed: num(t.Failed), Bytes: num(t.Bytes),
		})
		f.a.out.line("%s  created=%d, updated=%d, deleted=%d, failed=%d   %s", f.a.now().UTC().Format(time.RFC3339),
			t.Created, t.Updated, t.Deleted, t.Failed, humanSize(t.Bytes))
	}
	for _, x := range t.Failures {
		f.observe(destination.Event{Kind: destination.EventNote, Text: fmt.Sprintf("failed: %s: %v", x.URI, x.Err)})
	}
	f.tellOnce(fmt.Sprint(t.Skipped, t.Origins, t.Partial, t.Withheld, t.RolledBack, t.Gaps, t.Orphans, len(t.Frozen) > 0), func() { f.explainTotals(t) })
	f.last = *t
	f.last.Failures = nil
}

// tellOnce calls tell unless state is equal to the state of the last call.
func (f *follower) tellOnce(state string, tell func()) {
	if state != f.lastText {
		f.lastText = state
		tell()
	}
}

func (f *follower) addTotals(t *totals) {
	f.all.Created += t.Created
	f.all.Updated += t.Updated
	f.all.Deleted += t.Deleted
	f.all.Bytes += t.Bytes
	f.all.Unverified += t.Unverified
	f.all.Patches.Add(t.Patches)
	f.all.Via = runs.AddCounts(f.all.Via, t.Via)
}

// tellWait prints why a run failed and when the next run starts, unless the previous run failed
// in the same way.
func (f *follower) tellWait(w destination.Wait) {
	if w.Err == nil {
		return
	}
	f.tellOnce(w.Err.Error(), func() {
		f.a.warnOf(context.Background(), fmt.Errorf("%w; the next try is in %s", w.Err, w.For.Round(time.Second)))
	})
}

func (f *follower) summarise(ctx context.Context) {
	t := f.last
	t.Created, t.Updated, t.Deleted, t.Bytes, t.Via = f.all.Created, f.all.Updated, f.all.Deleted, f.all.Bytes, f.all.Via
	t.Unverified, t.Patches = f.all.Unverified, f.all.Patches
	code, status := t.ExitCode(), t.Status()
	switch {
	case f.interrupted:
		code, _ = explain(ctx, context.Cause(ctx))
		status = failureStatus(code)
	case f.ended != nil:
		code, _ = explain(context.Background(), f.ended)
		status = failureStatus(code)
	}
	f.a.code = code
	took := f.a.now().Sub(f.begin)
	f.a.out.end(t.summary(status, &f.net, took, code), t.lastLine(status, &f.net, took))
}
