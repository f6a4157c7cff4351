package harvest

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"slices"
	"strconv"
	"time"

	"instep/evidence"
	"instep/resourcesync"
)

// Changes has the changes of a set since a moment (1.1 §12), or after the entries that were
// read before. Only the last state of each resource is kept, and a run reads no further
// list once there are many (Reader.MaxChanges).
type Changes struct {
	Since   resourcesync.Datetime    // start of the oldest list read: all later changes are included
	entries []Change                 // one for each URI, unless changes of it are unusable
	latest  map[resourcesync.Key]int // the entry of each URI
	resumed bool                     // the first list begins with exactly the entries that were read before
	oldest  time.Time                // time of the first entry of the oldest list read
	slid    bool                     // the list of the position has lost entries since it was last read, and nothing reaches back to the position
	Back    string                   // why the list of the position is older than it was; "" if it is not
	Flaw    error                    // some entry cannot be used: any resource may have changed since
	Rest    error                    // there are more lists than one run reads
	End     time.Time                // time of the last change
	undated time.Time                // until when those without a time may have happened
	known   found                    // the position in the lists
	First   string                   // URI of the oldest list read
	Jumbled bool                     // the lists are in the order of their index, not of their times
	clear   time.Time                // if jumbled: the moment from which on their times give their order
	Early   bool                     // some are dated before others that were applied earlier
	newest  *changeList              // the last one read, without its entries: where the position is
	index   string                   // Position.Index: the index, which need not be requested while that list is unchanged
	asked   time.Time                // time of that request
	lists   int                      // read
	Served  time.Time                // time at which the Source sent the last of them, by its own clock; zero if unknown
	stand   *changeList              // an open list that its index calls closed: the position stays in it; may be nil
}

// ErrLeft marks the error of a plan that takes up a part of the changes, and ends its sentence.
var ErrLeft = errors.New("are left for the next run")

// maxHeld is how many changes of a list are held in memory: about 200 MB.
const maxHeld = 100_000

// changeList is one Change List that was read completely. It is held in memory from the
// position on, if that is in it.
type changeList struct {
	URI     string
	from    resourcesync.Datetime
	until   resourcesync.Datetime     // zero while the list is open
	entries []Change                  // in the order of the changes; if it can be resumed, those after the entries read before
	resumed bool                      // the document begins with exactly the entries that were read before
	total   int                       // entries of the document
	told    int                       // number of entries with a usable change
	end     time.Time                 // time of the latest entry; of one without a time the earliest possible
	packed  bool                      // it is the manifest of a package
	ended   time.Time                 // stated end of its period; zero if there is none
	prefix  string                    // digest over all entries
	over    map[resourcesync.Key]bool // if the position is in it: the resources of the entries before that
	undated time.Time                 // until when entries without a time may have happened, if they can be news
	known   found                     // the position in it
	open    bool                      // its index says that it was closed, and it does not: maybe it is a copy from before
	flaw    error                     // some entry cannot be used
	rhythm  rhythm                    // how often the list grows
	maxAge  time.Duration             // freshness lifetime in its answer
	served  time.Time                 // time at which the Source says it sent the document; zero if unknown or unusable
	placed  func(time.Time) time.Time // returns a moment, or zero if it is in the future
	odd     [len(oddities)]int        // number of entries by oddity
}

// The oddities of entries.
const (
	oddTime  = iota // it has no datetime
	oddLate         // it is dated after the end of the list, or in the future
	oddKind         // it is a bitstream of a package and has no change
	oddEarly        // it is dated before entries that were applied earlier
)

