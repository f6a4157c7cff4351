package destination

import (
	"context"
	"errors"
	"maps"
	"slices"

	"instep/harvest"
	"instep/transfer"
)

const maxRounds = 3

// catchUp applies further changes in two cases: the plan contained only a part of the
// changes, or some resources did not match their description. Such resources have
// probably just changed, and the Change List may contain the change by now.
func (r *runner) catchUp(ctx context.Context) error {
	for range maxRounds {
		if r.sp.scope == nil || r.sp.move == nil || !r.sp.Moment.IsZero() || !r.rep.unfinished() {
			return nil
		}
		sp, err := r.d.planSet(ctx, r.sp.scope, r.sp.set, r.rep.Deleted)
		if err != nil {
			if ctx.Err() == nil && harvest.OfSource(err) {
				return nil // an error of the Source is ignored here; the next run reports it if it persists
			}
			return err
		}
		next, err := r.applyFurther(ctx, sp)
		sp.close()
		if next == nil || err != nil {
			return err
		}
		r = next
	}
	return nil
}

// unfinished reports whether changes at the Source are left to apply, or have probably
// caused failures. They are probably not the cause if there are more failures than the
// report can list.
func (rep *SetReport) unfinished() bool {
	return errors.Is(rep.Partial, harvest.ErrLeft) || rep.Partial == nil && rep.Failed == int64(len(rep.Failures)) &&
		slices.ContainsFunc(rep.Failures, func(f Failure) bool { return transfer.IsMismatch(f.Err) })
}

// applyFurther applies a further plan and retries the failed resources. It does nothing
// if the plan is a baseline, or if the Source has no new changes.
func (r *runner) applyFurther(ctx context.Context, sp *SetPlan) (*runner, error) {
	if sp.Mode != Incremental || !sp.Pulse.News && !sp.Withheld {
		return nil, nil
	}
	rep := r.rep
	if rep.Failed > 0 {
		r.d.observe(Event{Kind: EventRetried, Set: rep.Set})
		r.d.note(rep.Set, harvest.Counted(rep.Failed, "%d {resource did not match its list, probably because it has|resources failed, some because they did not match their list, probably because they have} just changed at the Source; checking the newer changes", rep.Failed))
	}
	rep.Failures = slices.DeleteFunc(rep.Failures, func(f Failure) bool { return !errors.Is(f.Err, ErrNoPlace) })
	rep.Failed = int64(len(rep.Failures))
	rep.Partial, rep.RolledBack, rep.Gap, rep.Latest = sp.Partial, sp.RolledBack, sp.Gap, sp.Latest
	before := maps.Clone(rep.Skipped)
	// the earlier counts for these reasons are dropped, because the further plan counts the same resources again
	maps.DeleteFunc(before, func(s Skip, _ int64) bool { _, again := Alone{}.bySkip()[s]; return again })
	rep.Skipped, rep.Origins = sum(before, sp.Skipped), sum(rep.Origins, sp.Origins)
	next := r.d.newRunner(sp, r.budget, r.fetcher.Duplicates, rep)
	return next, next.run(ctx)
}

func sum[K comparable](a, b map[K]int64) map[K]int64 {
	if len(b) == 0 {
		return a
	}
	all := maps.Clone(b)
	for k, n := range a {
		all[k] += n
	}
	return all
}
