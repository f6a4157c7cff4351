package republish

import (
	"context"
	"iter"
	"slices"

	"instep/destination"
	"instep/resourcesync"
)

// member is a resource of the mirror, with the links and the further attributes of its
// entry at the Source.
type member struct {
	destination.Held
	keptEarlier bool // whether the mirror keeps the resource in an earlier state although it has changed at the Source
	outdated    bool // whether the state is no longer the present one: the mirror has other bytes at the path, or none
	said        resourcesync.Remainder
}

// members yields each resource of the given sets and of the set keptSet, ordered by key.
// keptSet is the set with the resources that the mirror keeps in an earlier state. If a
// resource is in several sets, its state is that of the set in which it changed last.
func members(ctx context.Context, m Mirror, sets []string, keptSet string) iter.Seq2[member, error] {
	if keptSet != "" {
		sets = append(slices.Clip(sets), keptSet)
	}
	return func(yield func(member, error) bool) {
		for states, err := range m.MembersOf(ctx, sets) {
			var one member
			if err == nil {
				one, err = mergeStates(states, keptSet != "")
			}
			if !yield(one, err) || err != nil {
				return
			}
		}
	}
}

// mergeStates merges the states of a resource in several sets into one member, which is zero
// if the resource is in no set. lastIsKept says that the last element of states is the state
// in the mirror's own set, that of the resources which restore --keep keeps.
func mergeStates(states []destination.Held, lastIsKept bool) (one member, err error) {
	for i := range states {
		h := &states[i]
		if !h.Member {
			continue
		}
		if one.URI == "" || h.Changed.After(one.Changed) {
			one.Held = *h
		}
		one.keptEarlier = one.keptEarlier || lastIsKept && i == len(states)-1
	}
	one.said, err = one.Remainder.Parse()
	return one, err
}
