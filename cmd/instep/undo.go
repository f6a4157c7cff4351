package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"instep/mirror"
)

const undoHelp = `Undo reverts a run on the mirror in DIR. It restores the bytes that the run replaced or deleted,
and moves what it created to the trash. Without RUN it reverts the last run; "instep history DIR
--runs" lists the runs. Resources that later runs changed again are left alone and named (exit
code 4). Undo is a run itself, so it can be undone.

The next sync brings back the Source's state, except of resources that are kept again because
the run was "instep restore --release".`

func (a *app) undoCommand() *cobra.Command {
	var state string
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "undo DIR [RUN]",
		Short: "take back what a run did to a mirror",
		Long:  undoHelp,
		Example: `  instep undo ./mirror -n
  instep undo ./mirror 17`,
		Args: optionalArgs(1, "DIR", "RUN"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.undo(cmd.Context(), args[0], args[1:], state, dryRun)
		},
	}
	dryRunFlag(cmd, &dryRun)
	stateFlag(cmd, &state)
	return cmd
}

func (a *app) undo(ctx context.Context, dir string, number []string, state string, dryRun bool) (err error) {
	var run int64
	if len(number) > 0 {
		if run, err = parseRun(number[0], dir); err != nil {
			return err
		}
	}
	m, err := a.openToRevert(ctx, dir, state, dryRun)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	found, err := findRun(ctx, m, run, dir)
	if err != nil {
		return err
	}
	if err := a.tellForgotten(ctx, m, &found); err != nil {
		return err
	}
	doing := "taking back"
	if dryRun {
		doing = "the command without -n would take back"
	}
	a.out.say("%s run %d of %s (created=%d, updated=%d, deleted=%d)", doing, found.ID, stamp(found.Begun.Truncate(time.Second)), found.Created, found.Updated, found.Deleted)
	return a.revert(ctx, m, m.Undoing(ctx, found.ID), reverting{what: "undo", dir: dir, state: state, dryRun: dryRun})
}

// tellForgotten warns that the run cannot be undone completely, if the mirror no longer keeps
// everything that the run replaced or deleted.
func (a *app) tellForgotten(ctx context.Context, m *mirror.Mirror, run *mirror.Run) error {
	known, ok, err := m.Known(ctx)
	if err != nil || !ok || !run.Begun.Before(known) || run.Updated+run.Deleted == 0 {
		return err
	}
	a.code = exitPartial
	a.out.warn(warningRecord{Message: fmt.Sprintf("the bytes that run %d replaced or deleted before %s are no longer kept, and cannot be restored", run.ID, stamp(known))})
	return nil
}

// findRun returns the run with the given number, or the last run if the number is 0.
func findRun(ctx context.Context, m *mirror.Mirror, number int64, dir string) (mirror.Run, error) {
	for r, err := range m.Runs(ctx) {
		if err != nil || number == 0 || r.ID == number {
			return r, err
		}
	}
	if number == 0 {
		return mirror.Run{}, usagef("no run has changed %s yet", dir)
	}
	return mirror.Run{}, usagef("%s has no run %d that changed a resource, and a repair cannot be undone; instep history %s --runs lists the runs", dir, number, shellLine(dir))
}
