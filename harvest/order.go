package harvest

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"instep/evidence"
	"instep/internal/spool"
	"instep/resourcesync"
)

// This file finds out when the changes of a list happened, and in which order.

// entry interprets one entry. Its time is datetime, else lastmod (1.0), else unknown. A lastmod
// counts if it lies in the time that the list covers, one before that is the time of the bytes:
// a file that is moved or copied often keeps its own, and that of a deletion may be the one of
// the version that is gone.
func (l *changeList) entry(e *resourcesync.Entry) (_ ChangeEntry, ok bool) {
	told, byLastMod, ofBytes := e.Datetime, false, false
	if told.IsZero() {
		l.odd[oddTime]++
		if told = e.At; told.IsZero() {
			told, byLastMod = e.LastMod, e.Change == resourcesync.Deleted
			ofBytes = !byLastMod
		}
	}
	when := told.Time()
	unplaced := false // if the lastmod is its time it was before what is known otherwise
	from, until := l.placed(l.from.Time()), l.placed(l.until.Time())
	if until.Before(from) { // a clock went back between the two
		until = time.Time{}
	}
	switch {
	case byLastMod && (when.Before(from) || when.Before(l.known.at) || !until.IsZero() && !when.Before(until)):
		unplaced = !when.Before(evidence.Later(l.known.last, from)) && when.Before(l.known.at)
		when, byLastMod = time.Time{}, false
	case ofBytes && when.Before(from):
		when = time.Time{}
	case l.placed(when) != when, !until.IsZero() && when.After(until):
		l.odd[oddLate]++
		when = time.Time{}
	}
	c := ChangeEntry{Resource: wanted(e, when), Change: e.Change, ByLastMod: byLastMod, OfBytes: ofBytes}
	c.Told, c.From, c.To, c.Least, c.Most = true, when, when, from, until
	switch {
	case when.IsZero():
		c.From, c.To = c.Least, c.Most
		c.Changed = c.From
	case !told.Complete(): // a day, a month: it happened then, nobody knows when
		c.To = earliest(told.End(), until, l.served)
	}
	if c.Change == "" && e.Path != "" { // there are bytes, so it exists
		l.odd[oddKind]++
		c.Change = resourcesync.Updated
	}
	if !unplaced {
		l.follow(&c)
	}
	switch c.Change {
	case resourcesync.Created, resourcesync.Updated, resourcesync.Deleted:
		return c, true
	}
	c.Change = ""
	return c, false
}

// earliest returns the first of a moment and those others that are known.
func earliest(t time.Time, others ...time.Time) time.Time {
	for _, o := range others {
		if !o.IsZero() && o.Before(t) {
			t = o
		}
	}
	return t
}

// follow records that a change comes after what was read before. One that is dated
// before that, though not before the last change that was applied, may have happened before
// the list of the position: where the position is was then found in a copy from before.
func (l *changeList) follow(c *ChangeEntry) {
	k := l.known
	if !k.yes {
		return
	}
	early := c.Changed.Before(evidence.Later(k.last, l.placed(l.from.Time())))
	if c.Last = early || !c.Timed() || !c.Changed.Before(k.at); !c.Last {
		return
	}
	if early && c.Timed() {
		l.odd[oddEarly]++
	}
	c.Changed = evidence.Later(c.Changed, k.at)
}

// ordering is what the entries show of the order in which they are, as far as their times are known.
type ordering struct {
	anchors  int       // entries of known time, unless that is the lastmod of a deletion: the others are placed by them
	loose    int       // the others
	at       time.Time // of the last anchor
	of       string    // its URI
	up, down bool      // some anchor is later, or earlier, than the one before it
	several  bool      // they are of more than one resource
	back     [2]string // the resources of the first step back: without one of them the others are out of order
	mixed    bool      // the list is in neither order
	backward bool      // it has the newest first
	straight [2]bool   // of back: without that resource the anchors are in forward order
	claims   *spool.Table[*claim]
}

// anchor reports whether the time of a change places others.
func (c *ChangeEntry) anchor() bool { return c.Timed() && !c.ByLastMod }

