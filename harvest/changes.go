package harvest

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"strconv"
	"time"

	"instep/evidence"
	"instep/internal/spool"
	"instep/resourcesync"
)

// Changes is what the Change Lists of a set say since a moment (1.1 §12), or after
// what was read before. Only the last state of each resource is kept: a few in memory, the others
// in temporary files. A run reads no further list once there are many (Reader.MaxChanges).
type Changes struct {
	Since   resourcesync.Datetime // start of the oldest list read: all changes from here on are included
	latest  *spool.Table[*storedChange]
	rivals  *spool.Log[Resource] // Reader.rivals
	in      []*Package           // the packages, which a storedChange refers to by number, from 1
	resumed bool                 // the first list begins with exactly what was read before
	oldest  time.Time            // of the first entry of the oldest list read
	slid    bool                 // the list of the position has lost entries since it was last read, and nothing reaches back to the position
	Back    string               // how the list of the position is an older one than it was; "" if it is not
	Flaw    error                // some entry cannot be used: any resource may have changed since
	Rest    error                // there are more lists than one run reads
	End     time.Time            // of the last change
	undated time.Time            // latest moment at which a change without a time may have happened
	known   found                // where the position is
	First   string               // URI of the oldest list read
	Jumbled bool                 // the lists are in the order of their index, not in that of their times
	clear   time.Time            // if jumbled: from when on their times tell their order
	Early   bool                 // some are dated before others that were applied earlier
	newest  *changeList          // the last one read, without its entries: where the position is
	index   string               // what need not be asked while that list stays as it is: Position.Index
	asked   time.Time            // when that was read
	lists   int                  // read
	Served  time.Time            // when the Source sent the last of them, by its own clock; zero if that is unknown
	stand   *changeList          // the first list that its index calls closed and that is open: the position stays in it; may be nil
}

// ErrLeft marks the error of a plan that takes up a part of the changes, and ends its sentence.
var ErrLeft = errors.New("left for the next run")

// changeList is one Change List, read whole: its entries from the position on, if that is in it.
type changeList struct {
	URI     string
	from    resourcesync.Datetime
	until   resourcesync.Datetime     // zero while the list is open
	entries *spool.Log[*storedChange] // as the document has them; those after what was read before, if it can go on
	first   time.Time                 // of the entry that happened first
	ordering
	resumed bool                      // the document begins with exactly what was read before
	total   int                       // entries of the document
	told    int                       // number of entries with a usable change
	end     time.Time                 // time of the latest entry; of one without a time the earliest possible
	packed  bool                      // it is the manifest of a package
	in      *Package                  // the package that it is the manifest of; nil if none, or if nothing was read
	ended   time.Time                 // moment up to which the document claims to be complete; zero if it claims none
	prefix  string                    // digest over all of them
	over    *spool.Keys               // if the position is in it: the resources of which it told up to there
	known   found                     // where the position is
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

// ChangeEntry is what one entry of a Change List says. Changed is its datetime; without one the
// earliest moment at which it can have happened: that of the entry before it, or of
// the run that had not seen it yet. In the order of Changed they count.
type ChangeEntry struct {
	Resource
	Change    resourcesync.Change
	From, To  time.Time // between these it happened; To is zero if nothing bounds it, and both are its time if that is known
	Least     time.Time // if ByLastMod: From, in case the lastmod is not the time of the deletion
	Most      time.Time // if ByLastMod: To in that case
	ByLastMod bool      // a deletion with its lastmod as time: this may be the lastmod of the version that was deleted
	OfBytes   bool      // a creation or update with its lastmod as time: the bytes may be older than the change
	Last      bool      // it comes after all that was read before
	Torn      bool      // the order by time and the order by position disagree on whether the resource exists in the end
	Rival     *Resource // for a torn deletion: the description that holds if the resource exists
	Denied    bool      // torn, and some of what is told is that it does not exist
	News      bool      // the first thing said of its URI since the position
}

// Change is what became of a resource, and where its bytes are beside its URI.
type Change struct {
	ChangeEntry
	Location
	aged bool // OfBytes, and torn for no other reason than that newer lists do not name the resource
}

// found tells whether a list was read up to where the position is: at which moment that is,
// and when the last change before it happened. These are zero if they are still to come.
type found struct {
	yes      bool
	at, last time.Time
}

// Timed reports whether the time of a change is known.
func (c *ChangeEntry) Timed() bool { return !c.To.IsZero() && c.From.Equal(c.To) }

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
	l.packed, l.in = w.pkg != nil, w.pkg
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
		return nil, &DocumentError{URI: l.URI, Reason: Counted(l.total, "{its %d entry has no|none of its %d entries has a} usable change", l.total)}
	}
	return l, l.order(r, tell)
}

