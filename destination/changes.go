package destination

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"iter"
	"slices"
	"strconv"
	"time"

	"instep/resourcesync"
)

// changes is what the Change Lists of a set say since a moment (1.1 §12), or after
// what the cursor has applied. Only the last state of each resource is kept, and a run
// reads no further list once there are many (Destination.MaxChanges).
type changes struct {
	since    resourcesync.Datetime    // of the oldest list read: all changes from here on are in
	entries  []change                 // one of each URI, unless changes of it are unusable
	latest   map[resourcesync.Key]int // the entry of each URI
	resumed  bool                     // the first list begins with exactly what the cursor has applied
	slid     bool                     // the cursor's list has lost entries since it was last read, and nothing reaches back to the cursor
	back     string                   // how the cursor's list is an older one than it was; "" if it is not
	flaw     error                    // some entry cannot be used: any resource may have changed since
	rest     error                    // there are more lists than one run reads
	end      time.Time                // of the last change
	known    time.Time                // the moment up to which the cursor has applied everything, if it was found
	first    string                   // URI of the oldest list read
	at       *changeList              // the last one read, without its entries: where the cursor will stand
	index    string                   // what need not be asked while that list stays as it is: Cursor.Index
	asked    time.Time                // when that was read
	lists    int                      // read
	served   time.Time                // when the Source sent the last of them, by its own clock; zero if that is unknown
	untimed  bool                     // some entry has no time of its own
	doubtful time.Time                // if untimed: the earliest moment at which such a change can have happened
}

// changeList is one Change List, read whole. It is held in memory: the document
// limits bound it.
type changeList struct {
	uri     string
	from    resourcesync.Datetime
	until   resourcesync.Datetime // zero while the list is open
	entries []change              // in the order in which they happened; those after what the cursor has applied, if it can go on
	resumed bool                  // the document begins with exactly what the cursor has applied
	total   int                   // entries of the document
	end     time.Time             // the latest of them
	prefix  string                // digest over all of them
	untimed bool                  // some entry has no time of its own
	known   time.Time             // the moment up to which the cursor has applied everything, if it was found
	least   time.Time             // no entry still to be read, in forward order, can have happened before
	flaw    error                 // some entry cannot be used
	beat    beat                  // how often the list grows
	maxAge  time.Duration         // for so long it is told not to change
	served  time.Time             // when the Source says that it sent the document; zero if that is unknown or no use
	strange struct {
		other int // entries without datetime
		early int // entries dated before those that were applied earlier
		late  int // entries dated after the end of the list, or after it was sent
		made  int // bitstreams of a package without a change
	}
}

// change is one entry of a Change List. Changed is its datetime; without one the
// earliest moment at which it can have happened: that of the entry before it, or of
// the run that had not seen it yet.
type change struct {
	Wanted
	carrier
	change resourcesync.Change
	when   time.Time // Changed, or what the cursor has applied if that is later: the order in which changes count
	news   bool      // the first thing said of its URI since the cursor
}

// errUnordered means that nobody knows in which order the changes of a list happened.
var errUnordered = errors.New("has changes without datetime among others that are not in order")

// listOf reads the entries of a Change List, or of the manifest of a package, from
// where the cursor stands if it can. Its changes are later than known.
func (d *Destination) listOf(doc *document, w window, set string, cur Cursor, known time.Time) (*changeList, error) {
	tell := func(q resourcesync.Quirk, text string) { d.quirk(q, set, doc.uri+": "+text) }
	l := &changeList{uri: w.uri, from: doc.header.From, until: doc.header.Until, flaw: doc.flaw(), known: known, served: doc.clock(), maxAge: doc.maxAge}
	if l.from.IsZero() || w.parcel != nil && !w.from.IsZero() {
		l.from = w.from
	}
	if l.until.IsZero() || w.parcel != nil && !w.until.IsZero() {
		l.until = w.until
	}
	l.least = later(l.from.Time(), known)
	if err := l.read(doc, w.parcel, cur, tell); err != nil {
		return nil, err
	}
	if err := l.order(tell); err != nil {
		return nil, err
	}
	return l, nil
}

func newChanges() *changes { return &changes{latest: map[resourcesync.Key]int{}} }

// add lays a list over those that were read before it.
func (ch *changes) add(l *changeList, cur Cursor) {
	if ch.lists++; ch.lists == 1 {
		ch.since, ch.first, ch.resumed = l.from, l.uri, l.resumed
	}
	ch.slid = ch.slid || l.lost(cur)
	ch.served = later(ch.served, l.served)
	ch.known = l.known
	if ch.back == "" {
		ch.back = l.wentBack(cur)
	}
	if ch.flaw == nil {
		ch.flaw = l.flaw
	}
	if n := len(l.entries); n > 0 {
		ch.end = later(ch.end, l.entries[n-1].Changed)
	}
	if l.untimed && (!ch.untimed || l.from.Time().Before(ch.doubtful)) {
		ch.untimed, ch.doubtful = true, l.from.Time()
	}
	for i := range l.entries {
		ch.put(l.entries[i], cur)
	}
	l.entries, ch.at = nil, l
}

