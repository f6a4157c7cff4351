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

// Changes are the changes of a set that its Change Lists contain since a moment (1.1
// §12), or after the entries that an earlier run read. They keep only the last state of
// each resource: a few states in memory, the others in temporary files. A run stops
// reading further lists when there are many changes (Reader.MaxChanges).
type Changes struct {
	Since   resourcesync.Datetime // start of the oldest list read; all later changes are included
	latest  *spool.Table[*storedChange]
	rivals  *spool.Log[Resource] // descriptions that contradict the latest ones; the log belongs to the Reader
	in      []*Package           // the packages; a storedChange refers to them by number, counted from 1
	resumed bool                 // the first list begins with exactly the entries that an earlier run read
	oldest  time.Time            // time of the first entry of the oldest list read
	slid    bool                 // the Position's list has dropped entries since it was last read, so changes may be missing
	Back    string               // how the Source went back to an older version of the Position's list; "" if it did not
	Flaw    error                // an error in some entry; any resource may have changed since
	Rest    error                // set if there are more lists than one run reads
	End     time.Time            // time of the last change
	undated time.Time            // latest possible time of a change without a time
	known   found                // whether a list was read up to the position
	First   string               // URI of the oldest list read
	Jumbled bool                 // the lists are in the order of their index, not in the order of their times
	clear   time.Time            // if Jumbled: latest start of a list, before which entries of different lists have no order
	Early   bool                 // some entries have earlier times than entries that were applied before
	newest  *changeList          // the last list read, without its entries; the next position is in it
	index   string               // document that need not be requested while the newest list is unchanged; see Position.Index
	asked   time.Time            // time of the last request for index, by our clock
	lists   int                  // the number of lists read
	Served  time.Time            // time at which the Source sent the last list, by its own clock; zero if unknown
	stand   *changeList          // the first open list that its index calls closed, where the next position stays; may be nil
}

// ErrLeft is wrapped by the error of a plan that contains only a part of the changes,
// as the end of its text.
var ErrLeft = errors.New("left for the next run")

// changeList is one completely read Change List. It contains the entries after the
// position if the position is in the list, else all entries.
type changeList struct {
	URI     string
	from    resourcesync.Datetime
	until   resourcesync.Datetime     // end of the list's period; zero while the list is open
	entries *spool.Log[*storedChange] // the entries in document order; only those after the position if the list is resumed
	first   time.Time                 // time of the entry that happened first
	ordering
	resumed bool                      // the document begins with exactly the entries that an earlier run read
	total   int                       // the number of entries in the document
	told    int                       // the number of entries with a usable change
	end     time.Time                 // time of the latest entry; the earliest possible one if that time is unknown
	in      *Package                  // the package of the list if the list is a manifest; nil for a Change List
	ended   time.Time                 // time up to which the document claims to be complete; zero if it makes no claim
	prefix  string                    // digest of all entries, in hex
	over    *spool.Keys               // if the position is in the list: the resources of the entries before the position
	known   found                     // whether a list was read up to the position
	open    bool                      // the list is open although its index calls it closed, so it may be an outdated copy
	flaw    error                     // an error if some entry cannot be used
	rhythm  rhythm                    // estimate of how often the list grows
	maxAge  time.Duration             // freshness lifetime in the response
	served  time.Time                 // time at which the Source says it sent the document; zero if unknown or unusable
	placed  func(time.Time) time.Time // returns the given time, or the zero time if the given one is in the future
	odd     [len(oddities)]int        // number of entries with each oddity
}

const (
	oddTime  = iota // the entry has no datetime
	oddLate         // the entry has a time after the end of the list, or in the future
	oddKind         // the entry is a bitstream of a package and does not give the kind of change
	oddEarly        // the entry has an earlier time than entries that were applied before
)

