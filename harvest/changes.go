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

// Changes are the changes of a set since a moment (1.1 §12), or after the entries that
// an earlier run read. They keep only the last state of each resource: a few states in
// memory, the others in temporary files. If there are many changes (Reader.MaxChanges),
// further lists are left to the next run.
type Changes struct {
	Since   resourcesync.Datetime // start of the oldest Change List that was read
	latest  *spool.Table[*storedChange]
	rivals  *spool.Log[Resource] // further descriptions of resources in latest about which documents contradict each other; the Reader closes this log
	in      []*Package           // packages that contain bytes of changes; storedChange.Package is an index in this list, counted from 1
	resumed bool                 // the first list still begins with the entries that an earlier run read
	oldest  time.Time            // time of the first entry of the oldest list read
	slid    bool                 // the Change List that the Position names has lost its earlier entries, so changes may be missing
	Back    string               // sentence about a Change List of which the Source now shows an older version than before; "" if there is none
	Flaw    error                // error of an unusable entry, which may have changed any resource; nil if there is none
	Rest    error                // error that says how many Change Lists are left to the next run; nil if none is left
	End     time.Time            // time of the latest change
	undated time.Time            // latest possible time of the changes whose time is unknown; zero if there are none
	known   found                // the lists reach back to the Position
	First   string               // URI of the oldest list that was read
	Jumbled bool                 // the lists are in the order of their index, which is not the order of their times
	clear   time.Time            // if Jumbled is set: the latest start of a list; before this time the order of changes in different lists is unknown
	Early   bool                 // some new entries have earlier times than entries that an earlier run applied
	newest  *changeList          // the last list that was read, without its entries; the next Position is in this list
	index   string               // URI of the index, if it need not be requested while the last list is open (see Position.Index); else ""
	asked   time.Time            // time of the last request for the index, by our clock
	lists   int                  // number of lists that were read
	Served  time.Time            // time at which the Source sent the last list, by its own clock; zero if unknown
	stand   *changeList          // the first list that is open although its index calls it closed; the next run continues in this list
}

// ErrLeft is wrapped by Changes.Rest if some Change Lists were not read because there
// are too many changes.
var ErrLeft = errors.New("left for the next run")

// changeList is a Change List that was read completely. If an earlier run read its
// beginning, it contains only the later entries.
type changeList struct {
	URI     string
	from    resourcesync.Datetime
	until   resourcesync.Datetime     // end of the period of the list; zero while the list is open
	entries *spool.Log[*storedChange] // entries in document order; if resumed is set, only those that no earlier run read
	first   time.Time                 // earliest time of an entry of the Change List
	ordering
	resumed bool                      // the document begins with the entries that an earlier run read
	total   int                       // number of entries in the document
	told    int                       // number of entries that state a usable change
	end     time.Time                 // latest time of an entry; if the time of an entry is unknown, its earliest possible time counts
	in      *Package                  // the package that contains this list as its manifest; nil for a Change List
	ended   time.Time                 // time up to which the document claims to be complete; zero if it makes no claim
	prefix  string                    // digest of all entries, in hex
	over    *spool.Keys               // resources of the entries that an earlier run read, if resumed is set
	known   found                     // the lists reach back to the Position
	open    bool                      // the list is open although its index calls it closed, so this may be an outdated copy
	flaw    error                     // error about the entries that cannot be used; nil if all can
	rhythm  rhythm                    // estimate of how often the list grows
	maxAge  time.Duration             // how long the response may be cached
	served  time.Time                 // time at which the Source says it sent the document; zero if unknown or unusable
	placed  func(time.Time) time.Time // returns its argument, or the zero time for a time in the future
	odd     [len(oddities)]int        // number of irregular entries of each kind
}

const (
	oddTime  = iota // the entry has no datetime
	oddLate         // the entry has a time after the end of the list, or in the future
	oddKind         // the entry of a manifest has bytes in the package and gives no kind of change
	oddEarly        // the entry has an earlier time than entries that an earlier run applied
)

