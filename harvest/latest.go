package harvest

import (
	"encoding/binary"
	"iter"
	"slices"
	"time"

	"instep/evidence"
	"instep/internal/spool"
	"instep/resourcesync"
)

// This file keeps the last change of each resource, in memory or in temporary files.

// storedChange is a Change as it is kept: one that a list has read, or the last of a resource.
type storedChange struct {
	Entry   ChangeEntry
	Package int // Changes counts it; of a list 1 for its own; 0: none
	Path    string
	Offset  int64
	List    int          // Changes counts it
	Rival   *spool.Place // of Entry.Rival, in Reader.rivals; nil: in Entry, if there is one
}

func (c *storedChange) key() string { return c.Entry.URI }

func (r *Reader) newChanges() *Changes {
	r.keepRivals()
	ch := &Changes{latest: spool.NewTable(r.Spool, r.held(), (*storedChange).key), rivals: r.rivals}
	r.spools = append(r.spools, ch.latest)
	return ch
}

// forget drops the changes of resources of which the part of a later list tells that was read before:
// they are over.
func (ch *Changes) forget(over *spool.Keys) error {
	for key, err := range over.Sorted() {
		if err == nil {
			err = ch.latest.Delete(key.URI())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// put takes a change in place of an earlier one of the same resource. It comes from a list in this
// order: of two of one moment, or of one list and an unknown time, the later put counts, unless
// their list has the newest first.
func (ch *Changes) put(s *storedChange, cur Position, in *ordering) error {
	c := &s.Entry
	if c.Change == "" {
		return nil
	}
	before, again, err := ch.latest.Get(c.URI)
	if err != nil {
		return err
	}
	beside := again && before.List == ch.lists
	byPosition := beside && !in.mixed
	switch {
	case again && !beside && c.maybeLater(&before.Entry):
		return ch.dispute(before, c)
	case !again:
		c.News = ch.resumed || c.Changed.After(cur.At)
	case byPosition && !in.backward && !c.Timed():
		c.bound(before.Entry.From, time.Time{})
		c.News = false
		c.continuePatches(&before.Entry)
	case byPosition && in.backward && !before.Entry.Timed(): // this one was said before it
		before.Entry.bound(c.From, time.Time{})
		before.Entry.News = false
		return ch.latest.Put(before)
	case c.Changed.Before(before.Entry.Changed), // lists may overlap
		beside && in.backward && c.Changed.Equal(before.Entry.Changed):
		if !beside || !in.down || !before.Entry.News {
			return nil
		}
		before.Entry.News = false // likewise
		return ch.latest.Put(before)
	default:
		c.News = beside && in.backward && before.Entry.News
		c.continuePatches(&before.Entry)
	}
	s.List = ch.lists
	return ch.latest.Put(s)
}

// maybeLater reports whether a change that is placed before another, of another list, may be the
// later one, and whether the resource exists depends on that.
func (c *ChangeEntry) maybeLater(before *ChangeEntry) bool {
	least := before.From
	if before.Last { // by its position
		least = before.Changed
	}
	contradict := (c.Change == resourcesync.Deleted) != (before.Change == resourcesync.Deleted)
	return contradict && c.Changed.Before(before.Changed) && !(c.Timed() && before.Timed()) && (c.To.IsZero() || !c.To.Before(least))
}

// dispute keeps a change beside which another may be the later one.
func (ch *Changes) dispute(before *storedChange, c *ChangeEntry) error {
	if before.Entry.Change == resourcesync.Deleted && !before.Entry.Torn {
		at, err := ch.rivals.AppendAt(c.Resource)
		if err != nil {
			return err
		}
		before.Rival = &at
	}
	before.Entry.Torn, before.Entry.Denied = true, true
	return ch.latest.Put(before)
}

// number is how a storedChange counts a package.
func (ch *Changes) number(p *Package) int {
	if n := len(ch.in); n > 0 && ch.in[n-1] == p { // most come package by package
		return n
	}
	i := slices.Index(ch.in, p)
	if i < 0 {
		i, ch.in = len(ch.in), append(ch.in, p)
	}
	return i + 1
}

// lay writes down where the bytes of a change are.
func (ch *Changes) lay(s *storedChange, at Location) {
	if s.Package, s.Path, s.Offset = 0, at.Path, at.Offset; at.Package != nil {
		s.Package = ch.number(at.Package)
	}
}

// change is a change as it was stored.
func (ch *Changes) change(s *storedChange) (*Change, error) {
	c := &Change{ChangeEntry: s.Entry}
	if s.Package > 0 {
		c.Location = Location{ch.in[s.Package-1], s.Path, s.Offset}
	}
	if s.Rival != nil {
		rival, err := ch.rivals.At(*s.Rival)
		if err != nil {
			return nil, err
		}
		c.Rival = &rival
	}
	return c, nil
}

// carriedBy records where the bytes of a change are, if the entry of a manifest is
// about the same state of the same resource. Of several in a package the first counts: each
// record that is put takes room.
func (ch *Changes) carriedBy(e *resourcesync.Entry, from Location) (bool, error) {
	s, ok, err := ch.latest.Get(e.Loc)
	if !ok || err != nil || s.Entry.Change == resourcesync.Deleted || e.Change == resourcesync.Deleted || !sameState(&s.Entry.Resource, e) {
		return false, err
	}
	if s.Package > 0 && ch.in[s.Package-1] == from.Package {
		return true, nil
	}
	ch.lay(s, from)
	return true, ch.latest.Put(s)
}

// sameState reports whether an entry describes the bytes that are wanted: by digest,
// or where none of one algorithm is given by both, by length and the moment of the
// change.
func sameState(w *Resource, e *resourcesync.Entry) bool {
	switch w.Beside(e.Length, e.Digests) {
	case evidence.Same:
		return true
	case evidence.Differs:
		return false
	}
	return w.Length.Known() && w.Length == e.Length && !e.Datetime.IsZero() && e.Datetime.Time().Equal(w.Changed)
}

// Of returns the last entry of a URI, or nil.
func (ch *Changes) Of(uri string) (*Change, error) {
	if ch == nil {
		return nil, nil
	}
	s, ok, err := ch.latest.Get(uri)
	if err != nil || !ok {
		return nil, err
	}
	return ch.change(s)
}

// All yields the last state of each URI: first those that are in no package, then those of each
// package together, in the order of their places in it, else of their times.
func (ch *Changes) All() iter.Seq2[*Change, error] {
	return func(yield func(*Change, error) bool) {
		for s, err := range ch.latest.Sorted(ch.rank) {
			var c *Change
			if err == nil {
				c, err = ch.change(s)
			}
			if !yield(c, err) || err != nil {
				return
			}
		}
	}
}

// rank appends by what All sorts.
func (ch *Changes) rank(b []byte, s *storedChange) []byte {
	if s.Package > 0 {
		b = append(b, ch.in[s.Package-1].URI...)
	}
	t := s.Entry.Changed
	b = binary.BigEndian.AppendUint64(append(b, 0), uint64(s.Offset))
	b = binary.BigEndian.AppendUint64(b, uint64(t.Unix())+1<<63) // with 1<<63 times before 1970 come first
	return binary.BigEndian.AppendUint32(b, uint32(t.Nanosecond()))
}
