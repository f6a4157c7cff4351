package publish

import (
	"context"
	"fmt"
)

// forgetStep is how many numbers of changes the log is shortened by at a time, at least:
// so that not each publication has a transaction for it.
const forgetStep = 1000

// shorten takes those changes out of the log that nothing needs any more. Needed are those
// of the open Change List, those that are counted to decide on the next snapshot, and, for
// packages on demand, those of the time in which Change Lists stay. A publication of fresh
// changes takes out twice as many, about: what many left behind goes with several, for no
// reader is to wait for it.
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
