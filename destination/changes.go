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

	"instep/internal/evidence"
	"instep/resourcesync"
)

// changes is what the Change Lists of a set say since a moment (1.1 §12), or after
// what the cursor has applied. Only the last state of each resource is kept, and a run
// reads no further list once there are many (reader.most).
type changes struct {
	since   resourcesync.Datetime    // of the oldest list read: all changes from here on are in
	entries []change                 // one of each URI, unless changes of it are unusable
	latest  map[resourcesync.Key]int // the entry of each URI
	resumed bool                     // the first list begins with exactly what the cursor has applied
	slid    bool                     // the cursor's list has lost entries since it was last read, and nothing reaches back to the cursor
	back    string                   // how the cursor's list is an older one than it was; "" if it is not
	flaw    error                    // some entry cannot be used: any resource may have changed since
	rest    error                    // there are more lists than one run reads
	end     time.Time                // of the last change
	known   found                    // where the cursor stands
	first   string                   // URI of the oldest list read
	jumbled bool                     // the lists are in the order of their index, not in that of their times
	clear   time.Time                // if jumbled: from when on their times tell their order
	early   bool                     // some are dated before others that were applied earlier
	at      *changeList              // the last one read, without its entries: where the cursor will stand
	index   string                   // what need not be asked while that list stays as it is: Position.Index
	asked   time.Time                // when that was read
	lists   int                      // read
	served  time.Time                // when the Source sent the last of them, by its own clock; zero if that is unknown
	stand   *changeList              // the first list that its index calls closed and that is open: the cursor stays in it; may be nil
}

// errLeft marks the error of a plan that takes up a part of the changes, and ends its sentence.
var errLeft = errors.New("are left for the next run")

// changeList is one Change List, read whole. It is held in memory: the document
// limits bound it.
type changeList struct {
	uri     string
	from    resourcesync.Datetime
	until   resourcesync.Datetime     // zero while the list is open
	entries []change                  // in the order in which they happened; those after what the cursor has applied, if it can go on
	resumed bool                      // the document begins with exactly what the cursor has applied
	total   int                       // entries of the document
	end     time.Time                 // the latest of them
	packed  bool                      // it is the manifest of a package
	ended   time.Time                 // until when the document says that it tells everything; zero if it does not
	prefix  string                    // digest over all of them
	known   found                     // where the cursor stands
	open    bool                      // its index says that it was closed, and it does not: maybe it is a copy from before
	flaw    error                     // some entry cannot be used
	beat    beat                      // how often the list grows
	maxAge  time.Duration             // for so long it is told not to change
	served  time.Time                 // when the Source says that it sent the document; zero if that is unknown or no use
	placed  func(time.Time) time.Time // a moment, or zero if it is still to come
	strange struct {
		other int // entries without datetime
		early int // entries dated before those that were applied earlier
		late  int // entries dated after the end of the list, or still to come
		made  int // bitstreams of a package without a change
	}
}

// change is one entry of a Change List. Changed is its datetime; without one the
// earliest moment at which it can have happened: that of the entry before it, or of
// the run that had not seen it yet.
type change struct {
	Wanted
	carrier
	change    resourcesync.Change
	from, to  time.Time // between these it happened; to is zero if nothing bounds it, and both are its time if that is known
	least     time.Time // of byLastMod: what from and to are otherwise
	most      time.Time // likewise
	when      time.Time // from, or what the cursor has applied if that is later: the order in which changes count
	byLastMod bool      // a deletion, timed by its lastmod: that may be of the version that is gone
	last      bool      // it comes after all that the cursor has applied
	torn      bool      // whether the resource exists after all is told by time one way, by position the other
	rival     *Wanted   // of a torn deletion: the resource, if it exists
	denied    bool      // torn, and some of what is told is that it does not exist
	news      bool      // the first thing said of its URI since the cursor
}

// found tells whether a list was read up to where the cursor stands: at which moment that is,
// and when the last change before it happened. These are zero if they are still to come.
type found struct {
	yes      bool
	at, last time.Time
}

