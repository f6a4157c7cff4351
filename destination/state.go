package destination

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"time"

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

	fresh   bool      // nothing of the set is held
	lift    time.Time // what the documents say counts as said at this moment, if they are older
	at      time.Time // of the oldest list read; known when resources has ended
	served  time.Time // when the Source sent the newest document, by its own clock; zero if that is unknown
	unsure  bool      // the lists are not of one known moment: absence from them is no evidence, and no cursor starts from them
	partial error     // some document could not be used: what is not listed may exist all the same
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
		if k.ahead && st.fresh && k.scope.filter.all() && len(st.parcels) > 0 {
			st.parcels[0].begin(ctx, k.d, resourcesync.CapabilityResourceDumpManifest)
		}
	} else if at, err = st.moment(ctx); err != nil {
		return nil, err
	}
	if st.changes, err = k.after(ctx, at); err != nil {
		return nil, err
	}
	if s != resourceList && !st.changes.bridges(at) {
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
	list := &state{d: k.d, scope: k.scope, set: k.set.URI, lists: k.set.ResourceLists}
	defer list.close()
	if at, err := list.moment(ctx); err == nil && at.After(st.at) {
		return behind
	}
	return nil
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
// it; if none does, along the current one. What is known of the Change Lists already
// is not asked for again.
func (k *desk) after(ctx context.Context, at time.Time) (*changes, error) {
	var first *changes
	for _, tr := range k.order() {
		if !k.tells[tr] {
			continue
		}
		c, err := k.chain(ctx, tr, at)
		if err != nil {
			return nil, err
		}
		ch, err := c.load(ctx, c.start(at), Cursor{}, nil)
		if ch != nil {
			k.heard = ch
		}
		if err != nil || ch.bridges(at) {
			return ch, err
		}
		if first == nil {
			first = ch
		}
	}
	return first, nil
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

// reaches reports whether the documents say everything up to the moment of a cursor.
func (st *state) reaches(cur Cursor) bool {
	return !st.at.Before(cur.At) || st.bridges(st.at) || st.d.toCome(cur.At, st.served)
}

// bridges reports whether the documents say everything that happened after t.
func (st *state) bridges(t time.Time) bool { return st.changes.bridges(t) }

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
		for w := range st.changes.present(st.at) {
			if !r.listed[resourcesync.KeyOf(w.URI)] && !yield(w, nil) {
				return
			}
		}
	}
}

// compare hands every resource that admit lets through to each, in batches and with
// where in packages the bytes are, and remembers in seen every resource that the Source names.
func (st *state) compare(ctx context.Context, seen *spool.Keys, admit func(*Wanted) bool, each func(context.Context, []Wanted, []carrier) error) error {
	batch, carriers := make([]Wanted, 0, lookupBatch), make([]carrier, 0, lookupBatch)
	for w, err := range st.resources(ctx) {
		if err != nil {
			return err
		}
		if err := seen.Add(resourcesync.KeyOf(w.URI)); err != nil {
			return err
		}
		w.Changed = later(w.Changed, st.lift)
		if !admit(&w.Wanted) {
			continue
		}
		if batch, carriers = append(batch, w.Wanted), append(carriers, w.carrier); len(batch) == lookupBatch {
			if err := each(ctx, batch, carriers); err != nil {
				return err
			}
			batch, carriers = batch[:0], carriers[:0]
		}
	}
	return each(ctx, batch, carriers)
}

// goneSince is the moment at which, on the evidence of the documents read, uri was not in the set any more.
func (st *state) goneSince(uri string) time.Time {
	if st.changes != nil {
		if c := st.changes.last(resourcesync.KeyOf(uri)); c != nil && c.change == resourcesync.Deleted && !c.Changed.Before(st.at) {
			return later(c.Changed, st.lift)
		}
	}
	return later(st.at, st.lift)
}
