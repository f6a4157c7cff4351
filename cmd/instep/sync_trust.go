package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

// trustFlags are the flags about a Source that shows an older state, has stopped
// changing, or does not list all changes.
type trustFlags struct {
	acceptRollback bool
	acceptGap      bool
	maxAge         time.Duration
}

func (f *trustFlags) register(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.BoolVar(&f.acceptRollback, "accept-rollback", false, "take the Source's word for an older state than it showed before")
	registerAcceptGap(cmd, &f.acceptGap)
	timeVar(fs, &f.maxAge, "max-age", 0, "warn if the newest change of the Source is older than this `TIME`, such as 2d (exit code 4)")
}

func registerAcceptGap(cmd *cobra.Command, to *bool) {
	cmd.Flags().BoolVar(to, "accept-gap", false, "be content with the Resource List as of its moment where the changes since then are unknown")
}

func (f *trustFlags) check(sync *syncFlags) error {
	switch {
	case f.acceptRollback && sync.watch.on:
		return usagef("--accept-rollback does not go with --watch: it is consent to what the Source says now")
	}
	return nil
}

// explainTrust prints what was not followed, and what the user can do.
func (a *app) explainTrust(t *totals, dir string) {
	for _, n := range t.RolledBack {
		a.out.warn(warningRecord{
			Set:     n.Set,
			Message: "the Source shows an older state than before, so nothing of that was taken back: " + n.Text,
			Hint:    "if the Source was restored and that state is right, give the same command once with --accept-rollback",
		})
	}
	for _, o := range t.Orphans {
		if o.Forget {
			a.out.say("%s: forgotten; the files stay (%s)", o.Set, counted(o.Members, "resource"))
			continue
		}
		a.out.warn(warningRecord{
			Set:     o.Set,
			Message: fmt.Sprintf("the Source no longer offers this set; the files stay as they are (%s)", counted(o.Members, "resource")),
			Hint:    fmt.Sprintf("if it is gone for good: instep approve %s%s %s, then sync again; if it has moved to another host, allow that with --allow-origin", a.stateFlag(), shellWord(dir), o.Hash),
		})
	}
	for _, n := range t.Gaps {
		a.out.warn(warningRecord{
			Set: n.Set, Message: n.Text, Gap: n.Text,
			Hint: "the next Resource List of the Source ends that; to be content with what is known, add --accept-gap, and --remember to keep it so",
		})
	}
	for _, n := range t.Frozen {
		a.out.warn(warningRecord{Set: n.Set, Message: n.Text, Hint: "does the Source still publish? --max-age says how old its newest change may be"})
	}
}