// timed reports whether the time of a change is known.
func (c *change) timed() bool { return !c.to.IsZero() && c.from.Equal(c.to) }

// listOf reads the entries of a Change List, or of the manifest of a package, from
// where the cursor stands if it can. Its changes are later than known.
func (r *reader) listOf(doc *document, w window, set string, cur Position, known found) (*changeList, error) {
	tell := func(q resourcesync.Quirk, text string) { r.tell(q, set, doc.uri+": "+text) }
	l := &changeList{uri: w.uri, from: doc.header.From, until: doc.header.Until, flaw: doc.flaw(), known: known, served: doc.clock(), maxAge: doc.maxAge}
	if l.from.IsZero() || w.parcel != nil && !w.from.IsZero() {
		l.from = w.from
	}
	if l.until.IsZero() || w.parcel != nil && !w.until.IsZero() {
		l.until = w.until
	}
	l.placed = func(t time.Time) time.Time { return evidence.Placed(t, l.served, r.now()) }
	l.packed = w.parcel != nil
	if l.ended = doc.header.Until.Time(); l.ended.IsZero() {
		l.ended = l.until.Time()
	}
	if now := r.now(); l.ended.After(now) || !l.served.IsZero() && l.ended.After(l.served) {
		l.ended = time.Time{} // it is still to come
	}
	if err := l.read(r, doc, w.parcel, cur, tell); err != nil {
		return nil, err
	}
	l.order(tell)
	return l, nil
}

func newChanges() *changes { return &changes{latest: map[resourcesync.Key]int{}} }

// add lays a list over those that were read before it.
func (ch *changes) add(l *changeList, cur Position) {
	if ch.lists++; ch.lists == 1 {
		ch.since, ch.first, ch.resumed = l.from, l.uri, l.resumed
	}
	ch.slid = ch.slid || l.lost(cur)
	ch.served = evidence.Later(ch.served, l.served)
	if ch.known = l.known; ch.jumbled && ch.known.yes { // what follows came after all of this, whatever its time says
		ch.known.at, ch.known.last = evidence.Later(l.known.at, l.end), evidence.Later(l.known.last, l.end)
	}
	ch.early = ch.early || l.strange.early > 0
	if ch.back == "" {
		ch.back = l.wentBack(cur)
	}
	if ch.flaw == nil {
		ch.flaw = l.flaw
	}
	ch.end = evidence.Later(ch.end, l.end)
	for i := range l.entries {
		ch.put(l.entries[i], cur)
	}
	l.entries, ch.at = nil, l
	if l.open && ch.stand == nil {
		ch.stand = l
	}
}

