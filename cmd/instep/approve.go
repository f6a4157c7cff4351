package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"instep/mirror"
)

const approveHelp = `Approve releases deletions that a guard withheld in a run of "instep sync". It releases exactly
the deletions of the plan whose hash the run printed, for 24 hours. The next sync deletes these
resources if its plan is still the same.`

func (a *app) approveCommand() *cobra.Command {
	var state string
	cmd := &cobra.Command{
		Use:     "approve DIR PLAN-HASH",
		Short:   "release deletions that a guard withheld",
		Long:    approveHelp,
		Example: `  instep approve ./mirror 0123456789abcdef0123456789abcdef`,
		Args:    exactArgs("DIR", "PLAN-HASH"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.approve(cmd.Context(), args[0], state, args[1])
		},
	}
	stateFlag(cmd, &state)
	return cmd
}

func (a *app) approve(ctx context.Context, dir, state, hash string) (err error) {
	m, err := mirror.Open(ctx, mirror.Options{Dir: dir, State: state, Now: a.now})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	what, until, err := m.Approve(ctx, hash)
	if err != nil {
		return err
	}
	a.out.say("%s", what)
	a.out.end(summary{Status: "clean", Plan: hash}, fmt.Sprintf("The deletions are approved until %s, and the next sync makes them.", until.UTC().Format(time.RFC3339)))
	return nil
}
