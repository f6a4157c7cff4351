package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"instep/destination"
	"instep/internal/runs"
	"instep/internal/webpage"
	"instep/mirror"
)

const errorsHelp = `Errors tells what failed in a run of sync or audit on the mirror in DIR, grouped by
cause, with examples and the command to give next: by default of the newest run in which
anything failed, with --last of the newest run. -v names everything that failed.

The mirror keeps records of its last 100 runs; instep report lists them. A first run that
found no Source has none, as it makes no mirror.`

type errorsFlags struct {
	state, run, cause string
	last              bool
}

func (a *app) errorsCommand() *cobra.Command {
	var f errorsFlags
	cmd := &cobra.Command{
		Use:   "errors DIR",
		Short: "tell what failed in a run, by cause",
		Long:  errorsHelp,
		Example: `  instep errors ./mirror
  instep errors --last -v --cause not-found ./mirror`,
		Args: exactArgs("DIR"),
		RunE: func(_ *cobra.Command, args []string) error { return a.errors(args[0], &f) },
	}
	fs := cmd.Flags()
	fs.StringVar(&f.state, "state", "", "where the mirror's catalog is, if not inside the mirror: a `DIR`")
	fs.StringVar(&f.run, "run", "", "the run of this `ID`, as instep report names it")
	fs.BoolVar(&f.last, "last", false, "the newest run, whether or not anything failed in it")
	fs.StringVar(&f.cause, "cause", "", "only what failed for this `CAUSE`, such as not-found")
	cmd.MarkFlagsMutuallyExclusive("run", "last")
	return cmd
}

func (a *app) errors(dir string, f *errorsFlags) error {
	if _, known := advices[destination.Cause(f.cause)]; f.cause != "" && !known {
		return usagef("--cause %q: expected one of %s", f.cause, strings.Join(causeNames(), ", "))
	}
	all, err := listRuns(dir, f.state)
	if err != nil {
		return err
	}
	id := recordOfRun(all, f.run)
	if id == "" {
		if id = pickRun(all, f.last); id == "" {
			a.out.end(summary{Status: "clean", Failed: num(0)}, noFailures(all))
			return nil
		}
	}
	rec, err := runs.Load(mirror.StateDir(dir, f.state), id)
	if err != nil {
		return err
	}
	a.tellRun(rec)
	groups := groupFailures(rec, f.cause)
	failed := int64(0)
	for _, g := range groups {
		failed += g.N
		a.tellGroup(rec, &g)
	}
	status := "clean"
	if failed > 0 || rec.End == nil || rec.End.Error != "" {
		status = "findings"
	}
	a.out.end(summary{Status: status, Failed: num(failed)}, fmt.Sprintf("Status: %s (failed=%d)", words[status], failed))
	return nil
}

func noFailures(all []runs.Record) string {
	if len(all) == 0 {
		return "Status: CLEAN (no run is recorded)"
	}
	return fmt.Sprintf("Status: CLEAN (nothing failed in the last %s)", counted(int64(len(all)), "run"))
}

// listRuns lists the runs of a mirror.
func listRuns(dir, state string) ([]runs.Record, error) {
	at := mirror.StateDir(dir, state)
	if _, err := os.Stat(at); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the runs of the mirror %q: %w: there is no %q", dir, mirror.ErrWrongStore, at)
	}
	return runs.List(at)
}

// pickRun names the newest run, or the newest in which anything failed; "" if there is none.
func pickRun(all []runs.Record, last bool) string {
	for i := range all {
		if last || troubled(&all[i]) {
			return all[i].ID
		}
	}
	return ""
}

// troubled reports whether anything failed in a run, or ended it before its end.
func troubled(r *runs.Record) bool { return r.End == nil || r.Failures() > 0 || r.End.Error != "" }

// causeGroup has the failures of one cause.
type causeGroup struct {
	Cause, What, Next string
	N                 int64 // number of failures, of which Rows has the stored ones
	Rows              []runs.Row
}

// groupFailures groups failures by cause, the most frequent first; if a cause is given,
// only that one.
func groupFailures(rec *runs.Record, only string) []causeGroup {
	rows := map[string][]runs.Row{}
	for _, r := range rec.Rows {
		if r.Kind == runs.Failure {
			rows[r.Cause] = append(rows[r.Cause], r)
		}
	}
	var groups []causeGroup
	for cause, n := range sorted(rec.Causes) {
		if only != "" && cause != only {
			continue
		}
		g := causeGroup{Cause: cause, N: n, Rows: rows[cause]}
		g.What, g.Next = advice(&rec.Run, cause, g.Rows)
		groups = append(groups, g)
	}
	slices.SortStableFunc(groups, func(x, y causeGroup) int { return int(min(1, max(-1, y.N-x.N))) })
	return groups
}

