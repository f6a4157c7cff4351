package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"instep/destination"
	"instep/fetch"
	"instep/internal/mirror"
)

type syncFlags struct {
	planFlags
	sourceFlags
	limitFlags
	storeFlags
	maxDelete   string
	keepDeleted bool
	keep        string // --keep-versions
	dryRun      bool
}

const syncHelp = `Sync brings DIR in step with SOURCE: everything at first (a baseline, by Resource
List or Resource Dump), and what has changed afterwards (incremental, by Change List
or Change Dump), by the cheapest way that the Source offers. Give the same command
any number of times.

SOURCE is any URI of a Source: the site, a page or resource that links to it, its
Source Description, a Capability List or a list. Each resource is verified by the
length and digests that the Source gives before it replaces anything. What the Source
no longer has, and what was replaced, is kept for 30 days: see "instep history". When a run would delete more than 10 % of a set and more than 5
resources, more than half, or all, the deletions are withheld (exit code 6) until
"instep approve" releases exactly them.`

func (a *app) syncCommand() *cobra.Command {
	var f syncFlags
	cmd := &cobra.Command{
		Use:   "sync SOURCE DIR",
		Short: "bring a mirror in step with a Source",
		Long:  syncHelp,
		Example: `  instep sync https://museum.example.org/ ./mirror
  instep sync -n https://museum.example.org/ ./mirror
  instep sync --include '**/*.pdf' https://museum.example.org/ ./mirror`,
		Args: exactArgs("SOURCE", "DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			a.given = givenFlags(cmd)
			return a.sync(cmd.Context(), args[0], args[1], &f)
		},
	}
	f.sourceFlags.register(cmd)
	f.limitFlags.register(cmd)
	fs := cmd.Flags()
	f.storeFlags.register(cmd)
	f.planFlags.register(fs)
	fs.StringVar(&f.maxDelete, "max-delete", "", "delete at most `N or N%` resources of a set without approval")
	fs.BoolVar(&f.keepDeleted, "keep-deleted", false, "delete nothing")
	fs.StringVar(&f.keep, "keep-versions", defaultKeep, "keep replaced and deleted bytes for so many `DAYS`, or forever")
	fs.BoolVarP(&f.dryRun, "dry-run", "n", false, "show what would be done; write nothing")
	return cmd
}

func (a *app) sync(ctx context.Context, source, dir string, f *syncFlags) (err error) {
	begin := a.now()
	limit, err := destination.ParseLimit(f.maxDelete)
	if err != nil {
		return usagef("--max-delete: %v", err)
	}
	keep, err := parseKeepVersions(f.keep)
	if err != nil {
		return err
	}
	transfer, err := f.transfer()
	if err != nil {
		return err
	}
	var net traffic
	client, err := a.connect(ctx, source, &f.sourceFlags, &net)
	if err != nil {
		return err
	}
	defer client.Close()
	o := mirror.Options{Dir: dir, State: f.state, Now: a.now, Create: true}
	if err := f.storeFlags.apply(&o); err != nil {
		return err
	}
	m, err := a.openMirror(ctx, o, f.dryRun)
	if err != nil {
		return err
	}
	defer func() { _ = m.Close() }() // what it holds is durable
	progress := a.newProgress("sync")
	defer progress.stop()
	d := f.destination(source, m, client)
	d.MaxDelete, d.KeepDeleted, d.MaxTransfer = limit, f.keepDeleted, transfer
	if err := f.planFlags.set(d); err != nil {
		return err
	}
	log := a.newRun("sync", source, dir)
	defer func() { log.end(ctx, err) }()
	d.Observe = func(e destination.Event) {
		log.event(e)
		a.syncEvent(e, progress)
		if f.explain && e.Kind == destination.EventPlanned {
			a.explainPlan(e.Plan)
		}
	}
	if m.Exists() && !f.dryRun {
		log.start(f.state)
	}

	plan, err := d.Plan(ctx)
	if err != nil {
		return err
	}
	defer plan.Close()
	if f.dryRun {
		return errors.Join(a.warnOfPlannedUpdates(ctx, m, plan), a.showPlan(plan, dir, &net, a.now().Sub(begin)))
	}
	if !m.Exists() {
		if m, err = makeMirror(ctx, m, o); err != nil {
			return err
		}
		d.Mirror = m
		log.start(f.state)
	}
	if err := m.Bind(ctx, plan.Source, plan.Origin, plan.URIs()...); err != nil {
		return err
	}
	if err := m.BeginRun(ctx, "sync"); err != nil {
		return err
	}
	progress.start(plan)
	d.MaxTime = f.left(a.now().Sub(begin))
	rep, err := d.Apply(ctx, plan)
	progress.stop()
	err = a.keepPast(ctx, m, rep, err, dir, keep)
	err = a.reportStore(ctx, m, &f.storeFlags, err)
	a.reportSync(ctx, rep, err, dir, &net, a.now().Sub(begin), log)
	return nil
}

func (f *sourceFlags) destination(source string, m destination.Mirror, c *fetch.Client) *destination.Destination {
	return &destination.Destination{
		Source: source, Mirror: m, Client: c,
		Sets: f.sets, AllowOrigins: f.allowOrigin, Strict: f.strict,
		Include: f.include, Exclude: f.exclude, Types: f.types, Workers: f.workers,
	}
}

