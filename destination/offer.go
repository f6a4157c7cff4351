package destination

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"instep/discover"
	"instep/internal/evidence"
)

// offer is one set of a Source as it is read: snapshots of everything, and tracks that tell
// what changed. Close it.
type offer struct {
	offered
	reader     *reader
	set        discover.Set
	mark       Position // from where on changes are asked for; the zero Position: from no earlier reading
	empty      bool     // whoever reads holds nothing of the set
	dumpsFirst bool     // changes are read of the manifests of Change Dumps if they are offered

	chains  [tracks]*chain
	since   [tracks]time.Time // from when on the chains tell
	stands  *window           // the list in which the mark stands, if it was read and is another than it was
	current *chain            // with only the list in which the mark stands: it has no earlier history
	changes [tracks]*changes  // after the mark, of the tracks that were followed
	heard   *changes          // the last that were read: they tell how often the set changes
}

func newOffer(r *reader, set discover.Set) *offer {
	o := &offer{reader: r, set: set}
	for tr, c := range trackDocuments {
		o.tells[tr] = len(set.Documents(c)) > 0
	}
	for s, c := range snapshotDocuments {
		o.shows[s] = len(set.Documents(c)) > 0
	}
	return o
}

func (o *offer) close() {
	for _, c := range append(o.chains[:], o.current) {
		if c != nil {
			c.close()
		}
	}
	o.reader.close()
}

// follow reads a track from the mark on.
func (o *offer) follow(ctx context.Context, tr track) (*changes, outcome, error) {
	c, err := o.from(ctx, tr)
	if err != nil {
		return nil, outcome{}, err
	}
	ch, err := c.after(ctx, o.mark)
	if err != nil {
		return nil, outcome{}, err
	}
	o.changes[tr], o.heard = ch, ch
	return ch, o.joined(ch, reach(o.mark, c, ch)), nil
}

// from opens a track where the mark stands.
func (o *offer) from(ctx context.Context, tr track) (*chain, error) {
	if tr != changeLists {
		return o.chain(ctx, tr, o.mark.At)
	}
	c, stands, err := o.reader.openCurrent(ctx, o.set, o.mark)
	if c != nil || err != nil {
		o.current = c
		return c, err
	}
	o.stands = stands
	c, err = o.chain(ctx, tr, o.mark.At)
	if err == nil && stands != nil && c.added == stands.uri { // all is applied that came before it
		c.windows = slices.DeleteFunc(c.windows, func(w window) bool { return w.from.Time().Before(stands.from.Time()) })
	}
	return c, err
}

// chain opens a track, so that it tells what it can since a moment.
func (o *offer) chain(ctx context.Context, tr track, since time.Time) (*chain, error) {
	if c := o.chains[tr]; c != nil {
		if !since.Before(o.since[tr]) {
			return c, nil
		}
		c.close()
	}
	var c *chain
	var err error
	switch tr {
	case changeLists:
		c, err = o.reader.openChain(ctx, o.set, since)
	case changeDumps:
		c, err = o.openDumps(ctx, since)
	case changeListArchive, changeDumpArchive:
		c, err = o.openArchive(ctx, tr, since)
	}
	if err != nil {
		return nil, err
	}
	if tr == changeLists && o.stands != nil && len(c.windows) > 0 && !c.named[o.stands.uri] { // the index is a copy from before
		c.add(*o.stands)
		c.added = o.stands.uri
		c.arrange()
	}
	o.chains[tr], o.since[tr] = c, since
	return c, nil
}

