package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"instep/destination"
)

// trustFlags say how to treat a Source that shows an older state, has stopped changing, or
// does not list all changes.
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

// trust has the contradictions between the Source's present and earlier documents.
type trust struct {
	rolledBack []setNote
	frozen     []setNote
	gaps       []setNote // the unknown changes of a set
	orphans    []destination.Orphan
	latest     []setMoment
}

// setNote is something said of a set.
type setNote struct{ set, text string }

type setMoment struct {
	set string
	at  time.Time
}

// add adds the contradictions of a set.
func (t *trust) add(set, rolledBack, gap string, latest time.Time) {
	if rolledBack != "" {
		t.rolledBack = append(t.rolledBack, setNote{set, rolledBack})
	}
	if gap != "" {
		t.gaps = append(t.gaps, setNote{set, gap})
	}
	if !latest.IsZero() {
		t.latest = append(t.latest, setMoment{set, latest})
	}
}

// close adds the contradictions of all sets.
func (t *trust) close(orphans []destination.Orphan, maxAge time.Duration, now time.Time) {
	t.orphans = orphans
	if maxAge == 0 {
		return
	}
	for _, m := range t.latest {
		if age := now.Sub(m.at); age > maxAge {
			t.frozen = append(t.frozen, setNote{m.set, fmt.Sprintf("the Source has told of nothing newer than %s, %s ago", m.at.UTC().Format(time.RFC3339), age.Round(time.Second))})
		}
	}
}

// doubted reports whether something the Source says now is not followed.
func (t *trust) doubted() bool {
	for _, o := range t.orphans {
		if !o.Forget {
			return true
		}
	}
	return len(t.rolledBack) > 0
}

// withdrawn reports whether a set that was followed no longer offers any document to
// follow.
func (t *totals) withdrawn() bool {
	for _, err := range t.partial {
		if errors.Is(err, destination.ErrWithdrawn) {
			return true
		}
	}
	return false
}

// explainTrust lists what is not followed, with the next step.
func (a *app) explainTrust(t *totals, dir string) {
	for _, n := range t.rolledBack {
		a.out.warn(record{
			Set:     n.set,
			Message: "the Source shows an older state than before, so nothing of that was taken back: " + n.text,
			Hint:    "if the Source was restored and that state is right, give the same command once with --accept-rollback",
		})
	}
	for _, o := range t.orphans {
		if o.Forget {
			a.out.say("%s: forgotten; the files stay (%s)", o.Set, counted(o.Members, "resource"))
			continue
		}
		a.out.warn(record{
			Set:     o.Set,
			Message: fmt.Sprintf("the Source no longer offers this set; the files stay as they are (%s)", counted(o.Members, "resource")),
			Hint:    fmt.Sprintf("if it is gone for good: instep approve %s%s %s, then sync again; if it has moved to another host, allow that with --allow-origin", a.stateFlag(), shellWord(dir), o.Hash),
		})
	}
	for _, n := range t.gaps {
		a.out.warn(record{
			Set: n.set, Message: n.text, Gap: n.text,
			Hint: "the next Resource List of the Source ends that; to be content with what is known, add --accept-gap, and --remember to keep it so",
		})
	}
	for _, n := range t.frozen {
		a.out.warn(record{Set: n.set, Message: n.text, Hint: "does the Source still publish? --max-age says how old its newest change may be"})
	}
}
