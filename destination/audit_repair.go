package destination

import (
	"context"

	"instep/harvest"
	"instep/internal/spool"
	"instep/resourcesync"
)

type fault struct {
	Want    harvest.Resource
	Verdict Verdict
}

// Repairing is the Mode of the plans that Repair makes.
const Repairing Mode = "repair"

func (au *auditor) repair(ctx context.Context, rep *Report) error {
	sp := au.d.newSetPlan(SetState{Set: au.Set, Name: au.Name, Mode: Repairing, Why: "an audit found them missing, different or unreadable", Moment: au.scope.moment})
	p := &Plan{Sets: []*SetPlan{sp}}
	defer p.Close()
	err := au.faultBatches(ctx, func(_ context.Context, _ []fault, held []Held) error {
		for i := range held {
			if held[i].Due == "" {
				continue
			}
			a := Action{Kind: Fetch, Via: ViaGet, Change: resourcesync.Created, Repair: held[i].Stored, Want: held[i].Wanted}
			if held[i].Stored {
				a.Change = resourcesync.Updated
			}
			au.scope.represent(&a.Want)
			if err := au.scope.findMemento(&a.Want); err != nil {
				return err
			}
			if err := sp.actions.Append(a); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	done, err := au.d.Apply(ctx, p)
	rep.Sets = append(rep.Sets, done.Sets...)
	if err != nil {
		return err
	}
	au.again = true
	return au.faultBatches(ctx, au.rejudge)
}

func (au *auditor) faultBatches(ctx context.Context, each func(context.Context, []fault, []Held) error) error {
	for faults, err := range spool.Batches(au.faults.All(), lookupBatch) {
		if err != nil {
			return err
		}
		held, err := au.d.Mirror.Lookup(ctx, au.Set, urisOf(faults, func(f *fault) string { return f.Want.URI }))
		if err != nil {
			return err
		}
		if err := each(ctx, faults, held); err != nil {
			return err
		}
	}
	return nil
}

func (au *auditor) rejudge(ctx context.Context, faults []fault, held []Held) error {
	bad := func() int64 {
		return au.Verdicts[VerdictMissing] + au.Verdicts[VerdictDifferent] + au.Verdicts[VerdictError]
	}
	before := bad()
	findings := make([]finding, len(faults))
	for i, f := range faults {
		au.Verdicts[f.Verdict]--
		findings[i] = finding{want: f.Want, held: held[i]}
	}
	if err := au.check(ctx, findings); err != nil {
		return err
	}
	au.Repaired += before - bad()
	return nil
}
