package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"instep/destination"
	"instep/fetch"
	"instep/internal/catalog"
	"instep/internal/where"
	"instep/mirror"
	"instep/resourcesync"
)

type syncFlags struct {
	planFlags
	sourceFlags
	limitFlags
	storeFlags
	maxDelete   string
	keepDeleted bool
	keep        string // --keep-versions
	keepLog     string
	versions    bool
	dryRun      bool
	at          string // --at
	trust       trustFlags
	watch       pollFlags
}

const syncHelp = `Sync brings the mirror in DIR in step with SOURCE. The first run copies everything (a baseline,
from the Resource List or Resource Dump). Later runs copy only what has changed (incremental,
from Change Lists or Change Dumps). Sync chooses the cheapest way that the Source offers. Run
the same command as often as you like.

SOURCE is any URI of a Source: the site, a page or resource that links to it, its Source
Description, a Capability List, or a list. Sync checks the bytes of each resource against the
length and digests that the Source gives before it replaces a file. It counts a resource as
unverified if the Source gives neither. Deleted and replaced bytes are kept for 30 days: see
"instep history".

A guard withholds deletions (exit code 6) if within 24 hours they would remove more than 10 % of
a set and more than 5 resources, more than half of the set, or all of it. "instep approve"
releases exactly the withheld deletions. Approved deletions and renamed files do not count.
--max-delete sets another limit for this run. Sync also changes nothing if a Source shows an
older state than before or no longer offers a set.

If DIR is on a disk of its own, keep the state on another disk (--state). Sync then refuses to
make a new mirror in the empty mount point while the disk is not mounted (exit code 6).

The first run stores its settings with the mirror: how long earlier bytes and changes are kept
(--keep-versions, --keep-log), the filters (--set, --include, --exclude, --type, --accept,
--only-collection and the like), --versions, --strict, --prefer, --duplicates, --no-patches,
--max-age, --accept-gap, --baseline-every, --workers, --rate, --bwlimit, --max-document, --ore,
and the names of files with secrets. Later runs of sync and audit use these settings. A flag of
a later run applies only to that run, unless --remember is given, too. An empty filter
(--include '') selects everything. "instep report" shows the stored settings.

Exit code 0 means that the mirror has the bytes that the Source announced last, verified as far
as the Source allows, and exactly the resources of its documents. If changes after the Resource
List are unknown, sync prints "as of" and the time of the list, and ends with 4, until there is
a newer list or --accept-gap is given. See "instep help promise".

With --at sync mirrors each set as it was at that time. It uses the lists and dumps that the
Source offers or archives, and the changes after them. It takes the bytes from dumps, or from
the memento that an entry links, or the present bytes if a digest proves that they are the same.
Otherwise the resource fails (exit code 4). The mirror remembers the time; later runs and audits
do not need --at and cannot change it.

With --ore SOURCE is a Resource Map of OAI-ORE, or a page, feed or Sitemap that leads to
Resource Maps. Sync mirrors all resources that these maps aggregate, as "instep ore find" lists
them. If a map cannot be read, sync changes nothing.

With --watch sync keeps running. It waits while the Source is unreachable, and reports only
news. Stop it with Ctrl-C at any time (exit code 0 between two runs, 130 during one); the next
run continues where it stopped.`

func (a *app) syncCommand() *cobra.Command {
	var f syncFlags
	cmd := &cobra.Command{
		Use:   "sync SOURCE DIR",
		Short: "bring a mirror in step with a Source",
		Long:  syncHelp,
		Example: `  instep sync https://museum.example.org/ ./mirror
  instep sync -n https://museum.example.org/ ./mirror
  instep sync --watch https://museum.example.org/ ./mirror
  instep sync --include '*.pdf' https://museum.example.org/ ./mirror
  instep sync --at 2026-03-01T12:00:00Z https://museum.example.org/ ./march
  instep sync --ore https://museum.example.org/vase.atom ./mirror`,
		Args: exactArgs("SOURCE", "DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			a.given = a.givenFlags(cmd)
			return a.sync(cmd, args[0], args[1], &f)
		},
	}
	f.sourceFlags.register(cmd)
	f.limitFlags.register(cmd)
	fs := cmd.Flags()
	f.storeFlags.register(cmd)
	f.planFlags.register(cmd)
	fs.StringVar(&f.maxDelete, "max-delete", "", "delete at most `N or N%` resources of a set without approval")
	fs.BoolVar(&f.keepDeleted, "keep-deleted", false, "delete nothing")
	fs.StringVar(&f.keep, "keep-versions", strconv.Itoa(defaultKeepDays)+"d", "keep replaced and deleted bytes for this `TIME`, in days such as 30d, or forever")
	fs.StringVar(&f.at, "at", "", "make a mirror of the past: each set as it was at this `TIME`, from archived lists or dumps and the changes after them")
	fs.StringVar(&f.keepLog, "keep-log", "90d", "keep the log of changes for this `TIME`, in days such as 90d; after a longer pause a publication of DIR compares all resources")
	fs.BoolVar(&f.versions, "versions", false, "also fetch the states that resources had between two runs, if the Source keeps them")
	dryRunFlag(cmd, &f.dryRun)
	fs.Bool("remember", false, "store the settings of this run for later runs")
	f.trust.register(cmd)
	f.watch.register(cmd)
	return cmd
}