// reach says whether changes tell everything since a mark (1.1 §12.1).
func reach(cur Position, c *chain, ch *changes) outcome {
	no := func(format string, args ...any) outcome {
		return outcome{known: true, why: fmt.Sprintf(format, args...)}
	}
	at := cur.At.UTC().Format(time.RFC3339Nano)
	switch {
	case ch == nil:
		return no("%s", c.why)
	case ch.resumed:
		return outcome{known: true, reaches: true, why: fmt.Sprintf("after entry %d of %s", cur.Applied, ch.first)}
	case c.jumbled && !ch.span().Since(cur.At):
		return no("the %ss are not in the order of their times", c.name)
	case ch.since.IsZero():
		return no("the %s %s does not say where it begins (no from)", c.name, ch.first)
	case evidence.Misdated(cur.At, ch.served, c.reader.now()):
		return no("the mirror ends at %s, which is still to come", at)
	case ch.since.Time().After(cur.At) && c.why != "":
		return no("%s", c.why)
	case ch.since.Time().After(cur.At):
		return no("gap: the %s %s begins at %s, the mirror ends at %s", c.name, ch.first, ch.since, at)
	case cur.List != "" && !c.named[cur.List] && ch.end.Before(cur.At):
		return no("%s, in which the mirror stands, is gone, and the %ss tell of nothing that is later", cur.List, c.name)
	case ch.slid:
		return no("gap: the %s %s has dropped the changes up to %s, and maybe more", c.name, ch.first, at)
	}
	return outcome{known: true, reaches: true, why: fmt.Sprintf("changes since %s in %s", at, ch.first)}
}

// joined is the outcome for changes that reach back to the cursor beside those of the tracks
// looked at before, which are laid over them.
func (o *offer) joined(ch *changes, found outcome) outcome {
	for _, other := range o.changes {
		if !found.reaches || other == ch {
			continue
		}
		if gap := ch.join(other, o.mark); gap != "" {
			return outcome{known: true, why: "gap: " + gap}
		}
	}
	return found
}

// after reads what changed after a moment, along the first track that reaches back to
// it; if none does, along the current one, and gap says what is unknown for it. What is
// known of the Change Lists already is not asked for again.
func (o *offer) after(ctx context.Context, at time.Time) (first *changes, gap string, err error) {
	for _, tr := range order(o.dumpsFirst) {
		if !o.tells[tr] {
			continue
		}
		c, err := o.chain(ctx, tr, at)
		if err != nil {
			return nil, "", err
		}
		ch, err := c.load(ctx, c.windows[c.start(at):], Position{}, nil, evidence.Placed(o.mark.Changed, time.Time{}, o.reader.now())) // or all of them would be older than what was applied
		if ch != nil {
			o.heard = ch
		}
		if err != nil {
			return ch, "", err
		}
		if ch.span().Since(at) {
			if gap := ch.join(first, Position{}); gap != "" {
				return first, unknownSince(at, gap), nil
			}
			return ch, "", nil
		}
		if first == nil {
			first = ch
		}
		gap = cmp.Or(gap, c.gapAfter(ch, at))
	}
	return first, gap, nil
}

// gapAfter says which changes after a moment a chain does not tell, although there are
// lists of them; "" if there is no such sign.
func (c *chain) gapAfter(ch *changes, at time.Time) string {
	lacks := ""
	switch {
	case at.IsZero():
	case c.broken:
		lacks = c.why
	case c.jumbled && !ch.span().Since(at):
		lacks = "the Change Lists are not in the order of their times"
	case ch != nil && ch.since.Time().After(at) && !evidence.Misdated(ch.since.Time(), ch.served, c.reader.now()):
		lacks = cmp.Or(c.why, fmt.Sprintf("the %s %s begins at %s", c.name, ch.first, ch.since))
	}
	if lacks == "" {
		return ""
	}
	return unknownSince(at, lacks)
}

// unknownSince says that changes after a moment are unknown, and why.
func unknownSince(at time.Time, why string) string {
	return fmt.Sprintf("as of %s; changes since are unknown: %s", at.UTC().Format(time.RFC3339Nano), why)
}

// carry looks for the bytes of changes in the packages of Change Dumps, if fewer than most
// have to be looked into. It returns how many were found, and in which words that is told.
func (o *offer) carry(ctx context.Context, ch *changes, most int64) (found int, why string, err error) {
	c, err := o.chain(ctx, changeDumps, o.mark.At)
	if err != nil {
		return 0, fmt.Sprintf("the Change Dumps cannot be used: %v", err), unlessLost(ctx, err)
	}
	if len(c.windows) == 0 {
		return 0, c.why, nil
	}
	windows := c.windows[c.start(o.mark.At):]
	if int64(len(windows)) >= most {
		return 0, fmt.Sprintf("to look into %d packages of Change Dumps saves nothing", len(windows)), nil
	}
	for _, w := range windows {
		n, err := o.match(ctx, c, w, ch)
		if err = unlessLost(ctx, err); err != nil {
			return 0, "", err
		}
		found += n
	}
	return found, fmt.Sprintf("%d of the changed resources are in %d packages of Change Dumps", found, len(windows)), nil
}

