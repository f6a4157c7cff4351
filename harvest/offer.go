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

// ErrNothingOffered means that a set has nothing to begin with.
var ErrNothingOffered = errors.New("the Source offers neither a Resource List nor a Resource Dump of this set")

// Offer is one set of a Source during reading: snapshots of everything, and tracks of
// changes. Close it.
type Offer struct {
	Offered
	reader     *Reader
	set        discover.Set
	Position   Position // from where on changes are asked for; the zero Position: from no earlier reading
	Empty      bool     // the reader holds nothing of the set
	DumpsFirst bool     // changes are read of the manifests of Change Dumps if they are offered

	chains  [Tracks]*sequence
	since   [Tracks]time.Time // start of the period of each chain
	stands  *window           // the list of the Position, if it was read and has changed
	current *sequence         // only the list of the Position: it has no earlier history
	Changes [Tracks]*Changes  // changes after the Position, of the tracks that were followed
	Heard   *Changes          // the last changes read, by which the rhythm of the set is estimated
	dropped string            // the Change List that has lost changes which the Position has not passed: it begins with the oldest that it has; "" if none has
	unread  error             // why changes after the last snapshot can't be had now; nil: they can
}

// NewOffer makes an Offer of the documents of a set; it reads none of them.
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

// Close releases open documents, and the remainders of all entries.
func (o *Offer) Close() {
	for _, c := range append(o.chains[:], o.current) {
		if c != nil {
			c.Close()
		}
	}
	o.reader.Close()
}

// Follow reads a track from the Position on.
func (o *Offer) Follow(ctx context.Context, tr Track) (*Changes, Outcome, error) {
	c, err := o.from(ctx, tr)
	if err != nil {
		return nil, Outcome{}, err
	}
	ch, err := c.after(ctx, o.Position)
	if err != nil {
		return nil, Outcome{}, err
	}
	if before := o.Changes[tr]; before != nil { // whoever follows on is done with it
		_ = before.latest.Close() // a temporary file
	}
	o.Changes[tr], o.Heard = ch, ch
	if ch != nil && ch.slid && ch.latest.Len() > 0 {
		o.dropped = ch.First
	}
	found, err := o.joined(ch, reach(o.Position, c, ch))
	return ch, found, err
}

// from opens a track at the Position.
func (o *Offer) from(ctx context.Context, tr Track) (*sequence, error) {
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
	if err == nil && stands != nil && c.added == stands.uri { // all earlier entries are applied
		c.windows = slices.DeleteFunc(c.windows, func(w window) bool { return w.from.Time().Before(stands.from.Time()) })
	}
	return c, err
}

// chain opens a track with the changes since a moment, as far as it has them.
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
	if tr == ChangeLists && o.stands != nil && len(c.windows) > 0 && !c.named[o.stands.uri] { // the index is a copy from before
		c.add(*o.stands)
		c.added = o.stands.uri
		c.arrange()
	}
	o.chains[tr], o.since[tr] = c, since
	return c, nil
}

// reach says whether changes are all since a position (1.1 §12.1).
func reach(cur Position, c *sequence, ch *Changes) Outcome {
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
		return no("the %s %s does not say where it begins (no from)", c.name, ch.First)
	case evidence.Misdated(cur.At, ch.Served, c.reader.Now()):
		return no("the mirror ends at %s, which is still to come", at)
	case ch.Since.Time().After(cur.At) && c.Why != "":
		return no("%s", c.Why)
	case ch.Since.Time().After(cur.At):
		return no("gap: the %s %s begins at %s, the mirror ends at %s", c.name, ch.First, ch.Since, at)
	case cur.List != "" && !c.named[cur.List] && ch.End.Before(cur.At):
		return no("%s, the list that the mirror read last, is gone, and the %ss list no change after %s", cur.List, c.name, at)
	case ch.slid:
		return no("gap: the %s %s has dropped the changes up to %s, and maybe more", c.name, ch.First, at)
	}
	return Outcome{Reaches: true, Why: fmt.Sprintf("changes since %s in %s", at, ch.First)}
}

