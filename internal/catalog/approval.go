package catalog

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// ApprovalHolds is the time for which the approval of a plan is valid.
	ApprovalHolds = 24 * time.Hour
	planLifetime  = 30 * 24 * time.Hour
)

// ErrUnknownPlan means that no plan with this hash is stored. Either no such plan was
// withheld, or it was deleted because of its age.
var ErrUnknownPlan = errors.New("no such plan was withheld")

// Withhold stores a plan so that it can be approved. A plan that is withheld again
// keeps its approval. Withhold also deletes plans that were withheld more than 30 days
// ago.
func (c *Mirror) Withhold(ctx context.Context, set SetID, hash, summary string) error {
	return c.transact(ctx, "store a withheld plan in the catalog", func(r *recorder) {
		now := c.instant()
		r.exec("DELETE FROM held_plan WHERE made < $1", now.Add(-planLifetime).UnixMicro())
		r.exec(`INSERT INTO held_plan (hash, set_id, made, summary) VALUES ($1, $2, $3, $4)
			ON CONFLICT (hash) DO UPDATE SET set_id = excluded.set_id, made = excluded.made, summary = excluded.summary`,
			hash, set, now.UnixMicro(), summary)
	})
}

// Approve marks the withheld plan with this hash as approved, and returns its summary and
// the time at which the approval ends, which is ApprovalHolds from now.
func (c *Mirror) Approve(ctx context.Context, hash string) (summary string, until time.Time, err error) {
	until = c.instant().Add(ApprovalHolds)
	err = c.transact(ctx, "approve a withheld plan in the catalog", func(r *recorder) {
		if !r.scanRow([]any{&summary}, "UPDATE held_plan SET approved = $2 WHERE hash = $1 RETURNING summary", hash, until.UnixMicro()) {
			r.stop(fmt.Errorf("%w: %q", ErrUnknownPlan, hash))
		}
	})
	if err != nil {
		return "", time.Time{}, err
	}
	return summary, until, nil
}

// Approved reports whether the plan with this hash has a valid approval. An approval
// that would end later than ApprovalHolds from now is not valid: the clock was set back
// after it was given.
func (c *Mirror) Approved(ctx context.Context, hash string) (bool, error) {
	var until time.Time
	_, err := scanRow(c.reading(ctx, "look up a withheld plan in the catalog"), []any{microsTo(&until)}, "SELECT approved FROM held_plan WHERE hash = $1", hash)
	left := until.Sub(c.instant())
	return err == nil && left > 0 && left <= ApprovalHolds, err
}