// ChangeEntry is one entry of a Change List. Changed is its datetime. If the entry has
// no datetime, Changed is the earliest possible time of the change: the time of the
// preceding entry, or of the last run in which the list did not contain the entry.
// Entries take effect in the order of Changed.
type ChangeEntry struct {
	Resource
	Change    resourcesync.Change
	From, To  time.Time // earliest and latest possible time of the change; equal if the time is known; To is zero if there is no latest time
	Least     time.Time // earliest possible time of the change, for the case that the lastmod is not its time
	Most      time.Time // latest possible time of the change, for the case that the lastmod is not its time
	ByLastMod bool      // the lastmod is used as the time of the deletion, but may be that of the deleted version
	OfBytes   bool      // the lastmod is used as the time of the creation or update, but may be earlier
	Last      bool      // the change is later than all changes that earlier runs read
	Torn      bool      // the documents contradict each other on whether the resource exists, or in which version
	Rival     *Resource // if Torn is set: another description of the resource, which may be the right one
	Denied    bool      // Torn is set, and one of the contradictory entries is a deletion
	News      bool      // among the entries that no earlier run has read, this is the oldest about the resource
}

// Change is the last change of a resource, with the package of its bytes, if any.
type Change struct {
	ChangeEntry
	Location
	aged bool // Torn is set only because newer lists do not contain the resource
}

// found describes what an earlier run read: whether the lists contain the entry at
// which that run stopped (yes), the time up to which it read (at), and the time of the
// latest change that it read (last). Times in the future are replaced by zero.
type found struct {
	yes      bool
	at, last time.Time
}

// Timed reports whether the time of the change is known.
func (c *ChangeEntry) Timed() bool { return !c.To.IsZero() && c.From.Equal(c.To) }

