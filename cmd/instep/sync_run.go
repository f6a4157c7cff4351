package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"instep/destination"
	"instep/fetch"
	"instep/guard"
	"instep/harvest"
	"instep/internal/missed"
	"instep/mirror"
	"instep/resourcesync"
)

type syncer struct {
	a           *app
	source, dir string
	f           *syncFlags

	options  mirror.Options
	mirror   *mirror.Mirror // mirror for the next run; nil if it is not open yet
	log      *runLog        // record of the next run; opened with the mirror
	settings *settings
	limit    guard.Limit
	keep     keepVersions
	keepLog  time.Duration
	transfer int64     // --max-transfer
	at       time.Time // --at
	begun    time.Time // start of the present run
	client   *fetch.Client
	uri      string // URI of the Source
	net      traffic
	progress *progressBar
	stale    map[string]int64        // for each set: the number of resources whose present state the last run could not fetch
	mu       sync.Mutex              // guards the field stale, which transfers change concurrently
	taken    int64                   // the number of files that the last run found in the directory and took over as resources
	aside    string                  // path of an unusable catalog that was renamed; "" if there is none
	missed   missed.Report           // counts of the earlier versions (--versions) that were fetched in the last run
	event    func(destination.Event) // receives the events of a run instead of app.syncEvent; may be nil

	// report prints the results of a run. If err is not nil, it ended the run early.
	report func(ctx context.Context, rep *destination.Report, err error, log *runLog)
}

// reportedError is an error that ended a run whose results have been reported.
type reportedError struct{ error }

func (e reportedError) Unwrap() error { return e.error }

func (s *syncer) check() (err error) {
	if strings.Contains(s.dir, "://") {
		return usagef("DIR: expected a directory, found the URL %q (see instep sync --help)", s.dir)
	}
	if s.limit, err = guard.ParseLimit(s.f.maxDelete); err != nil {
		return usagef("--max-delete: %v", err)
	}
	if s.keep, err = parseKeepVersions(s.f.keep); err != nil {
		return err
	}
	days, err := parseDays(s.f.keepLog)
	if err != nil {
		return usagef("--keep-log: %v", err)
	}
	s.keepLog = time.Duration(days) * 24 * time.Hour
	if s.transfer, err = parseSize("--max-transfer", s.f.maxTransfer); err != nil {
		return err
	}
	if s.at, err = s.a.parseMoment("at", s.f.at); err != nil {
		return err
	}
	if s.f.at != "" && (s.f.watch.on || s.f.ore || s.f.versions && !s.keptVersions()) {
		return usagef("--at cannot be combined with --watch, --versions or --ore: a moment of the past does not change, and Resource Maps have no past")
	}
	if s.f.ore && s.f.watch.on {
		return usagef("--ore cannot be combined with --watch: Resource Maps are read only once, at the beginning")
	}
	if s.f.trust.acceptRollback && s.f.watch.on {
		return usagef("--accept-rollback cannot be combined with --watch, because it is consent to what the Source says now")
	}
	return s.f.watch.check(s.f)
}

// keptVersions reports whether the flag --versions comes from the settings stored with the mirror
// and not from the command line.
func (s *syncer) keptVersions() bool {
	return s.settings != nil && !s.settings.cmd.Flags().Changed("versions")
}

// checkMoment refuses flags that require a mirror of the present state, if the mirror holds the
// state of a past moment.
func (s *syncer) checkMoment(ctx context.Context) error {
	at, err := destination.Moment(ctx, s.mirror)
	if err == nil && !at.IsZero() && (s.f.watch.on || s.f.ore || s.f.versions) {
		err = usagef("this mirror is of %s, a moment of the past, so it cannot be used with --watch, --versions and --ore", stamp(at))
	}
	return err
}

func (s *syncer) destination(m *mirror.Mirror, log *runLog) (*destination.Destination, error) {
	a, f := s.a, s.f
	d := f.destination(s.uri, m, s.client)
	d.MaxDelete, d.KeepDeleted, d.MaxTransfer = s.limit, f.keepDeleted, s.transfer
	d.At = s.at
	d.AcceptRollback, d.AcceptGap = f.trust.acceptRollback, f.trust.acceptGap
	tell := s.event
	if tell == nil {
		tell = func(e destination.Event) { a.syncEvent(e, s.progress) }
	}
	d.Observe = func(e destination.Event) {
		log.Event(e)
		s.countStale(e)
		tell(e)
		if f.explain && e.Kind == destination.EventPlanned {
			a.explainPlan(e.Plan)
		}
	}
	return d, f.planFlags.configure(d)
}

