package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"instep/destination"
	"instep/transfer"
)

// planFlags are the flags that choose how a mirror is brought in step.
type planFlags struct {
	prefer        string
	duplicates    string
	noPatches     bool
	explain       bool
	baselineEvery string
}

// baselineDays is the default of --baseline-every.
const baselineDays = int(destination.DefaultBaselineEvery / (24 * time.Hour))

func (f *planFlags) register(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&f.prefer, "prefer", "", "take resources one by one, or out of packages: `list|dump` (default: what costs less)")
	fs.StringVar(&f.duplicates, "duplicates", "", "fetch from duplicates of a resource: `first|last|never` (default: first those with a priority, last the others); only where a digest proves the bytes")
	fs.BoolVar(&f.noPatches, "no-patches", false, "fetch changed resources whole, where the Source offers patches too")
	fs.BoolVar(&f.explain, "explain", false, "say why each choice was made")
	fs.StringVar(&f.baselineEvery, "baseline-every", strconv.Itoa(baselineDays)+"d", "make a full comparison after this `TIME`, in days: it finds deletions that a Source forgot to announce; never turns it off")
}

// set configures a Destination from the flags.
func (f *planFlags) set(d *destination.Destination) error {
	switch d.Prefer = destination.Prefer(f.prefer); d.Prefer {
	case "", destination.PreferList, destination.PreferDump:
	default:
		return usagef("--prefer %q: expected list or dump", f.prefer)
	}
	switch d.Duplicates = transfer.Duplicates(f.duplicates); d.Duplicates {
	case "", transfer.DuplicatesFirst, transfer.DuplicatesLast, transfer.DuplicatesNever:
	default:
		return usagef("--duplicates %q: expected first, last or never", f.duplicates)
	}
	d.NoPatches = f.noPatches
	if f.baselineEvery == "never" {
		d.BaselineEvery = -1
		return nil
	}
	days, err := parseDays(f.baselineEvery)
	if err == nil && days < 1 {
		err = fmt.Errorf("expected a day or more, found %q", f.baselineEvery)
	}
	if err != nil {
		return usagef("--baseline-every: %v (or never)", err)
	}
	d.BaselineEvery = time.Duration(days) * 24 * time.Hour
	return nil
}

// explainPlan prints the reasons for the choices in a plan.
func (a *app) explainPlan(p *destination.SetPlan) {
	for _, reason := range p.Reasons {
		a.out.record(&statusRecord{Set: p.Set, Mode: string(p.Mode), Reason: reason})
		a.out.say("  %s", reason)
	}
}

// showPlan prints the plan of a dry run.
func (a *app) showPlan(p *destination.Plan, dir string, net *traffic, took, maxAge time.Duration) error {
	var t totals
	for _, sp := range p.Sets {
		for act, err := range sp.Actions() {
			if err != nil {
				return err
			}
			a.showAction(act)
			t.Count(act)
		}
		if sp.Withheld {
			for act, err := range sp.Deletions() {
				if err != nil {
					return err
				}
				a.showAction(act)
			}
		}
		t.AddPlan(sp)
	}
	t.Close(p.Orphans, maxAge, a.now())
	a.code = t.ExitCode()
	a.explainTotals(&t, dir)
	line := fmt.Sprintf("Status: PLAN (same=%d, to create=%d, to update=%d, to delete=%d)   %s to transfer in %s%s",
		t.Same, t.Created, t.Updated, t.Deleted, humanize.Bytes(uint64(t.Bytes)), counted(t.Planned, "request"), t.ways())
	a.out.end(t.summary("plan", net, took, a.code), line)
	return nil
}

func (a *app) showAction(act destination.Action) {
	if act.Kind == destination.Mark || act.Kind == destination.Remember {
		return
	}
	a.out.record(&changeRecord{Action: string(act.Change), URI: act.Want.URI, Via: string(act.Via), Path: adopted(act), Bytes: optional(act.Want.Length.Int64())})
	line := changeMark(act) + " " + printable(act.Want.URI)
	if act.Kind == destination.Adopt {
		line += "   (adopts " + printable(act.From) + ")"
	}
	a.out.line("%s", line)
}
