package publish

import (
	"context"
	"fmt"
)

// forgetStep is the minimum number of changes that are removed from the change log at a
// time, so that most publications need no transaction for removals.
const forgetStep = 1000

// shortenLog removes changes that are no longer needed from the change log. It keeps the
// changes of the open Change List, the changes since the last Resource List and Resource
// Dump and, for packages on demand, the changes of the last Policy.KeepChanges. To block
// readers only briefly, a publication removes at most about twice as many changes as it
// added, and leaves the rest to later publications.
func (r *run) shortenLog(ctx context.Context, fresh int64) error {
	through := min(r.last.ChangesNumber-1, r.last.ListThrough)
	if r.Dumps && !r.last.DumpAt.IsZero() {
		through = min(through, r.last.DumpThrough)
	}
	c := contents{facts: r.facts, id: r.id}
	first, err := c.firstChange(ctx, 0, through)
	if err != nil || first.Seq == 0 || through-first.Seq < forgetStep {
		return err
	}
	if r.Policy.OnDemand != "" {
		old, err := c.lastBefore(ctx, r.now.Add(-r.Policy.KeepChanges))
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