// see takes the next entry into account.
func (o *ordering) see(c *ChangeEntry) {
	if !c.anchor() {
		o.loose++
		return
	}
	if o.anchors++; o.anchors > 1 {
		if c.From.Before(o.at) && !o.down {
			o.back = [2]string{o.of, c.URI}
		}
		o.up, o.down = o.up || c.From.After(o.at), o.down || c.From.Before(o.at)
		o.several = o.several || c.URI != o.of
	}
	o.at, o.of = c.From, c.URI
}

// order finds out in which order the entries happened. A Change List is in forward
// order (1.1 §12.1); some Sources write the newest first, or group by kind. Order matters
// only for a resource that is told of more than once: if the times say that it exists and
// the positions that it does not, and nothing else shows which of them the list follows,
// the entries are torn.
func (l *changeList) order(r *Reader, tell func(resourcesync.Quirk, string)) error {
	switch {
	case !l.down:
		return nil
	case !l.up && (l.anchors > 2 || l.loose == 0): // of two one may be wrong
		l.backward = true
		tell(resourcesync.QuirkOrder, "newest change first; read backwards")
	default:
		l.mixed = true
		tell(resourcesync.QuirkOrder, "changes are not in the order of their datetime; sorted")
	}
	return l.claim(r)
}

// claim is what the entries of one resource say, by time and by position.
type claim struct {
	URI     string
	Loose   bool         // some entry is no anchor
	Latest  time.Time    // From of the latest entry
	Gone    bool         // the last entry says that it is deleted
	Late    bool         // the latest entry does
	Deleted bool         // some entry does
	Rival   *spool.Place // in Reader.rivals, of the latest that says that it exists; nil: none does
	At      time.Time    // From of that
}

func (c *claim) key() string { return c.URI }

