package destination

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"time"

	"instep/discover"
	"instep/fetch"
	"instep/harvest"
)

// ErrWithdrawn means that the Capability List of a set no longer offers a list or a
// dump, although earlier runs followed the set. The mirror keeps the resources of the
// set.
var ErrWithdrawn = errors.New("the Source no longer offers a list of this set, which was followed before")

// Orphan is a set that the mirror holds and the Source no longer offers. Its resources
// stay, and each run reports it until a person approves forgetting the set.
type Orphan struct {
	Set     string
	Members int64
	Hash    string // a person gives this hash to approve forgetting the set
	Forget  bool   // a person has approved forgetting the set
}

// orphans returns the sets that the mirror holds and the Source no longer offers, except
// empty and forgotten ones. It returns none if the Source Description is incomplete or
// the user has chosen sets.
func (d *Destination) orphans(ctx context.Context, src *discover.Source) ([]Orphan, error) {
	if !src.Complete || len(d.Sets) > 0 {
		return nil, nil
	}
	known, err := d.Mirror.Sets(ctx)
	if err != nil {
		return nil, err
	}
	var all []Orphan
	for _, set := range known {
		if slices.ContainsFunc(src.Sets, func(s discover.Set) bool { return s.URI == set }) {
			continue
		}
		if _, err := fetch.Parse(set); err != nil { // skipped: the mirror made this set itself, so the Source never offers it
			continue
		}
		n, err := d.Mirror.Count(ctx, set)
		if err != nil {
			return nil, err
		}
		_, gone, err := d.Mirror.Recall(ctx, forgotten(set))
		if err != nil {
			return nil, err
		}
		if n == 0 || gone {
			continue
		}
		sum := sha256.Sum256([]byte("no longer offered\n" + set))
		o := Orphan{Set: set, Members: n, Hash: hex.EncodeToString(sum[:])[:32]}
		if o.Forget, err = d.Mirror.Approved(ctx, o.Hash); err != nil {
			return nil, err
		}
		all = append(all, o)
	}
	return all, nil
}

func forgotten(set string) string { return "forgotten " + set }

// If the Source offers a forgotten set again, keepOrphans deletes the record that the
// set was forgotten.
func (d *Destination) keepOrphans(ctx context.Context, p *Plan) error {
	for _, s := range p.Sets {
		if _, was, err := d.Mirror.Recall(ctx, forgotten(s.Set)); err != nil {
			return err
		} else if was {
			if err := d.Mirror.Remember(ctx, forgotten(s.Set), ""); err != nil {
				return err
			}
		}
	}
	for _, o := range p.Orphans {
		var err error
		if o.Forget {
			err = d.Mirror.Remember(ctx, forgotten(o.Set), "1")
		} else {
			err = d.Mirror.Withhold(ctx, o.Set, o.Hash, harvest.Counted(o.Members, "the set %s, which the Source no longer offers, would be forgotten; its %d {resource stays|resources stay}", o.Set, o.Members))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// tick is the smallest difference between two times that a mirror records.
const tick = time.Microsecond

// refuse keeps the cursor where it is. So each run reports the older state of the
// Source until the Source has a newer state than the mirror, or the user accepts the
// older state.
func (pl *planner) refuse(how string) {
	if how == "" || pl.d.AcceptRollback {
		return
	}
	pl.RolledBack = how
	pl.move = nil
}