// ChangeEntry is one entry of a Change List. Changed is its datetime. Without a
// datetime, Changed is the earliest possible time of the change: that of the preceding
// entry, or that of the last run in which the list lacked the entry. Entries take
// effect in the order of Changed.
type ChangeEntry struct {
	Resource
	Change    resourcesync.Change
	From, To  time.Time // earliest and latest time of the change; equal if the time is known; To is zero if unbounded
	Least     time.Time // From, if ByLastMod is set but the lastmod is not the time of the deletion
	Most      time.Time // To, if ByLastMod is set but the lastmod is not the time of the deletion
	ByLastMod bool      // the time of a deletion is its lastmod, which may be the lastmod of the deleted version
	OfBytes   bool      // the time of a creation or update is its lastmod; the bytes may be older than the change
	Last      bool      // the entry comes after all entries that earlier runs read
	Torn      bool      // the documents do not show whether the resource exists in the end, or in which version
	Rival     *Resource // if torn: another description, which may be the valid one if the resource exists
	Denied    bool      // the entry is torn, and one of the contradictory statements is a deletion
	News      bool      // the entry is the first one about its URI after the position
}

// Change is the last change of a resource, with the package of its bytes, if any.
type Change struct {
	ChangeEntry
	Location
	aged bool // the change is OfBytes, and it is torn only because newer lists do not contain the resource
}

// found describes the position, if a list was read up to it: the position's time and
// the time of the latest change before it. A time in the future is recorded as zero.
type found struct {
	yes      bool
	at, last time.Time
}

// Timed reports whether the time of a change is known.
func (c *ChangeEntry) Timed() bool { return !c.To.IsZero() && c.From.Equal(c.To) }

// listOf reads the entries of a Change List or of a package's manifest. If the list
// contains the position cur, listOf reads only the entries after cur. known describes
// the position if an earlier list contained it.
func (r *Reader) listOf(doc *Document, w window, set string, cur Position, known found) (*changeList, error) {
	tell := func(q resourcesync.Quirk, text string) { r.Tell(q, set, doc.URI+": "+text) }
	l := &changeList{URI: w.uri, from: doc.Header.From, until: doc.Header.Until, in: w.pkg, flaw: doc.flaw(), known: known, served: doc.clock(), maxAge: doc.maxAge}
	if l.from.IsZero() || w.pkg != nil && !w.from.IsZero() {
		l.from = w.from
	}
	if l.until.IsZero() || w.pkg != nil && !w.until.IsZero() {
		l.until = w.until
	}
	l.placed = func(t time.Time) time.Time { return evidence.Placed(t, l.served, r.Now()) }
	if l.ended = doc.Header.Until.Time(); l.ended.IsZero() {
		l.ended = l.until.Time()
	}
	if now := r.Now(); l.ended.After(now) || !l.served.IsZero() && l.ended.After(l.served) {
		l.ended = time.Time{} // no document is complete up to a time in the future
	}
	if err := l.read(r, doc, cur, tell); err != nil {
		return nil, err
	}
	if l.total > 0 && l.told == 0 {
		return nil, &DocumentError{URI: l.URI, Reason: Counted(l.total, "{its %d entry has no|none of its %d entries has a} usable change", l.total)}
	}
	return l, l.order(r, tell)
}

// Last returns the URI of the last list that was read.
func (ch *Changes) Last() string { return ch.newest.URI }

