package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

// trustFlags are the flags that decide what a sync does if the Source shows an older state
// than before, has stopped changing, or does not list all its changes.
type trustFlags struct {
	acceptRollback bool
	acceptGap      bool
	maxAge         time.Duration
}

func (f *trustFlags) register(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.BoolVar(&f.acceptRollback, "accept-rollback", false, "follow the Source although it shows an older state than before")
	registerAcceptGap(cmd, &f.acceptGap)
	timeVar(fs, &f.maxAge, "max-age", 0, "warn if the newest change of the Source is older than this `TIME`, such as 2d (exit code 4)")
}

func registerAcceptGap(cmd *cobra.Command, acceptGap *bool) {
	cmd.Flags().BoolVar(acceptGap, "accept-gap", false, "accept the state of a Resource List, if the changes after it are unknown")
}

// trustWarnings warns if the Source shows an older state than before, no longer offers a set, does
// not list all its changes, or has stopped changing.
func (s *syncer) trustWarnings(t *totals) (all []warningRecord) {
	for _, n := range t.RolledBack {
		all = append(all, warningRecord{
			Set:     n.Set,
			Message: "the Source shows an older state than before, so nothing was changed back to that state: " + n.Text,
			Hint:    "if the Source was restored and that state is right, give the same command once with --accept-rollback",
		})
	}
	for _, o := range t.Orphans {
		if o.Forget {
			continue
		}
		hint := fmt.Sprintf("if the set is gone for good: %s, then sync again", s.approvalCommand(o.Hash))
		if len(s.f.allowOrigin) == 0 {
			hint += "; if the set has moved to another host, allow that host with --allow-origin"
		}
		all = append(all, warningRecord{
			Set: o.Set, Hint: hint,
			Message: fmt.Sprintf("the Source no longer offers the set %s; its files stay as they are (%s)", o.Set, counted(o.Members, "resource")),
		})
	}
	for _, n := range t.Gaps {
		all = append(all, warningRecord{
			Set: n.Set, Message: n.Text, Gap: n.Text,
			Hint: "the next Resource List of the Source includes the unknown changes; until then add --accept-gap to accept that they are unknown, and --remember to accept it in later runs too",
		})
	}
	for _, n := range t.Frozen {
		all = append(all, warningRecord{Set: n.Set, Message: n.Text, Hint: "does the Source still publish? --max-age sets how old its newest change may be"})
	}
	return all
}
