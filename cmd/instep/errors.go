package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"instep/internal/runs"
	"instep/internal/webpage"
	"instep/mirror"
)

const errorsHelp = `Errors shows what failed in a run of sync or audit on the mirror in DIR, grouped by cause, with
examples and the command to give next. A resource that failed and was fetched later in the same run
does not count. Errors also shows what a run left open without a failure, such as deletions that it
withheld. It shows the newest run whose exit code is not 0, or with --last the newest run. -v names
every resource that failed.

The mirror stores 100 records of runs; "instep report" lists them. Runs in a row that found nothing
new share one record. A first run that found no Source is not recorded, because it makes no
mirror.`

type errorsFlags struct {
	state, run, cause string
	last              bool
}

func (a *app) errorsCommand() *cobra.Command {
	var f errorsFlags
	cmd := &cobra.Command{
		Use:   "errors DIR",
		Short: "show what failed in a run, by cause",
		Long:  errorsHelp,
		Example: `  instep errors ./mirror
  instep errors --last -v --cause not-found ./mirror`,
		Args: exactArgs("DIR"),
		RunE: func(_ *cobra.Command, args []string) error { return a.errors(args[0], &f) },
	}
	fs := cmd.Flags()
	stateFlag(cmd, &f.state)
	fs.StringVar(&f.run, "run", "", "show the run with this `NUMBER`, as instep report and instep history --runs list it")
	fs.BoolVar(&f.last, "last", false, "show the newest run, also if its exit code is 0")
	fs.StringVar(&f.cause, "cause", "", "show only what failed for this `CAUSE`, such as not-found")
	cmd.MarkFlagsMutuallyExclusive("run", "last")
	return cmd
}

func (a *app) errors(dir string, f *errorsFlags) error {
	if f.cause != "" && !slices.Contains(runs.CauseNames(), f.cause) {
		return usagef("--cause %q: expected one of %s", f.cause, strings.Join(runs.CauseNames(), ", "))
	}
	all, err := listRuns(dir, f.state)
	if err != nil {
		return err
	}
	var id int64
	if f.run != "" {
		if id, err = parseRun(f.run, dir); err != nil {
			return err
		}
	} else {
		i := slices.IndexFunc(all, func(r runs.Record) bool { return f.last || r.Troubled() })
		if i < 0 {
			a.out.end(summary{Status: "clean", Failed: num(0)}, noFailures(all))
			return nil
		}
		id = all[i].ID
	}
	rec, err := runs.Load(mirror.StateDir(dir, f.state), id)
	if err != nil {
		return err
	}
	a.tellRun(rec)
	groups := rec.Groups(f.cause)
	for i, r := range rec.Rows {
		if r.Open && f.cause == "" {
			a.tellNote(rec, &rec.Rows[i])
		}
	}
	failed := int64(0)
	for _, g := range groups {
		failed += g.N
		a.tellGroup(rec, &g)
	}
	status := "clean"
	if failed > 0 || rec.End == nil || rec.End.Error != "" || f.cause == "" && rec.End.ExitCode != 0 {
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

func listRuns(dir, state string) ([]runs.Record, error) {
	stateDir := mirror.StateDir(dir, state)
	if _, err := os.Stat(stateDir); errors.Is(err, fs.ErrNotExist) {
		return nil, noMirror(dir)
	}
	return runs.List(stateDir)
}

func shellLine(words ...string) string { return webpage.Shell(words...) }

func (a *app) tellRun(rec *runs.Record) {
	a.out.record(recordOf(rec))
	a.out.line("%s", runLine(rec))
	if rec.End != nil && rec.End.Error != "" {
		a.out.line("  ended early: %s", printable(rec.End.Error))
		if rec.End.Hint != "" {
			a.out.line("  hint: %s", printable(rec.End.Hint))
		}
	}
}

func runLine(rec *runs.Record) string {
	status := "UNFINISHED (the run is still going on, or was killed)"
	if rec.End != nil {
		status = fmt.Sprintf("%s, exit code %d%s", words[rec.End.Status], rec.End.ExitCode, countReplaced(rec))
	}
	return printable(fmt.Sprintf("%d  %s  %s  %s", rec.ID, rec.Begun.UTC().Format(time.RFC3339), shellLine(commandOf(rec)...), status))
}

// countReplaced tells how many earlier idle runs have no record of their own, because the record
// of a later idle run replaced theirs.
func countReplaced(rec *runs.Record) string {
	if rec.End == nil || rec.End.Alike == 0 {
		return ""
	}
	return fmt.Sprintf(" (and %d like it since %s)", rec.End.Alike, rec.End.Since.UTC().Format(time.RFC3339))
}

func commandOf(rec *runs.Record, flags ...string) []string {
	line := append([]string{"instep", rec.Command}, flags...)
	if rec.Source != "" {
		line = append(line, rec.Source)
	}
	return append(line, rec.Dir)
}

// examples is the largest number of failures that are listed for each cause without -v.
const examples = 3

func (a *app) tellGroup(rec *runs.Record, g *runs.Group) {
	a.out.line("")
	a.out.line("%s: %d   %s", g.Cause, g.N, g.What)
	shown := g.Rows
	if !a.out.verbose {
		shown = shown[:min(len(shown), examples)]
	}
	for _, r := range g.Rows {
		a.out.record(&errorRecord{Cause: g.Cause, Set: r.Set, URI: r.URI, Path: r.Path, Message: message(&r), Hint: r.Hint, RunID: runText(rec.ID)})
	}
	for _, r := range shown {
		a.out.line("    %s", printable(cmp.Or(r.URI, r.Path, r.Set, "the whole run")))
		if r.Message != "" {
			a.out.line("        %s", printable(strings.TrimPrefix(r.Message, r.URI+": ")))
		}
	}
	if more := g.N - int64(len(shown)); more > 0 {
		a.out.line("    and %d more", more)
	}
	a.out.line("  next: %s", printable(g.Next))
}

// message returns the cause if a failure has no message, because the JSON schema requires a text.
func message(r *runs.Row) string { return cmp.Or(r.Message, r.Cause) }
