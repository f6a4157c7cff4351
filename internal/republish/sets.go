package republish

import (
	"context"
	"iter"

	"instep/destination"
	"instep/resourcesync"
)

// member is a resource of the mirror, and what else the Source says of it.
type member struct {
	destination.Held
	kept bool // it is held in an earlier state, whatever the Source says
	said resourcesync.Remainder
}

// members yields the resources of some sets, and of the one of those kept in an earlier state,
// in the order of their keys, each once.
func members(ctx context.Context, m Mirror, sets []string, kept string) iter.Seq2[member, error] {
	return func(yield func(member, error) bool) {
		var all []*cursor
		for _, set := range sets {
			c := &cursor{}
			c.next, c.stop = iter.Pull2(m.Members(ctx, set))
			all = append(all, c)
		}
		if kept != "" {
			c := &cursor{kept: true}
			c.next, c.stop = iter.Pull2(m.Members(ctx, kept))
			all = append(all, c)
		}
		for _, c := range all {
			defer c.stop()
			c.step()
		}
		for {
			one, ok, err := least(all)
			if err == nil && ok {
				one.said, err = one.Remainder.Parse()
			}
			if err != nil || !ok || !yield(one, nil) {
				if err != nil {
					yield(one, err)
				}
				return
			}
		}
	}
}

// cursor is where the members of a set were read to.
type cursor struct {
	next func() (destination.Held, error, bool)
	stop func()
	kept bool // its members are held in an earlier state

	held destination.Held
	key  resourcesync.Key
	err  error
	ok   bool
}

func (c *cursor) step() {
	if c.held, c.err, c.ok = c.next(); c.ok {
		c.key = resourcesync.KeyOf(c.held.URI)
	}
}

// least takes the resource with the least key, as the set says in which it changed last.
func least(all []*cursor) (one member, ok bool, err error) {
	var key resourcesync.Key
	for _, c := range all {
		if c.err != nil {
			return one, false, c.err
		}
		if c.ok && (!ok || c.key < key) {
			key, ok = c.key, true
		}
	}
	for _, c := range all {
		if !ok || !c.ok || c.key != key {
			continue
		}
		if one.URI == "" || c.held.Changed.After(one.Changed) {
			one.Held = c.held
		}
		one.kept = one.kept || c.kept
		c.step()
	}
	return one, ok, nil
}