// Change is one entry of a Change List. Changed is its datetime; without one the earliest
// possible time: that of the entry before it, or of the run that had not seen it yet.
type Change struct {
	Resource
	Location
	Change    resourcesync.Change
	from, To  time.Time // bounds of its time; to is zero if unbounded, and both are equal if the time is known
	least     time.Time // of byLastMod: from and to without the lastmod
	most      time.Time // likewise
	when      time.Time // from, or the end of the entries read before if that is later: the order in which changes count
	byLastMod bool      // a deletion, timed by its lastmod, which may be that of the deleted version
	ofBytes   bool      // no deletion, timed by its lastmod: that may be older than the change
	aged      bool      // ofBytes, and torn for no other reason than that newer lists do not name the resource
	last      bool      // it comes after all entries read before
	torn      bool      // times and positions disagree whether the resource exists
	rival     *Resource // of a torn deletion: the resource, if it exists
	denied    bool      // torn, and one of the entries is a deletion
	News      bool      // the first thing said of its URI since the position
}

// found describes the position in a list: its moment, and the time of the last change
// before it. These are zero if they are in the future.
type found struct {
	yes      bool
	at, last time.Time
}

// Timed reports whether the time of a change is known.
func (c *Change) Timed() bool { return !c.To.IsZero() && c.from.Equal(c.To) }

// listOf reads the entries of a Change List, or of the manifest of a package, from the
// position on if that is in it. Its changes are later than known.
func (r *Reader) listOf(doc *Document, w window, set string, cur Position, known found) (*changeList, error) {
	tell := func(q resourcesync.Quirk, text string) { r.Tell(q, set, doc.URI+": "+text) }
	l := &changeList{URI: w.uri, from: doc.Header.From, until: doc.Header.Until, flaw: doc.flaw(), known: known, served: doc.clock(), maxAge: doc.maxAge}
	if l.from.IsZero() || w.pkg != nil && !w.from.IsZero() {
		l.from = w.from
	}
	if l.until.IsZero() || w.pkg != nil && !w.until.IsZero() {
		l.until = w.until
	}
	l.placed = func(t time.Time) time.Time { return evidence.Placed(t, l.served, r.Now()) }
	l.packed = w.pkg != nil
	if l.ended = doc.Header.Until.Time(); l.ended.IsZero() {
		l.ended = l.until.Time()
	}
	if now := r.Now(); l.ended.After(now) || !l.served.IsZero() && l.ended.After(l.served) {
		l.ended = time.Time{} // it is in the future
	}
	if err := l.read(r, doc, w.pkg, cur, tell); err != nil {
		return nil, err
	}
	if l.total > 0 && l.told == 0 {
		return nil, &DocumentError{URI: l.URI, Reason: fmt.Sprintf("none of its %d entries has a usable change", l.total)}
	}
	l.order(tell)
	for i := range l.entries {
		if c := &l.entries[i]; !c.Timed() {
			c.Until = cmp.Or(c.To, l.served, r.Now())
			l.undated = evidence.Later(l.undated, c.Until)
		}
	}
	return l, nil
}

// Last is the URI of the last list that was read.
func (ch *Changes) Last() string { return ch.newest.URI }

func newChanges() *Changes { return &Changes{latest: map[resourcesync.Key]int{}} }

// add lays a list over those that were read before it.
func (ch *Changes) add(l *changeList, cur Position) {
	if ch.lists++; ch.lists == 1 {
		ch.Since, ch.First, ch.resumed = l.from, l.URI, l.resumed
		if len(l.entries) > 0 {
			ch.oldest = l.entries[0].Changed
		}
	}
	ch.slid = ch.slid || l.lost(cur)
	ch.Served = evidence.Later(ch.Served, l.served)
	if ch.known = l.known; ch.Jumbled && ch.known.yes { // the rest came later, whatever its time says
		ch.known.at, ch.known.last = evidence.Later(l.known.at, l.end), evidence.Later(l.known.last, l.end)
	}
	ch.Early = ch.Early || l.odd[oddEarly] > 0
	if ch.Back == "" {
		ch.Back = l.wentBack(cur)
	}
	if ch.Flaw == nil {
		ch.Flaw = l.flaw
	}
	ch.End, ch.undated = evidence.Later(ch.End, l.end), evidence.Later(ch.undated, l.undated)
	if l.resumed && !ch.Jumbled {
		ch.forget(l.over)
	}
	l.over = nil
	for i := range l.entries {
		ch.put(l.entries[i], cur)
	}
	l.entries, ch.newest = nil, l
	if l.open && ch.stand == nil {
		ch.stand = l
	}
}

