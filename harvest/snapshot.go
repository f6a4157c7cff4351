package harvest

import (
	"cmp"
	"context"
	"iter"
	"time"

	"instep/evidence"
	"instep/resourcesync"
)

// Snapshot is a set at one moment: its Resource Lists or Resource Dumps, and the changes
// after their `at`.
type Snapshot struct {
	Reader   *Reader
	set      string
	By       SnapshotKind
	lists    []string             // URIs of Resource Lists or Resource Dumps
	Packages []*Package           // packages of the Resource Dumps
	Changes  *Changes             // may be nil
	then     *Changes             // of AsOf: those up to its moment, which are part of the state; may be nil
	past     time.Time            // the moment of AsOf; else zero
	opened   map[string]*Document // lists that were read to find out their moment
	broken   map[string]error     // why others could not be opened

	first func() (*Document, error) // the manifest of the first package, once it is here; nil: it is not being read

	fresh    bool      // nothing of the set is held
	spare    bool      // it is a dump, and a Resource List can be used instead
	Weighed  bool      // compared with a Resource List, which also lists the existing resources
	At       time.Time // moment of the oldest list read; known when Resources has ended
	Served   time.Time // time at which the Source sent the newest document, by its own clock; zero if unknown
	Gap      string    // the unknown changes after the lists; "" if there are none, or the Source offers none
	Unproved bool      // some entries of the documents have no sha-256 or better
	Latest   time.Time // latest possible moment of lists without a stated one; zero: all state it
	Unsure   bool      // the lists are not of one known moment: absence from them proves nothing
	Shifting bool      // they are of several moments, so another reading may find one moment: no cursor starts from this one
	Partial  error     // some document could not be used: unlisted resources may exist all the same
}

// dumped reports whether manifests of packages list the resources.
func (st *Snapshot) dumped() bool { return st.By == ResourceDump || st.By == ResourceDumpArchive }

// capability is the capability of the documents.
func (st *Snapshot) capability() resourcesync.Capability {
	if st.dumped() {
		return resourcesync.CapabilityResourceDump
	}
	return resourcesync.CapabilityResourceList
}

// readDumps finds the packages of Resource Dumps.
func (st *Snapshot) readDumps(ctx context.Context) (err error) {
	r := newLister(ctx, st, func(_ Item, failed error) bool {
		err = failed
		return false
	})
	r.leaf = r.pkg
	if !r.lists(st.lists) {
		return err
	}
	return nil
}

// Weight is how many bytes all the packages of the dumps have, if all lengths are given.
func (st *Snapshot) Weight() (bytes int64, known bool) {
	for _, p := range st.Packages {
		if !p.Length.Known() {
			return 0, false
		}
		bytes += p.Length.Int64()
	}
	return bytes, true
}

// maxOpened is how many lists are kept open because their moment had to be known.
const maxOpened = 16

