package republish

import (
	"context"
	"iter"
	"slices"

	"instep/destination"
	"instep/resourcesync"
)

// member is a resource of the mirror, with the links and further attributes of its
// entry at the Source.
type member struct {
	destination.Held
	kept bool // the mirror keeps the resource in an earlier state, despite changes at the Source
	past bool // the bytes of this state are no longer at the path
	said resourcesync.Remainder
}

// members yields each resource of the sets, and of the set of resources kept in an
// earlier state, once, sorted by key. A resource in several sets has the state of the
// set in which it changed last.
func members(ctx context.Context, m Mirror, sets []string, kept string) iter.Seq2[member, error] {
	if kept != "" {
		sets = append(slices.Clip(sets), kept)
	}
	return func(yield func(member, error) bool) {
		for held, err := range m.MembersOf(ctx, sets) {
			var one member
			if err == nil {
				one, err = together(held, kept != "")
			}
			if !yield(one, err) || err != nil {
				return
			}
		}
	}
}

// together merges the states of a resource in several sets into one member. kept says
// that the last set is the set of resources kept in an earlier state. If the resource
// is in no set, the member is zero.
func together(held []destination.Held, kept bool) (one member, err error) {
	for i := range held {
		h := &held[i]
		if !h.Member {
			continue
		}
		if one.URI == "" || h.Changed.After(one.Changed) {
			one.Held = *h
		}
		one.kept = one.kept || kept && i == len(held)-1
	}
	one.said, err = one.Remainder.Parse()
	return one, err
}
