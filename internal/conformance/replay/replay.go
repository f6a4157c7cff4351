// Package replay rebuilds the sets of a Source from its documents. It starts from each current
// and archived Resource List and Resource Dump, applies the changes since then, and checks
// that the documents do not contradict each other. Tests compare the result with the actual
// resources.
//
// Package replay uses only the standard library, so that it does not share the mistakes of
// the rest of the module.
package replay

import (
	"fmt"
	"slices"
	"time"
)

// State is the content of a set: it maps the URI of each resource to its sha-256.
type State map[string]string

// Replayed is a set rebuilt from one snapshot and the changes after it.
type Replayed struct {
	URI   string // URI of the snapshot: a Resource List or Resource Dump
	At    time.Time
	State State
}

// Replay rebuilds the set once from each of its snapshots. The changes after a Resource List
// are read from the Change Lists, and those after a Resource Dump from the Change Dumps.
func (s *Set) Replay() ([]Replayed, error) {
	var all []Replayed
	for n := range len(s.Lists) + len(s.Dumps) {
		r, err := s.ReplayOne(n)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

// ReplayOne rebuilds the set from the snapshot with index n. The Resource Lists are counted
// first, then the Resource Dumps.
func (s *Set) ReplayOne(n int) (Replayed, error) {
	if n < len(s.Lists) {
		return replay(s.Lists[n], resources, s.Changes, changesInList)
	}
	return replay(s.Dumps[n-len(s.Lists)], s.unpack, s.ChangeDumps, s.unpack)
}

func replay(snap Snapshot, readResources func(*Document) ([]change, error), lists []Interval, readChanges func(*Document) ([]change, error)) (Replayed, error) {
	r := Replayed{URI: snap.URI, At: snap.At, State: State{}}
	for _, part := range snap.Parts {
		all, err := readResources(part)
		if err != nil {
			return r, err
		}
		for _, c := range all {
			if r.State[c.uri] != "" {
				return r, fmt.Errorf("%s: the snapshot contains the resource %s twice", part.URI, c.uri)
			}
			r.State[c.uri] = c.sum
		}
	}
	return r, r.applyChanges(lists, readChanges)
}

func resources(d *Document) (all []change, err error) {
	for _, e := range d.URLs {
		all = append(all, change{uri: e.Loc, sum: sha256Of(e.MD)})
	}
	return all, nil
}

func (r *Replayed) applyChanges(lists []Interval, read func(*Document) ([]change, error)) error {
	if len(lists) == 0 || lists[0].From.After(r.At) {
		return fmt.Errorf("%s: no list of changes begins at or before the time of the snapshot, %v", r.URI, r.At)
	}
	for _, l := range lists {
		if !l.Until.IsZero() && !l.Until.After(r.At) {
			continue
		}
		changes, err := read(l.Document)
		if err != nil {
			return err
		}
		for _, c := range changes {
			if c.at.Before(r.At) {
				continue
			}
			if c.kind == "deleted" {
				delete(r.State, c.uri)
			} else {
				r.State[c.uri] = c.sum
			}
		}
	}
	return nil
}

func changesInList(d *Document) ([]change, error) {
	from, err := parseDatetime(d.MD.From)
	if err != nil {
		return nil, err
	}
	until, err := parseDatetime(d.MD.Until)
	if err != nil {
		return nil, err
	}
	var all []change
	last := from
	for _, e := range d.URLs {
		at, err := parseDatetime(e.MD.Datetime)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", d.URI, e.Loc, err)
		}
		if at.Before(last) || !until.IsZero() && !at.Before(until) {
			return nil, fmt.Errorf("%s: the change of %s at %v is out of order, or not before the end of the list, %v", d.URI, e.Loc, at, until)
		}
		if !slices.Contains([]string{"created", "updated", "deleted"}, e.MD.Change) {
			return nil, fmt.Errorf("%s: %s: expected the change \"created\", \"updated\" or \"deleted\", got %q", d.URI, e.Loc, e.MD.Change)
		}
		last = at
		all = append(all, change{e.Loc, e.MD.Change, sha256Of(e.MD), at})
	}
	return all, nil
}