// joined lays the changes of tracks that were read before, and do not reach back to the position,
// over ch, which does. found is the outcome of ch alone; there is a gap if they do not join.
func (o *Offer) joined(ch *Changes, found Outcome) (Outcome, error) {
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

// after reads the changes after a moment, along the first track that reaches back to it; if
// none does, along the current one, and gap describes the unknown changes. Change Lists
// that are known already are not requested again. If the moment is unknown, latest bounds
// it if it is not zero.
func (o *Offer) after(ctx context.Context, at, latest time.Time) (first *Changes, gap string, err error) {
	o.unread = nil
	for _, tr := range TrackOrder(o.DumpsFirst) {
		if !o.Tells[tr] {
			continue
		}
		ch, lacks, err := o.along(ctx, tr, at, latest)
		switch {
		case err == nil:
		case OfSource(err) && ctx.Err() == nil: // an unavailable track does not prevent the snapshot
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
		if ch != nil && at.IsZero() { // no track is known to reach back, and packages are not asked for in vain
			break
		}
	}
	return first, gap, nil
}

// along reads the changes of one track after a moment; lacks describes those that are
// missing.
func (o *Offer) along(ctx context.Context, tr Track, at, latest time.Time) (ch *Changes, lacks string, err error) {
	c, err := o.chain(ctx, tr, at)
	if err != nil {
		return nil, "", err
	}
	ch, err = c.load(ctx, c.windows[c.start(at):], Position{}, nil, evidence.Placed(o.Position.Changed, time.Time{}, o.reader.Now())) // otherwise all of them would be older than what was applied
	if ch != nil {
		o.Heard = ch
	}
	if err != nil {
		return nil, "", err
	}
	switch {
	case !at.IsZero():
	case o.Position.List != "": // a list of unknown moment proves no deletion: changes do, from the position on
		at = evidence.Later(o.Position.At, o.Position.Ended)
	case c.Why != "" && ch != nil: // whatever its moment is, there is a gap before these changes
		return ch, unknownSince(at, c.Why), nil
	default:
		at = latest
	}
	if ch != nil && ch.First == o.dropped && o.Position.Last.After(at) { // some of the lost entries were later than the moment
		ch.Since = resourcesync.DatetimeOf(ch.oldest) // whatever it says
	}
	return ch, c.gapAfter(ch, at), nil
}

// gapAfter describes the changes after a moment that are missing in a chain, although there
// are lists of them; "" if there is no sign of that.
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

// unknownSince says that changes after a moment are unknown, and why.
func unknownSince(at time.Time, why string) string {
	if at.IsZero() {
		return "as of a moment that is unknown; changes since are unknown: " + why
	}
	return fmt.Sprintf("as of %s; changes since are unknown: %s", at.UTC().Format(time.RFC3339Nano), why)
}

// maxUnusable is how many packages of Change Dumps are tried in vain.
const maxUnusable = 3

// Carry looks for the bytes of changes in the packages of Change Dumps, if fewer than most
// have to be opened. It returns how many were found, and a description.
func (o *Offer) Carry(ctx context.Context, ch *Changes, most int64) (found int, why string, err error) {
	c, err := o.chain(ctx, ChangeDumps, o.Position.At)
	if err != nil {
		return 0, fmt.Sprintf("the Change Dumps cannot be used: %v", err), unlessLost(ctx, err)
	}
	if len(c.windows) == 0 {
		return 0, c.Why, nil
	}
	windows := c.windows[c.start(o.Position.At):]
	if int64(len(windows)) >= most {
		return 0, Counted(len(windows), "to look into %d {package|packages} of Change Dumps saves nothing", len(windows)), nil
	}
	unusable := 0
	for _, w := range windows {
		n, err := o.match(ctx, c, w, ch)
		switch {
		case err == nil:
			found += n
		case !lost(ctx, err):
			return 0, "", err
		default:
			unusable++
		}
		if unusable == maxUnusable {
			break
		}
	}
	return found, Counted(found, "%d of the changed resources {is|are} in ", found) + Counted(len(windows), "%d {package|packages} of Change Dumps", len(windows)), nil
}

// match finds changes in one package. A manifest that cannot be used is passed over.
func (o *Offer) match(ctx context.Context, c *sequence, w window, ch *Changes) (found int, err error) {
	doc, err := c.read(ctx, w)
	if err != nil {
		if lost(ctx, err) {
			o.reader.Note(o.set.URI, fmt.Sprintf("the package %s is left alone: %v", w.uri, err))
		}
		return 0, err
	}
	defer doc.Close()
	for e, err := range doc.Entries() {
		if err != nil {
			return found, err
		}
		from := w.pkg.carries(&e)
		if from.Package == nil {
			continue
		}
		ok, err := ch.carriedBy(&e, from)
		if err != nil {
			return found, err
		}
		if ok {
			found++
		}
	}
	return found, nil
}

// Snapshot opens a snapshot and reads the changes after it. A Resource Dump that is older
// than the Resource List, with no changes that lead from one to the other, is an error,
// since it does not give the present state.
func (o *Offer) Snapshot(ctx context.Context, s SnapshotKind) (_ *Snapshot, err error) {
	st := &Snapshot{Reader: o.reader, set: o.set.URI, By: s, lists: o.set.Documents(snapshotDocuments[s]), fresh: o.Empty}
	defer func() {
		if err != nil {
			st.Close()
		}
	}()
	if s == resourceListArchive || s == ResourceDumpArchive {
		last, err := o.newest(ctx, s, time.Time{})
		if err != nil {
			return nil, err
		}
		if last.Loc == "" {
			return nil, &DocumentError{URI: st.lists[0], Reason: "does not say of which moment what it names is"}
		}
		st.lists = []string{last.Loc}
	}
	var at time.Time
	if st.dumped() {
		st.spare = o.Usable(ResourceList)
		if err := st.readDumps(ctx); err != nil {
			return nil, err
		}
		if len(st.Packages) == 0 && o.Usable(ResourceList) { // this shows whether anything exists
			return nil, &DocumentError{URI: st.lists[0], Reason: "names no package"}
		}
		at = st.At
		st.readFirst(ctx)
	} else if at, err = st.moment(ctx); err != nil {
		return nil, err
	}
	if st.Changes, st.Gap, err = o.after(ctx, at, st.Latest); err != nil {
		return nil, err
	}
	if s != ResourceList && !st.Changes.Span().Since(at) {
		return st, o.latest(ctx, st)
	}
	return st, nil
}

// latest returns why a state without changes after it is not the present one; nil if the
// Resource List knows nothing newer.
func (o *Offer) latest(ctx context.Context, st *Snapshot) error {
	behind := &DocumentError{URI: st.lists[0], Reason: fmt.Sprintf("is of %s, and no changes are told from then on", st.At.UTC().Format(time.RFC3339Nano))}
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

// ListMoment is the moment of the Resource List, as Snapshot.moment returns it.
func (o *Offer) ListMoment(ctx context.Context) (time.Time, error) {
	list := &Snapshot{Reader: o.reader, set: o.set.URI, lists: o.set.ResourceLists}
	defer list.Close()
	return list.moment(ctx)
}

// Present is the state for a caller that needs no bytes: that of the Resource List if it
// can be used. Unavailable changes are an error, since the state has to be the present one.
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

// Lose continues without a snapshot.
func (o *Offer) Lose(s SnapshotKind, why error) {
	o.Lost[s] = true
	if slices.ContainsFunc([]SnapshotKind{ResourceList, ResourceDump, resourceListArchive, ResourceDumpArchive}, o.Usable) {
		o.reader.Note(o.set.URI, fmt.Sprintf("%s cannot be used: %v", s, why))
	}
}
