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

// entry returns the change that an entry states. If the entry has no datetime, the time
// of the change is the lastmod (as in ResourceSync 1.0). But if the lastmod is before
// the period of the list, the time is unknown: a moved or copied file often keeps its
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
	// whether the lastmod of a deletion is before the time up to which earlier runs read
	unplaced := false
	from, until := l.placed(l.from.Time()), l.placed(l.until.Latest())
	if until.Before(from) { // the Source's clock was set back, so "until" is ignored
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
	case !told.Complete(): // the datetime is only a day or a month, so the exact time is unknown
		c.To = earliest(told.End(), until, l.served)
	}
	if c.Change == "" && e.Path != "" { // the entry does not state a change, but has bytes in the package, so the resource exists
		l.odd[oddKind]++
		c.Change = resourcesync.Updated
	}
	if !unplaced {
		l.setLast(&c)
	}
	switch c.Change {
	case resourcesync.Created, resourcesync.Updated, resourcesync.Deleted:
		return c, true
	}
	c.Change = ""
	return c, false
}

// earliest returns the earliest of the times. It ignores zero times among the others.
func earliest(t time.Time, others ...time.Time) time.Time {
	for _, o := range others {
		if !o.IsZero() && o.Before(t) {
			t = o
		}
	}
	return t
}

// setLast sets Last for a change that is later than all changes that earlier runs read.
// It does not set Last for a change that is dated before the time up to which these
// runs read but after the last change that they read: they may have read an outdated
// copy of the list, so the change may be older.
func (l *changeList) setLast(c *ChangeEntry) {
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

// ordering describes the order of the entries of a list. An anchor is an entry whose
// time is certain.
type ordering struct {
	anchors  int       // number of anchors (entries whose time is certain)
	loose    int       // number of entries whose time is not certain
	at       time.Time // time of the last entry whose time is certain
	of       string    // URI of the last entry whose time is certain
	up, down bool      // whether an anchor has a later (up) or earlier (down) time than the anchor before it
	several  bool      // the anchors (entries whose time is certain) belong to several resources
	back     [2]string // URIs of the first two consecutive anchors of which the second has an earlier time
	mixed    bool      // the list is neither in forward nor in backward order
	backward bool      // the list begins with its newest entry
	straight [2]bool   // for each of the two resources in back: whether the times of the anchors ascend without its anchors
	claims   *spool.Table[*claim]
}

// anchor reports whether the time of a change is certain, so that it limits the
// possible times of the entries before and after it.
func (c *ChangeEntry) anchor() bool { return c.Timed() && !c.ByLastMod }

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

// order determines in which order the changes of the list happened. A Change List
// should have the oldest change first (1.1 §12.1), but some Sources write the newest
// first, or group changes by kind. If, for one resource, the last entry in the list and
// the last entry by time disagree on whether it exists, and nothing shows which is
// right, its entries are marked as contradictory (Torn).
func (l *changeList) order(r *Reader, tell func(resourcesync.Quirk, string)) error {
	switch {
	case !l.down:
		return nil
	case !l.up && (l.anchors > 2 || l.loose == 0): // two certain times alone do not prove the order of the other entries, because one of the two may be wrong
		l.backward = true
		tell(resourcesync.QuirkOrder, "newest change first; read backwards")
	default:
		l.mixed = true
		tell(resourcesync.QuirkOrder, "changes are not in the order of their datetime; sorted")
	}
	return l.claim(r)
}

// claim summarises the entries of one resource: which one is the last by time, and
// which one is the last in the list.
type claim struct {
	URI     string
	Loose   bool         // the time of some entry of the resource is not certain
	Latest  time.Time    // latest ChangeEntry.From of the entries of the resource
	Gone    bool         // the last entry of the resource in the list is a deletion
	Late    bool         // the entry of the resource with the latest time is a deletion
	Deleted bool         // some entry of the resource is a deletion
	Rival   *spool.Place // position in Reader.rivals of the latest entry that is not a deletion; nil if there is none
	At      time.Time    // ChangeEntry.From of the entry in Rival
	Several bool         // the resource has several entries that are not deletions
	Strays  []stray      // the last entry of unknown time that is not a deletion, and the last one before it with other bytes
}

// stray is an entry of unknown time.
type stray struct {
	Place spool.Place // position in Reader.rivals
	Until time.Time   // ChangeEntry.To of the entry
}

func (c *claim) key() string { return c.URI }

func (l *changeList) claim(r *Reader) error {
	l.claims = spool.NewTable(r.Spool, r.held(), (*claim).key)
	r.spools = append(r.spools, l.claims)
	r.keepRivals()
	var last [2]time.Time // for each of the two resources in back: time of the previous anchor, without its anchors
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

// add adds an entry to the claim. It stores descriptions in the file rivals, so that
// the claim needs little memory.
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
		return c.addStray(stray{at, e.To}, &e.Resource, rivals)
	}
	return nil
}

