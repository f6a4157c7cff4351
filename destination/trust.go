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

// ErrWithdrawn means that the Capability List of a set which was followed no longer offers
// a list or a dump, so the set cannot be followed any more. The mirror keeps its resources.
var ErrWithdrawn = errors.New("the Source no longer offers a list of this set, which was followed before")

// Orphan is a set that the mirror holds and that its Source does not offer any more.
// Nothing is concluded from that: what is held stays, and each run says so until
// somebody has approved to forget the set.
type Orphan struct {
	Set     string
	Members int64
	Hash    string // by which forgetting it is approved
	Forget  bool   // that was approved
}

// orphans are the sets of the mirror that are missing from a whole Source Description.
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
		if _, err := fetch.Parse(set); err != nil { // one of the mirror's own, of no Source
			continue
		}
		o, err := d.orphan(ctx, set)
		if err != nil {
			return nil, err
		}
		if o != nil {
			all = append(all, *o)
		}
	}
	return all, nil
}

// forgotten is the name under which a mirror remembers that a set was let go.
func forgotten(set string) string { return "forgotten " + set }

// orphan looks at a set that is not offered; nil if nobody needs to know.
func (d *Destination) orphan(ctx context.Context, set string) (*Orphan, error) {
	n, err := d.Mirror.Count(ctx, set)
	if err != nil || n == 0 {
		return nil, err
	}
	if _, gone, err := d.Mirror.Recall(ctx, forgotten(set)); err != nil || gone {
		return nil, err
	}
	sum := sha256.Sum256([]byte("no longer offered\n" + set))
	o := &Orphan{Set: set, Members: n, Hash: hex.EncodeToString(sum[:])[:32]}
	o.Forget, err = d.Mirror.Approved(ctx, o.Hash)
	return o, err
}

// keepOrphans lets the orphans be approved of, or forgets those that are, and remembers
// the sets that are offered again.
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

// tick is the least step by which a moment is later than another.
const tick = time.Microsecond

// refuse takes down that the Source shows an older state than it did. Nothing here
// goes back, and the cursor stays, so that each run says so until the Source is past that
// state, or the older one is accepted.
func (pl *planner) refuse(how string) {
	if how == "" || pl.d.AcceptRollback {
		return
	}
	pl.RolledBack = how
	pl.move = nil
}
