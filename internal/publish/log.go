package publish

import (
	"context"
	"fmt"
)

// forgetStep is the minimum number of changes that are removed from the change log at a
// time, so that most publications need no transaction for it.
const forgetStep = 1000

// shorten removes changes that are no longer needed from the change log. It keeps the
// changes of the open Change List, the changes since the last snapshots and, for packages
// on demand, the changes of the last KeepChanges. Each publication removes at most about
// twice as many changes as it added. The rest is left to later publications, so that
// readers are not blocked for long.
func (r *run) shorten(ctx context.Context, fresh int64) error {
	through := min(r.last.ChangesNumber-1, r.last.ListThrough)
	if r.Dumps && !r.last.DumpAt.IsZero() {
		through = min(through, r.last.DumpThrough)
	}
	c := contents{facts: r.facts, id: r.id}
	first, err := c.next(ctx, 0, through)
	if err != nil || first.Seq == 0 || through-first.Seq < forgetStep {
		return err
	}
	if r.Policy.OnDemand != "" {
		old, err := c.before(ctx, r.now.Add(-r.Policy.KeepChanges))
		if err != nil {
			return err
		}
		through = min(through, old)
	}
	if _, err := r.facts.ForgetChanges(ctx, r.id, through, max(1, 2*fresh)); err != nil {
		return fmt.Errorf("shortening the change log: %w", err)
	}
	return nil
}