// advices explain the causes, with the next step: sync, repair, look (a dry run of sync),
// or lint (for faults of the Source).
var advices = map[destination.Cause]struct{ what, do string }{
	destination.CauseTemporary: {"the server was not reachable, too slow or busy", "sync"},
	destination.CauseRefused:   {"refused by what is allowed here", "sync"},
	destination.CauseNotFound:  {"the Source lists them, and its server has them not", "lint"},
	destination.CauseDenied:    {"the server wants credentials, or others: give them with --netrc, --bearer-file or --header-file", "sync"},
	destination.CauseTooLarge:  {"more bytes came than the Source lists or this program takes", "lint"},
	destination.CauseProtocol:  {"the server's answer makes no sense where the resource was asked for", "sync"},
	destination.CauseMismatch:  {"other bytes came than the Source lists; what was held stayed", "lint"},
	destination.CauseDocument:  {"a document of the Source cannot be used", "lint"},
	destination.CauseOccupied:  {"a file that is not the mirror's is in the way: move it elsewhere, or sync with --adopt", "sync"},
	destination.CauseNoPlace:   {"no path can be made of the URI: leave them out with --exclude", "sync"},
	destination.CauseMoved:     {"it changed while the run was at work", "sync"},
	destination.CauseOther:     {"this machine was the reason, not the Source: is there space, and may the mirror be written?", "sync"},
	destination.CauseMissing:   {"missing in the mirror", "repair"},
	destination.CauseDifferent: {"the mirror has other bytes than the Source", "repair"},
	destination.CauseUnread:    {"the mirror's bytes could not be read: is its disk sound?", "repair"},
	destination.CauseExtra:     {"the mirror has what the Source does not list", "look"},
}

// causeNames are all that there are.
func causeNames() (names []string) {
	for _, cause := range sortedKeys(advices) {
		names = append(names, string(cause))
	}
	return names
}

// advice explains a cause and gives the next command.
func advice(run *runs.Run, cause string, rows []runs.Row) (what, next string) {
	a := advices[destination.Cause(cause)]
	var flags []string
	for _, r := range rows {
		if r.Hint != "" && !slices.Contains(flags, r.Hint) && len(flags) < 5 {
			flags = append(flags, r.Hint)
		}
	}
	switch {
	case a.do == "lint" && len(flags) == 0:
		return a.what, shellLine("instep", "lint", run.Source)
	case a.do == "repair":
		return a.what, again(run, "audit", "--repair")
	case a.do == "look":
		return a.what, again(run, "sync", "-n")
	}
	var allow []string
	for _, f := range flags {
		allow = append(allow, strings.Fields(f)...)
	}
	return a.what, again(run, "sync", allow...)
}

// ofOneCommand are the flags that only sync or only audit has.
var ofOneCommand = map[string]string{
	"--max-delete": "sync", "--max-time": "sync", "--max-transfer": "sync", "--keep-deleted": "sync", "--keep-versions": "sync",
	"--prefer": "sync", "--adopt": "sync", "--layout": "sync", "--at": "sync",
	"--quick": "audit", "--repair": "audit",
}

// again is a command line for the Source and the mirror of a run.
func again(run *runs.Run, command string, flags ...string) string {
	line := append([]string{"instep", command}, flags...)
	for _, o := range run.Options {
		name, _, _ := strings.Cut(o, "=")
		if of := ofOneCommand[name]; (of == "" || of == command) && !slices.Contains(flags, name) {
			line = append(line, o)
		}
	}
	return shellLine(append(line, run.Source, run.Dir)...)
}

// shellLine quotes words for a shell.
func shellLine(words ...string) string { return webpage.Shell(words...) }

func shellWord(w string) string { return webpage.Shell(w) }

// tellRun prints the run and how it ended.
func (a *app) tellRun(rec *runs.Record) {
	a.out.report(recordOf(rec))
	a.out.line("%s", runLine(rec))
	if rec.End != nil && rec.End.Error != "" {
		a.out.line("  ended early: %s", printable(rec.End.Error))
		if rec.End.Hint != "" {
			a.out.line("  hint: %s", printable(rec.End.Hint))
		}
	}
}

// runLine is a run in one line.
func runLine(rec *runs.Record) string {
	status := "UNFINISHED (it goes on, or was killed)"
	if rec.End != nil {
		status = fmt.Sprintf("%s, exit code %d", words[rec.End.Status], rec.End.ExitCode)
	}
	if rec.End != nil && rec.End.Change != 0 {
		status += fmt.Sprintf(" (run %d of the history)", rec.End.Change)
	}
	return printable(fmt.Sprintf("%s  %s  %s  %s", rec.ID, rec.Begun.UTC().Format(time.RFC3339), shellLine(append([]string{"instep", rec.Command}, rec.Source, rec.Dir)...), status))
}

// examples is how many failures of a cause are named without -v.
const examples = 3

func (a *app) tellGroup(rec *runs.Record, g *causeGroup) {
	a.out.line("")
	a.out.line("%s: %d   %s", g.Cause, g.N, g.What)
	shown := g.Rows
	if !a.out.verbose {
		shown = shown[:min(len(shown), examples)]
	}
	for _, r := range g.Rows {
		a.out.record(record{Type: "error", Cause: g.Cause, Set: r.Set, URI: r.URI, Path: r.Path, Message: message(&r), Hint: r.Hint, RunID: rec.ID})
	}
	for _, r := range shown {
		a.out.line("    %s", printable(nameOf(&r)))
		if r.Message != "" {
			a.out.line("        %s", printable(r.Message))
		}
	}
	if more := g.N - int64(len(shown)); more > 0 {
		a.out.line("    and %d more", more)
	}
	a.out.line("  next: %s", printable(g.Next))
}

func nameOf(r *runs.Row) string {
	for _, name := range []string{r.URI, r.Path, r.Set} {
		if name != "" {
			return name
		}
	}
	return "the whole run"
}

// message is never empty, as the schema asks for one.
func message(r *runs.Row) string {
	if r.Message != "" {
		return r.Message
	}
	return r.Cause
}