// put takes a change in place of an earlier one of the same resource.
func (ch *changes) put(c change, cur Position) {
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
func (l *changeList) read(r *reader, doc *document, in *parcel, cur Position, tell func(resourcesync.Quirk, string)) error {
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
		if c.timed() {
			l.end = evidence.Later(l.end, c.Changed)
		}
		if err := r.lighten(&c.Wanted); err != nil {
			return err
		}
		l.entries = append(l.entries, c)
		l.total++
	}
	l.resume(cur, sum)
	l.prefix = hexSum(sum)
	if n := l.strange.other; n > 0 {
		tell(resourcesync.QuirkChangeTime, fmt.Sprintf("%d changes have no datetime; taken from lastmod, or else from what stands before them", n))
	}
	if n := l.strange.late; n > 0 {
		tell(resourcesync.QuirkClock, fmt.Sprintf("%d changes are dated after their list ended or was sent; when they happened is unknown", n))
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
func (l *changeList) resume(cur Position, sum hash.Hash) {
	if l.total != cur.Applied || cur.List != l.uri || cur.From != l.from.String() || cur.Prefix != hexSum(sum) {
		return
	}
	l.resumed, l.entries, l.strange.other, l.known = true, nil, 0, found{true, l.placed(cur.At), l.placed(cur.Last)}
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

// lost reports whether a list that was followed before has dropped what the cursor
// has applied, as one that keeps only the newest changes does, although its from has
// not moved: changes between the two may have come and gone.
func (l *changeList) lost(cur Position) bool {
	if l.resumed || cur.Applied == 0 || cur.List != l.uri || cur.From != l.from.String() {
		return false
	}
	return len(l.entries) == 0 || l.entries[0].Changed.After(cur.At)
}

// join lays the changes of another track over these, which reach back further: a Change Dump
// often ends before the Change Lists do, and a copy from before always. Where they do not
// join, gap says so.
func (ch *changes) join(other *changes, cur Position) (gap string) {
	open := ch.at.until.IsZero() && !ch.at.packed // it tells everything until now
	if other == nil || open || ch.rest != nil || ch.flaw != nil {
		return ""
	}
	end := evidence.Later(ch.end, ch.at.ended)
	begins := other.since.Time()
	if other.at.placed != nil { // it was read
		begins = other.at.placed(begins)
	}
	switch {
	case begins.IsZero() && !other.end.After(end):
		return ""
	case begins.IsZero(), begins.After(end):
		return fmt.Sprintf("%s ends at %s, and %s begins at %s", ch.at.uri, end.UTC().Format(time.RFC3339Nano), other.first, other.since)
	}
	for _, c := range other.entries {
		if known := ch.last(resourcesync.KeyOf(c.URI)); known == nil || c.when.After(known.when) { // else it may be in a package
			ch.put(c, cur)
		}
	}
	ch.end, ch.served, ch.early = evidence.Later(ch.end, other.end), evidence.Later(ch.served, other.served), ch.early || other.early
	ch.jumbled, ch.clear = ch.jumbled || other.jumbled, evidence.Later(ch.clear, other.clear)
	ch.flaw, ch.rest, ch.stand = other.flaw, other.rest, other.stand
	ch.at, ch.index, ch.asked = other.at, other.index, other.asked
	return ""
}

// span is what the changes tell together.
func (ch *changes) span() evidence.Span {
	if ch == nil {
		return evidence.Span{}
	}
	s := evidence.Span{From: ch.since.Time(), Latest: ch.end, Goes: ch.resumed}
	if ch.jumbled && !s.From.IsZero() {
		s.From = evidence.Later(s.From, ch.clear)
	}
	return s
}

// mark is c moved to the end of the last list, now by our clock, unless all of that
// happened before c already. In a list that may lack its end it stays.
func (ch *changes) mark(c Position, now time.Time) Position {
	c.Changed = evidence.Later(c.Changed, ch.end)
	if past := (window{until: ch.at.until}).closedBy(c.At); past && c.List != "" && c.List != ch.at.uri && !(ch.jumbled && ch.resumed) {
		return c
	}
	at, end := ch.at, ch.end
	if ch.stand != nil {
		at, end = ch.stand, ch.stand.end
	}
	switch same := c.List == at.uri && c.Applied == at.total; {
	case ch.stand == nil:
		c.Left = time.Time{}
	case c.Left.IsZero():
		c.Left = now.UTC().Truncate(time.Second)
	case !same: // the list before was believed: this one was read as often
		c.Left = evidence.Later(c.Left, at.until.Time())
	}
	c.At = evidence.Later(c.At, end)
	c.List, c.From, c.Applied, c.Prefix = at.uri, at.from.String(), at.total, at.prefix
	c.Index, c.Asked = ch.index, ch.asked
	if !at.end.Equal(c.Last) {
		c.Last = at.end
	}
	return c
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

// last returns the last entry of a URI, or nil.
func (ch *changes) last(key resourcesync.Key) *change {
	if ch == nil {
		return nil
	}
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

// wentBack says how a Change List is one that the Source has gone back to: it has lost
// its end, not its beginning, since the cursor was there. "" if it is not.
func (l *changeList) wentBack(cur Position) string {
	if l.resumed || cur.List != l.uri || cur.From != l.from.String() || l.total == 0 || l.total >= cur.Applied || !l.end.Before(cur.Last) {
		return ""
	}
	return fmt.Sprintf("the Change List %s had %d entries up to %s and has %d up to %s", l.uri,
		cur.Applied, cur.Last.UTC().Format(time.RFC3339Nano), l.total, l.end.UTC().Format(time.RFC3339Nano))
}
