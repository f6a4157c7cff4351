package runs_test

import (
	"errors"
	"testing"
	"time"

	"instep/destination"
	"instep/internal/runs"
)

func TestExitCodes(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		set     destination.SetReport
		orphans []destination.Orphan
		maxAge  time.Duration
		code    int
		status  string
	}{
		"in step":             {code: runs.ExitOK, status: "in-sync"},
		"failed":              {set: destination.SetReport{Failed: 1}, code: runs.ExitPartial, status: "partial"},
		"a gap":               {set: destination.SetReport{SetState: destination.SetState{Gap: "unknown"}}, code: runs.ExitPartial, status: "partial"},
		"no news":             {set: destination.SetReport{SetState: destination.SetState{Latest: now.Add(-3 * time.Hour)}}, maxAge: time.Hour, code: runs.ExitPartial, status: "partial"},
		"news enough":         {set: destination.SetReport{SetState: destination.SetState{Latest: now.Add(-3 * time.Hour)}}, maxAge: 4 * time.Hour, code: runs.ExitOK, status: "in-sync"},
		"a broken document":   {set: destination.SetReport{SetState: destination.SetState{Partial: errors.New("no XML")}}, code: runs.ExitFailed, status: "partial"},
		"withheld":            {set: destination.SetReport{Withheld: 9, Failed: 1}, code: runs.ExitGuard, status: "refused"},
		"an older state":      {set: destination.SetReport{SetState: destination.SetState{RolledBack: "older"}}, code: runs.ExitGuard, status: "refused"},
		"a set that went":     {orphans: []destination.Orphan{{Set: "x"}}, code: runs.ExitGuard, status: "refused"},
		"a set that may go":   {orphans: []destination.Orphan{{Set: "x", Forget: true}}, code: runs.ExitOK, status: "in-sync"},
		"a list withdrawn":    {set: destination.SetReport{SetState: destination.SetState{Partial: destination.ErrWithdrawn}}, code: runs.ExitGuard, status: "refused"},
		"nothing but deleted": {set: destination.SetReport{Counts: destination.Counts{Deleted: 3}}, code: runs.ExitOK, status: "in-sync"},
	} {
		var total runs.Totals
		total.AddReport(&c.set)
		total.Close(c.orphans, c.maxAge, now)
		if code, status := total.ExitCode(), total.Status(); code != c.code || status != c.status {
			t.Errorf("%s: got %d %s, want %d %s", name, code, status, c.code, c.status)
		}
	}
}