// moment opens the Resource Lists and returns the oldest at, or the zero time if one is
// unknown. Errors in some of them are reported when their resources are read; it is an
// error if none can be read.
func (st *Snapshot) moment(ctx context.Context) (at time.Time, err error) {
	st.opened, st.broken = map[string]*Document{}, map[string]error{}
	unknown := len(st.lists) > maxOpened
	for _, uri := range st.lists[:min(len(st.lists), maxOpened)] {
		doc, failed := st.Reader.Read(ctx, uri, st.capability())
		if failed != nil {
			if !OfSource(failed) || ctx.Err() != nil {
				return time.Time{}, failed
			}
			st.broken[uri], unknown = failed, true
			err = cmp.Or(err, failed)
			continue
		}
		st.opened[uri] = doc
		t, failed := doc.oldest()
		if failed != nil {
			return time.Time{}, failed
		}
		if unknown = unknown || t.IsZero(); t.IsZero() && doc.Header.Root != resourcesync.SitemapIndex { // the parts in an index state more of their moments
			latest, _ := doc.latest(st.Reader.Now())
			st.Latest = evidence.Later(st.Latest, latest)
		}
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

// oldest is the moment of a list or, of an index, the oldest that it states for its parts.
func (doc *Document) oldest() (time.Time, error) {
	at := doc.Header.At.Time()
	if doc.Header.Root != resourcesync.SitemapIndex || at.IsZero() {
		return at, nil
	}
	for e, err := range doc.Entries() {
		if err != nil {
			return time.Time{}, err
		}
		if t := e.At.Time(); !t.IsZero() && t.Before(at) {
			at = t
		}
	}
	return at, nil
}

// open reads a document that was not opened before.
func (st *Snapshot) open(ctx context.Context, uri string) (*Document, error) {
	if doc := st.opened[uri]; doc != nil {
		delete(st.opened, uri)
		return doc, nil
	}
	if err := st.broken[uri]; err != nil {
		return nil, err
	}
	return st.Reader.Read(ctx, uri, st.capability())
}

// readFirst begins to read the manifest of the first package while the Change Lists are read, if
// nothing of the set is held: then it is needed whatever they say.
func (st *Snapshot) readFirst(ctx context.Context) {
	if !st.fresh || st.Unsure || len(st.Packages) == 0 {
		return
	}
	var doc *Document
	var err error
	read := make(chan struct{})
	go func() {
		defer close(read)
		doc, err = st.ask(ctx, st.Packages[0])
	}()
	st.first = func() (*Document, error) {
		<-read
		st.first = nil
		return doc, err
	}
}

// manifest reads the manifest of a package.
func (st *Snapshot) manifest(ctx context.Context, p *Package) (*Document, error) {
	if st.first != nil && p == st.Packages[0] {
		return st.first()
	}
	return st.ask(ctx, p)
}

func (st *Snapshot) ask(ctx context.Context, p *Package) (*Document, error) {
	p.Harmless, p.Alone = st.fresh, !st.fresh && !st.Weighed
	return st.Reader.Packages.Manifest(ctx, st.Reader, p, resourcesync.CapabilityResourceDumpManifest)
}

// Close gives back the lists that were opened and not read, and the packages that no
// plan has taken.
func (st *Snapshot) Close() {
	if st.first != nil {
		if doc, err := st.first(); err == nil {
			doc.Close()
		}
	}
	for _, p := range st.Packages {
		p.Close()
	}
	for _, doc := range st.opened {
		doc.Close()
	}
}

// Resources yields every resource that exists at the Source. Documents that cannot
// be used are left out and recorded in Partial; if no Resource List can be used, that
// ends the sequence.
func (st *Snapshot) Resources(ctx context.Context) iter.Seq2[Item, error] {
	if !st.past.IsZero() {
		return st.asOf(ctx)
	}
	return st.resources(ctx)
}

// overlay is the changes that count beside what is listed; may be nil.
func (st *Snapshot) overlay() *Changes {
	if st.then != nil {
		return st.then
	}
	return st.Changes
}

func (st *Snapshot) resources(ctx context.Context) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		r := newLister(ctx, st, yield)
		r.leaf = r.resource
		defer r.listed.Close()
		if st.dumped() {
			if !r.manifests() {
				return
			}
		} else if !r.lists(st.lists) {
			return
		}
		changes := st.overlay()
		if changes == nil {
			return
		}
		if err := changes.Flaw; err != nil {
			r.fail(err)
		}
		for c, err := range changes.All() {
			if !r.unlisted(c, err) {
				return
			}
		}
	}
}

// unlisted returns the state of a resource that has a change and is not in the lists; ok is
// false if it does not exist. A change with only a lastmod from before the lists may have
// happened after them, with older bytes.
func (st *Snapshot) unlisted(c *Change) (_ Item, ok bool) {
	said, told := c.Word()
	if c.OfBytes {
		said.To = c.Most
	}
	switch d, _ := evidence.Decide(said, evidence.Held{Gone: true, At: st.At}); d {
	case evidence.Fetch:
		return Item{Resource: *told, Location: c.Location, By: c}, true
	case evidence.Ask:
		open := c.disputed(true)
		open.aged = c.OfBytes && !c.Torn
		return Item{Resource: *told, Location: c.Location, By: open, At: st.At}, true
	}
	return Item{}, false
}

// AsOf is the moment up to which the documents are complete: an open Change List that
// continues the lists is complete until it was sent.
func (st *Snapshot) AsOf() time.Time {
	ch := st.Changes
	if !ch.Span().Since(st.At) {
		return st.At
	}
	at := evidence.Later(st.At, ch.End)
	if ch.newest.until.IsZero() {
		at = evidence.Later(at, ch.newest.served)
	}
	return at
}

// Newest is the latest moment that the state can be of.
func (st *Snapshot) Newest() time.Time {
	if st.At.IsZero() {
		return st.Latest
	}
	return st.At
}

// Old reports whether a list of a moment is older than what was applied.
func (st *Snapshot) Old(at time.Time, a evidence.Applied) bool {
	return evidence.Snapshot{At: at, Then: st.Changes.Span()}.Old(a)
}
