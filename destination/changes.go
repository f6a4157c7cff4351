package destination

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"iter"
	"slices"
	"time"

	"instep/discover"
	"instep/resourcesync"
)

// changes is a Change List, read whole (1.1 §12). It is held in memory: the document
// limits bound it, and a set of any size has changes of this size only.
type changes struct {
	uri     string
	from    resourcesync.Datetime
	entries []change                 // in the order in which they happened
	latest  map[resourcesync.Key]int // the last entry of each URI
	prefix  map[int]string           // digests over the first n entries, for the n asked for and for all
	untimed bool                     // some entry has no time of its own
	least   time.Time                // no entry still to be read, in forward order, can have happened before
	flaw    error                    // some entry cannot be used: any resource may have changed since
	sorted  bool                     // entries had to be put in order: positions mean nothing
}

// change is one entry of a Change List. Changed is its datetime; without one the
// earliest moment at which it can have happened: that of the entry before it, or of
// the run that had not seen it yet.
type change struct {
	Wanted
	change resourcesync.Change
}

// readChanges reads the Change List of a set; nil if none is offered or it cannot be
// followed, which leaves the baseline.
func (d *Destination) readChanges(ctx context.Context, set discover.Set, cur Cursor) (*changes, error) {
	if len(set.ChangeLists) == 0 {
		return nil, nil
	}
	if len(set.ChangeLists) > 1 {
		d.note(set.URI, "several Change Lists are offered; following them is not supported, so the Resource List is used")
		return nil, nil
	}
	doc, err := d.read(ctx, set.ChangeLists[0], resourcesync.CapabilityChangeList)
	if err != nil {
		return nil, err
	}
	defer doc.close()
	if doc.header.Root == resourcesync.SitemapIndex {
		d.note(set.URI, doc.uri+": is a Change List Index; following it is not supported, so the Resource List is used")
		return nil, nil
	}
	ch := &changes{uri: doc.uri, flaw: doc.flaw(), from: doc.header.From, least: doc.header.From.Time(), latest: map[resourcesync.Key]int{}, prefix: map[int]string{}}
	sum := sha256.New()
	for e, err := range doc.entries() {
		if err != nil {
			return nil, err
		}
		if len(ch.entries) == cur.Applied {
			ch.prefix[cur.Applied] = hexSum(sum)
			if ch.continues(cur) && cur.At.After(ch.least) {
				ch.least = cur.At
			}
		}
		c, ok := ch.entry(&e)
		if !ok {
			d.note(set.URI, fmt.Sprintf("%s line %d: %s: no usable change, so the entry is ignored", doc.uri, e.Line, e.Loc))
		}
		// An entry without a usable change still counts: positions are those of the document.
		writeEntry(sum, &e)
		ch.entries = append(ch.entries, c)
	}
	ch.prefix[len(ch.entries)] = hexSum(sum)
	if !ch.order(func(text string) { d.note(set.URI, doc.uri+": "+text) }) {
		return nil, nil
	}
	for i, c := range ch.entries {
		if c.change != "" {
			ch.latest[resourcesync.KeyOf(c.URI)] = i
		}
	}
	return ch, nil
}

func hexSum(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)) }

// writeEntry adds what an entry says to a running digest.
func writeEntry(h hash.Hash, e *resourcesync.Entry) {
	fmt.Fprintf(h, "%q %q %q %q %q %d\n", e.Loc, e.LastMod, e.Change, e.Datetime, e.Digests, e.Length.Int64())
}

// entry interprets one entry: its time is datetime, else lastmod (1.0), else no
// earlier than what stands before it.
func (ch *changes) entry(e *resourcesync.Entry) (_ change, ok bool) {
	when := e.Datetime
	if when.IsZero() && e.Change != resourcesync.Deleted {
		when = e.LastMod
	}
	if when.IsZero() {
		ch.untimed = true
	}
	c := change{Wanted: wanted(e, when.Time()), change: e.Change}
	if when.IsZero() {
		c.Changed = ch.least
	}
	if c.Changed.After(ch.least) {
		ch.least = c.Changed
	}
	switch e.Change {
	case resourcesync.Created, resourcesync.Updated, resourcesync.Deleted:
		return c, true
	}
	c.change = ""
	return c, false
}

// order puts the entries in the order in which they happened; false if that is
// unknown. A Change List is in forward order (1.1 §12.1); some Sources write the
// newest first, or group by kind.
func (ch *changes) order(note func(string)) bool {
	earlier := func(a, b change) int { return a.Changed.Compare(b.Changed) }
	switch {
	case slices.IsSortedFunc(ch.entries, earlier):
		return true
	case ch.untimed:
		note("changes without datetime among others that are not in order; the Resource List is used")
		return false
	case slices.IsSortedFunc(ch.entries, func(a, b change) int { return earlier(b, a) }):
		note("newest change first; read backwards")
		slices.Reverse(ch.entries)
	default:
		note("changes are not in the order of their datetime; sorted")
		slices.SortStableFunc(ch.entries, earlier)
	}
	ch.sorted = true
	return true
}

// placed reports whether each entry is known to come before or after the moment t.
func (ch *changes) placed(t time.Time) bool {
	return !ch.untimed || !ch.from.Time().Before(t)
}

// continues reports whether the first cur.Applied entries are those that the cursor
// has applied, so that the rest follows without a gap.
func (ch *changes) continues(cur Cursor) bool {
	return !ch.sorted && cur.List == ch.uri && cur.From == ch.from.String() &&
		cur.Applied <= len(ch.entries) && ch.prefix[cur.Applied] == cur.Prefix
}

// cursor is c moved to the end of the list.
func (ch *changes) cursor(c Cursor) Cursor {
	if n := len(ch.entries); n > 0 && ch.entries[n-1].Changed.After(c.At) {
		c.At = ch.entries[n-1].Changed
	}
	if ch.sorted { // read it whole again next time: applying twice is harmless
		c.List, c.From, c.Applied, c.Prefix = "", "", 0, ""
		return c
	}
	c.List, c.From, c.Applied = ch.uri, ch.from.String(), len(ch.entries)
	c.Prefix = ch.prefix[c.Applied]
	return c
}

// last returns the last entry of a URI, or nil.
func (ch *changes) last(key resourcesync.Key) *change {
	i, ok := ch.latest[key]
	if !ok {
		return nil
	}
	return &ch.entries[i]
}

// after yields the last state of each URI among the entries from position start on.
func (ch *changes) after(start int) iter.Seq[*change] {
	return func(yield func(*change) bool) {
		for i := start; i < len(ch.entries); i++ {
			c := &ch.entries[i]
			if c.change == "" || ch.latest[resourcesync.KeyOf(c.URI)] != i {
				continue
			}
			if !yield(c) {
				return
			}
		}
	}
}

// present yields the resources that exist according to changes at or after since.
func (ch *changes) present(since time.Time) iter.Seq[Wanted] {
	return func(yield func(Wanted) bool) {
		for c := range ch.after(0) {
			if c.change != resourcesync.Deleted && !c.Changed.Before(since) && !yield(c.Wanted) {
				return
			}
		}
	}
}