func (s *syncer) open(ctx context.Context) (err error) {
	log := s.a.newRun("sync", s.source, s.dir)
	s.options = mirror.Options{Dir: s.dir, State: s.f.state, Now: s.a.now, Create: true}
	s.options.Found = func(found mirror.Found) { s.a.tellFound(found, s.dir, log) }
	if err := s.f.storeFlags.apply(&s.options); err != nil {
		return err
	}
	s.mirror, err = openMirror(ctx, s.options, s.f.dryRun)
	s.log = log
	return err
}

// close closes a mirror that was opened for a run that did not begin.
func (s *syncer) close() {
	if s.mirror != nil {
		_ = s.mirror.Close()
	}
}

// run returns an error that occurs after planning as a reportedError, because the report has
// already printed it.
func (s *syncer) run(ctx context.Context) (pulse destination.Pulse, err error) {
	a, f := s.a, s.f
	s.begun = a.now()
	defer func() { err = s.mend(err) }()
	if s.mirror == nil {
		if err := s.open(ctx); err != nil {
			return pulse, err
		}
	}
	m, log := s.mirror, s.log
	s.mirror = nil
	defer func() { _ = m.Close() }() // the error of Close is ignored, since everything has been written durably before
	defer func() { log.end(ctx, err) }()
	d, err := s.destination(m, log)
	if err != nil {
		return pulse, err
	}
	if !f.dryRun && m.Exists() {
		log.start(ctx, m, s.dir, f.state)
		if err := s.findTouched(ctx, m); err != nil {
			return pulse, err
		}
	}
	passed := missed.NewLog("")
	defer func() { _ = passed.Close() }() // the error of Close is ignored, since the log is temporary
	if s.missed = (missed.Report{}); f.versions && !f.dryRun {
		d.Passed = passed.Add
	}
	plan, err := d.Plan(ctx)
	if err != nil {
		return pulse, mendMoved(ctx, m, err)
	}
	defer plan.Close()
	pulse = plan.Pulse()
	if f.dryRun {
		if err := m.Bind(ctx, plan.Source, plan.Origin, plan.URIs()...); err != nil { // Bind returns an error if the mirror is of another Source; in a dry run it writes nothing
			return pulse, err
		}
		return pulse, errors.Join(a.warnOfPlannedUpdates(ctx, m, plan), s.showPlan(ctx, m, plan))
	}
	if !m.Exists() {
		if err := m.Close(); err != nil {
			return pulse, err
		}
		made, err := mirror.Open(ctx, s.options)
		if err != nil {
			return pulse, err
		}
		m, d.Mirror = made, made
		log.start(ctx, m, s.dir, f.state)
	}
	rep, err := s.apply(ctx, d, m, plan, passed, log.ID())
	log.recordChanged(ctx, m)
	if rep == nil {
		return pulse, err
	}
	s.report(ctx, rep, err, log)
	if err != nil {
		err = reportedError{err}
	}
	return pulse, err
}

// apply carries out a plan. number is the number of the run in the mirror's history. The report
// is nil if apply fails before it changes a resource.
func (s *syncer) apply(ctx context.Context, d *destination.Destination, m *mirror.Mirror, plan *destination.Plan, passed *missed.Log, number int64) (*destination.Report, error) {
	if err := s.keepSettings(ctx, m); err != nil {
		return nil, err
	}
	if err := m.Bind(ctx, plan.Source, plan.Origin, plan.URIs()...); err != nil {
		return nil, err
	}
	if err := m.BeginRun(ctx, "sync", number); err != nil {
		return nil, err
	}
	s.stale = map[string]int64{}
	bringer, closeStore, err := s.bringer(ctx, d, m)
	defer closeStore()
	if err == nil && bringer != nil {
		bringer.Stop = s.limitVersions(d)
		err = bringer.Before(ctx, passed, &s.missed)
		bringer.Stop = nil // bringer.After, called below, has no limit: no later run could fetch the versions that After skips
	}
	if err != nil {
		return nil, err
	}
	d.MaxTime = s.f.remainingTime(s.a.now().Sub(s.begun))
	s.progress.addPlan(plan)
	rep, err := d.Apply(ctx, plan)
	s.progress.stop()
	if err == nil && bringer != nil {
		err = bringer.After(ctx, passed, &s.missed)
	}
	for _, f := range s.missed.Failures {
		d.Observe(destination.Event{Kind: destination.EventFailed, Action: destination.Action{Want: harvest.Resource{URI: f.URI}}, Err: versionFailed(f)})
	}
	s.taken, s.aside = m.Taken(), m.Aside()
	if err := s.countSame(ctx, m, plan, rep); err != nil {
		return rep, err
	}
	err = s.a.limitTrash(ctx, m, rep, s.mend(err), s.dir, s.keep)
	if err == nil {
		err = m.TrimLog(ctx, s.keepLog)
	}
	return rep, s.a.reportStore(ctx, m, s.dir, &s.f.storeFlags, err)
}

