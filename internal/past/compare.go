// Package past compares a set of resources at two moments, and reads what a Source
// contained at one moment: from its Resource Lists or Resource Dumps, archived or not,
// and its changes since (Archives §1, §3, §5). It reads only metadata, never a
// resource.
//
// Compare takes any two states; Source.At reads one.
package past

import (
	"iter"

	"instep/internal/spool"
	"instep/resourcesync"
)

// State is the known state of a resource at one time.
type State struct {
	URI     string
	Path    string // path in a mirror; "" elsewhere
	LastMod resourcesync.Datetime
	Length  resourcesync.Length
	Digests resourcesync.Digests
}

// Difference is a resource that existed at one or both of two times. Change is "" if
// the resource is the same at both.
type Difference struct {
	Change        resourcesync.Change
	Before, After *State // nil if the resource did not exist at that time
}

// State returns the later state, or the last one if the resource was deleted.
func (d *Difference) State() *State {
	if d.After != nil {
		return d.After
	}
	return d.Before
}

// pair holds the states of a resource at both times.
type pair struct {
	URI           string
	Before, After *State
}

// inMemory is the number of resources that Compare holds in memory. The others are in
// temporary files.
const inMemory = 10_000

// Compare yields each resource of two states, sorted by URI, with bounded memory. If a
// state contains a resource more than once, the last occurrence is used. Temporary
// files are in dir (default os.TempDir).
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
	case !p.Before.same(p.After):
		d.Change = resourcesync.Updated
	}
	return d
}

// same reports whether both states have the same bytes. It compares digests of a common
// algorithm, and otherwise length and lastmod.
func (s *State) same(o *State) bool {
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
