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

// HeldPlan is a plan that a guard has withheld.
type HeldPlan struct {
	Hash, Set, Summary string
	Made               time.Time // time at which the plan was last withheld
	Approved           time.Time // time at which the approval ends; zero if the plan was never approved
}

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

// Approve marks the withheld plan with this hash as approved. The approval is valid for
// ApprovalHolds.
func (c *Mirror) Approve(ctx context.Context, hash string) (HeldPlan, error) {
	until := c.instant().Add(ApprovalHolds)
	err := c.transact(ctx, "approve a withheld plan in the catalog", func(r *recorder) {
		if r.exec("UPDATE held_plan SET approved = $2 WHERE hash = $1", hash, until.UnixMicro()) == 0 {
			r.stop(fmt.Errorf("%w: %q", ErrUnknownPlan, hash))
		}
	})
	if err != nil {
		return HeldPlan{}, err
	}
	return c.heldPlan(ctx, hash)
}

func (c *db) heldPlan(ctx context.Context, hash string) (p HeldPlan, err error) {
	const op = "look up a withheld plan in the catalog"
	found, err := scanRow(c.reading(ctx, op), []any{&p.Hash, &p.Set, &p.Summary, timeTo(&p.Made), microsTo(&p.Approved)},
		"SELECT p.hash, s.name, p.summary, p.made, p.approved FROM held_plan p JOIN sets s ON s.id = p.set_id WHERE p.hash = $1", hash)
	if err == nil && !found {
		err = c.fail(op, ErrUnknownPlan)
	}
	return p, err
}

// Approved reports whether the plan with this hash has a valid approval. An approval
// that would end later than ApprovalHolds from now is not valid: the clock was set back
// after it was given.
func (c *Mirror) Approved(ctx context.Context, hash string) (bool, error) {
	p, err := c.heldPlan(ctx, hash)
	if errors.Is(err, ErrUnknownPlan) {
		return false, nil
	}
	left := p.Approved.Sub(c.instant())
	return err == nil && left > 0 && left <= ApprovalHolds, err
}