// add applies the entries of a list on top of the lists that were read before it.
func (ch *Changes) add(r *Reader, l *changeList, cur Position) error {
	if ch.lists++; ch.lists == 1 {
		ch.Since, ch.First, ch.resumed = l.from, l.URI, l.resumed
	}
	ch.Served = evidence.Later(ch.Served, l.served)
	if ch.known = l.known; ch.Jumbled && ch.known.yes { // the other lists were published later, whatever their times are
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

// take applies the entries of a list on top of the earlier changes.
func (ch *Changes) take(r *Reader, l *changeList, cur Position) error {
	n := 0
	for e, err := range l.bounded() {
		if err == nil {
			err = l.torn(e, r.rivals)
		}
		if err != nil {
			return err
		}
		c := &e.Entry
		if late, err := r.later(c, l.URI); late {
			ch.Flaw = cmp.Or(ch.Flaw, err)
			continue
		}
		if c.setUntil(l.served, r.Now()); !c.Timed() {
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

// oddities are the messages that report odd entries of a list.
var oddities = [...]struct {
	quirk resourcesync.Quirk
	text  string
}{
	oddTime:  {resourcesync.QuirkChangeTime, "%d {change has|changes have} no datetime; taken from lastmod, or else from the entries before {it|them}"},
	oddLate:  {resourcesync.QuirkClock, "%d {change is dated after its|changes are dated after their} list ended or was sent; when {it|they} happened is unknown"},
	oddKind:  {resourcesync.QuirkNoChange, "%d {bitstream does not say what kind of change brought it; taken as an update|bitstreams do not say what kind of change brought them; taken as updates}"},
	oddEarly: {resourcesync.QuirkClock, "%d {change is|changes are} dated before others that were listed earlier; taken as the later {one|ones}"},
}

// read reads the entries of a document after those that an earlier run read. If the
// document does not begin with those, it reads all entries.
func (l *changeList) read(r *Reader, doc *Document, cur Position, tell func(resourcesync.Quirk, string)) error {
	l.over, l.entries = spool.NewKeys(r.Spool, overBudget), spool.NewLog[*storedChange](r.Spool).Hold(r.held())
	r.spools = append(r.spools, l.over, l.entries)
	before := *l
	l.resumed = l.holds(cur)
	goes, err := l.goOn(r, doc, cur, tell)
	if err == nil && !goes {
		*l = before
		_, err = l.goOn(r, doc, cur, tell)
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

// goOn reads the entries. If the list is assumed to be resumed, goOn skips the entries that
// an earlier run read, and returns false if they turn out to differ.
func (l *changeList) goOn(r *Reader, doc *Document, cur Position, tell func(resourcesync.Quirk, string)) (bool, error) {
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
		// An entry without a usable change still counts, because positions refer to the
		// entries of the document.
		text = appendEntry(text[:0], &e)
		_, _ = sum.Write(text) // a hash never returns an error
		l.rhythm.add(c.Changed)
		end := c.From // an entry without a time did not happen before From
		if c.Timed() {
			end = c.Changed
		}
		l.end = evidence.Later(l.end, end)
		if l.total++; known {
			err = l.over.Add(resourcesync.KeyOf(c.URI))
		} else {
			err = l.keep(r, &c, l.in.carries(&e))
		}
		if err != nil {
			return false, err
		}
	}
	goes := l.resume(cur, sum) && (!l.resumed || l.total >= cur.Applied)
	l.prefix = hexSum(sum)
	return goes, nil
}

// overBudget is the memory in bytes for the keys of changes that earlier runs read.
const overBudget = 1 << 20

// keep stores an entry and the place of its bytes.
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

// fresh returns the number of entries after those that an earlier run read.
func (l *changeList) fresh() int64 {
	if l.entries == nil {
		return 0
	}
	return l.entries.Len()
}

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

// holds reports whether the list has the URI and the start that a position records.
func (l *changeList) holds(cur Position) bool {
	return cur.List == l.URI && cur.From == l.from.String()
}

// resume compares the digest of the entries before the position with the digest that an
// earlier run recorded, as soon as all of them were read again. It returns false if
// they differ. Entries after the position happened later, whatever their times are,
// because a clock may be wrong but a position cannot.
func (l *changeList) resume(cur Position, sum hash.Hash) bool {
	if !l.resumed || l.total != cur.Applied {
		return true
	}
	l.odd[oddTime], l.known = 0, found{true, l.placed(cur.At), l.placed(cur.Last)}
	return hexSum(sum) == cur.Prefix
}

func hexSum(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)) }

// appendEntry appends an entry in the form that the digest of a list is computed from.
func appendEntry(b []byte, e *resourcesync.Entry) []byte {
	for _, s := range [...]string{e.Loc, e.LastMod.String(), string(e.Change), e.Datetime.String(), e.Digests.String()} {
		b = append(strconv.AppendQuote(b, s), ' ')
	}
	return append(strconv.AppendInt(b, e.Length.Int64(), 10), '\n')
}

// lost reports whether the list of the position has dropped applied entries although it
// states the same start. A list of only the newest changes does that, and changes
// between the two readings may be lost.
func (l *changeList) lost(cur Position) bool {
	if l.resumed || cur.Applied == 0 || !l.holds(cur) {
		return false
	}
	return l.fresh() == 0 || l.first.After(cur.At)
}

// join applies the changes of another track on top of ch, which reaches back further. A
// Change Dump often ends before the Change Lists do, and an outdated copy always does.
// If there are missing changes between the two, join describes them in gap.
func (ch *Changes) join(other *Changes, cur Position) (gap string, err error) {
	open := ch.newest.until.IsZero() && ch.newest.in == nil // an open list contains all changes up to the present
	if other == nil || open || ch.Rest != nil || ch.Flaw != nil {
		return "", nil
	}
	end := evidence.Later(ch.End, ch.newest.ended)
	begins := other.Since.Time()
	if other.newest.placed != nil { // nil if the list was skipped
		begins = other.newest.placed(begins)
	}
	switch {
	case begins.IsZero() && !other.End.After(end):
		return "", nil
	case begins.IsZero(), begins.After(end):
		return fmt.Sprintf("%s ends at %s, and %s begins at %s", ch.newest.URI, end.UTC().Format(time.RFC3339Nano), other.First, other.Since), nil
	}
	ch.lists++ // the following changes belong to none of the lists read so far
	for c, err := range other.All() {
		var known *Change
		if err == nil {
			known, err = ch.Of(c.URI)
		}
		// a change of the same time must not replace the place of the bytes in a package
		if err == nil && (known == nil || c.Changed.After(known.Changed) || c.maybeLater(&known.ChangeEntry)) {
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

// Mark returns the position c, moved to the end of the last list. The position stays if
// another list than its own ended before it. now is the time by our clock.
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
	case !same: // another list than before has been open since its end according to the index
		c.Left = evidence.Later(c.Left, at.until.Time())
	}
	// Undated is about changes before the position, so it changes only if the position
	// moves
	if ch.stand == nil && (c.List != at.URI || c.Prefix != at.prefix || end.After(c.At)) {
		c.Undated = evidence.Later(c.Undated, ch.undated)
	}
	c.At = evidence.Later(c.At, end)
	if c.Ended = at.ended; ch.stand != nil { // the list was not read to its end
		c.Ended = time.Time{}
	}
	c.List, c.From, c.Applied, c.Prefix = at.URI, at.from.String(), at.total, at.prefix
	c.Index, c.Asked = ch.index, ch.asked
	if !at.end.Equal(c.Last) {
		c.Last = at.end
	}
	return c
}

// wentBack describes how the Source went back to an older version of a Change List:
// since the position was recorded, the list has lost its end but not its beginning. It
// returns "" if that is not so.
func (l *changeList) wentBack(cur Position) string {
	if l.resumed || !l.holds(cur) || l.total == 0 || l.total >= cur.Applied || !l.end.Before(cur.Last) {
		return ""
	}
	return Counted(cur.Applied, "the Change List %s had %d {entry|entries} up to %s and has %d up to %s", l.URI,
		cur.Applied, cur.Last.UTC().Format(time.RFC3339Nano), l.total, l.end.UTC().Format(time.RFC3339Nano))
}

// Position records how far the changes of a set were read (1.1 §12.1). The caller
// passes it to the next reading, and stores it in the same transaction as the results.
type Position struct {
	At      time.Time // time up to which everything recorded was read, by the Source's documents, not by our clock
	List    string    // URI of the last Change List read; "" after a baseline
	From    string    // the list's rs:md/@from as written
	Applied int       // number of entries of List that were read
	Prefix  string    // digest of the Applied entries, in hex
	Index   string    // URI of the index that named List last, if it need not be requested while List is open; else ""
	Asked   time.Time // time of the last request for Index, by our clock; zero if there is no Index
	Last    time.Time // the latest datetime of the Applied entries
	Changed time.Time // time of the latest change read; zero if none was read, or by an earlier version of the program
	Ended   time.Time `json:",omitzero"` // end of List if it was read to its end, where the next list may begin; zero while it is open
	Undated time.Time `json:",omitzero"` // latest possible time of the changes that were read without a time; zero if there are none
	Left    time.Time // time, by our clock, since which List is open although its index calls it closed; else zero
}
