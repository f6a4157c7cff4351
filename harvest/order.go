package harvest

import (
	"slices"
	"time"

	"instep/evidence"
	"instep/resourcesync"
)

// This file finds out when the changes of a list happened, and in which order.

// entry interprets one entry. Its time is datetime, else lastmod (1.0), else unknown. A
// lastmod counts if it is in the period of the list; an earlier one is the time of the
// bytes: a file that is moved or copied often keeps its own, and that of a deletion may be
// the one of the deleted version.
func (l *changeList) entry(e *resourcesync.Entry) (_ Change, ok bool) {
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
	c := Change{Resource: wanted(e, when), Change: e.Change, byLastMod: byLastMod, ofBytes: ofBytes}
	c.Told, c.from, c.To, c.least, c.most = true, when, when, from, until
	switch {
	case when.IsZero():
		c.from, c.To = c.least, c.most
		c.Changed = c.from
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
	c.when = c.Changed
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
func (l *changeList) follow(c *Change) {
	k := l.known
	if !k.yes {
		return
	}
	early := c.Changed.Before(evidence.Later(k.last, l.placed(l.from.Time())))
	if c.last = early || !c.Timed() || !c.Changed.Before(k.at); !c.last {
		return
	}
	if early && c.Timed() {
		l.odd[oddEarly]++
	}
	c.Changed = evidence.Later(c.Changed, k.at)
}

// order sorts the entries by the time of the changes. A Change List is in forward order
// (1.1 §12.1); some Sources write the newest first, or group by kind. Order matters only
// for a resource with several entries: if by times it exists and by positions it does not,
// and nothing else shows the order of the list, the entries are torn.
func (l *changeList) order(tell func(resourcesync.Quirk, string)) {
	var timed []int // the entries of known time
	for i := range l.entries {
		if c := &l.entries[i]; c.Timed() && !c.byLastMod {
			timed = append(timed, i)
		}
	}
	earlier := func(i, j int) int { return l.entries[i].from.Compare(l.entries[j].from) }
	switch {
	case slices.IsSortedFunc(timed, earlier):
	case (len(timed) > 2 || len(timed) == len(l.entries)) && slices.IsSortedFunc(timed, func(i, j int) int { return earlier(j, i) }): // of two, one may be wrong
		tell(resourcesync.QuirkOrder, "newest change first; read backwards")
		l.tear(timed, true)
		slices.Reverse(l.entries)
	default:
		tell(resourcesync.QuirkOrder, "changes are not in the order of their datetime; sorted")
		l.tear(timed, false)
		slices.SortStableFunc(l.entries, func(a, b Change) int { return a.when.Compare(b.when) })
		return
	}
	l.bound()
}

// tear marks the entries of the resources of which the last by time and the last by
// position say different things, unless the other timed entries show that the list is not in
// forward order: then times tell the order.
func (l *changeList) tear(timed []int, backward bool) {
	of := map[resourcesync.Key][]int{}
	for i := range l.entries {
		key := resourcesync.KeyOf(l.entries[i].URI)
		of[key] = append(of[key], i)
	}
	var back [2]resourcesync.Key // resources of the first step back: without one of them the others would be out of order
	for n := 1; n < len(timed); n++ {
		if a, b := &l.entries[timed[n-1]], &l.entries[timed[n]]; b.from.Before(a.from) {
			back = [2]resourcesync.Key{resourcesync.KeyOf(a.URI), resourcesync.KeyOf(b.URI)}
			break
		}
	}
	for key, all := range of {
		byTime, untimed := all[0], false
		for _, i := range all {
			c := &l.entries[i]
			untimed = untimed || !c.Timed() || c.byLastMod
			if !c.from.Before(l.entries[byTime].from) {
				byTime = i
			}
		}
		gone := func(i int) bool { return l.entries[i].Change == resourcesync.Deleted }
		differ := gone(all[len(all)-1]) != gone(byTime) && (key == back[0] || key == back[1])
		if untimed && !backward || (untimed || differ) && l.ordered(timed, all, backward) {
			l.mark(all)
		}
	}
}

// ordered reports whether the timed entries are in forward order but for some. Both ascend.
// Any other entry shows a list in backward order.
func (l *changeList) ordered(timed, without []int, backward bool) bool {
	if backward {
		return !slices.ContainsFunc(timed, func(i int) bool {
			_, own := slices.BinarySearch(without, i)
			return !own
		})
	}
	last := time.Time{}
	for _, i := range timed {
		for len(without) > 0 && without[0] < i {
			without = without[1:]
		}
		if len(without) > 0 && without[0] == i {
			continue
		}
		if l.entries[i].from.Before(last) {
			return false
		}
		last = l.entries[i].from
	}
	return true
}

// mark makes the entries of one resource torn, if they say different things.
func (l *changeList) mark(all []int) {
	var rival *Change
	deleted := false
	for _, i := range all {
		switch c := &l.entries[i]; {
		case c.Change == resourcesync.Deleted:
			deleted = true
		case rival == nil || !c.from.Before(rival.from):
			rival = c
		}
	}
	if !deleted || rival == nil {
		return
	}
	own := rival.Resource
	for _, i := range all {
		l.entries[i].torn, l.entries[i].denied, l.entries[i].rival = true, true, &own
	}
}

// bound gives the entries without a time bounds, in a list that is in order: they happened
// after the entry before them, and before the one after them.
func (l *changeList) bound() {
	low := time.Time{}
	for i := range l.entries {
		c := &l.entries[i]
		if c.byLastMod && c.when.Before(low) {
			c.forgetTime()
		}
		if c.Timed() {
			if !c.byLastMod { // it may be that of the deleted version
				low = evidence.Later(low, c.from)
			}
			continue
		}
		c.from = evidence.Later(c.from, low)
		c.Changed, c.when = evidence.Later(c.Changed, c.from), evidence.Later(c.when, c.from)
	}
	high := time.Time{}
	for i := len(l.entries) - 1; i >= 0; i-- {
		c := &l.entries[i]
		if c.byLastMod && !high.IsZero() && high.Before(c.from) {
			c.forgetTime()
		}
		switch {
		case c.Timed():
			if !c.byLastMod { // likewise
				high = c.To
			}
		case !high.IsZero() && !high.Before(c.from):
			c.To = earliest(high, c.To)
		}
	}
}

// forgetTime takes the lastmod of a deletion for that of the deleted version.
func (c *Change) forgetTime() {
	c.from, c.To, c.byLastMod = c.least, c.most, false
}

// Word converts a change into a statement about a resource; a torn one describes the
// resource as it is if it exists.
func (c *Change) Word() (evidence.Statement, *Resource) {
	s := evidence.Statement{Kind: evidence.Updated, From: c.from, To: c.To, Last: c.last, Torn: c.torn, Denied: c.denied}
	switch {
	case c.torn && c.rival != nil:
		return s, c.rival
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
		s.Torn, s.Denied, s.To = false, false, c.most
	case c.byLastMod && (overlap(c.LastMod, held) || overlap(c.LastMod, due)):
		s.From, s.To = c.least, c.most
	}
	return s, w
}

// overlap reports whether two times are equal, or one is the other with less precision.
func overlap(a, b resourcesync.Datetime) bool {
	return a.Time().Before(b.End()) && b.Time().Before(a.End())
}