// listOf reads a Change List or a package's manifest. If the list still begins with the
// entries before the Position cur, only the later entries are kept. The argument known
// is the field changeList.known of the previous list.
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
	if l.ended = doc.Header.Until.Latest(); l.ended.IsZero() {
		l.ended = l.until.Latest()
	}
	if now := r.Now(); l.ended.After(now) || !l.served.IsZero() && l.ended.After(l.served) {
		l.ended = time.Time{} // zero, because a document cannot be complete up to a time in the future
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

func (ch *Changes) add(r *Reader, l *changeList, cur Position) error {
	if ch.lists++; ch.lists == 1 {
		ch.Since, ch.First, ch.resumed = l.from, l.URI, l.resumed
	}
	ch.Served = evidence.Later(ch.Served, l.served)
	if ch.known = l.known; ch.Jumbled && ch.known.yes { // the lists are in the order of publication, even if their times do not ascend
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
	ch.slid = ch.slid || l.hasDropped(cur)
	ch.newest = l
	if l.open && ch.stand == nil {
		ch.stand = l
	}
	return l.close()
}

func (ch *Changes) take(r *Reader, l *changeList, cur Position) error {
	n := 0
	for e, err := range l.bounded() {
		if err == nil {
			err = l.markTorn(e, r.rivals)
		}
		if err != nil {
			return err
		}
		c := &e.Entry
		if late, err := r.isAfterUntil(c, l.URI); late {
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
			e.Package = ch.packageNumber(l.in)
		}
		if err := ch.put(e, cur, &l.ordering); err != nil {
			return err
		}
	}
	return nil
}

// oddities has a message for each kind of irregular entry, such as one without a
// datetime.
var oddities = [...]struct {
	quirk resourcesync.Quirk
	text  string
}{
	oddTime:  {resourcesync.QuirkChangeTime, "%d {change has|changes have} no datetime; taken from lastmod, or else from the entries before {it|them}"},
	oddLate:  {resourcesync.QuirkClock, "%d {change is dated after its|changes are dated after their} list ended or was sent; when {it|they} happened is unknown"},
	oddKind:  {resourcesync.QuirkNoChange, "%d {bitstream does not say what kind of change brought it; taken as an update|bitstreams do not say what kind of change brought them; taken as updates}"},
	oddEarly: {resourcesync.QuirkClock, "%d {change is|changes are} dated before others that were listed earlier; taken as the later {one|ones}"},
}

// read reads the entries of the list. If the entries that an earlier run read have
// changed, all entries count as new.
func (l *changeList) read(r *Reader, doc *Document, cur Position, tell func(resourcesync.Quirk, string)) error {
	l.over, l.entries = spool.NewKeys(r.Spool, overBudget), spool.NewLog[*storedChange](r.Spool).Hold(r.held())
	r.spools = append(r.spools, l.over, l.entries)
	before := *l
	l.resumed = l.isListOf(cur)
	goes, err := l.readNew(r, doc, cur, tell)
	if err == nil && !goes {
		*l = before
		_, err = l.readNew(r, doc, cur, tell)
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

// readNew reads the entries of the document. If resumed is set, it skips those that an
// earlier run read, and returns false if they have changed.
func (l *changeList) readNew(r *Reader, doc *Document, cur Position, tell func(resourcesync.Quirk, string)) (bool, error) {
	sum := sha256.New()
	var text []byte
	ignored := 0
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
			if ignored++; ignored <= maxNamed {
				tell(0, fmt.Sprintf("line %d: %s: no usable change, so the entry is ignored", e.Line, e.Loc))
			}
		}
		// An entry without a usable change still counts, because positions refer to the
		// entries of the document.
		text = appendEntry(text[:0], &e)
		_, _ = sum.Write(text) // a hash never returns an error
		l.rhythm.add(c.Changed)
		end := c.From // for a change of unknown time, From is the earliest possible time
		if c.Timed() {
			end = c.Changed
		}
		l.end = evidence.Later(l.end, end)
		if l.total++; known {
			err = l.over.Add(resourcesync.KeyOf(c.URI))
		} else {
			err = l.keep(r, &c, l.in.countEntry(&e))
		}
		if err != nil {
			return false, err
		}
	}
	if more := ignored - maxNamed; more > 0 {
		tell(0, Counted(more, "%d more {entry has|entries have} no usable change and {is|are} ignored", more))
	}
	goes := l.resume(cur, sum) && (!l.resumed || l.total >= cur.Applied)
	l.prefix = hexSum(sum)
	return goes, nil
}

// overBudget is the memory in bytes that changeList.over may use.
const overBudget = 1 << 20

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

func (l *changeList) newEntries() int64 {
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

// isListOf reports whether the Position is in this list: the URI and the start ("from")
// are the recorded ones.
func (l *changeList) isListOf(cur Position) bool {
	return cur.List == l.URI && cur.From == l.from.String()
}

// resume returns false if the entries that an earlier run read have changed. Their
// digest shows this when all of them have been read again. The entries after them are
// new even if their times are earlier, because the clock of the Source may be wrong.
func (l *changeList) resume(cur Position, sum hash.Hash) bool {
	if !l.resumed || l.total != cur.Applied {
		return true
	}
	l.odd[oddTime], l.known = 0, found{true, l.placed(cur.At), l.placed(cur.Last)}
	return hexSum(sum) == cur.Prefix
}

func hexSum(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)) }

// appendEntry appends the text of an entry. The digest of a list is computed from these
// texts.
func appendEntry(b []byte, e *resourcesync.Entry) []byte {
	for _, s := range [...]string{e.Loc, e.LastMod.String(), string(e.Change), e.Datetime.String(), e.Digests.String()} {
		b = append(strconv.AppendQuote(b, s), ' ')
	}
	return append(strconv.AppendInt(b, e.Length.Int64(), 10), '\n')
}

// hasDropped reports whether entries that an earlier run applied were removed from the
// list, although its start ("from") is the same. This happens in a list of only the
// newest changes. Changes since the earlier run may then be missing.
func (l *changeList) hasDropped(cur Position) bool {
	if l.resumed || cur.Applied == 0 || !l.isListOf(cur) {
		return false
	}
	return l.newEntries() == 0 || l.first.After(cur.At)
}

// join adds the changes of another kind of document, because a Change Dump often ends
// before the Change Lists do. gap describes changes that are missing between the two
// documents; "" if none are.
func (ch *Changes) join(other *Changes, cur Position) (gap string, err error) {
	open := ch.newest.until.IsZero() && ch.newest.in == nil // an open list contains all changes up to the present
	if other == nil || open || ch.Rest != nil || ch.Flaw != nil {
		return "", nil
	}
	end := evidence.Later(ch.End, ch.newest.ended)
	begins := other.Since.Time()
	if other.newest.placed != nil { // placed is nil if no document was read
		begins = other.newest.placed(begins)
	}
	switch {
	case begins.IsZero() && !other.End.After(end):
		return "", nil
	case begins.IsZero(), begins.After(end):
		return fmt.Sprintf("%s ends at %s, and %s begins at %s", ch.newest.URI, end.UTC().Format(time.RFC3339Nano), other.First, other.Since), nil
	}
	ch.lists++ // the changes added below get a list number of their own
	for c, err := range other.All() {
		var known *Change
		if err == nil {
			known, err = ch.Of(c.URI)
		}
		// of two changes with the same time, the one that ch already has stays, because a
		// package may contain its bytes
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

// Mark returns the Position c, moved to the end of the last list that was read. If c
// names another list, and the last list ended before the time of c, Mark returns c
// unmoved. now is the time by our clock.
func (ch *Changes) Mark(c Position, now time.Time) Position {
	c.Changed = evidence.Later(c.Changed, ch.End)
	if past := (window{until: ch.newest.until}).endsBy(c.At); past && c.List != "" && c.List != ch.newest.URI && !(ch.Jumbled && ch.resumed) {
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
	case !same: // the Position moves to another list that is open although its index says when it ended
		c.Left = evidence.Later(c.Left, at.until.Latest())
	}
	// The field Undated is about the changes that were read, so it stays as it is if the
	// Position does not move.
	if ch.stand == nil && (c.List != at.URI || c.Prefix != at.prefix || end.After(c.At)) {
		c.Undated = evidence.Later(c.Undated, ch.undated)
	}
	c.At = evidence.Later(c.At, end)
	if c.Ended = at.ended; ch.stand != nil { // the document of the list does not state its end
		c.Ended = time.Time{}
	}
	c.List, c.From, c.Applied, c.Prefix = at.URI, at.from.String(), at.total, at.prefix
	c.Index, c.Asked = ch.index, ch.asked
	if !at.end.Equal(c.Last) {
		c.Last = at.end
	}
	return c
}

// wentBack returns a sentence if the Source shows an older version of a Change List
// than before: the list has lost the last entries that an earlier run read, but not the
// first ones. Otherwise it returns "".
func (l *changeList) wentBack(cur Position) string {
	if l.resumed || !l.isListOf(cur) || l.total == 0 || l.total >= cur.Applied || !l.end.Before(cur.Last) {
		return ""
	}
	return Counted(cur.Applied, "the Change List %s had %d {entry|entries} up to %s and has %d up to %s", l.URI,
		cur.Applied, cur.Last.UTC().Format(time.RFC3339Nano), l.total, l.end.UTC().Format(time.RFC3339Nano))
}

// Position records how far the changes of a set were read (1.1 §12.1). The caller
// stores it in the same transaction as the results, and passes it to the next run.
type Position struct {
	At      time.Time // time up to which all changes were read, according to the documents of the Source
	List    string    // URI of the last Change List read; "" after a baseline
	From    string    // "from" attribute of the last Change List read, as written
	Applied int       // number of entries of the last Change List that were read
	Prefix  string    // digest of the entries that were read, in hex
	Index   string    // URI of the index if it need not be requested while the list is open; else ""
	Asked   time.Time // time of the last request for the index, by our clock; zero if there is no Index
	Last    time.Time // latest datetime of the entries that were read
	Changed time.Time // time of the latest change that was read; zero if there is none, or an earlier version of the program stored the Position
	Ended   time.Time `json:",omitzero"` // end of the period of the list, if it is closed and was read completely; else zero
	Undated time.Time `json:",omitzero"` // latest possible time of the read changes whose time is unknown; zero if there are none
	Left    time.Time // time, by our clock, at which the list was first found open although its index calls it closed; else zero
}