func (a *app) sync(cmd *cobra.Command, source, dir string, f *syncFlags) (err error) {
	ctx := cmd.Context()
	s := &syncer{a: a, source: source, dir: dir, f: f}
	if err := s.check(); err != nil {
		return err
	}
	if err := s.open(ctx); err != nil {
		return s.mend(err)
	}
	defer s.close()
	if s.settings, err = a.useSettings(ctx, cmd, source, s.options, s.mirror); err != nil {
		return err
	}
	if err := s.check(); err != nil { // the second check, which includes the flag values stored with the mirror
		return err
	}
	if err := s.checkMoment(ctx); err != nil {
		return s.mend(err)
	}
	client, uri, done, err := a.reach(ctx, source, &f.sourceFlags, &s.net)
	if err != nil {
		return err
	}
	defer done()
	s.client, s.uri = client, uri
	if f.watch.on {
		return a.watchSource(ctx, s)
	}
	s.progress = a.newProgress("sync", &s.net)
	defer s.progress.stop()
	s.report = s.reportSync
	_, err = s.run(ctx)
	if errors.As(err, new(reportedError)) {
		return nil
	}
	return err
}

func (f *sourceFlags) destination(source string, m destination.Mirror, c *fetch.Client) *destination.Destination {
	d := &destination.Destination{
		Source: source, Mirror: m, Client: c,
		Sets: withoutEmpty(f.sets), AllowOrigins: f.allowOrigin, Strict: f.strict,
		Include: withoutEmpty(f.include), Exclude: withoutEmpty(f.exclude), Types: withoutEmpty(f.types), Workers: f.workers,
		Collections: withoutEmpty(f.collections), Profiles: withoutEmpty(f.profiles), WithMetadata: f.withMetadata,
		Accept: withoutEmpty(f.accept),
	}
	if len(f.conditions) > 0 {
		d.Where = where.New(c, f.conditions)
	}
	return d
}

// openMirror returns an empty, read-only mirror if none exists, because the mirror is created
// only after the Source has answered.
func openMirror(ctx context.Context, o mirror.Options, dryRun bool) (*mirror.Mirror, error) {
	if !dryRun {
		existing := o
		existing.Create = false
		m, err := mirror.Open(ctx, existing)
		if !errors.Is(err, mirror.ErrWrongStore) && !(o.Adopt && errors.Is(err, catalog.ErrDamaged)) {
			return m, err
		}
	}
	return mirror.OpenReadOnly(ctx, o)
}

func (a *app) syncEvent(e destination.Event, p *progressBar) {
	switch e.Kind {
	case destination.EventTried:
		a.tellAttempt(e)
	case destination.EventPlanned:
		a.out.record(&statusRecord{Set: e.Set, Mode: string(e.Plan.Mode), Reason: e.Plan.Why})
		a.out.say("%s: %s", e.Set, modeText(string(e.Plan.Mode), e.Plan.Why))
	case destination.EventNote:
		a.out.warn(warningRecord{Message: e.Text, Set: e.Set, Quirk: int(e.Quirk)})
	case destination.EventBegun:
		p.fileBegun(urlPath(e.Action.Want.URI))
	case destination.EventTransferred:
		p.fileEnded(urlPath(e.Action.Want.URI))
		if e.Err != nil {
			p.showFailure(urlPath(e.Action.Want.URI) + ": " + e.Err.Error())
		}
		p.countFile(e.Bytes)
	case destination.EventDone:
		if e.Action.Kind == destination.Delete {
			p.countFile(0)
		}
		a.change(e.Action, e.Bytes)
	case destination.EventFailed:
		a.out.record(&errorRecord{URI: e.Action.Want.URI, Message: e.Err.Error()})
	}
}

// modeText describes the mode in which a set is synchronised, and why. The mode is "" if the
// documents of the set are unusable.
func modeText(mode, why string) string {
	if mode == "" {
		return why
	}
	return mode + ", " + why
}

// tellAttempt prints a URL at which a run looked for a Source, but only with -v. Without -v,
// the error lists these URLs if no Source was found.
func (a *app) tellAttempt(e destination.Event) {
	a.out.record(&statusRecord{Message: e.Text})
	if a.out.verbose {
		a.out.say("%s", e.Text)
	}
}

func (a *app) change(act destination.Action, n int64) {
	r := changeRecord{Action: string(act.Change), URI: act.Want.URI, Via: string(act.Via), Path: adoptedPath(act)}
	if n >= 0 {
		r.Bytes = num(n)
	}
	a.out.record(&r)
	if a.out.verbose {
		a.out.line("%s %s", changeMark(act.Change), readableURI(act.Want.URI))
	}
}

func changeMark(change resourcesync.Change) string {
	switch change {
	case resourcesync.Created:
		return "+"
	case resourcesync.Updated:
		return "~"
	case resourcesync.Deleted:
		return "-"
	}
	return "="
}

