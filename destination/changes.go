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
	entries []change                 // in the order in which they happened; those after what the cursor has applied, if it can go on
	latest  map[resourcesync.Key]int // the last entry of each URI
	resumed bool                     // the document begins with exactly what the cursor has applied
	total   int                      // entries of the document
	prefix  string                   // digest over all of them
	untimed bool                     // some entry has no time of its own
	known   time.Time                // the moment up to which the cursor has applied everything, if resumed
	least   time.Time                // no entry still to be read, in forward order, can have happened before
	flaw    error                    // some entry cannot be used: any resource may have changed since
	slid    bool                     // the list has lost entries since it was last read, and nothing reaches back to the cursor
	strange struct {
		other int // entries without datetime
		early int // entries dated before those that were applied earlier
	}
}

// change is one entry of a Change List. Changed is its datetime; without one the
// earliest moment at which it can have happened: that of the entry before it, or of
// the run that had not seen it yet.
type change struct {
	Wanted
	change resourcesync.Change
	news   bool // the first thing said of its URI since the cursor
}

// readChanges reads the Change List of a set, from where the cursor stands if it can;
// nil if none is offered or it cannot be followed, which leaves the baseline.
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
	if quirk, what := manyDocuments(doc); what != "" {
		d.quirk(quirk, set.URI, fmt.Sprintf("%s: %s; following it is not supported, so the Resource List is used", doc.uri, what))
		return nil, nil
	}
	tell := func(q resourcesync.Quirk, text string) { d.quirk(q, set.URI, doc.uri+": "+text) }
	ch := &changes{uri: doc.uri, flaw: doc.flaw(), from: doc.header.From, least: doc.header.From.Time(), latest: map[resourcesync.Key]int{}}
	if err := ch.read(doc, cur, tell); err != nil {
		return nil, err
	}
	if !ch.order(tell) {
		return nil, nil
	}
	ch.slid = ch.lost(cur)
	for i := range ch.entries {
		if c := &ch.entries[i]; c.change != "" {
			key := resourcesync.KeyOf(c.URI)
			_, again := ch.latest[key]
			c.news = !again && (ch.resumed || c.Changed.After(cur.At))
			ch.latest[key] = i
		}
	}
	return ch, nil
}

// manyDocuments says what a Change List is that consists of more than one document.
func manyDocuments(doc *document) (resourcesync.Quirk, string) {
	switch {
	case doc.header.Root == resourcesync.SitemapIndex:
		return 0, "is a Change List Index"
	case doc.lists:
		return resourcesync.QuirkNested, "lists Change Lists as an index does"
	case doc.header.Link(relNext) != "" || doc.header.Link(relPrev) != "":
		return resourcesync.QuirkPages, "is one page of a Change List"
	}
	return 0, ""
}

// read takes the entries of a document that come after what the cursor has applied,
// or all of them if it does not begin with that.
func (ch *changes) read(doc *document, cur Cursor, tell func(resourcesync.Quirk, string)) error {
	sum := sha256.New()
	for e, err := range doc.entries() {
		if err != nil {
			return err
		}
		ch.resume(cur, sum)
		c, ok := ch.entry(&e)
		if !ok {
			tell(0, fmt.Sprintf("line %d: %s: no usable change, so the entry is ignored", e.Line, e.Loc))
		}
		// An entry without a usable change still counts: positions are those of the document.
		writeEntry(sum, &e)
		ch.entries = append(ch.entries, c)
		ch.total++
	}
	ch.resume(cur, sum)
	ch.prefix = hexSum(sum)
	if n := ch.strange.other; n > 0 {
		tell(resourcesync.QuirkChangeTime, fmt.Sprintf("%d changes have no datetime; taken from lastmod, or else from what stands before them", n))
	}
	if n := ch.strange.early; n > 0 {
		tell(resourcesync.QuirkClock, fmt.Sprintf("%d changes are dated before others that were listed earlier; taken as the later ones", n))
	}
	return nil
}