// match finds changes in one package. A manifest that cannot be used is passed over.
func (o *offer) match(ctx context.Context, c *chain, w window, ch *changes) (found int, err error) {
	doc, err := c.read(ctx, w)
	if err != nil {
		if lost(ctx, err) {
			o.reader.note(o.set.URI, fmt.Sprintf("the package %s is left alone: %v", w.uri, err))
		}
		return 0, err
	}
	defer doc.close()
	for e, err := range doc.entries() {
		if err != nil {
			return found, err
		}
		if from := w.parcel.carries(&e); from.parcel != nil && ch.carriedBy(&e, from) {
			found++
		}
	}
	return found, nil
}

// state opens a snapshot and reads the changes after it. Resources of a Resource Dump
// that is behind a Resource List, with no changes that lead from the one to the other,
// are no state of the present: that is an error.
func (o *offer) state(ctx context.Context, s snapshot) (_ *state, err error) {
	st := &state{reader: o.reader, set: o.set.URI, by: s, lists: o.set.Documents(snapshotDocuments[s]), fresh: o.empty}
	defer func() {
		if err != nil {
			st.close()
		}
	}()
	if s == resourceListArchive || s == resourceDumpArchive {
		uri, err := o.newest(ctx, s)
		if err != nil {
			return nil, err
		}
		if uri == "" {
			return nil, &DocumentError{URI: st.lists[0], Reason: "does not say of which moment what it names is"}
		}
		st.lists = []string{uri}
	}
	var at time.Time
	if st.dumped() {
		if err := st.readDumps(ctx); err != nil {
			return nil, err
		}
		at = st.at
	} else if at, err = st.moment(ctx); err != nil {
		return nil, err
	}
	if st.changes, st.gap, err = o.after(ctx, at); err != nil {
		return nil, err
	}
	if s != resourceList && !st.changes.span().Since(at) {
		return st, o.latest(ctx, st)
	}
	return st, nil
}

// latest says why a state without changes after it is not that of the present; nil if
// the Resource List knows nothing newer.
func (o *offer) latest(ctx context.Context, st *state) error {
	behind := &DocumentError{URI: st.lists[0], Reason: fmt.Sprintf("is of %s, and no changes are told from then on", st.at.UTC().Format(time.RFC3339Nano))}
	if st.by != resourceDump {
		return behind
	}
	if !o.usable(resourceList) {
		return nil
	}
	if at, err := o.listMoment(ctx); err == nil && at.After(st.at) {
		return behind
	}
	return nil
}

// listMoment is the moment of the Resource List, as state.moment tells it.
func (o *offer) listMoment(ctx context.Context) (time.Time, error) {
	list := &state{reader: o.reader, set: o.set.URI, lists: o.set.ResourceLists}
	defer list.close()
	return list.moment(ctx)
}

// present is the state for those who need no bytes of it: that of the Resource List if
// it can be used.
func (o *offer) present(ctx context.Context) (*state, error) {
	var failed error
	for {
		s, ok := o.first(append([]snapshot{resourceList, resourceDump}, archived...)...)
		if !ok {
			return nil, cmp.Or(failed, ErrNothingOffered)
		}
		st, err := o.state(ctx, s)
		if err == nil || !ofSource(err) || ctx.Err() != nil {
			return st, err
		}
		failed = cmp.Or(failed, err)
		o.lose(s, err)
	}
}

// lose goes on without a snapshot.
func (o *offer) lose(s snapshot, why error) {
	o.lost[s] = true
	if slices.ContainsFunc([]snapshot{resourceList, resourceDump, resourceListArchive, resourceDumpArchive}, o.usable) {
		o.reader.note(o.set.URI, fmt.Sprintf("%s cannot be used: %v", s, why))
	}
}
