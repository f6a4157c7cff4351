package destination

import (
	"cmp"
	"context"
	"iter"
	"time"

	"instep/internal/evidence"
	"instep/resourcesync"
)

// state is what a Source says of a set at one moment: its Resource Lists or Resource
// Dumps, and what changed after their `at`.
type state struct {
	reader  *reader
	set     string
	by      snapshot
	lists   []string             // URIs of Resource Lists or Resource Dumps
	parcels []*parcel            // of the Resource Dumps
	changes *changes             // may be nil
	opened  map[string]*document // of lists: read to know their moment
	broken  map[string]error     // why others could not be opened

	fresh    bool      // nothing of the set is held
	at       time.Time // of the oldest list read; known when resources has ended
	served   time.Time // when the Source sent the newest document, by its own clock; zero if that is unknown
	gap      string    // which changes after the lists are unknown; "" if none are, or the Source offers none
	unproved bool      // some of what the documents name comes without a sha-256 or better
	unsure   bool      // the lists are not of one known moment: absence from them is no evidence, and no cursor starts from them
	partial  error     // some document could not be used: what is not listed may exist all the same
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

// weight is how many bytes all the packages of the dumps have, if all lengths are given.
func (st *state) weight() (bytes int64, known bool) {
	for _, p := range st.parcels {
		if !p.ref.length.Known() {
			return 0, false
		}
		bytes += p.ref.length.Int64()
	}
	return bytes, true
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
		doc, failed := st.reader.read(ctx, uri, st.capability())
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
	return st.reader.read(ctx, uri, st.capability())
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

// asOf is the moment up to which the documents tell everything: an open Change List that goes
// on from the lists does until it was sent.
func (st *state) asOf() time.Time {
	ch := st.changes
	if !ch.span().Since(st.at) {
		return st.at
	}
	at := evidence.Later(st.at, ch.end)
	if ch.at.until.IsZero() {
		at = evidence.Later(at, ch.at.served)
	}
	return at
}

// old reports whether a list of a moment is older than what was applied.
func (st *state) old(at time.Time, a evidence.Applied) bool {
	return evidence.Snapshot{At: at, Then: st.changes.span()}.Old(a)
}