// forget drops changes of resources for which a later list has entries that were read
// before: they are superseded.
func (ch *Changes) forget(over map[resourcesync.Key]bool) {
	ch.entries = slices.DeleteFunc(ch.entries, func(c Change) bool { return over[resourcesync.KeyOf(c.URI)] })
	clear(ch.latest)
	for i := range ch.entries {
		ch.latest[resourcesync.KeyOf(ch.entries[i].URI)] = i
	}
}

// put takes a change in place of an earlier one of the same resource.
func (ch *Changes) put(c Change, cur Position) {
	if c.Change == "" {
		return
	}
	key := resourcesync.KeyOf(c.URI)
	i, again := ch.latest[key]
	switch {
	case !again:
		c.News = ch.resumed || c.Changed.After(cur.At)
		ch.latest[key] = len(ch.entries)
		ch.entries = append(ch.entries, c)
	case !c.when.Before(ch.entries[i].when): // lists may overlap
		ch.entries[i] = c
	}
}

// oddities are the notes about odd changes of a list.
var oddities = [...]struct {
	quirk resourcesync.Quirk
	text  string
}{
	oddTime:  {resourcesync.QuirkChangeTime, "%d changes have no datetime; taken from lastmod, or else from what stands before them"},
	oddLate:  {resourcesync.QuirkClock, "%d changes are dated after their list ended or was sent; when they happened is unknown"},
	oddKind:  {resourcesync.QuirkNoChange, "%d bitstreams do not say what kind of change brought them; taken as updates"},
	oddEarly: {resourcesync.QuirkClock, "%d changes are dated before others that were listed earlier; taken as the later ones"},
}

// read takes the entries of a document after those read before, or all of them if it does
// not begin with those.
func (l *changeList) read(r *Reader, doc *Document, in *Package, cur Position, tell func(resourcesync.Quirk, string)) error {
	sum := sha256.New()
	var text []byte
	l.over = map[resourcesync.Key]bool{}
	l.resumed = l.holds(cur) && doc.begins(cur)
	for e, err := range doc.Entries() {
		if err != nil {
			return err
		}
		l.resume(cur)
		c, ok := l.entry(&e)
		known := l.resumed && l.total < cur.Applied
		if ok {
			l.told++
		} else if !known {
			tell(0, fmt.Sprintf("line %d: %s: no usable change, so the entry is ignored", e.Line, e.Loc))
		}
		c.Location = in.carries(&e)
		// An entry without a usable change still counts: positions are those of the document.
		text = appendEntry(text[:0], &e)
		_, _ = sum.Write(text) // it never fails
		l.rhythm.add(c.Changed)
		end := c.from // without a time: not before that
		if c.Timed() {
			end = c.Changed
		}
		l.end = evidence.Later(l.end, end)
		if l.total++; known {
			l.over[resourcesync.KeyOf(c.URI)] = true
			continue
		}
		if len(l.entries) == maxHeld {
			return &DocumentError{URI: l.URI, Reason: fmt.Sprintf("tells of more than %d changes that were not read before, and they are held in memory", maxHeld)}
		}
		if err := r.Lighten(&c.Resource); err != nil {
			return err
		}
		l.entries = append(l.entries, c)
	}
	l.resume(cur)
	l.prefix = hexSum(sum)
	for odd, n := range l.odd {
		if n > 0 {
			tell(oddities[odd].quirk, fmt.Sprintf(oddities[odd].text, n))
		}
	}
	return nil
}

