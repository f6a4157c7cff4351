package destination

import (
	"context"
	"errors"
	"maps"
	"slices"

	"instep/harvest"
	"instep/transfer"
)

// maxRounds is how often a run reads the changes of a set again because resources were
// not as listed.
const maxRounds = 3

// catchUp continues with a set while a plan leaves changes for the next one, or resources
// differ from the list: they may have changed since, and the Change List may have that by
// now. The rest is left to the next run.
func (r *runner) catchUp(ctx context.Context) error {
	for range maxRounds {
		if r.sp.scope == nil || r.sp.move == nil || !r.sp.Moment.IsZero() || !r.rep.unfinished() {
			return nil
		}
		sp, err := r.d.planSet(ctx, r.sp.scope, r.sp.set, r.rep.Deleted)
		if err != nil {
			if ctx.Err() == nil && harvest.OfSource(err) {
				return nil // the next run reports it, if it lasts
			}
			return err
		}
		next, err := r.round(ctx, sp)
		sp.close()
		if next == nil || err != nil {
			return err
		}
		r = next
	}
	return nil
}

// unfinished reports whether a further plan may get on: changes are left, or some resources were
// not as listed. Where more failed than are known one by one, the trouble is another.
func (rep *SetReport) unfinished() bool {
	return errors.Is(rep.Partial, harvest.ErrLeft) || rep.Partial == nil && rep.Failed == int64(len(rep.Failures)) &&
		slices.ContainsFunc(rep.Failures, func(f Failure) bool { return transfer.IsMismatch(f.Err) })
}

// round applies a further plan of the same set, unless that has nothing new or is more than
// a step on. It retries everything that failed and is due.
func (r *runner) round(ctx context.Context, sp *SetPlan) (*runner, error) {
	if sp.Mode != Incremental || !sp.Pulse.News && !sp.Withheld {
		return nil, nil
	}
	rep := r.rep
	if rep.Failed > 0 {
		r.d.note(rep.Set, harvest.Counted(rep.Failed, "%d {resource did not match its list, probably because it has|resources failed, some because they did not match their list, probably because they have} just changed at the Source; checking the newer changes", rep.Failed))
	}
	rep.Failures = slices.DeleteFunc(rep.Failures, func(f Failure) bool { return !errors.Is(f.Err, ErrNoPlace) })
	rep.Failed = int64(len(rep.Failures))
	rep.Partial, rep.RolledBack, rep.Gap, rep.Latest = sp.Partial, sp.RolledBack, sp.Gap, sp.Latest
	before := maps.Clone(rep.Skipped)
	maps.DeleteFunc(before, func(s Skip, _ int64) bool { _, again := Alone{}.each()[s]; return again }) // sp counts these as well
	rep.Skipped, rep.Origins = sum(before, sp.Skipped), sum(rep.Origins, sp.Origins)
	next := r.d.newRunner(sp, r.budget, r.fetcher.Duplicates, rep)
	return next, next.run(ctx)
}

// sum adds counts; neither a nor b is changed.
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