// reportSync prints the results of a run. If err is not nil, it ended the run early.
func (s *syncer) reportSync(ctx context.Context, rep *destination.Report, err error, log *runLog) {
	a, took := s.a, s.a.now().Sub(s.begun)
	t := s.totals(rep)
	a.code = t.ExitCode()
	for _, f := range t.Failures {
		a.out.warn(warningRecord{URI: f.URI, Message: "failed: " + brief(f.Err.Error())})
	}
	if more := t.Failed - int64(len(t.Failures)); more > 0 {
		a.out.warn(warningRecord{Message: fmt.Sprintf("and %d more failed", more)})
	}
	s.addNotes(log, t)
	s.explainTotals(t)
	s.explainState(t)
	status := t.Status()
	if err != nil {
		code, hint := explain(ctx, err)
		a.code, status = code, failureStatus(code)
		a.out.printError("", rootCause(ctx, err), hint)
		log.EndedBy(err)
	}
	if t.Patches.Used > 0 {
		a.out.say("%s made by patches, which saved the transfer of %s", counted(t.Patches.Used, "resource"), humanSize(t.Patches.Saved))
	}
	if t.Unverified > 0 {
		a.out.say("%s unverified: the Source gives neither length nor digest, so nothing proves the bytes", counted(t.Unverified, "resource"))
	}
	if n := s.missed.Fetched; n > 0 {
		a.out.say("fetched %s that resources had between two runs (instep history %s URI shows them)", counted(n, "version"), shellLine(s.dir))
	}
	if t.Failed > 0 {
		a.out.say("%d failed; to see them by cause: instep errors %s --last", t.Failed, shellLine(s.dir))
	}
	a.out.end(t.summary(status, &s.net, took, a.code), t.lastLine(status, &s.net, took))
}

func (s *syncer) explainTotals(t *totals) {
	out := s.a.out
	for skip, n := range sortedByName(t.Skipped) {
		out.warn(warningRecord{Message: leftAlone(n, string(skip)), Hint: skipHints[skip]})
	}
	for _, err := range t.Partial {
		out.warn(warningRecord{Message: "the Source's documents are incomplete, so nothing was deleted: " + err.Error()})
	}
	for _, w := range s.leftOpen(t) {
		out.warn(w)
	}
	for _, o := range t.Orphans {
		if o.Forget {
			out.say("%s: the set is forgotten, its files stay (%s)", o.Set, counted(o.Members, "resource"))
		}
	}
}

// leftOpen returns warnings about everything that the run left undone although no resource failed.
// Each of them is a reason for an exit code other than 0.
func (s *syncer) leftOpen(t *totals) (all []warningRecord) {
	for origin, n := range sortedByName(t.Origins) {
		all = append(all, warningRecord{Message: leftOutOrigin(n, origin), Hint: "to fetch these resources: --allow-origin " + origin})
	}
	for _, w := range t.Withheld {
		all = append(all, warningRecord{
			Set: w.Set, Message: withheldMessage(&w, s.f.maxDelete), Hint: withheldHint(&w, s.approvalCommand(w.Hash), s.f.dryRun),
			Before: num(w.Guard.Before), Allowed: num(w.Guard.Allowed), Withheld: num(w.N), Doubted: positive(w.Guard.Doubted), Plan: w.Hash,
		})
	}
	return append(all, s.trustWarnings(t)...)
}

func leftAlone(n int64, reason string) string {
	return fmt.Sprintf("%s left alone: %s", counted(n, "resource"), reason)
}

func leftOutOrigin(n int64, origin string) string {
	return fmt.Sprintf("left out: %s of %s, which is not the Source's own origin", counted(n, "resource"), origin)
}

func (s *syncer) approvalCommand(hash string) string {
	words := []string{"instep", "approve"}
	if s.f.state != "" {
		words = append(words, "--state", s.f.state)
	}
	return shellLine(append(words, s.dir, hash)...)
}

var skipHints = map[destination.Skip]string{
	destination.SkipOrigin:   "to fetch some of these resources add --allow-origin; to leave out the others add --exclude",
	destination.SkipWeak:     "the Source must publish the sha-256 of these resources; a sync without --strict fetches them unproved",
	destination.SkipRecord:   "the first of these records are named above; the next run requests them again, and --exclude leaves out their resources",
	destination.SkipDisputed: "see the messages above; the next Resource List of the Source decides",
	destination.SkipStale:    "the next Resource List of the Source brings these resources up to date; --accept-rollback accepts everything that the present list says",
}

var words = map[string]string{
	"in-sync": "IN SYNC", "not-in-sync": "NOT IN SYNC", "partial": "PARTIAL", "plan": "PLAN",
	"published": "PUBLISHED", "refused": "REFUSED", "failed": "FAILED", "interrupted": "INTERRUPTED",
	"converted": "CONVERTED", "same": "SAME", "different": "DIFFERENT", "clean": "CLEAN", "findings": "FINDINGS", "restored": "RESTORED",
}

func sortedByName[K ~string](m map[K]int64) iter.Seq2[K, int64] {
	return func(yield func(K, int64) bool) {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if !yield(k, m[k]) {
				return
			}
		}
	}
}
