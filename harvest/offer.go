package harvest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"instep/discover"
	"instep/evidence"
	"instep/resourcesync"
)

// ErrNothingOffered means that a set has no document that lists all its resources.
var ErrNothingOffered = errors.New("the Source offers neither a Resource List nor a Resource Dump of this set")

// Offer gives access to the documents of one set of a Source: snapshots, which list all
// resources, and documents with changes. The caller must close it.
type Offer struct {
	Offered
	reader     *Reader
	set        discover.Set
	Position   Position // position up to which earlier runs read the changes; zero if there was no earlier run
	Empty      bool     // the caller holds no resource of the set
	DumpsFirst bool     // whether to look for changes in Change Dumps before Change Lists

	chains  [Tracks]*sequence
	since   [Tracks]time.Time // for each of the chains: the time after which changes were wanted
	stands  *window           // the Change List of the Position, if it was read again and has changed
	current *sequence         // the Change List of the Position, if it was opened without its index; else nil
	Changes [Tracks]*Changes  // changes after the Position, for each Track that Follow has read
	Heard   *Changes          // the changes from which Rhythm estimates how often the set changes
	dropped string            // URI of a Change List from which the Source has removed entries since the last run; "" if there is none
	unread  error             // error because of which the changes after the last snapshot cannot be read; nil if there is none
}

// NewOffer returns an Offer of a set's documents without reading them.
func NewOffer(r *Reader, set discover.Set) *Offer {
	o := &Offer{reader: r, set: set}
	for tr, c := range trackDocuments {
		o.Tells[tr] = len(set.Documents(c)) > 0
	}
	for s, c := range snapshotDocuments {
		o.Shows[s] = len(set.Documents(c)) > 0
	}
	return o
}

// Close closes the documents that were read, and frees the memory and files of their
// entries.
func (o *Offer) Close() {
	for _, c := range append(o.chains[:], o.current) {
		if c != nil {
			c.Close()
		}
	}
	o.reader.Close()
}

// Follow reads the changes after the Position from the documents of a Track.
func (o *Offer) Follow(ctx context.Context, tr Track) (*Changes, Outcome, error) {
	c, err := o.openTrack(ctx, tr)
	if err != nil {
		return nil, Outcome{}, err
	}
	ch, err := c.changesAfter(ctx, o.Position)
	if err != nil {
		return nil, Outcome{}, err
	}
	if before := o.Changes[tr]; before != nil { // closed, because the caller may no longer use the changes of an earlier call of Follow
		_ = before.latest.Close()
	}
	o.Changes[tr], o.Heard = ch, ch
	if ch != nil && ch.slid && ch.latest.Len() > 0 {
		o.dropped = ch.First
	}
	found, err := o.joinOthers(ch, judgeReach(o.Position, c, ch))
	return ch, found, err
}

func (o *Offer) openTrack(ctx context.Context, tr Track) (*sequence, error) {
	if tr != ChangeLists {
		return o.chain(ctx, tr, o.Position.At)
	}
	c, stands, err := o.reader.openCurrent(ctx, o.set, o.Position)
	if c != nil || err != nil {
		o.current = c
		return c, err
	}
	o.stands = stands
	c, err = o.chain(ctx, tr, o.Position.At)
	if err == nil && stands != nil && c.added == stands.uri { // lists before that of the Position are dropped, because earlier runs have applied them completely
		c.windows = slices.DeleteFunc(c.windows, func(w window) bool { return w.from.Time().Before(stands.from.Time()) })
	}
	return c, err
}

// chain finds the documents of a Track that list the changes since a moment. If changes
// between two of the documents are missing, it finds only the later documents.
func (o *Offer) chain(ctx context.Context, tr Track, since time.Time) (*sequence, error) {
	if c := o.chains[tr]; c != nil {
		if !since.Before(o.since[tr]) {
			return c, nil
		}
		c.Close()
	}
	var c *sequence
	var err error
	switch tr {
	case ChangeLists:
		c, err = o.reader.openChangeLists(ctx, o.set, since)
	case ChangeDumps:
		c, err = o.openDumps(ctx, since)
	case ChangeListArchive, ChangeDumpArchive:
		c, err = o.openArchive(ctx, tr, since)
	}
	if err != nil {
		return nil, err
	}
	// an index that does not name the list of the Position must be an outdated copy, so the
	// list is added
	if tr == ChangeLists && o.stands != nil && len(c.windows) > 0 && !c.names(o.stands.uri) {
		c.add(*o.stands)
		c.added = o.stands.uri
		c.arrange()
	}
	o.chains[tr], o.since[tr] = c, since
	return c, nil
}