func (c *claim) addStray(s stray, w *Resource, rivals *spool.Log[Resource]) error {
	if len(c.Strays) == 0 {
		c.Strays = []stray{s}
		return nil
	}
	last, err := rivals.At(c.Strays[0].Place)
	if err == nil && w.Beside(last.Length, last.Digests) != evidence.Same {
		c.Strays = []stray{s, c.Strays[0]}
	}
	c.Strays[0] = s
	return err
}

// markTorn marks an entry as contradictory (Torn) if the last entry of its resource in
// the list and the last entry by time disagree on whether the resource exists. If the
// entries of other resources show that the list does not begin with the oldest change,
// the times decide, and no entry is marked.
func (l *changeList) markTorn(s *storedChange, rivals *spool.Log[Resource]) error {
	if l.claims == nil {
		return nil
	}
	e := &s.Entry
	c, _, err := l.claims.Get(e.URI)
	switch {
	case err != nil || c.Rival == nil:
		return err
	case !c.Deleted:
		return l.markVersions(s, c, rivals)
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

// markVersions is called for a resource that the list never deletes. It marks an entry
// as contradictory (Torn) if another entry describes other bytes of the resource and
// nothing shows which is later.
func (l *changeList) markVersions(s *storedChange, c *claim, rivals *spool.Log[Resource]) error {
	e := &s.Entry
	if !l.mixed || !c.Several {
		return nil
	}
	var others []spool.Place
	if !e.Timed() && (e.To.IsZero() || !e.To.Before(c.At)) {
		others = append(others, *c.Rival)
	}
	for _, other := range c.Strays {
		if !e.Timed() || other.Until.IsZero() || !other.Until.Before(e.From) {
			others = append(others, other.Place)
		}
	}
	for _, at := range others {
		rival, err := rivals.At(at)
		if err != nil {
			return err
		}
		if rival.Beside(e.Length, e.Digests) != evidence.Same {
			e.Torn, s.Rival = true, &at
			return nil
		}
	}
	return nil
}

// bounded yields the changes. If the list is in order, it limits each unknown time by
// the nearest certain times before and after it in the list.
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
				after, err, _ = next() // the next entry with a certain time; zero if there is none
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

// place is the number of an entry in its list, counted from 1, and its earliest and
// latest possible time.
type place struct {
	n        int
	from, to time.Time
}

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

// bound limits the unknown time of a change: it happened after low and, unless high is
// zero, before high.
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

// forgetTime makes the time of a deletion unknown, because its lastmod turned out to be
// that of the deleted version.
func (c *ChangeEntry) forgetTime() {
	c.From, c.To, c.ByLastMod = c.Least, c.Most, false
}

func (c *ChangeEntry) setUntil(served, now time.Time) {
	if !c.Timed() {
		c.Until = cmp.Or(c.To, served, now)
	}
}

// Word returns what the change says about its resource, and a description of the
// resource. If the change is contradictory (Torn), the description is valid only if the
// resource exists.
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

// Or returns a second description of the resource if it may be later than the
// description that Word returns; else nil.
func (c *Change) Or() *Resource {
	switch {
	case !c.Torn || c.Rival == nil || c.Change == resourcesync.Deleted, c.Rival.Beside(c.Length, c.Digests) == evidence.Same:
		return nil
	case c.Denied:
		return &c.Resource
	}
	return c.Rival
}

// Against is like Word, for a caller that holds a version with the lastmod held, and still
// has to fetch a version with the lastmod due. In two cases the results differ:
//   - The lastmod of a deletion equals held or due. Then it is the lastmod of the deleted
//     version, so the statement has no certain time.
//   - A change is contradictory (Torn) only because newer lists do not contain the resource,
//     and the lastmod of the change equals held. Then the change created the held version,
//     and nothing shows a later deletion, so the statement is not Torn.
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

// overlap reports whether two times can be the same moment, because one of them may be
// only a day or a month.
func overlap(a, b resourcesync.Datetime) bool {
	return a.Time().Before(b.End()) && b.Time().Before(a.End())
}
