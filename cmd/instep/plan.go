package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"instep/destination"
	"instep/mirror"
	"instep/transfer"
)

type planFlags struct {
	prefer        string
	duplicates    string
	noPatches     bool
	explain       bool
	baselineEvery string
}

const baselineDays = int(destination.DefaultBaselineEvery / (24 * time.Hour))

func (f *planFlags) register(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&f.prefer, "prefer", "", "fetch resources one by one (list) or in packages (dump): `list|dump` (default: the cheaper way)")
	fs.StringVar(&f.duplicates, "duplicates", "", "try the duplicates of a resource before its own URI, after it or never: `first|last|never` (default: duplicates with a priority first, the others last); duplicates are used only if a digest proves the bytes")
	fs.BoolVar(&f.noPatches, "no-patches", false, "fetch changed resources whole, even if the Source offers patches")
	fs.BoolVar(&f.explain, "explain", false, "print the reason for each choice, such as the choice between single requests and packages")
	fs.StringVar(&f.baselineEvery, "baseline-every", strconv.Itoa(baselineDays)+"d", "compare the whole mirror with the Source after this `TIME`, to find deletions that the Source did not announce: a number of days such as 30d, or never")
}

func (f *planFlags) configure(d *destination.Destination) error {
	if err := chooseIfSet("prefer", f.prefer); err != nil {
		return err
	}
	if err := chooseIfSet("duplicates", f.duplicates); err != nil {
		return err
	}
	d.Prefer, d.Duplicates, d.NoPatches = destination.Prefer(f.prefer), transfer.Duplicates(f.duplicates), f.noPatches
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

func (a *app) explainPlan(p *destination.SetPlan) {
	for _, reason := range p.Reasons {
		a.out.record(&statusRecord{Set: p.Set, Mode: string(p.Mode), Reason: reason})
		a.out.say("  %s", reason)
	}
}

func (s *syncer) showPlan(ctx context.Context, m *mirror.Mirror, p *destination.Plan) (err error) {
	var t totals
	a := s.a
	for _, sp := range p.Sets {
		if sp.Mode == destination.Incremental {
			changed := sp.Updated
			if !sp.Withheld {
				changed += sp.Deleted
			}
			if sp.Same, err = unchangedCount(ctx, m, sp.Set, changed); err != nil {
				return err
			}
		}
		for act, err := range sp.Actions() {
			if err != nil {
				return err
			}
			a.showAction(act, false)
			t.Count(act)
		}
		if sp.Withheld {
			for act, err := range sp.Deletions() {
				if err != nil {
					return err
				}
				a.showAction(act, true)
			}
		}
		t.AddPlan(sp)
	}
	t.Close(p.Orphans, s.f.trust.maxAge, a.now())
	a.code = t.ExitCode()
	s.explainTotals(&t)
	end, withheld := t.summary("plan", &s.net, a.now().Sub(s.begun), a.code), ""
	if end.Withheld != nil {
		withheld = fmt.Sprintf(", withheld=%d", *end.Withheld)
	}
	a.out.end(end, fmt.Sprintf("Status: PLAN (same=%d, to create=%d, to update=%d, to delete=%d%s)   %s to transfer in %s%s",
		t.Same, t.Created, t.Updated, t.Deleted, withheld, humanSize(t.Bytes), counted(t.Planned, "request"), t.ways()))
	return nil
}

func (a *app) showAction(act destination.Action, withheld bool) {
	if act.Kind == destination.Mark || act.Kind == destination.Remember {
		return
	}
	a.out.record(&changeRecord{Action: string(act.Change), URI: act.Want.URI, Via: string(act.Via), Path: adoptedPath(act), Bytes: optional(act.Want.Length.Int64()), Unapproved: withheld})
	line := changeMark(act.Change) + " " + readableURI(act.Want.URI)
	if act.Kind == destination.Adopt {
		line += "   (adopts " + printable(act.From) + ")"
	}
	if withheld {
		line += "   (withheld)"
	}
	a.out.line("%s", line)
}