// Last is the URI of the last list that was read.
func (ch *Changes) Last() string { return ch.newest.URI }

// add lays a list over those that were read before it.
func (ch *Changes) add(r *Reader, l *changeList, cur Position) error {
	if ch.lists++; ch.lists == 1 {
		ch.Since, ch.First, ch.resumed = l.from, l.URI, l.resumed
	}
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
	ch.End = evidence.Later(ch.End, l.end)
	if l.resumed && !ch.Jumbled && l.over != nil && ch.lists > 1 {
		if err := ch.forget(l.over); err != nil {
			return err
		}
	}
	if err := ch.take(r, l, cur); err != nil {
		return err
	}
	if ch.lists == 1 {
		ch.oldest = l.first
	}
	ch.slid = ch.slid || l.lost(cur)
	ch.newest = l
	if l.open && ch.stand == nil {
		ch.stand = l
	}
	return l.close()
}

// take lays the entries of a list over those before.
func (ch *Changes) take(r *Reader, l *changeList, cur Position) error {
	n := 0
	for e, err := range l.bounded() {
		if err == nil {
			err = l.torn(e)
		}
		if err != nil {
			return err
		}
		c := &e.Entry
		if late, err := r.later(c, l.URI); late {
			ch.Flaw = cmp.Or(ch.Flaw, err)
			continue
		}
		if !c.Timed() {
			c.Until = cmp.Or(c.To, l.served, r.Now())
			ch.undated = evidence.Later(ch.undated, c.Until)
		}
		if n++; n == 1 || l.backward || l.mixed && c.Changed.Before(l.first) {
			l.first = c.Changed
		}
		if r.Passed != nil {
			r.Passed(c)
		}
		if e.Package > 0 {
			e.Package = ch.number(l.in)
		}
		if err := ch.put(e, cur, &l.ordering); err != nil {
			return err
		}
	}
	return nil
}

// oddities are the notes about odd changes of a list.
var oddities = [...]struct {
	quirk resourcesync.Quirk
	text  string
}{
	oddTime:  {resourcesync.QuirkChangeTime, "%d {change has|changes have} no datetime; taken from lastmod, or else from the entries before {it|them}"},
	oddLate:  {resourcesync.QuirkClock, "%d {change is dated after its|changes are dated after their} list ended or was sent; when {it|they} happened is unknown"},
	oddKind:  {resourcesync.QuirkNoChange, "%d {bitstream does not say what kind of change brought it; taken as an update|bitstreams do not say what kind of change brought them; taken as updates}"},
	oddEarly: {resourcesync.QuirkClock, "%d {change is|changes are} dated before others that were listed earlier; taken as the later {one|ones}"},
}

// read takes the entries of a document after those read before, or all of them if it does
// not begin with those.
func (l *changeList) read(r *Reader, doc *Document, in *Package, cur Position, tell func(resourcesync.Quirk, string)) error {
	l.over, l.entries = spool.NewKeys(r.Spool, overBudget), spool.NewLog[*storedChange](r.Spool).Hold(r.held())
	r.spools = append(r.spools, l.over, l.entries)
	before := *l
	l.resumed = l.holds(cur)
	goes, err := l.goOn(r, doc, in, cur, tell)
	if err == nil && !goes {
		*l = before
		_, err = l.goOn(r, doc, in, cur, tell)
	}
	if err != nil {
		return err
	}
	for odd, n := range l.odd {
		if n > 0 {
			tell(oddities[odd].quirk, Counted(n, oddities[odd].text, n))
		}
	}
	return nil
}

// goOn takes the entries. If the list is taken to be resumed, those read before are passed over;
// false if they turn out to be others.
func (l *changeList) goOn(r *Reader, doc *Document, in *Package, cur Position, tell func(resourcesync.Quirk, string)) (bool, error) {
	sum := sha256.New()
	var text []byte
	for e, err := range doc.Entries() {
		if err != nil {
			return false, err
		}
		if !l.resume(cur, sum) {
			return false, nil
		}
		c, ok := l.entry(&e)
		known := l.resumed && l.total < cur.Applied
		if ok {
			l.told++
		} else if !known {
			tell(0, fmt.Sprintf("line %d: %s: no usable change, so the entry is ignored", e.Line, e.Loc))
		}
		// An entry without a usable change still counts: positions are those of the document.
		text = appendEntry(text[:0], &e)
		_, _ = sum.Write(text) // it never fails
		l.rhythm.add(c.Changed)
		end := c.From // of one without a time: it did not happen before that
		if c.Timed() {
			end = c.Changed
		}
		l.end = evidence.Later(l.end, end)
		if l.total++; known {
			err = l.over.Add(resourcesync.KeyOf(c.URI))
		} else {
			err = l.keep(r, &c, in.carries(&e))
		}
		if err != nil {
			return false, err
		}
	}
	goes := l.resume(cur, sum) && (!l.resumed || l.total >= cur.Applied)
	l.prefix = hexSum(sum)
	return goes, nil
}