// holds reports whether a position is in this list, as it was then.
func (l *changeList) holds(cur Position) bool {
	return cur.List == l.URI && cur.From == l.from.String()
}

// resume notes that the remaining entries come after those read before, if all of these
// were read again. They happened later, whatever their times say: a clock can be wrong, a
// position cannot.
func (l *changeList) resume(cur Position) {
	if l.resumed && l.total == cur.Applied {
		l.odd[oddTime], l.known = 0, found{true, l.placed(cur.At), l.placed(cur.Last)}
	}
}

func hexSum(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)) }

// appendEntry appends an entry in the form over which the digest of a list is computed.
func appendEntry(b []byte, e *resourcesync.Entry) []byte {
	for _, s := range [...]string{e.Loc, e.LastMod.String(), string(e.Change), e.Datetime.String(), e.Digests.String()} {
		b = append(strconv.AppendQuote(b, s), ' ')
	}
	return append(strconv.AppendInt(b, e.Length.Int64(), 10), '\n')
}

// lost reports whether a list that was followed before has dropped entries that were
// applied, as a list of only the newest changes does, although its from is unchanged: then
// changes in between may be lost.
func (l *changeList) lost(cur Position) bool {
	if l.resumed || cur.Applied == 0 || !l.holds(cur) {
		return false
	}
	return len(l.entries) == 0 || l.entries[0].Changed.After(cur.At)
}

// join adds the changes of another track, which reach back further: a Change Dump often
// ends before the Change Lists do, and an old copy always does. If they do not join, gap
// describes the gap.
func (ch *Changes) join(other *Changes, cur Position) (gap string) {
	open := ch.newest.until.IsZero() && !ch.newest.packed // it covers everything until now
	if other == nil || open || ch.Rest != nil || ch.Flaw != nil {
		return ""
	}
	end := evidence.Later(ch.End, ch.newest.ended)
	begins := other.Since.Time()
	if other.newest.placed != nil { // it was read
		begins = other.newest.placed(begins)
	}
	switch {
	case begins.IsZero() && !other.End.After(end):
		return ""
	case begins.IsZero(), begins.After(end):
		return fmt.Sprintf("%s ends at %s, and %s begins at %s", ch.newest.URI, end.UTC().Format(time.RFC3339Nano), other.First, other.Since)
	}
	for _, c := range other.entries {
		if known := ch.Of(resourcesync.KeyOf(c.URI)); known == nil || c.when.After(known.when) { // else it may be in a package
			ch.put(c, cur)
		}
	}
	ch.End, ch.Served, ch.Early = evidence.Later(ch.End, other.End), evidence.Later(ch.Served, other.Served), ch.Early || other.Early
	ch.Jumbled, ch.clear = ch.Jumbled || other.Jumbled, evidence.Later(ch.clear, other.clear)
	ch.undated = evidence.Later(ch.undated, other.undated)
	ch.Flaw, ch.Rest, ch.stand = other.Flaw, other.Rest, other.stand
	ch.newest, ch.index, ch.asked = other.newest, other.index, other.asked
	return ""
}

// Span returns the period that the changes cover.
func (ch *Changes) Span() evidence.Span {
	if ch == nil {
		return evidence.Span{}
	}
	s := evidence.Span{From: ch.Since.Time(), Latest: ch.End, Until: ch.undated, Goes: ch.resumed}
	if ch.Jumbled && !s.From.IsZero() {
		s.From = evidence.Later(s.From, ch.clear)
	}
	return s
}

