package republish

import (
	"context"
	"iter"
	"slices"

	"instep/destination"
	"instep/resourcesync"
)

// member is a resource of the mirror, and what else the Source says of it.
type member struct {
	destination.Held
	kept bool // it is held in an earlier state, whatever the Source says
	past bool // its bytes are not those at the path any more
	said resourcesync.Remainder
}

// members yields the resources of some sets, and of the one of those kept in an earlier state,
// in the order of their keys, each once, as the set says in which it changed last.
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

// together is a resource as some sets hold it; kept says whether the last is the one of those
// held in an earlier state. It is the zero member if none holds it.
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