// claim collects the claims of all resources.
func (l *changeList) claim(r *Reader) error {
	l.claims = spool.NewTable(r.Spool, r.held(), (*claim).key)
	r.spools = append(r.spools, l.claims)
	r.keepRivals()
	var last [2]time.Time // of the anchors without a resource of back
	l.straight = [2]bool{true, true}
	for e, err := range l.entries.All() {
		if err != nil {
			return err
		}
		c := &e.Entry
		for i, uri := range l.back {
			if c.anchor() && c.URI != uri {
				l.straight[i] = l.straight[i] && !c.From.Before(last[i])
				last[i] = c.From
			}
		}
		of, again, err := l.claims.Get(c.URI)
		if err == nil {
			if !again {
				of = &claim{}
			}
			err = of.add(c, r.rivals)
		}
		if err == nil {
			err = l.claims.Put(of)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// add takes the next entry of the resource into account. What it says of the resource is written
// once, not with each claim.
func (c *claim) add(e *ChangeEntry, rivals *spool.Log[Resource]) error {
	gone := e.Change == resourcesync.Deleted
	if c.URI == "" || !e.From.Before(c.Latest) {
		c.Latest, c.Late = e.From, gone
	}
	if c.URI, c.Gone = e.URI, gone; !gone && (c.Rival == nil || !e.From.Before(c.At)) {
		at, err := rivals.AppendAt(e.Resource)
		if err != nil {
			return err
		}
		c.Rival, c.At = &at, e.From
	}
	c.Deleted, c.Loose = c.Deleted || gone, c.Loose || !e.anchor()
	return nil
}

// torn marks the entry of a resource of which the last by time and the last by position say
// different things, unless the anchors of others show that the list is not in forward order: then
// times tell the order. In a list that is in backward order any other anchor shows that.
func (l *changeList) torn(s *storedChange) error {
	if l.claims == nil {
		return nil
	}
	e := &s.Entry
	c, _, err := l.claims.Get(e.URI)
	if err != nil || !c.Deleted || c.Rival == nil {
		return err
	}
	i := slices.Index(l.back[:], e.URI)
	differ := i >= 0 && c.Gone != c.Late
	ordered := i >= 0 && l.straight[i]
	if l.backward {
		ordered = !l.several && e.URI == l.of
	}
	if c.Loose && l.mixed || (c.Loose || differ) && ordered {
		e.Torn, e.Denied, s.Rival = true, true, c.Rival
	}
	return nil
}

// bounded yields the entries. In a list that is in order it gives those without a time bounds: they
// happened after the anchor before them, and before the one after them.
func (l *changeList) bounded() iter.Seq2[*storedChange, error] {
	switch {
	case l.entries == nil: // nothing was read
		return func(func(*storedChange, error) bool) {}
	case l.mixed || l.loose == 0:
		return l.entries.All()
	}
	return func(yield func(*storedChange, error) bool) {
		next, stop := iter.Pull2(anchorsOf(l.entries))
		defer stop()
		var before, after place
		after, err, _ := next()
		n := 0
		for e, failed := range l.entries.All() {
			if err = cmp.Or(failed, err); err != nil {
				yield(e, err)
				return
			}
			switch n++; {
			case n == after.n:
				before = after
				after, err, _ = next() // the zero place at the end
			case l.backward:
				e.Entry.bound(after.from, before.to)
			default:
				e.Entry.bound(before.from, after.to)
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

// place is the nth entry, from 1, and its time.
type place struct {
	n        int
	from, to time.Time
}

// anchorsOf yields the places of the anchors.
func anchorsOf(entries *spool.Log[*storedChange]) iter.Seq2[place, error] {
	return func(yield func(place, error) bool) {
		n := 0
		for e, err := range entries.All() {
			if err != nil {
				yield(place{}, err)
				return
			}
			if n++; e.Entry.anchor() && !yield(place{n, e.Entry.From, e.Entry.To}, nil) {
				return
			}
		}
	}
}

// bound narrows the time of a change whose time is unknown: it happened after low, and before high
// unless high is zero.
func (c *ChangeEntry) bound(low, high time.Time) {
	if c.ByLastMod && c.Changed.Before(low) {
		c.forgetTime()
	}
	if !c.Timed() {
		c.From = evidence.Later(c.From, low)
		c.Changed = evidence.Later(c.Changed, c.From)
	}
	if c.ByLastMod && !high.IsZero() && high.Before(c.From) {
		c.forgetTime()
	}
	if !c.Timed() && !high.IsZero() && !high.Before(c.From) {
		c.To = earliest(high, c.To)
	}
}

// forgetTime stops using the lastmod of a deletion as its time, because it is the lastmod of the version that was deleted.
func (c *ChangeEntry) forgetTime() {
	c.From, c.To, c.ByLastMod = c.Least, c.Most, false
}

// Word converts a change into a statement about a resource; a torn one describes the
// resource as it is if it exists.
func (c *Change) Word() (evidence.Statement, *Resource) {
	s := evidence.Statement{Kind: evidence.Updated, From: c.From, To: c.To, Last: c.Last, Torn: c.Torn, Denied: c.Denied}
	switch {
	case c.Torn && c.Rival != nil:
		return s, c.Rival
	case c.Change == resourcesync.Created:
		s.Kind = evidence.Created
	case c.Change == resourcesync.Deleted:
		s.Kind = evidence.Deleted
	}
	return s, &c.Resource
}

// Against is Word beside the lastmod of the version held and of the one that is due. If that of a
// deletion is one of these, it is not its time, but that of the version that is gone. If that of an
// aged change is the one held, the resource came by it: nothing says that it is gone since.
func (c *Change) Against(held, due resourcesync.Datetime) (evidence.Statement, *Resource) {
	s, w := c.Word()
	switch {
	case c.aged && overlap(c.LastMod, held):
		s.Torn, s.Denied, s.To = false, false, c.Most
	case c.ByLastMod && (overlap(c.LastMod, held) || overlap(c.LastMod, due)):
		s.From, s.To = c.Least, c.Most
	}
	return s, w
}

// overlap reports whether two times are equal, or one is the other with less precision.
func overlap(a, b resourcesync.Datetime) bool {
	return a.Time().Before(b.End()) && b.Time().Before(a.End())
}