// put takes a change in place of an earlier one of the same resource.
func (ch *changes) put(c change, cur Cursor) {
	if c.change == "" {
		return
	}
	key := resourcesync.KeyOf(c.URI)
	i, again := ch.latest[key]
	switch {
	case !again:
		c.news = ch.resumed || c.Changed.After(cur.At)
		ch.latest[key] = len(ch.entries)
		ch.entries = append(ch.entries, c)
	case !c.when.Before(ch.entries[i].when): // lists may overlap
		ch.entries[i] = c
	}
}

// read takes the entries of a document that come after what the cursor has applied,
// or all of them if it does not begin with that.
func (l *changeList) read(doc *document, in *parcel, cur Cursor, tell func(resourcesync.Quirk, string)) error {
	sum := sha256.New()
	for e, err := range doc.entries() {
		if err != nil {
			return err
		}
		l.resume(cur, sum)
		c, ok := l.entry(&e)
		if !ok {
			tell(0, fmt.Sprintf("line %d: %s: no usable change, so the entry is ignored", e.Line, e.Loc))
		}
		c.carrier = in.carries(&e)
		// An entry without a usable change still counts: positions are those of the document.
		writeEntry(sum, &e)
		l.beat.add(c.Changed)
		l.end = later(l.end, c.Changed)
		l.entries = append(l.entries, c)
		l.total++
	}
	l.resume(cur, sum)
	l.prefix = hexSum(sum)
	if n := l.strange.other; n > 0 {
		tell(resourcesync.QuirkChangeTime, fmt.Sprintf("%d changes have no datetime; taken from lastmod, or else from what stands before them", n))
	}
	if n := l.strange.late; n > 0 {
		tell(resourcesync.QuirkClock, fmt.Sprintf("%d changes are dated after their list ended or was sent; taken as of that moment", n))
	}
	if n := l.strange.made; n > 0 {
		tell(resourcesync.QuirkNoChange, fmt.Sprintf("%d bitstreams do not say what kind of change brought them; taken as updates", n))
	}
	if n := l.strange.early; n > 0 {
		tell(resourcesync.QuirkClock, fmt.Sprintf("%d changes are dated before others that were listed earlier; taken as the later ones", n))
	}
	return nil
}

// resume forgets the entries read so far if they are those that the cursor has
// applied. What follows happened after them, whatever its time says: a clock can be
// wrong, a position can't.
func (l *changeList) resume(cur Cursor, sum hash.Hash) {
	if l.total != cur.Applied || cur.List != l.uri || cur.From != l.from.String() || cur.Prefix != hexSum(sum) {
		return
	}
	l.resumed, l.entries, l.untimed, l.strange.other = true, nil, false, 0
	l.least, l.known = later(l.least, cur.At), cur.At
}

func hexSum(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)) }

// writeEntry adds what an entry says to a running digest.
func writeEntry(h hash.Hash, e *resourcesync.Entry) {
	b := make([]byte, 0, 512)
	for _, s := range [...]string{e.Loc, e.LastMod.String(), string(e.Change), e.Datetime.String(), e.Digests.String()} {
		b = append(strconv.AppendQuote(b, s), ' ')
	}
	b = append(strconv.AppendInt(b, e.Length.Int64(), 10), '\n')
	_, _ = h.Write(b) // it never fails
}

// entry interprets one entry. Its time is datetime, else lastmod (1.0), else no
// earlier than what stands before it. The lastmod of what is deleted tells nothing:
// it may be that of the version that is gone.
func (l *changeList) entry(e *resourcesync.Entry) (_ change, ok bool) {
	when := e.Datetime
	if when.IsZero() {
		l.strange.other++
		if when = e.At; when.IsZero() && e.Change != resourcesync.Deleted {
			when = e.LastMod
		}
	}
	c := change{Wanted: wanted(e, when.Time()), change: e.Change}
	if c.change == "" && e.Path != "" { // there are bytes, so it exists
		l.strange.made++
		c.change = resourcesync.Updated
	}
	if end := l.latest(c.Changed); end.Before(c.Changed) {
		l.strange.late++
		c.Changed = end
	}
	switch {
	case when.IsZero():
		l.untimed = true
		c.Changed = l.least
	case c.Changed.Before(l.known) && e.Change != resourcesync.Deleted: // a deletion in doubt stays one
		l.strange.early++
		c.Changed = l.known
	}
	l.least, c.when = later(l.least, c.Changed), later(c.Changed, l.known)
	switch c.change {
	case resourcesync.Created, resourcesync.Updated, resourcesync.Deleted:
		return c, true
	}
	c.change = ""
	return c, false
}

// latest is when a change dated t happened at the latest: not after its list ended, and
// not after the Source sent it. A clock that was wrong when a change was recorded would
// else put the cursor where nothing ever comes after it.
func (l *changeList) latest(t time.Time) time.Time {
	if end := l.until.Time(); !end.IsZero() && t.After(end) {
		t = end
	}
	if past(t, l.served) {
		t = later(l.served, l.from.Time())
	}
	return t
}

