// Package past compares a set of resources at two moments. It also reads what a Source
// contained at one moment: from its Resource Lists or Resource Dumps, archived or not,
// and from its changes since then (Archives §1, §3, §5). It reads only metadata, never
// a resource.
//
// The function Compare accepts any two states; the method Source.At reads one from a
// Source.
package past

import (
	"iter"

	"instep/internal/spool"
	"instep/resourcesync"
)

// State is the known state of a resource at one time.
type State struct {
	URI     string
	Path    string // the path of the file in a mirror; "" if the state is that of a Source
	LastMod resourcesync.Datetime
	Length  resourcesync.Length
	Digests resourcesync.Digests
}

// Difference compares a resource at two moments. The resource existed at one of them at
// least. Change is "" if the resource was the same at both moments.
type Difference struct {
	Change        resourcesync.Change
	Before, After *State // the states at the earlier and the later moment; nil if the resource did not exist
}

// State returns the state at the later moment or, if the resource was deleted, the state
// at the earlier moment.
func (d *Difference) State() *State {
	if d.After != nil {
		return d.After
	}
	return d.Before
}

type pair struct {
	URI           string
	Before, After *State
}

// inMemory is the number of resources that Compare holds in memory. It stores the
// others in temporary files.
const inMemory = 10_000

// Compare yields each resource that occurs in one or both of two states of a set,
// sorted by URI. Its memory is bounded. If a resource occurs more than once in a state,
// the last occurrence is used. Temporary files are in the directory dir; "" means
// os.TempDir.
func Compare(dir string, before, after iter.Seq2[State, error]) iter.Seq2[Difference, error] {
	return func(yield func(Difference, error) bool) {
		all := spool.NewTable(dir, inMemory, func(p *pair) string { return p.URI })
		defer func() { _ = all.Close() }() // temporary files
		err := collect(all, before, func(p *pair, s *State) { p.Before = s })
		if err == nil {
			err = collect(all, after, func(p *pair, s *State) { p.After = s })
		}
		if err != nil {
			yield(Difference{}, err)
			return
		}
		for p, err := range all.Sorted(func(b []byte, p *pair) []byte { return append(b, p.URI...) }) {
			if err != nil {
				yield(Difference{}, err)
				return
			}
			if !yield(p.difference(), nil) {
				return
			}
		}
	}
}

func collect(all *spool.Table[*pair], states iter.Seq2[State, error], set func(*pair, *State)) error {
	for s, err := range states {
		if err != nil {
			return err
		}
		p, ok, err := all.Get(s.URI)
		if err != nil {
			return err
		}
		if !ok {
			p = &pair{URI: s.URI}
		}
		set(p, &s)
		if err := all.Put(p); err != nil {
			return err
		}
	}
	return nil
}

func (p *pair) difference() Difference {
	d := Difference{Before: p.Before, After: p.After}
	switch {
	case p.Before == nil:
		d.Change = resourcesync.Created
	case p.After == nil:
		d.Change = resourcesync.Deleted
	case !p.Before.sameBytes(p.After):
		d.Change = resourcesync.Updated
	}
	return d
}

// sameBytes reports whether two states seem to have the same bytes. It compares their
// length, and their digests or, if they have no digest of the same algorithm, their
// lastmod. It does not compare a value that is missing in one of the states.
func (s *State) sameBytes(o *State) bool {
	if s.Length.Known() && o.Length.Known() && s.Length != o.Length {
		return false
	}
	proved := false
	for _, d := range s.Digests {
		switch o.Digests.Get(d.Algorithm()) {
		case resourcesync.Digest{}:
		case d:
			proved = true
		default:
			return false
		}
	}
	return proved || s.LastMod.IsZero() || o.LastMod.IsZero() || s.LastMod.Time().Equal(o.LastMod.Time())
}