// Mark is c moved to the end of the last list, now by our clock, unless all of that
// happened before c already. In a list that may lack its end it stays.
func (ch *Changes) Mark(c Position, now time.Time) Position {
	c.Changed = evidence.Later(c.Changed, ch.End)
	if past := (window{until: ch.newest.until}).closedBy(c.At); past && c.List != "" && c.List != ch.newest.URI && !(ch.Jumbled && ch.resumed) {
		return c
	}
	at, end := ch.newest, ch.End
	if ch.stand != nil {
		at, end = ch.stand, ch.stand.end
	}
	switch same := c.List == at.URI && c.Applied == at.total; {
	case ch.stand == nil:
		c.Left = time.Time{}
	case c.Left.IsZero():
		c.Left = now.UTC().Truncate(time.Second)
	case !same: // the list before was believed: this one was read as often
		c.Left = evidence.Later(c.Left, at.until.Time())
	}
	if ch.stand == nil && (c.List != at.URI || c.Prefix != at.prefix || end.After(c.At)) { // otherwise some of them come after the position
		c.Undated = evidence.Later(c.Undated, ch.undated)
	}
	c.At = evidence.Later(c.At, end)
	if c.Ended = at.ended; ch.stand != nil { // its end was not read
		c.Ended = time.Time{}
	}
	c.List, c.From, c.Applied, c.Prefix = at.URI, at.from.String(), at.total, at.prefix
	c.Index, c.Asked = ch.index, ch.asked
	if !at.end.Equal(c.Last) {
		c.Last = at.end
	}
	return c
}

// carriedBy records where the bytes of a change are, if the entry of a manifest is
// about the same state of the same resource.
func (ch *Changes) carriedBy(e *resourcesync.Entry, from Location) bool {
	c := ch.Of(resourcesync.KeyOf(e.Loc))
	if c == nil || c.Change == resourcesync.Deleted || e.Change == resourcesync.Deleted || !sameState(&c.Resource, e) {
		return false
	}
	c.Location = from
	return true
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
func (ch *Changes) Of(key resourcesync.Key) *Change {
	if ch == nil {
		return nil
	}
	i, ok := ch.latest[key]
	if !ok {
		return nil
	}
	return &ch.entries[i]
}

// All is the last state of each URI: first those that are in no package, then
// those of each package together.
func (ch *Changes) All() []*Change {
	order := make([]*Change, len(ch.entries))
	for i := range order {
		order[i] = &ch.entries[i]
	}
	slices.SortStableFunc(order, func(a, b *Change) int { return a.Location.compare(b.Location) })
	return order
}

// wentBack returns how a Change List has gone back to an older state: it has lost its end,
// not its beginning, since the position was there. "" if it has not.
func (l *changeList) wentBack(cur Position) string {
	if l.resumed || cur.List != l.URI || cur.From != l.from.String() || l.total == 0 || l.total >= cur.Applied || !l.end.Before(cur.Last) {
		return ""
	}
	return fmt.Sprintf("the Change List %s had %d entries up to %s and has %d up to %s", l.URI,
		cur.Applied, cur.Last.UTC().Format(time.RFC3339Nano), l.total, l.end.UTC().Format(time.RFC3339Nano))
}

// Position is how far the changes of a set were read (1.1 §12.1): the caller passes it to
// the next reading. It has to be stored in the same transaction as the results.
type Position struct {
	At      time.Time // everything the Source recorded up to here was read; from the Source's documents, never our clock
	List    string    // URI of the Change List last read; "" after a baseline
	From    string    // its rs:md/@from as written
	Applied int       // number of entries read
	Prefix  string    // digest over those entries, in hex
	Index   string    // the document that led to List as the last of several, and has nothing to add while List is open; "" if it may
	Asked   time.Time // time of the last request for Index, by our clock; zero if there is none
	Last    time.Time // the latest of their datetimes
	Changed time.Time // moment of the latest change read; zero if none was, or an earlier version read the set last
	Ended   time.Time `json:",omitzero"` // the end of List, if it was read to that: the next list may begin there without a gap; zero while it is open
	Undated time.Time `json:",omitzero"` // until when the changes may have happened that were read and do not tell their time; zero: all do
	Left    time.Time // time since which, by our clock, List is open although its index calls it closed; zero if it is not
}