// overBudget is how many bytes of the keys of changes that were read before stay in memory.
const overBudget = 1 << 20

// keep adds an entry, and what carries says of its bytes.
func (l *changeList) keep(r *Reader, c *ChangeEntry, from Location) error {
	if err := r.Lighten(&c.Resource); err != nil {
		return err
	}
	l.see(c)
	s := &storedChange{Entry: *c, Path: from.Path, Offset: from.Offset}
	if from.Package != nil {
		s.Package = 1
	}
	return l.entries.Append(s)
}

// fresh is how many entries come after what was read before.
func (l *changeList) fresh() int64 {
	if l.entries == nil {
		return 0
	}
	return l.entries.Len()
}

// close frees the entries.
func (l *changeList) close() error {
	if l.entries == nil {
		return nil
	}
	err := errors.Join(l.entries.Close(), l.over.Close())
	if l.claims != nil {
		err = errors.Join(err, l.claims.Close())
	}
	return err
}

// holds reports whether a position is in this list, as it was then.
func (l *changeList) holds(cur Position) bool {
	return cur.List == l.URI && cur.From == l.from.String()
}

// resume notes that the remaining entries come after those read before, if all of these
// were read again: sum is the digest over them. False if they are others. The remaining ones happened
// later, whatever their times say: a clock can be wrong, a position cannot.
func (l *changeList) resume(cur Position, sum hash.Hash) bool {
	if !l.resumed || l.total != cur.Applied {
		return true
	}
	l.odd[oddTime], l.known = 0, found{true, l.placed(cur.At), l.placed(cur.Last)}
	return hexSum(sum) == cur.Prefix
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
	return l.fresh() == 0 || l.first.After(cur.At)
}

// join lays the changes of another track over these, which reach back further: a Change Dump
// often ends before the Change Lists do, and a copy from before always. Where they do not
// join, gap says so.
func (ch *Changes) join(other *Changes, cur Position) (gap string, err error) {
	open := ch.newest.until.IsZero() && !ch.newest.packed // it tells everything until now
	if other == nil || open || ch.Rest != nil || ch.Flaw != nil {
		return "", nil
	}
	end := evidence.Later(ch.End, ch.newest.ended)
	begins := other.Since.Time()
	if other.newest.placed != nil { // it was read
		begins = other.newest.placed(begins)
	}
	switch {
	case begins.IsZero() && !other.End.After(end):
		return "", nil
	case begins.IsZero(), begins.After(end):
		return fmt.Sprintf("%s ends at %s, and %s begins at %s", ch.newest.URI, end.UTC().Format(time.RFC3339Nano), other.First, other.Since), nil
	}
	ch.lists++ // what follows is of none of those that were read
	for c, err := range other.All() {
		var known *Change
		if err == nil {
			known, err = ch.Of(c.URI)
		}
		if err == nil && (known == nil || c.Changed.After(known.Changed) || c.maybeLater(&known.ChangeEntry)) { // else it may be in a package
			s := &storedChange{Entry: c.ChangeEntry}
			ch.lay(s, c.Location)
			err = ch.put(s, cur, &ordering{})
		}
		if err != nil {
			return "", err
		}
	}
	ch.End, ch.Served, ch.Early = evidence.Later(ch.End, other.End), evidence.Later(ch.Served, other.Served), ch.Early || other.Early
	ch.Jumbled, ch.clear = ch.Jumbled || other.Jumbled, evidence.Later(ch.clear, other.clear)
	ch.undated = evidence.Later(ch.undated, other.undated)
	ch.Flaw, ch.Rest, ch.stand = other.Flaw, other.Rest, other.stand
	ch.newest, ch.index, ch.asked = other.newest, other.index, other.asked
	return "", nil
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

// wentBack says how a Change List is one that the Source has gone back to: it has lost
// its end, not its beginning, since the position was there. "" if it is not.
func (l *changeList) wentBack(cur Position) string {
	if l.resumed || !l.holds(cur) || l.total == 0 || l.total >= cur.Applied || !l.end.Before(cur.Last) {
		return ""
	}
	return Counted(cur.Applied, "the Change List %s had %d {entry|entries} up to %s and has %d up to %s", l.URI,
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
	Undated time.Time `json:",omitzero"` // latest moment at which a change read without a time may have happened; zero if all have a time
	Left    time.Time // time since which, by our clock, List is open although its index calls it closed; zero if it is not
}