// resume forgets the entries read so far if they are those that the cursor has
// applied. What follows happened after them, whatever its time says: a clock can be
// wrong, a position can't.
func (ch *changes) resume(cur Cursor, sum hash.Hash) {
	if ch.total != cur.Applied || cur.List != ch.uri || cur.From != ch.from.String() || cur.Prefix != hexSum(sum) {
		return
	}
	ch.resumed, ch.entries, ch.untimed, ch.strange.other = true, nil, false, 0
	if cur.At.After(ch.least) {
		ch.least = cur.At
	}
	ch.known = cur.At
}

func hexSum(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)) }

// writeEntry adds what an entry says to a running digest.
func writeEntry(h hash.Hash, e *resourcesync.Entry) {
	fmt.Fprintf(h, "%q %q %q %q %q %d\n", e.Loc, e.LastMod, e.Change, e.Datetime, e.Digests, e.Length.Int64())
}

// entry interprets one entry. Its time is datetime, else lastmod (1.0), else no
// earlier than what stands before it. The lastmod of what is deleted tells nothing:
// it may be that of the version that is gone.
func (ch *changes) entry(e *resourcesync.Entry) (_ change, ok bool) {
	when := e.Datetime
	if when.IsZero() {
		ch.strange.other++
		if when = e.At; when.IsZero() && e.Change != resourcesync.Deleted {
			when = e.LastMod
		}
	}
	c := change{Wanted: wanted(e, when.Time()), change: e.Change}
	switch {
	case when.IsZero():
		ch.untimed = true
		c.Changed = ch.least
	case c.Changed.Before(ch.known) && e.Change != resourcesync.Deleted: // a deletion in doubt stays one
		ch.strange.early++
		c.Changed = ch.known
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
func (ch *changes) order(tell func(resourcesync.Quirk, string)) bool {
	earlier := func(a, b change) int { return a.Changed.Compare(b.Changed) }
	switch {
	case slices.IsSortedFunc(ch.entries, earlier):
	case ch.untimed:
		tell(resourcesync.QuirkOrder, "changes without datetime among others that are not in order; the Resource List is used")
		return false
	case slices.IsSortedFunc(ch.entries, func(a, b change) int { return earlier(b, a) }):
		tell(resourcesync.QuirkOrder, "newest change first; read backwards")
		slices.Reverse(ch.entries)
	default:
		tell(resourcesync.QuirkOrder, "changes are not in the order of their datetime; sorted")
		slices.SortStableFunc(ch.entries, earlier)
	}
	return true
}

// lost reports whether a list that was followed before has dropped what the cursor
// has applied, as one that keeps only the newest changes does, although its from has
// not moved: changes between the two may have come and gone.
func (ch *changes) lost(cur Cursor) bool {
	if ch.resumed || cur.Applied == 0 || cur.List != ch.uri || cur.From != ch.from.String() {
		return false
	}
	return len(ch.entries) == 0 || ch.entries[0].Changed.After(cur.At)
}

// placed reports whether each entry is known to come before or after the moment t.
func (ch *changes) placed(t time.Time) bool {
	return !ch.untimed || !ch.from.Time().Before(t)
}

// cursor is c moved to the end of the list.
func (ch *changes) cursor(c Cursor) Cursor {
	if n := len(ch.entries); n > 0 && ch.entries[n-1].Changed.After(c.At) {
		c.At = ch.entries[n-1].Changed
	}
	c.List, c.From, c.Applied, c.Prefix = ch.uri, ch.from.String(), ch.total, ch.prefix
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

// states yields the last state of each URI.
func (ch *changes) states() iter.Seq[*change] {
	return func(yield func(*change) bool) {
		for i := range ch.entries {
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
		for c := range ch.states() {
			if c.change != resourcesync.Deleted && !c.Changed.Before(since) && !yield(c.Wanted) {
				return
			}
		}
	}
}