// order puts the entries in the order in which they happened; an errUnordered says
// that this is unknown. A Change List is in forward order (1.1 §12.1); some Sources write the
// newest first, or group by kind.
func (l *changeList) order(tell func(resourcesync.Quirk, string)) error {
	earlier := func(a, b change) int { return a.when.Compare(b.when) }
	switch {
	case slices.IsSortedFunc(l.entries, earlier):
	case l.untimed:
		tell(resourcesync.QuirkOrder, "changes without datetime among others that are not in order; the Resource List is used")
		return fmt.Errorf("the Change List %s %w", l.uri, errUnordered)
	case slices.IsSortedFunc(l.entries, func(a, b change) int { return earlier(b, a) }):
		tell(resourcesync.QuirkOrder, "newest change first; read backwards")
		slices.Reverse(l.entries)
	default:
		tell(resourcesync.QuirkOrder, "changes are not in the order of their datetime; sorted")
		slices.SortStableFunc(l.entries, earlier)
	}
	return nil
}

// lost reports whether a list that was followed before has dropped what the cursor
// has applied, as one that keeps only the newest changes does, although its from has
// not moved: changes between the two may have come and gone.
func (l *changeList) lost(cur Cursor) bool {
	if l.resumed || cur.Applied == 0 || cur.List != l.uri || cur.From != l.from.String() {
		return false
	}
	return len(l.entries) == 0 || l.entries[0].Changed.After(cur.At)
}

// placed reports whether each entry is known to come before or after the moment t.
func (ch *changes) placed(t time.Time) bool {
	return !ch.untimed || !ch.doubtful.Before(t)
}

// upTo reports whether the lists are not older than t: they go on from what was applied,
// or tell of something at t or later.
func (ch *changes) upTo(t time.Time) bool {
	return ch.resumed || !ch.at.end.Before(t) || !ch.at.from.Time().Before(t)
}

// cursor is c moved to the end of the last list, unless all of that happened before c
// already.
func (ch *changes) cursor(c Cursor) Cursor {
	if past := (window{until: ch.at.until}).closedBy(c.At); past && c.List != "" && c.List != ch.at.uri {
		return c
	}
	c.At = later(c.At, ch.end)
	c.List, c.From, c.Applied, c.Prefix = ch.at.uri, ch.at.from.String(), ch.at.total, ch.at.prefix
	c.Index, c.Asked = ch.index, ch.asked
	if !ch.at.end.Equal(c.Last) {
		c.Last = ch.at.end
	}
	return c
}

// bridges reports whether the changes tell everything since t.
func (ch *changes) bridges(t time.Time) bool {
	return ch != nil && !ch.since.IsZero() && !ch.since.Time().After(t) && ch.placed(t)
}

// carriedBy takes down where the bytes of a change are, if the entry of a manifest is
// about the same state of the same resource.
func (ch *changes) carriedBy(e *resourcesync.Entry, from carrier) bool {
	c := ch.last(resourcesync.KeyOf(e.Loc))
	if c == nil || c.change == resourcesync.Deleted || e.Change == resourcesync.Deleted || !sameState(&c.Wanted, e) {
		return false
	}
	c.carrier = from
	return true
}

// sameState reports whether an entry describes the bytes that are wanted: by digest,
// or where none of one algorithm is given by both, by length and the moment of the
// change.
func sameState(w *Wanted, e *resourcesync.Entry) bool {
	if w.Length.Known() && e.Length.Known() && w.Length != e.Length {
		return false
	}
	proved := false
	for _, d := range e.Digests {
		switch w.Digests.Get(d.Algorithm()) {
		case d:
			proved = true
		case resourcesync.Digest{}:
		default:
			return false
		}
	}
	return proved || w.Length.Known() && w.Length == e.Length && !e.Datetime.IsZero() && e.Datetime.Time().Equal(w.Changed)
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// last returns the last entry of a URI, or nil.
func (ch *changes) last(key resourcesync.Key) *change {
	i, ok := ch.latest[key]
	if !ok {
		return nil
	}
	return &ch.entries[i]
}

// states yields the last state of each URI: first those that are in no package, then
// those of each package together.
func (ch *changes) states() iter.Seq[*change] {
	order := make([]*change, len(ch.entries))
	for i := range order {
		order[i] = &ch.entries[i]
	}
	slices.SortStableFunc(order, func(a, b *change) int { return a.carrier.compare(b.carrier) })
	return slices.Values(order)
}

// present yields the resources that exist according to changes at or after since.
func (ch *changes) present(since time.Time) iter.Seq[resource] {
	return func(yield func(resource) bool) {
		for c := range ch.states() {
			if c.change != resourcesync.Deleted && !c.Changed.Before(since) && !yield(resource{c.Wanted, c.carrier}) {
				return
			}
		}
	}
}
