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

// This file stores the last change of each resource, in memory or in temporary files.

type storedChange struct {
	Entry   ChangeEntry
	Package int // number of the package in Changes.in, counted from 1 (in changeList.entries, 1 is the package of the list); 0 if there is none
	Path    string
	Offset  int64
	List    int          // number of the list that contains this entry; 1 is the list that was read first
	Rival   *spool.Place // position of Entry.Rival in Reader.rivals; nil if Entry.Rival is in memory or nil
}

func (c *storedChange) key() string { return c.Entry.URI }

func (r *Reader) newChanges() *Changes {
	r.keepRivals()
	ch := &Changes{latest: spool.NewTable(r.Spool, r.held(), (*storedChange).key), rivals: r.rivals}
	r.spools = append(r.spools, ch.latest)
	return ch
}

// forget deletes the changes of resources of which an earlier run has already applied
// newer changes.
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

// put stores a change unless a stored change of the same resource is later. If two
// changes have the same time, or are in one list and one has an unknown time, the order
// of the list decides.
func (ch *Changes) put(s *storedChange, cur Position, order *ordering) error {
	c := &s.Entry
	if c.Change == "" {
		return nil
	}
	before, again, err := ch.latest.Get(c.URI)
	if err != nil {
		return err
	}
	beside := again && before.List == ch.lists
	byPosition := beside && !order.mixed
	switch {
	case again && !beside && c.maybeLater(&before.Entry):
		return ch.dispute(before, c)
	case !again:
		c.News = ch.resumed || c.Changed.After(cur.At)
	case byPosition && !order.backward && !c.Timed():
		c.bound(before.Entry.From, time.Time{})
		c.News = false
		c.continuePatches(&before.Entry)
	// in a list with its newest entry first, an entry that is read later is older
	case byPosition && order.backward && !before.Entry.Timed():
		before.Entry.bound(c.From, time.Time{})
		before.Entry.News = false
		return ch.latest.Put(before)
	case c.Changed.Before(before.Entry.Changed), // an older change comes later, because lists may overlap
		beside && order.backward && c.Changed.Equal(before.Entry.Changed):
		if !beside || !order.down || !before.Entry.News {
			return nil
		}
		before.Entry.News = false // not News, because the list has an older new entry of the same resource
		return ch.latest.Put(before)
	default:
		c.News = beside && order.backward && before.Entry.News
		c.continuePatches(&before.Entry)
	}
	s.List = ch.lists
	return ch.latest.Put(s)
}

// maybeLater reports whether c contradicts a change of another list and may be later
// than that change, although Changed is earlier. Two changes contradict each other if
// they disagree on whether the resource exists, or on its bytes.
func (c *ChangeEntry) maybeLater(before *ChangeEntry) bool {
	least := before.From
	if before.Last { // the position in the list shows that the change is not earlier than Changed
		least = before.Changed
	}
	if !c.Changed.Before(before.Changed) || c.Timed() && before.Timed() || !c.To.IsZero() && c.To.Before(least) {
		return false
	}
	return c.contradicts(before) || c.Change != resourcesync.Deleted && c.Beside(before.Length, before.Digests) != evidence.Same
}

func (c *ChangeEntry) contradicts(other *ChangeEntry) bool {
	return (c.Change == resourcesync.Deleted) != (other.Change == resourcesync.Deleted)
}

// dispute marks the stored change of a resource as contradictory (Torn), because the
// change c of another list may be later. Unless c is a deletion, its description
// becomes the Rival of the stored change.
func (ch *Changes) dispute(before *storedChange, c *ChangeEntry) error {
	if c.Change != resourcesync.Deleted && !before.Entry.Torn {
		at, err := ch.rivals.AppendAt(c.Resource)
		if err != nil {
			return err
		}
		before.Rival = &at
	}
	before.Entry.Torn, before.Entry.Denied = true, before.Entry.Denied || c.contradicts(&before.Entry)
	return ch.latest.Put(before)
}

// packageNumber returns the index of a package in Changes.in, counted from 1. It adds
// the package if it is not there.
func (ch *Changes) packageNumber(p *Package) int {
	if n := len(ch.in); n > 0 && ch.in[n-1] == p { // no search is needed, because most changes are in the same package as the previous one
		return n
	}
	i := slices.Index(ch.in, p)
	if i < 0 {
		i, ch.in = len(ch.in), append(ch.in, p)
	}
	return i + 1
}

func (ch *Changes) lay(s *storedChange, at Location) {
	if s.Package, s.Path, s.Offset = 0, at.Path, at.Offset; at.Package != nil {
		s.Package = ch.packageNumber(at.Package)
	}
}

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

// recordLocation records where in a package the bytes of a change are, if the manifest
// entry e describes the same state of the resource. Of several such entries in one
// package, the first counts.
func (ch *Changes) recordLocation(e *resourcesync.Entry, from Location) (bool, error) {
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

// sameState compares the digests. If they have no algorithm in common, sameState
// compares the length and the time of change.
func sameState(w *Resource, e *resourcesync.Entry) bool {
	switch w.Beside(e.Length, e.Digests) {
	case evidence.Same:
		return true
	case evidence.Differs:
		return false
	}
	return w.Length.Known() && w.Length == e.Length && e.Datetime.Complete() && e.Datetime.Time().Equal(w.Changed)
}

// Of returns the last change of the resource with this URI; nil if there is none.
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

// All yields the last change of each resource: first the changes without a package,
// sorted by time, then those of each package, sorted by their offset in the package.
func (ch *Changes) All() iter.Seq2[*Change, error] {
	return func(yield func(*Change, error) bool) {
		for s, err := range ch.latest.Sorted(ch.appendSortKey) {
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

func (ch *Changes) appendSortKey(b []byte, s *storedChange) []byte {
	if s.Package > 0 {
		b = append(b, ch.in[s.Package-1].URI...)
	}
	t := s.Entry.Changed
	b = binary.BigEndian.AppendUint64(append(b, 0), uint64(s.Offset))
	b = binary.BigEndian.AppendUint64(b, uint64(t.Unix())+1<<63) // 1<<63 is added so that times before 1970 are sorted first
	return binary.BigEndian.AppendUint32(b, uint32(t.Nanosecond()))
}
