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

// This file determines the time and the order of the changes in a list.

// entry interprets one entry. Its time is its datetime, else its lastmod (1.0), else
// unknown. A lastmod counts as the time of the change only if it lies in the period of
// the list. An earlier one belongs to the bytes: a moved or copied file often keeps its
// lastmod, and the lastmod of a deletion may be that of the deleted version.
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
	// the lastmod would place the deletion before the known position
	unplaced := false
	from, until := l.placed(l.from.Time()), l.placed(l.until.Time())
	if until.Before(from) { // a clock went back between the two times
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
	case !told.Complete(): // the time is only a day or a month: the exact time is unknown
		c.To = earliest(told.End(), until, l.served)
	}
	if c.Change == "" && e.Path != "" { // the entry has bytes, so the resource exists
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

// earliest returns the earliest of t and those other times that are not zero.
func earliest(t time.Time, others ...time.Time) time.Time {
	for _, o := range others {
		if !o.IsZero() && o.Before(t) {
			t = o
		}
	}
	return t
}

// follow marks a change that comes after the entries that were read before. It does not
// mark a change dated between the last applied change and the position: such a change
// may have happened earlier, because the position may have been found in an outdated
// copy.
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

// ordering describes the order of a list's entries, as far as their times show it.
type ordering struct {
	anchors  int       // number of entries of certain time, which give bounds to the others; see anchor
	loose    int       // the number of entries that are not anchors
	at       time.Time // time of the last anchor
	of       string    // URI of the last anchor
	up, down bool      // some anchor is later (up) or earlier (down) than the anchor before it
	several  bool      // the anchors belong to more than one resource
	back     [2]string // the resources of the first two neighbouring anchors that go back in time
	mixed    bool      // the list is neither in forward nor in backward order
	backward bool      // the list has the newest entry first
	straight [2]bool   // for each resource of back: without its entries the anchors are in forward order
	claims   *spool.Table[*claim]
}

// anchor reports whether the time of a change is certain enough to bound others.
func (c *ChangeEntry) anchor() bool { return c.Timed() && !c.ByLastMod }

// see updates the ordering with the next entry.
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

// order determines the order in which the entries happened. A Change List is in forward
// order (1.1 §12.1), but some Sources write the newest change first, or group changes
// by kind. The order matters only for a resource with several entries. Its entries are
// torn if times and positions disagree on whether the resource exists, and nothing else
// shows which of the two gives the list's order.
func (l *changeList) order(r *Reader, tell func(resourcesync.Quirk, string)) error {
	switch {
	case !l.down:
		return nil
	case !l.up && (l.anchors > 2 || l.loose == 0): // with only two anchors, the time of one may be wrong
		l.backward = true
		tell(resourcesync.QuirkOrder, "newest change first; read backwards")
	default:
		l.mixed = true
		tell(resourcesync.QuirkOrder, "changes are not in the order of their datetime; sorted")
	}
	return l.claim(r)
}

// claim summarises the entries of one resource, by time and by position.
type claim struct {
	URI     string
	Loose   bool         // some entry is not an anchor
	Latest  time.Time    // From of the entry with the latest time
	Gone    bool         // the last entry by position is a deletion
	Late    bool         // the entry with the latest time is a deletion
	Deleted bool         // some entry is a deletion
	Rival   *spool.Place // place in Reader.rivals of the latest entry by which the resource exists; may be nil
	At      time.Time    // From of the entry in Rival
	Several bool         // more than one entry says that the resource exists
	Stray   *spool.Place // place in Reader.rivals of the last such entry without a known time; may be nil
	Until   time.Time    // To of the entry in Stray
}

func (c *claim) key() string { return c.URI }

// claim summarises the entries of each resource in claims.
func (l *changeList) claim(r *Reader) error {
	l.claims = spool.NewTable(r.Spool, r.held(), (*claim).key)
	r.spools = append(r.spools, l.claims)
	r.keepRivals()
	var last [2]time.Time // time of the last anchor, not counting the resource at the same index of back
	l.straight = [2]bool{true, true}
	for e, err := range l.entries.All() {
		if err != nil {
			return err
		}
		c := &e.Entry
		c.setUntil(l.served, r.Now())
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

// add updates the claim with the next entry of its resource. It writes the description
// to rivals once, so that claims stay small.
func (c *claim) add(e *ChangeEntry, rivals *spool.Log[Resource]) error {
	gone := e.Change == resourcesync.Deleted
	if c.URI == "" || !e.From.Before(c.Latest) {
		c.Latest, c.Late = e.From, gone
	}
	c.URI, c.Gone = e.URI, gone
	c.Deleted, c.Loose = c.Deleted || gone, c.Loose || !e.anchor()
	latest := c.Rival == nil || !e.From.Before(c.At)
	if gone || !latest && e.Timed() {
		c.Several = c.Several || !gone
		return nil
	}
	at, err := rivals.AppendAt(e.Resource)
	if err != nil {
		return err
	}
	c.Several = c.Several || c.Rival != nil
	if latest {
		c.Rival, c.At = &at, e.From
	}
	if !e.Timed() {
		c.Stray, c.Until = &at, e.To
	}
	return nil
}

// torn marks an entry as contradictory if the last entry of its resource by time and
// the last by position disagree, unless the anchors of other resources show that the
// list is not in forward order, because then times give the order. In a list in backward
// order the anchors of any other resource show that.
func (l *changeList) torn(s *storedChange, rivals *spool.Log[Resource]) error {
	if l.claims == nil {
		return nil
	}
	e := &s.Entry
	c, _, err := l.claims.Get(e.URI)
	switch {
	case err != nil || c.Rival == nil:
		return err
	case !c.Deleted:
		return l.versions(s, c, rivals)
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

// versions marks the entry of a resource without deletions as torn, if another entry
// describes other bytes and nothing shows which of them is later.
func (l *changeList) versions(s *storedChange, c *claim, rivals *spool.Log[Resource]) error {
	e := &s.Entry
	other, least, until := c.Rival, c.At, e.To
	if e.Timed() {
		other, least, until = c.Stray, e.From, c.Until
	}
	if !l.mixed || !c.Several || other == nil || !until.IsZero() && until.Before(least) {
		return nil
	}
	rival, err := rivals.At(*other)
	if err == nil && rival.Beside(e.Length, e.Digests) != evidence.Same {
		e.Torn, s.Rival = true, other
	}
	return err
}

// bounded yields the entries. In an ordered list it narrows the time of an entry
// without a known time: the change happened after the anchor before it and before the
// anchor after it.
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
				after, err, _ = next() // the zero place after the last anchor
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

// place is the number of an entry, counted from 1, with its time.
type place struct {
	n        int
	from, to time.Time
}

// anchorsOf yields the number and the time of each anchor.
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

// bound narrows the unknown time of a change: it happened after low, and before high
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

// forgetTime stops using the lastmod of a deletion as its time, because it is the
// lastmod of the deleted version.
func (c *ChangeEntry) forgetTime() {
	c.From, c.To, c.ByLastMod = c.Least, c.Most, false
}

// setUntil sets Until to the latest possible time of a change without a known time.
func (c *ChangeEntry) setUntil(served, now time.Time) {
	if !c.Timed() {
		c.Until = cmp.Or(c.To, served, now)
	}
}

// Word returns the change as a statement about a resource. For a torn change it returns
// the description that is valid if the resource exists.
func (c *Change) Word() (evidence.Statement, *Resource) {
	s := evidence.Statement{Kind: evidence.Updated, From: c.From, To: c.To, Last: c.Last, Torn: c.Torn, Denied: c.Denied}
	switch {
	case c.Torn && c.Denied && c.Rival != nil:
		return s, c.Rival
	case c.Change == resourcesync.Created:
		s.Kind = evidence.Created
	case c.Change == resourcesync.Deleted:
		s.Kind = evidence.Deleted
	}
	return s, &c.Resource
}

// Or returns the description that is as likely as the one that Word returns, if nothing
// shows which of the two is later. It returns nil if there is none.
func (c *Change) Or() *Resource {
	switch {
	case !c.Torn || c.Rival == nil || c.Change == resourcesync.Deleted, c.Rival.Beside(c.Length, c.Digests) == evidence.Same:
		return nil
	case c.Denied:
		return &c.Resource
	}
	return c.Rival
}

// Against returns the same as Word, except in two cases. If the lastmod of a deletion
// is that of the held version or of the due version, it is the lastmod of the deleted
// version and not the time of the deletion. If the lastmod of an aged change is that of
// the held version, the change brought that version, and nothing shows that the
// resource was deleted later.
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

// overlap reports whether two times are equal, possibly with different precision.
func overlap(a, b resourcesync.Datetime) bool {
	return a.Time().Before(b.End()) && b.Time().Before(a.End())
}