// judgeReach decides whether the documents contain all changes after the Position (1.1
// §12.1).
func judgeReach(cur Position, c *sequence, ch *Changes) Outcome {
	no := func(format string, args ...any) Outcome {
		return Outcome{Why: fmt.Sprintf(format, args...)}
	}
	at := cur.At.UTC().Format(time.RFC3339Nano)
	switch {
	case ch == nil:
		return no("%s", c.Why)
	case ch.resumed:
		return Outcome{Reaches: true, Why: fmt.Sprintf("changes since %s in %s", at, ch.First)}
	case c.jumbled && !ch.Span().Since(cur.At):
		return no("the %ss are not in the order of their times", c.name)
	case ch.Since.IsZero():
		return no("the %s %s has no \"from\" attribute, so it is unknown which changes it covers", c.name, ch.First)
	case evidence.Misdated(cur.At, ch.Served, c.reader.Now()):
		return no("the mirror has the changes up to %s, which is in the future", at)
	case ch.Since.Time().After(cur.At) && c.Why != "":
		return no("%s", c.Why)
	case ch.Since.Time().After(cur.At):
		return no("gap: the %s %s begins at %s, and the mirror has the changes up to %s", c.name, ch.First, ch.Since, at)
	case cur.List != "" && !c.names(cur.List) && ch.End.Before(cur.At):
		return no("%s, the list that the mirror read last, is gone, and the %ss list no change after %s", cur.List, c.name, at)
	case ch.slid:
		return no("gap: the %s %s has dropped the changes up to %s, and maybe more", c.name, ch.First, at)
	}
	return Outcome{Reaches: true, Why: fmt.Sprintf("changes since %s in %s", at, ch.First)}
}

// joinOthers adds the changes that Follow has read from other kinds of documents. The
// Outcome describes a gap if changes between two kinds of documents are missing.
func (o *Offer) joinOthers(ch *Changes, found Outcome) (Outcome, error) {
	for _, other := range o.Changes {
		if !found.Reaches || other == ch {
			continue
		}
		if gap, err := ch.join(other, o.Position); gap != "" || err != nil {
			return Outcome{Why: "gap: " + gap}, err
		}
	}
	return found, nil
}

// changesAfter reads the changes after a moment from the first kind of document (Track)
// that has all of them. If none has, it returns the changes of the first Track, and gap
// describes the missing changes. If the moment is unknown (zero), latest is its latest
// possible time.
func (o *Offer) changesAfter(ctx context.Context, at, latest time.Time) (first *Changes, gap string, err error) {
	o.unread = nil
	for _, tr := range o.Order(o.DumpsFirst) {
		ch, lacks, err := o.changesIn(ctx, tr, at, latest)
		switch {
		case err == nil:
		case OfSource(err) && ctx.Err() == nil: // the snapshot can be used even if some documents with changes cannot be read
			gap, o.unread = cmp.Or(gap, unknownSince(at, err.Error())), cmp.Or(o.unread, err)
			continue
		default:
			return nil, "", err
		}
		if ch.Span().Since(at) {
			gap, err := ch.join(first, Position{})
			if gap != "" || err != nil {
				return first, unknownSince(at, gap), err
			}
			return ch, "", nil
		}
		if first == nil {
			first = ch
		}
		gap = cmp.Or(gap, lacks)
		if ch != nil && at.IsZero() { // if the moment is unknown, no document certainly has all changes after it, so reading further documents would be useless
			break
		}
	}
	return first, gap, nil
}