func versionFailed(f missed.Failure) error {
	return fmt.Errorf("fetch an earlier version of the resource: %w", f.Err)
}

// bringer returns the Bringer that fetches the versions that resources had between two runs, or
// nil without --versions.
func (s *syncer) bringer(ctx context.Context, d *destination.Destination, m *mirror.Mirror) (b *missed.Bringer, closeStore func(), err error) {
	if d.Passed == nil {
		return nil, func() {}, nil
	}
	store, err := missed.Open(ctx, mirror.StateDir(s.dir, s.f.state))
	if err != nil {
		return nil, func() {}, err
	}
	b = &missed.Bringer{Client: s.client, Store: store.Store, Held: m.HoldsBytes, AllowOrigins: s.f.allowOrigin}
	return b, func() { _ = store.Close() }, nil // the error of Close is ignored, because the stored versions are already durable
}

// limitVersions returns a function to call with the length of each version before the version is
// fetched. The function subtracts the length from d.MaxTransfer. It returns an error once
// --max-transfer or --max-time is reached.
func (s *syncer) limitVersions(d *destination.Destination) func(int64) error {
	begun := int64(0)
	return func(n int64) error {
		switch {
		case s.transfer > 0 && begun >= s.transfer:
			return fmt.Errorf("%w: the run requested %d bytes of versions", destination.ErrMaxTransfer, begun)
		case s.f.maxTime > 0 && s.a.now().Sub(s.begun) >= s.f.maxTime:
			return destination.ErrMaxTime
		}
		if begun += n; s.transfer > 0 {
			d.MaxTransfer = max(s.transfer-begun, 1)
		}
		return nil
	}
}

// countStale counts the resources that stay in an older state, because their updates failed.
func (s *syncer) countStale(e destination.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case e.Kind == destination.EventFailed && e.Action.Change == resourcesync.Updated:
		s.stale[e.Set]++
	case e.Kind == destination.EventRetried:
		delete(s.stale, e.Set)
	}
}

// countSame counts the unchanged resources of each set for which the run did not read a complete
// list: the resources that the mirror holds, without those that were fetched or failed.
func (s *syncer) countSame(ctx context.Context, m *mirror.Mirror, plan *destination.Plan, rep *destination.Report) error {
	for i, set := range rep.Sets {
		if plan.Sets[i].Mode != destination.Incremental {
			continue
		}
		var err error
		if set.Same, err = unchangedCount(ctx, m, set.Set, set.Created+set.Updated+s.stale[set.Set]); err != nil {
			return err
		}
	}
	return nil
}

func unchangedCount(ctx context.Context, m *mirror.Mirror, set string, changed int64) (int64, error) {
	held, err := m.Count(context.WithoutCancel(ctx), set)
	return max(held-changed, 0), err
}

func (s *syncer) keepSettings(ctx context.Context, m *mirror.Mirror) error {
	if err := s.settings.store(ctx, m); err != nil {
		return err
	}
	forever, err := s.a.keepRetention(ctx, m, s.settings)
	s.keep.forever = s.keep.forever || forever
	return err
}

func (s *syncer) totals(rep *destination.Report) *totals {
	var t totals
	for _, set := range rep.Sets {
		t.AddReport(set)
	}
	for _, f := range s.missed.Failures {
		t.Failures = append(t.Failures, destination.Failure{URI: f.URI, Err: versionFailed(f)})
	}
	t.Failed += s.missed.Failed
	t.Taken = s.taken
	t.Close(rep.Orphans, s.f.trust.maxAge, s.a.now())
	return &t
}
