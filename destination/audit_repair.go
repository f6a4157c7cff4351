package destination

import (
	"context"

	"instep/resourcesync"
)

// Repairing is the Mode of the plans that Repair makes.
const Repairing Mode = "repair"

func (au *auditor) repair(ctx context.Context, rep *Report) error {
	sp := au.d.newSetPlan(SetState{Set: au.Set, Name: au.Name, Mode: Repairing, Why: "an audit found them missing, different or unreadable", Moment: au.scope.moment})
	p := &Plan{Sets: []*SetPlan{sp}}
	defer p.Close()
	err := au.lookUpFaults(ctx, func(_ []fault, held []Held) error {
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
	return au.lookUpFaults(ctx, func(faults []fault, held []Held) error { return au.rejudge(ctx, faults, held) })
}

func (au *auditor) lookUpFaults(ctx context.Context, handle func([]fault, []Held) error) error {
	return lookUp(ctx, au.d.Mirror, au.Set, au.faults.All(), func(f *fault) string { return f.Want.URI }, handle)
}

func (au *auditor) rejudge(ctx context.Context, faults []fault, held []Held) error {
	bad := func() int64 {
		return au.Verdicts[VerdictMissing] + au.Verdicts[VerdictDifferent] + au.Verdicts[VerdictError]
	}
	before := bad()
	findings := make([]finding, len(faults))
	for i, f := range faults {
		au.Verdicts[f.Verdict]--
		findings[i] = finding{fault: f, held: held[i]}
	}
	if err := au.check(ctx, findings); err != nil {
		return err
	}
	au.Repaired += before - bad()
	return nil
}
