package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"instep/destination"
	"instep/internal/runs"
	"instep/mirror"
	"instep/resourcesync"
)

const historyHelp = `History shows earlier states of the resources in the mirror in DIR, newest first: replaced ones
(~) and deleted ones (-). With a URI, or a path below DIR, it shows every state of that
resource, the present one first. --at shows what the mirror contained at a moment, --runs the
runs that changed it or repaired files of it.

Replaced and deleted bytes are kept for 30 days, unless the first run of sync, or a later one
with --remember, set another time with --keep-versions. "instep restore" and "instep undo" bring
them back.

A time is a date, which means its beginning in UTC, or a datetime with a time zone, such as
2026-03-01T12:00:00Z.`

type historyFlags struct {
	state, at, since string
	sets             []string
	runs             bool
	limit            int
}

func (a *app) historyCommand() *cobra.Command {
	var f historyFlags
	cmd := &cobra.Command{
		Use:   "history DIR [URI|PATH]",
		Short: "show earlier states of a mirror",
		Long:  historyHelp,
		Example: `  instep history ./mirror --since 2026-03-01
  instep history ./mirror photos/1.jpg
  instep history ./mirror --at 2026-03-01T12:00:00Z`,
		Args: optionalArgs(1, "DIR", "URI|PATH"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.history(cmd.Context(), args[0], args[1:], &f)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.at, "at", "", "show what the mirror held at this `TIME`")
	fs.StringVar(&f.since, "since", "", "show only states that were replaced or deleted at this `TIME` or later")
	fs.StringArrayVar(&f.sets, "set", nil, "show only the set of this Capability List `URI` (repeatable; default: all)")
	fs.BoolVar(&f.runs, "runs", false, "show the runs that changed or repaired the mirror")
	fs.IntVar(&f.limit, "limit", 1000, "show at most `N` states or runs, or all if N is 0")
	stateFlag(cmd, &f.state)
	return cmd
}

func stateFlag(cmd *cobra.Command, state *string) {
	cmd.Flags().StringVar(state, "state", "", "`DIR` that contains the mirror's catalog, if it is not inside the mirror")
}

func dryRunFlag(cmd *cobra.Command, dryRun *bool) {
	cmd.Flags().BoolVarP(dryRun, "dry-run", "n", false, "show what would be done; write nothing")
}

func (a *app) history(ctx context.Context, dir string, name []string, f *historyFlags) (err error) {
	at, err := a.parseMoment("at", f.at)
	if err != nil {
		return err
	}
	since, err := a.parseMoment("since", f.since)
	if err != nil {
		return err
	}
	if f.limit < 0 {
		return usagef("--limit %d: expected 0 or more", f.limit)
	}
	if f.runs && len(name)+len(f.sets)+len(f.at) > 0 || f.at != "" && f.since != "" {
		return usagef("--runs can be combined with --since only, and --at cannot be combined with --since")
	}
	m, err := a.openPast(ctx, dir, f.state)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	sets, err := chosenSets(ctx, m, f.sets)
	if err != nil {
		return err
	}
	l := &lister{a: a, limit: f.limit, dir: dir, state: mirror.StateDir(dir, f.state)}
	switch {
	case f.runs:
		err = l.printRuns(m.Runs(ctx), since)
	case len(name) > 0:
		err = l.printResource(ctx, m, name[0], at, since, f.sets)
	case f.at != "":
		err = l.printMoment(ctx, m, at, sets)
	default:
		err = l.printStates(m.Ended(ctx, since), f.sets, a.showEnded)
	}
	if err != nil {
		return err
	}
	if err := a.tellUnknownPast(ctx, m, dir, at); err != nil {
		return err
	}
	a.out.end(summary{Status: "clean", Resources: num(l.shown)}, fmt.Sprintf("%d shown", l.shown))
	return nil
}

// chosenSets returns the given sets, which must exist in the mirror, or all sets if none are
// given.
func chosenSets(ctx context.Context, m *mirror.Mirror, given []string) ([]string, error) {
	known, err := m.Sets(ctx)
	if err != nil || len(given) == 0 {
		return known, err
	}
	for _, set := range given {
		if !slices.Contains(known, set) {
			return nil, usagef("--set %q: the mirror has no such set; its sets are %s", set, strings.Join(known, ", "))
		}
	}
	return given, nil
}

func (a *app) openPast(ctx context.Context, dir, state string) (*mirror.Mirror, error) {
	return openExisting(ctx, mirror.Options{Dir: dir, State: state, Now: a.now})
}

func openExisting(ctx context.Context, o mirror.Options) (*mirror.Mirror, error) {
	m, err := mirror.OpenReadOnly(ctx, o)
	if err == nil && !m.Exists() {
		err = errors.Join(noMirror(o.Dir), m.Close())
	}
	return m, err
}

func noMirror(dir string) error {
	return fmt.Errorf("%w: %w", mirror.ErrWrongStore, &fs.PathError{Op: "open", Path: dir, Err: fs.ErrNotExist})
}

func (a *app) tellUnknownPast(ctx context.Context, m *mirror.Mirror, dir string, moment time.Time) error {
	known, ok, err := m.Known(ctx)
	if err != nil || moment.IsZero() || ok && !moment.Before(known) {
		return err
	}
	msg := fmt.Sprintf("no earlier states of %s are kept yet", dir)
	if ok {
		msg = fmt.Sprintf("states that ended before %s are not known, so the list may be incomplete", stamp(known))
	}
	a.out.warn(warningRecord{Message: msg})
	return nil
}

type lister struct {
	a     *app
	limit int
	shown int64
	dir   string
	state string // directory of the mirror's state
}

// limitReached prints a warning if the list has reached its limit. Otherwise it counts one more
// line.
func (l *lister) limitReached() bool {
	if l.limit > 0 && l.shown >= int64(l.limit) {
		l.a.out.warn(warningRecord{Message: fmt.Sprintf("the list has more than %d lines", l.limit), Hint: "--limit 0 shows all"})
		return true
	}
	l.shown++
	return false
}

// listedRun is a run that changed the mirror or only repaired files of the mirror.
type listedRun struct {
	mirror.Run
	repaired int64 // number of missing or damaged files that the run restored from the history
}

func (l *lister) printRuns(changed iter.Seq2[mirror.Run, error], since time.Time) error {
	records, err := runs.List(l.state)
	if err != nil {
		return err
	}
	for r, err := range withRepairs(changed, records) {
		if err != nil {
			return err
		}
		if r.Begun.Before(since) || l.limitReached() {
			break
		}
		repaired := ""
		if r.repaired > 0 {
			repaired = fmt.Sprintf(" repaired=%d", r.repaired)
		}
		l.a.out.record(&runRecord{Run: r.ID, RunID: runText(r.ID), At: stamp(r.Begun), Command: r.What, Created: num(r.Created), Updated: num(r.Updated), Deleted: num(r.Deleted), Repaired: positive(r.repaired)})
		l.a.out.line("%6d  %s  %-8s created=%d updated=%d deleted=%d%s", r.ID, r.Begun.UTC().Format(time.RFC3339), r.What, r.Created, r.Updated, r.Deleted, repaired)
	}
	return nil
}

// withRepairs adds the runs that only repaired files. The history does not have them, because no
// state of a resource began or ended. Both arguments are sorted, the last run first.
func withRepairs(changed iter.Seq2[mirror.Run, error], records []runs.Record) iter.Seq2[listedRun, error] {
	return func(yield func(listedRun, error) bool) {
		repairsAfter := func(id int64) bool {
			for ; len(records) > 0 && records[0].ID > id; records = records[1:] {
				r := &records[0]
				if r.End == nil || r.End.Changed {
					continue
				}
				n := r.End.Counts["created"] + r.End.Counts["updated"] + r.End.Counts["repaired"]
				if n > 0 && !yield(listedRun{mirror.Run{ID: r.ID, Begun: r.Begun, What: r.Command}, n}, nil) {
					return false
				}
			}
			return true
		}
		for r, err := range changed {
			if err == nil && !repairsAfter(r.ID) || !yield(listedRun{r, 0}, err) {
				return
			}
		}
		repairsAfter(0)
	}
}

// printStates prints the states in all sets if sets is empty.
func (l *lister) printStates(states iter.Seq2[mirror.Version, error], sets []string, show func(*mirror.Version)) error {
	for v, err := range states {
		if err != nil {
			return err
		}
		if len(sets) > 0 && !slices.Contains(sets, v.SetURI) {
			continue
		}
		if l.limitReached() {
			break
		}
		r := stateOf(&v)
		if r.Remainder, err = remainder(v.Remainder); err != nil {
			return fmt.Errorf("%s: %w", v.URI, err)
		}
		l.a.out.record(&r)
		show(&v)
	}
	return nil
}

func (l *lister) printResource(ctx context.Context, m *mirror.Mirror, name string, at, since time.Time, sets []string) error {
	key, err := m.Find(ctx, name)
	if err != nil {
		return err
	}
	states := m.History(ctx, key)
	if !at.IsZero() {
		found, err := m.At(ctx, key, at)
		if err != nil && !errors.Is(err, mirror.ErrNoVersion) {
			return fmt.Errorf("%s at %s: %w", name, stamp(at), err)
		}
		states = func(yield func(mirror.Version, error) bool) {
			for _, v := range found {
				if !yield(v, nil) {
					return
				}
			}
		}
	}
	if err := l.printStates(notEndedBefore(states, since), sets, l.a.showState); err != nil {
		return err
	}
	if err := l.listFetched(ctx, l.state, key, at, since); err != nil {
		return err
	}
	if l.shown == 0 && !at.IsZero() {
		return fmt.Errorf("%s at %s: %w", name, stamp(at), mirror.ErrNoVersion)
	}
	if l.shown == 0 && since.IsZero() && len(sets) == 0 {
		return fmt.Errorf("%s: %w", name, mirror.ErrNoVersion)
	}
	return nil
}

func notEndedBefore(states iter.Seq2[mirror.Version, error], since time.Time) iter.Seq2[mirror.Version, error] {
	return func(yield func(mirror.Version, error) bool) {
		for v, err := range states {
			if err == nil && !v.Present() && v.Until.Before(since) {
				continue
			}
			if !yield(v, err) {
				return
			}
		}
	}
}

func (l *lister) printMoment(ctx context.Context, m *mirror.Mirror, at time.Time, sets []string) error {
	for _, set := range sets {
		if err := l.printStates(m.AsOf(ctx, set, at), nil, l.a.showHeld); err != nil {
			return err
		}
	}
	return nil
}

func stateOf(v *mirror.Version) versionRecord {
	r := versionRecord{
		URI: v.URI, Path: v.Path, Set: v.SetURI, Bytes: optional(v.Length.Int64()), Hash: v.Digests.String(),
		MediaType: v.Type, LastMod: v.LastMod.String(), Verified: &v.Verified, Changed: stamp(v.Changed), From: stamp(v.Since), Until: stamp(v.Until),
		Action: string(v.Why), Run: v.Ended,
	}
	if v.SetURI == mirror.FoundSet {
		r.Trash, r.Changed = v.Kept, ""
	}
	return r
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

func (a *app) showEnded(v *mirror.Version) {
	mark := "~"
	if v.Why == resourcesync.Deleted {
		mark = "-"
	}
	a.out.line("%s  %s  run %d  %s  %s%s", v.Until.Format(time.RFC3339), mark, v.Ended, volume(v), printable(v.Path), foundNote(v))
}

func (a *app) showState(v *mirror.Version) {
	since, until, hash := "…", "now", "-"
	if !v.Since.IsZero() {
		since = v.Since.Format(time.RFC3339)
	}
	if !v.Until.IsZero() {
		until = v.Until.Format(time.RFC3339) + " " + string(v.Why)
	}
	if d := v.Digests.Strongest(); !d.IsZero() {
		hash = d.String()
	}
	a.out.line("%s – %s  %s  %s  lastmod %s%s", since, until, volume(v), hash, v.LastMod, foundNote(v))
}

// foundNote returns a note about a file of the user that was replaced by a resource: where the mirror
// keeps the file, and how to restore it. For a state of a resource it returns "".
func foundNote(v *mirror.Version) string {
	if v.SetURI != mirror.FoundSet {
		return ""
	}
	return fmt.Sprintf("   (this file was no resource; the mirror keeps it at %s; to restore it: instep restore DIR %s --to FILE)", printable(v.Kept), shellLine(printable(v.Path)))
}

func (a *app) showHeld(v *mirror.Version) {
	a.out.line("%s  %s", volume(v), printable(v.Path))
}

func volume(v *mirror.Version) string { return humanSize(v.Length.Int64()) }

type keepVersions struct {
	days    int
	forever bool
}

const defaultKeepDays = 30

func parseKeepVersions(text string) (keepVersions, error) {
	if text == "forever" {
		return keepVersions{forever: true}, nil
	}
	n, err := parseDays(text)
	if err != nil {
		return keepVersions{}, usagef("--keep-versions: %v (or forever)", err)
	}
	return keepVersions{days: n}, nil
}

// limitTrash ends a run: it warns about sets of which the run replaced most resources, and removes
// old states from the trash if the run succeeded. err is the error of the run; limitTrash returns
// err joined with its own error.
func (a *app) limitTrash(ctx context.Context, m *mirror.Mirror, rep *destination.Report, err error, dir string, keep keepVersions) error {
	err = errors.Join(err, a.warnOfMassUpdates(context.WithoutCancel(ctx), m, rep, dir))
	if err != nil || keep.forever {
		return err
	}
	day, behind, err := m.ClockBehind(ctx)
	if err != nil {
		return err
	}
	if behind {
		a.out.warn(warningRecord{
			Message: fmt.Sprintf("the clock shows %s, which is earlier than %s, so nothing is removed from the trash", a.now().UTC().Format(time.DateOnly), day),
			Hint:    fmt.Sprintf("if the clock is right, sync once with --keep-versions %d --remember", keep.days),
		})
	}
	return m.PurgeTrash(ctx, keep.days)
}

// Sets of up to massSet resources are too small for a warning that most of their resources were
// replaced.
const massSet = 5

// massUpdate reports whether a run replaced suspiciously many resources of a set. An attacker who
// controls the Source may be rewriting everything.
func massUpdate(updated, members int64) bool { return members > massSet && updated*2 > members }

func (a *app) warnOfMassUpdates(ctx context.Context, m *mirror.Mirror, rep *destination.Report, dir string) error {
	for _, s := range rep.Sets {
		members, err := m.Count(ctx, s.Set)
		if err != nil {
			return err
		}
		if !massUpdate(s.Updated, members) {
			continue
		}
		run, err := m.Run(ctx)
		if err != nil {
			return err
		}
		a.out.warn(warningRecord{
			Set:     s.Set,
			Message: fmt.Sprintf("this run replaced %d of %d resources", s.Updated, members),
			Hint:    fmt.Sprintf("if that can't be right, undo the run: instep undo %s %d", dir, run),
		})
	}
	return nil
}

func (a *app) warnOfPlannedUpdates(ctx context.Context, m *mirror.Mirror, p *destination.Plan) error {
	for _, s := range p.Sets {
		members, err := m.Count(ctx, s.Set)
		if err != nil {
			return err
		}
		if massUpdate(s.Updated, members) {
			a.out.warn(warningRecord{Set: s.Set, Message: fmt.Sprintf("the run would replace %d of %d resources", s.Updated, members)})
		}
	}
	return nil
}