// changesIn reads the changes after a moment from one Track. lacks describes the
// missing changes; "" if no change is known to be missing.
func (o *Offer) changesIn(ctx context.Context, tr Track, at, latest time.Time) (ch *Changes, lacks string, err error) {
	c, err := o.chain(ctx, tr, at)
	if err != nil {
		return nil, "", err
	}
	// load must read up to the latest change that an earlier run applied: otherwise the caller
	// could get only changes that are older than its state
	ch, err = c.load(ctx, c.windows[c.start(at):], Position{}, nil, evidence.Placed(o.Position.Changed, time.Time{}, o.reader.Now()))
	if ch != nil {
		o.Heard = ch
	}
	if err != nil {
		return nil, "", err
	}
	switch {
	case !at.IsZero():
	case o.Position.List != "": // nothing is deleted because of a list of unknown time, so only the changes after the Position are needed
		at = evidence.Later(o.Position.At, o.Position.Ended)
	case c.Why != "" && ch != nil: // changes before the first list are missing, whatever the time of the Resource List is
		return ch, unknownSince(at, c.Why), nil
	default:
		at = latest
	}
	// the Source has removed entries from the beginning of the list, so the list is
	// complete only from its first entry on, even if it states an earlier start
	if ch != nil && ch.First == o.dropped && o.Position.Last.After(at) {
		ch.Since = resourcesync.DatetimeOf(ch.oldest)
	}
	return ch, c.gapAfter(ch, at), nil
}

// gapAfter describes the missing changes after a moment; "" if no change is known to be
// missing.
func (c *sequence) gapAfter(ch *Changes, at time.Time) string {
	lacks := ""
	switch {
	case c.broken:
		lacks = c.Why
	case at.IsZero():
	case c.jumbled && !ch.Span().Since(at):
		lacks = "the Change Lists are not in the order of their times"
	case ch != nil && ch.Since.Time().After(at) && !evidence.Misdated(ch.Since.Time(), ch.Served, c.reader.Now()):
		lacks = cmp.Or(c.Why, fmt.Sprintf("the %s %s begins at %s", c.name, ch.First, ch.Since))
	}
	if lacks == "" {
		return ""
	}
	return unknownSince(at, lacks)
}

func unknownSince(at time.Time, why string) string {
	if at.IsZero() {
		return "as of an unknown time; changes since are unknown: " + why
	}
	return fmt.Sprintf("as of %s; changes since are unknown: %s", at.UTC().Format(time.RFC3339Nano), why)
}

// maxUnusable is the number of unusable packages after which Carry gives up.
const maxUnusable = 3

// Carry looks for the bytes of changed resources in the packages of Change Dumps, if
// fewer packages than the limit must be opened. It returns the number of changes whose
// bytes it found (found), and a sentence about the result (why).
func (o *Offer) Carry(ctx context.Context, ch *Changes, limit int64) (found int, why string, err error) {
	c, err := o.chain(ctx, ChangeDumps, o.Position.At)
	if err != nil {
		return 0, fmt.Sprintf("the Change Dumps cannot be used: %v", err), unlessUnusable(ctx, err)
	}
	if len(c.windows) == 0 {
		return 0, c.Why, nil
	}
	windows := c.windows[c.start(o.Position.At):]
	if int64(len(windows)) >= limit {
		return 0, Counted(len(windows), "reading the %d {package|packages} of Change Dumps would save nothing", len(windows)), nil
	}
	unusable := 0
	for _, w := range windows {
		n, err := o.findBytes(ctx, c, w, ch)
		switch {
		case err == nil:
			found += n
		case !meansUnusable(ctx, err):
			return 0, "", err
		default:
			unusable++
			o.reader.Note(o.set.URI, fmt.Sprintf("the package %s is not used: %v", w.uri, err))
		}
		if unusable == maxUnusable {
			break
		}
	}
	return found, Counted(len(windows), "%d of the changed resources were found in %d {package|packages} of Change Dumps", found, len(windows)), nil
}

// findBytes returns the number of changes whose bytes the package contains, and records
// where these are.
func (o *Offer) findBytes(ctx context.Context, c *sequence, w window, ch *Changes) (found int, err error) {
	doc, err := c.read(ctx, w)
	if err != nil {
		return 0, err
	}
	defer doc.Close()
	for e, err := range doc.Entries() {
		if err != nil {
			return found, err
		}
		from := w.pkg.countEntry(&e)
		if from.Package == nil {
			continue
		}
		ok, err := ch.recordLocation(&e, from)
		if err != nil {
			return found, err
		}
		if ok {
			found++
		}
	}
	return found, nil
}

