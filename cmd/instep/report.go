package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"instep/internal/runs"
	"instep/mirror"
)

const reportHelp = `Report shows the settings of the mirror in DIR, and the last runs of sync, audit, undo and
restore on it, newest first: what each run did, what it tolerated, what failed and why, and how
it ended. Runs in a row that found nothing new share one line, with their number. --run shows
everything recorded about one run. The HTML report is one page without external files, and can
be printed.`

type reportFlags struct{ state, run, format, out string }

func (a *app) reportCommand() *cobra.Command {
	var f reportFlags
	cmd := &cobra.Command{
		Use:   "report DIR",
		Short: "show the last runs on a mirror",
		Long:  reportHelp,
		Example: `  instep report ./mirror
  instep report --format html --out runs.html ./mirror`,
		Args: exactArgs("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error { return a.report(cmd.Context(), args[0], &f) },
	}
	fs := cmd.Flags()
	stateFlag(cmd, &f.state)
	fs.StringVar(&f.run, "run", "", "show only the run with this `NUMBER`, with everything that is recorded about it")
	fs.StringVar(&f.format, "format", "text", "`FORMAT` of the output: text, json (as --json does) or html")
	fs.StringVar(&f.out, "out", "", "write an HTML page to `FILE` rather than to standard output")
	return cmd
}

// maxDetailed is the number of newest runs that an HTML report shows in detail.
const maxDetailed = 10

func (a *app) report(ctx context.Context, dir string, f *reportFlags) error {
	if err := a.chooseFormat("report", f.format); err != nil {
		return err
	}
	if f.out != "" && f.format != "html" {
		return usagef("--out requires --format html")
	}
	all, err := listRuns(dir, f.state)
	if err != nil {
		return err
	}
	state := mirror.StateDir(dir, f.state)
	details, err := loadDetails(state, dir, all, f.run)
	if err != nil {
		return err
	}
	var kept []statusRecord
	if f.run != "" {
		all = nil // with --run the report is only about that run
	} else if kept, err = a.keptRows(ctx, dir, f.state); err != nil {
		return err
	}
	if f.format == "html" {
		return a.reportPage(ctx, dir, kept, all, details, f.out)
	}
	for _, r := range kept {
		a.out.record(&r)
		a.out.line("%s  (%s)", printable(asFlags(r.Key, []string{r.Value})), r.Origin)
	}
	a.reportText(all, details)
	return nil
}

// keptRows returns the settings stored with a mirror. If the mirror cannot be opened, it prints a
// warning and returns no error, since the records of runs are useful without the settings.
func (a *app) keptRows(ctx context.Context, dir, state string) (rows []statusRecord, err error) {
	m, err := a.openPast(ctx, dir, state)
	if err != nil {
		a.out.warn(warningRecord{Message: "the settings stored with the mirror cannot be read: " + err.Error()})
		return nil, nil
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	kept, _, err := a.storedSettings(ctx, m)
	return settingRows(kept), err
}

func loadDetails(state, dir string, all []runs.Record, run string) ([]*runs.Record, error) {
	if run != "" {
		id, err := parseRun(run, dir)
		if err != nil {
			return nil, err
		}
		rec, err := runs.Load(state, id)
		return []*runs.Record{rec}, err
	}
	var details []*runs.Record
	for i := range all[:min(len(all), maxDetailed)] {
		rec, err := runs.Load(state, all[i].ID)
		if errors.Is(err, runs.ErrNoRun) {
			continue // skipped, because another run has removed the record since it was listed
		}
		if err != nil {
			return nil, err
		}
		details = append(details, rec)
	}
	return details, nil
}

// reportText prints a list of runs, and then the details of one run: details[0]. If the list is
// empty, it prints only this run.
func (a *app) reportText(list []runs.Record, details []*runs.Record) {
	shown := list
	if len(list) == 0 && len(details) > 0 {
		shown = []runs.Record{*details[0]}
	}
	status, n := "clean", 0
	for i := range shown {
		a.out.record(recordOf(&shown[i]))
		if len(list) > 0 {
			a.out.line("%s", runLine(&shown[i]))
		}
		if shown[i].Troubled() {
			status, n = "findings", n+1
		}
	}
	if len(list) > 0 && len(details) > 0 {
		a.out.line("")
	}
	if len(details) > 0 {
		a.tellDetails(details[0])
	}
	a.out.end(summary{Status: status, Failed: num(int64(n))}, fmt.Sprintf("Status: %s (runs=%d, with problems=%d)", words[status], len(shown), n))
}

func (a *app) tellDetails(rec *runs.Record) {
	a.out.line("Run %s", runLine(rec))
	if rec.End != nil {
		a.out.line("  %s", countsLine(rec.End.Counts))
		if rec.End.Error != "" {
			a.out.line("  ended by: %s", printable(rec.End.Error))
		}
		if rec.End.Hint != "" {
			a.out.line("  hint: %s", printable(rec.End.Hint))
		}
	}
	for _, r := range rec.Rows {
		switch r.Kind {
		case runs.Set:
			a.out.line("  %s: %s", printable(r.Set), printable(modeText(r.Mode, r.Message)))
		case runs.Note:
			a.tellNote(rec, &r)
		}
	}
	for _, g := range rec.Groups("") {
		a.tellGroup(rec, &g)
	}
}

func (a *app) tellNote(rec *runs.Record, r *runs.Row) {
	a.out.record(&warningRecord{RunID: runText(rec.ID), Set: r.Set, Quirk: r.Quirk, Message: message(r), Hint: r.Hint})
	if !r.Open {
		a.out.line("  tolerated: %s", printable(r.Message))
		return
	}
	text := r.Message
	if r.Set != "" {
		text = r.Set + ": " + text
	}
	a.out.line("  left open: %s", printable(text))
	if r.Hint != "" {
		a.out.line("  hint: %s", printable(r.Hint))
	}
}

func countsLine(counts map[string]int64) string {
	var parts []string
	for name, n := range sortedByName(counts) {
		if n != 0 {
			parts = append(parts, name+"="+strconv.FormatInt(n, 10))
		}
	}
	if len(parts) == 0 {
		return "nothing was done"
	}
	return strings.Join(parts, ", ")
}

func (a *app) reportPage(ctx context.Context, dir string, kept []statusRecord, all []runs.Record, details []*runs.Record, name string) error {
	page := func(w io.Writer) error { return writeRunsPage(redacting{w, a.out}, dir, kept, all, details, a.now()) }
	if name == "" {
		return page(a.stdout)
	}
	if err := writeWhole(ctx, name, page); err != nil {
		return err
	}
	a.out.end(summary{Status: "clean"}, "Status: CLEAN (written to "+printable(name)+")")
	return nil
}