// openMirror opens a mirror for a run. One that does not exist yet is made only when
// the Source has answered: until then it is an empty one that nobody can write to.
func (a *app) openMirror(ctx context.Context, o mirror.Options, dryRun bool) (*mirror.Mirror, error) {
	m, err := mirror.OpenReadOnly(ctx, o)
	if err != nil || dryRun || !m.Exists() {
		return m, err
	}
	if err := m.Close(); err != nil {
		return nil, err
	}
	return mirror.Open(ctx, o)
}

// makeMirror makes the mirror that openMirror did not find. If that fails m remains.
func makeMirror(ctx context.Context, m *mirror.Mirror, o mirror.Options) (*mirror.Mirror, error) {
	if err := m.Close(); err != nil {
		return m, err
	}
	made, err := mirror.Open(ctx, o)
	if err != nil {
		return m, err
	}
	return made, nil
}

// syncEvent tells what happens while it happens.
func (a *app) syncEvent(e destination.Event, p *progressBar) {
	switch e.Kind {
	case destination.EventPlanned:
		a.out.record(record{Type: "status", Set: e.Set, Mode: string(e.Plan.Mode), Reason: e.Plan.Why})
		a.out.say("%s: %s, %s", e.Set, e.Plan.Mode, e.Plan.Why)
	case destination.EventNote:
		a.out.warn(record{Message: e.Text, Set: e.Set, Quirk: int(e.Quirk)})
	case destination.EventDone:
		p.done(e.Bytes)
		a.change(e.Action, e.Bytes)
	case destination.EventFailed:
		p.failed(e.Err)
		a.out.record(record{Type: "error", URI: e.Action.Want.URI, Message: e.Err.Error()})
	}
}

// change tells of one resource that was brought, or would be.
func (a *app) change(act destination.Action, n int64) {
	r := record{Type: "change", Action: string(act.Change), URI: act.Want.URI, Via: string(act.Via), Path: adopted(act)}
	if n >= 0 {
		r.Bytes = num(n)
	}
	a.out.record(r)
	if a.out.verbose {
		a.out.line("%s %s", changeMark(act), printable(act.Want.URI))
	}
}

func changeMark(act destination.Action) string {
	switch act.Change {
	case "created":
		return "+"
	case "updated":
		return "~"
	case "deleted":
		return "-"
	}
	return "="
}

func optional(n int64) *int64 {
	if n < 0 {
		return nil
	}
	return &n
}

// reportSync prints what a run did, and what ended it early if err is not nil.
func (a *app) reportSync(ctx context.Context, rep *destination.Report, err error, dir string, net *traffic, took time.Duration, log *runLog) {
	var t totals
	for _, s := range rep.Sets {
		t.addReport(s)
	}
	a.code = t.exitCode()
	for _, f := range t.failures {
		a.out.warn(record{URI: f.URI, Message: "failed: " + f.Err.Error()})
	}
	if more := t.failed - int64(len(t.failures)); more > 0 {
		a.out.warn(record{Message: fmt.Sprintf("and %d more failed", more)})
	}
	log.totals(&t)
	a.explainTotals(&t, dir)
	status := "in-sync"
	switch {
	case err != nil:
		code, hint := explain(ctx, err)
		a.code, status = code, failure(code)
		a.out.complain(plainly(ctx, err), hint)
		log.ended(err)
	case a.code == exitGuard:
		status = "refused"
	case a.code != 0:
		status = "partial"
	}
	if t.failed > 0 {
		a.out.say("%d failed, grouped by cause: instep errors %s --last", t.failed, shellWord(dir))
	}
	line := fmt.Sprintf("Status: %s (same=%d, created=%d, updated=%d, deleted=%d, failed=%d)   %s, %s in %d requests",
		words[status], t.Same, t.Created, t.Updated, t.Deleted, t.failed,
		took.Round(10*time.Millisecond), humanize.Bytes(uint64(t.bytes)), net.requests.Load())
	a.out.end(t.summary(status, net, took, a.code), line)
}

// explainTotals says in words what a run left undone, and what to do about it.
func (a *app) explainTotals(t *totals, dir string) {
	for skip, n := range sorted(t.Skipped) {
		a.out.warn(record{Message: fmt.Sprintf("%d resources left alone: %s", n, skip)})
	}
	for origin, n := range sorted(t.origins) {
		a.out.warn(record{
			Message: fmt.Sprintf("%d resources of %s are not the Source's own", n, origin),
			Hint:    "to fetch them add --allow-origin " + origin,
		})
	}
	for _, err := range t.partial {
		a.out.warn(record{Message: "the Source's documents are incomplete, so nothing was deleted: " + err.Error()})
	}
	for _, w := range t.withheld {
		a.out.warn(record{
			Set:     w.set,
			Message: fmt.Sprintf("%d deletions withheld: the Source no longer has that many of the resources held here", w.n),
			Hint:    fmt.Sprintf("look at them with -n; if they are right: instep approve %s %s, then sync again", dir, w.hash),
		})
	}
}

// words are the statuses for people.
var words = map[string]string{
	"in-sync": "IN SYNC", "not-in-sync": "NOT IN SYNC", "partial": "PARTIAL", "plan": "PLAN",
	"published": "PUBLISHED", "refused": "REFUSED", "failed": "FAILED", "interrupted": "INTERRUPTED",
	"converted": "CONVERTED", "clean": "CLEAN", "findings": "FINDINGS", "restored": "RESTORED",
}

func sortedKeys[K ~string](m map[K]int64) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func sorted[K ~string](m map[K]int64) func(yield func(K, int64) bool) {
	return func(yield func(K, int64) bool) {
		for _, k := range sortedKeys(m) {
			if !yield(k, m[k]) {
				return
			}
		}
	}
}