func (o *Offer) newSnapshot(by SnapshotKind, lists ...string) *Snapshot {
	return &Snapshot{Reader: o.reader, set: o.set.URI, By: by, lists: slices.Clone(lists), fresh: o.Empty, opened: map[string]*Document{}, broken: map[string]error{}, noIndex: map[string]bool{}}
}

// Snapshot opens a snapshot and reads the changes after it. It returns an error for a
// Resource Dump older than the Resource List if the changes since the dump are unknown,
// because then the dump does not give the present state.
func (o *Offer) Snapshot(ctx context.Context, s SnapshotKind) (_ *Snapshot, err error) {
	st := o.newSnapshot(s, o.set.Documents(snapshotDocuments[s])...)
	defer func() {
		if err != nil {
			st.Close()
		}
	}()
	if s == resourceListArchive || s == ResourceDumpArchive {
		last, err := o.newestArchived(ctx, s)
		if err != nil {
			return nil, err
		}
		if last.Loc == "" {
			return nil, &DocumentError{URI: st.lists[0], Reason: "does not give the time of the lists that it names"}
		}
		st.lists = []string{last.Loc}
	}
	st.spare = st.dumped() && o.Usable(ResourceList)
	at, err := st.oldestTime(ctx)
	if err != nil {
		return nil, err
	}
	// a dump without packages is not used, because the Resource List shows whether the set
	// has resources
	if st.spare && len(st.Packages) == 0 {
		return nil, &DocumentError{URI: st.lists[0], Reason: "names no package"}
	}
	st.readFirst(ctx)
	if st.Changes, st.Gap, err = o.changesAfter(ctx, at, st.Latest); err != nil {
		return nil, err
	}
	if s != ResourceList && !st.Changes.Span().Since(at) {
		return st, o.checkPresent(ctx, st)
	}
	return st, nil
}

// checkPresent is called for a snapshot without changes after it. Such a snapshot is
// the present state only if it is a Resource Dump and no Resource List is newer.
// Otherwise checkPresent returns an error.
func (o *Offer) checkPresent(ctx context.Context, st *Snapshot) error {
	behind := &DocumentError{URI: st.lists[0], Reason: fmt.Sprintf("describes the set at %s, and no later changes are listed", st.At.UTC().Format(time.RFC3339Nano))}
	if st.By != ResourceDump {
		return behind
	}
	if !o.Usable(ResourceList) {
		return nil
	}
	if at, err := o.ListMoment(ctx); err == nil && at.After(st.At) {
		return behind
	}
	return nil
}

// ListMoment returns the time of the Resource List; zero if that is unknown.
func (o *Offer) ListMoment(ctx context.Context) (time.Time, error) {
	list := o.newSnapshot(ResourceList, o.set.ResourceLists...)
	defer list.Close()
	return list.listTime(ctx)
}

// Present returns a Snapshot for a caller that needs the present state but no bytes. It
// prefers the Resource List. If changes after the snapshot cannot be read, it returns
// an error.
func (o *Offer) Present(ctx context.Context) (*Snapshot, error) {
	var failed error
	for {
		s, ok := o.First(append([]SnapshotKind{ResourceList, ResourceDump}, Archived...)...)
		if !ok {
			return nil, cmp.Or(failed, ErrNothingOffered)
		}
		st, err := o.Snapshot(ctx, s)
		if err == nil && o.unread != nil && st.Gap != "" {
			st.Close()
			err = o.unread
		}
		if err == nil || !OfSource(err) || ctx.Err() != nil {
			return st, err
		}
		failed = cmp.Or(failed, err)
		o.Lose(s, err)
	}
}

// Lose records that a kind of snapshot cannot be used. It reports the reason to the
// Reader if another kind can be used.
func (o *Offer) Lose(s SnapshotKind, why error) {
	o.Lost[s] = true
	if slices.ContainsFunc([]SnapshotKind{ResourceList, ResourceDump, resourceListArchive, ResourceDumpArchive}, o.Usable) {
		o.reader.Note(o.set.URI, fmt.Sprintf("%s cannot be used: %v", s, why))
	}
}
