package destination

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"time"

	"instep/internal/evidence"
	"instep/internal/spool"
	"instep/resourcesync"
)

// state is what a Source says of a set at one moment: its Resource Lists or Resource
// Dumps, and what changed after their `at`.
type state struct {
	d       *Destination
	scope   *scope
	set     string
	by      snapshot
	lists   []string             // URIs of Resource Lists or Resource Dumps
	parcels []*parcel            // of the Resource Dumps
	changes *changes             // may be nil
	opened  map[string]*document // of lists: read to know their moment
	broken  map[string]error     // why others could not be opened

	fresh    bool      // nothing of the set is held
	lift     time.Time // what the documents say counts as said at this moment, if they are older
	at       time.Time // of the oldest list read; known when resources has ended
	served   time.Time // when the Source sent the newest document, by its own clock; zero if that is unknown
	gap      string    // which changes after the lists are unknown; "" if none are, or the Source offers none
	unproved bool      // some of what the documents name comes without a sha-256 or better
	unsure   bool      // the lists are not of one known moment: absence from them is no evidence, and no cursor starts from them
	partial  error     // some document could not be used: what is not listed may exist all the same
}

// state opens a snapshot and reads the changes after it. Resources of a Resource Dump
// that is behind a Resource List, with no changes that lead from the one to the other,
// are no state of the present: that is an error.
func (k *desk) state(ctx context.Context, s snapshot) (_ *state, err error) {
	st := &state{d: k.d, scope: k.scope, set: k.set.URI, by: s, lists: k.set.Documents(snapshotDocuments[s]), fresh: k.members == 0}
	defer func() {
		if err != nil {
			st.close()
		}
	}()
	if s == resourceListArchive || s == resourceDumpArchive {
		uri, err := k.newest(ctx, s)
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
	if st.changes, st.gap, err = k.after(ctx, at); err != nil {
		return nil, err
	}
	if s != resourceList && !st.changes.span().Since(at) {
		return st, k.latest(ctx, st)
	}
	return st, nil
}

// latest says why a state without changes after it is not that of the present; nil if
// the Resource List knows nothing newer.
func (k *desk) latest(ctx context.Context, st *state) error {
	behind := &DocumentError{URI: st.lists[0], Reason: fmt.Sprintf("is of %s, and no changes are told from then on", st.at.UTC().Format(time.RFC3339Nano))}
	if st.by != resourceDump {
		return behind
	}
	if !k.usable(resourceList) {
		return nil
	}
	if at, err := k.listMoment(ctx); err == nil && at.After(st.at) {
		return behind
	}
	return nil
}

// listMoment is the moment of the Resource List, as state.moment tells it.
func (k *desk) listMoment(ctx context.Context) (time.Time, error) {
	list := &state{d: k.d, scope: k.scope, set: k.set.URI, lists: k.set.ResourceLists}
	defer list.close()
	return list.moment(ctx)
}

// present is the state for those who need no bytes of it: that of the Resource List if
// it can be used.
func (k *desk) present(ctx context.Context) (*state, error) {
	k.prefer = PreferList
	var failed error
	for {
		s, _, ok := k.truth()
		if !ok {
			return nil, cmp.Or(failed, ErrNothingOffered)
		}
		st, err := k.state(ctx, s)
		if err == nil || !ofSource(err) || ctx.Err() != nil {
			return st, err
		}
		failed = cmp.Or(failed, err)
		k.lose(s, err)
	}
}

// lose goes on without a snapshot.
func (k *desk) lose(s snapshot, why error) {
	k.lost[s] = true
	if _, _, more := k.truth(); more {
		k.d.note(k.set.URI, fmt.Sprintf("%s cannot be used: %v", s, why))
	}
}

// dumped reports whether resources are told by the manifests of packages.
func (st *state) dumped() bool { return st.by == resourceDump || st.by == resourceDumpArchive }

// capability is that of the documents.
func (st *state) capability() resourcesync.Capability {
	if st.dumped() {
		return resourcesync.CapabilityResourceDump
	}
	return resourcesync.CapabilityResourceList
}

// after reads what changed after a moment, along the first track that reaches back to
// it; if none does, along the current one, and gap says what is unknown for it. What is
// known of the Change Lists already is not asked for again.
func (k *desk) after(ctx context.Context, at time.Time) (first *changes, gap string, err error) {
	for _, tr := range k.order() {
		if !k.tells[tr] {
			continue
		}
		c, err := k.chain(ctx, tr, at)
		if err != nil {
			return nil, "", err
		}
		ch, err := c.load(ctx, c.windows[c.start(at):], Cursor{}, nil, k.d.placed(k.cursor.Changed, time.Time{})) // or all of them would be older than what was applied
		if ch != nil {
			k.heard = ch
		}
		if err != nil {
			return ch, "", err
		}
		if ch.span().Since(at) {
			if gap := ch.join(first, Cursor{}); gap != "" {
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
	case ch != nil && ch.since.Time().After(at) && !c.d.misdated(ch.since.Time(), ch.served):
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

// readDumps finds the packages of Resource Dumps.
func (st *state) readDumps(ctx context.Context) (err error) {
	r := newLister(ctx, st, func(_ resource, failed error) bool {
		err = failed
		return false
	})
	r.leaf = r.parcel
	if !r.lists(st.lists) {
		return err
	}
	return nil
}

// weight is what all the packages of the dumps cost.
func (st *state) weight() int64 {
	var bytes int64
	for _, p := range st.parcels {
		if !p.ref.length.Known() {
			return math.MaxInt64
		}
		bytes += p.ref.length.Int64()
	}
	return cost(bytes, int64(2*len(st.parcels)))
}

// maxOpened is how many lists are kept open because their moment had to be known.
const maxOpened = 16

// moment opens the Resource Lists and returns the oldest at, or the zero time if one is
// unknown. What is wrong with some of them is told when their resources are read; it is
// an error if none can be read.
func (st *state) moment(ctx context.Context) (at time.Time, err error) {
	st.opened, st.broken = map[string]*document{}, map[string]error{}
	unknown := len(st.lists) > maxOpened
	for _, uri := range st.lists[:min(len(st.lists), maxOpened)] {
		doc, failed := st.d.read(ctx, uri, st.capability())
		if failed != nil {
			if !ofSource(failed) || ctx.Err() != nil {
				return time.Time{}, failed
			}
			st.broken[uri], unknown = failed, true
			err = cmp.Or(err, failed)
			continue
		}
		st.opened[uri] = doc
		t := doc.header.At.Time()
		unknown = unknown || t.IsZero()
		if at.IsZero() || t.Before(at) {
			at = t
		}
	}
	if len(st.broken) < len(st.lists) {
		err = nil
	}
	if unknown {
		at = time.Time{}
	}
	return at, err
}

// open reads a document that was not opened before.
func (st *state) open(ctx context.Context, uri string) (*document, error) {
	if doc := st.opened[uri]; doc != nil {
		delete(st.opened, uri)
		return doc, nil
	}
	if err := st.broken[uri]; err != nil {
		return nil, err
	}
	return st.d.read(ctx, uri, st.capability())
}

// close gives back the lists that were opened and not read, and the packages that no
// plan has taken.
func (st *state) close() {
	for _, p := range st.parcels {
		p.close()
	}
	for _, doc := range st.opened {
		doc.close()
	}
}

// resources yields every resource that exists at the Source. Documents that cannot
// be used are left out and recorded in partial; if no Resource List can be used, that
// ends the sequence.
func (st *state) resources(ctx context.Context) iter.Seq2[resource, error] {
	return func(yield func(resource, error) bool) {
		r := newLister(ctx, st, yield)
		r.leaf = r.resource
		if st.dumped() {
			if !r.manifests() {
				return
			}
		} else if !r.lists(st.lists) {
			return
		}
		if st.changes == nil {
			return
		}
		if err := st.changes.flaw; err != nil {
			r.fail(err)
		}
		for c := range st.changes.states() {
			if w, ok := st.unlisted(c); ok && !r.listed[resourcesync.KeyOf(w.URI)] && !yield(w, nil) {
				return
			}
		}
	}
}

// unlisted is what a change says of a resource that the lists do not name; ok is false if it
// does not exist.
func (st *state) unlisted(c *change) (_ resource, ok bool) {
	said, told := c.word()
	switch d, _ := evidence.Decide(said, evidence.Held{Gone: true, At: st.at}); d {
	case evidence.Fetch:
		return resource{Wanted: *told, carrier: c.carrier, by: c}, true
	case evidence.Ask:
		return resource{Wanted: *told, carrier: c.carrier, by: c.disputed(true), at: st.at}, true
	}
	return resource{}, false
}

// compare hands every resource that admit lets through to each, in batches, and remembers
// in seen every resource that the Source names. What twice names comes last, with all that
// counts.
func (st *state) compare(ctx context.Context, seen *spool.Keys, twice map[spool.Key]bool, admit func(*Wanted) bool, each func(context.Context, []resource) error) error {
	batch := make([]resource, 0, lookupBatch)
	add := func(w resource) (err error) {
		w.Changed = later(w.Changed, st.lift)
		if !admit(&w.Wanted) {
			return nil
		}
		if batch = append(batch, w); len(batch) == lookupBatch {
			err, batch = each(ctx, batch), batch[:0]
		}
		return err
	}
	several := map[spool.Key]*resource{}
	for w, err := range st.resources(ctx) {
		if err != nil {
			return err
		}
		key := resourcesync.KeyOf(w.URI)
		if err := seen.Add(key); err != nil {
			return err
		}
		if twice[key] {
			several[key] = w.beside(several[key])
			continue
		}
		if err := add(w); err != nil {
			return err
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(several), func(a, b spool.Key) int { return bytes.Compare(a[:], b[:]) }) {
		if err := add(*several[key]); err != nil {
			return err
		}
	}
	return each(ctx, batch)
}

// maxOthers is how many documents that say different things of one resource are compared.
const maxOthers = 4

// beside is what two documents say of one resource: the later word, or both.
func (w *resource) beside(before *resource) *resource {
	switch {
	case before == nil, w.Changed.After(before.Changed):
		return w
	case w.Changed.Equal(before.Changed) && !sameWant(&w.Wanted, &before.Wanted) && len(before.others) < maxOthers:
		before.others = append(before.others, *w)
	}
	return before
}

// choose is what counts of what documents say of a resource: what the bytes held are, else
// something that did not fail when it was last tried.
func (w *resource) choose(h *Held) *resource {
	if len(w.others) == 0 {
		return w
	}
	all := append([]resource{*w}, w.others...)
	slices.SortFunc(all, func(a, b resource) int { return cmp.Compare(a.Digests.String(), b.Digests.String()) }) // in whatever order the documents came
	for i := range all {
		if h.Due == "" && match(h, &all[i].Wanted) == evidence.Same {
			return &all[i]
		}
	}
	for i := range all {
		if h.Due == "" || !sameWant(&all[i].Wanted, &h.Wanted) {
			return &all[i]
		}
	}
	return w
}

// applied is how far the set was followed, in the time of st.
func (st *state) applied(cur Cursor) evidence.Applied {
	if !st.lift.IsZero() {
		return evidence.Applied{}
	}
	return st.d.applied(cur, st.served)
}

// old reports whether a list of a moment is older than what was applied.
func (st *state) old(at time.Time, a evidence.Applied) bool {
	return evidence.Snapshot{At: at, Then: st.changes.span()}.Old(a)
}

// asOf is the moment up to which the documents tell everything: an open Change List that goes
// on from the lists does until it was sent.
func (st *state) asOf() time.Time {
	ch := st.changes
	if !ch.span().Since(st.at) {
		return st.at
	}
	at := later(st.at, ch.end)
	if ch.at.until.IsZero() {
		at = later(at, ch.at.served)
	}
	return at
}

// said is what is said of a resource that was yielded.
func (st *state) said(w *resource, a evidence.Applied) evidence.Statement {
	if w.by == nil {
		s := listed(evidence.Listed, w.Changed)
		s.Old = st.old(w.Changed, a)
		return s
	}
	s, _ := w.by.word()
	s.Old = st.changes.span().Old(a) && (w.at.IsZero() || st.old(w.at, a))
	s.From = later(s.From, st.lift)
	return s
}

// absent is what the documents say of a member that they do not name, and when: a change,
// or else the lists.
func (st *state) absent(h *Held, cur Cursor, k known) (evidence.Statement, *Wanted) {
	a := st.applied(cur)
	if c := st.changes.last(resourcesync.KeyOf(h.URI)); c != nil && c.change == resourcesync.Deleted {
		said, w := c.against(h)
		said.Old = st.changes.span().Old(a)
		said.From, w.Changed = later(said.From, st.lift), later(w.Changed, st.lift)
		if d, _ := evidence.Decide(said, st.d.evidenceOf(h, k, st.served)); d == evidence.Remove || d == evidence.Ask {
			return said, w
		}
	}
	at := later(st.at, st.lift)
	said := listed(evidence.Absent, at)
	said.Old, said.Again = st.old(at, a), st.lift.IsZero() && at.Equal(k.named)
	return said, &Wanted{URI: h.URI, Changed: at}
}
