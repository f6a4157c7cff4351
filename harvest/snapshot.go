package harvest

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"time"

	"instep/evidence"
	"instep/resourcesync"
)

// Snapshot is the state of a set that its Resource Lists or Resource Dumps describe,
// and the changes after the time ("at") of these documents.
type Snapshot struct {
	Reader   *Reader
	set      string
	By       SnapshotKind
	lists    []string             // URIs of Resource Lists or Resource Dumps
	Packages []*Package           // the packages of the Resource Dumps
	Changes  *Changes             // changes after the time of the lists or dumps; may be nil
	then     *Changes             // for Offer.AsOf: the changes up to the requested moment; may be nil
	opened   map[string]*Document // lists that were opened to read their time, by URI
	broken   map[string]error     // errors of the lists that could not be opened, by URI
	noIndex  map[string]bool      // URIs of documents that are no index, although a list calls them so

	first func() (*Document, error) // returns the manifest of the first package, if a goroutine reads it in advance; else nil

	fresh    bool      // the caller holds no resource of the set
	spare    bool      // the snapshot is a dump, and a Resource List can be used instead
	Weighed  bool      // the snapshot is a dump that the caller has compared with a Resource List
	At       time.Time // time of the oldest list that was read; final when Resources has ended
	Served   time.Time // time at which the Source sent the newest document, by its own clock; zero if unknown
	Gap      string    // description of the missing changes after the lists; "" if none are missing, or the Source lists no changes at all
	Unproved bool      // some entries have no digest of sha-256 or stronger
	Latest   time.Time // latest possible time of the lists that do not state their time; zero if all do
	Unsure   bool      // the lists have no common known time, so a resource may exist although it is missing from them
	Shifting bool      // the lists have different times, but may have the same time when they are read again
	Partial  error     // error of an unusable document, which may have listed further resources; nil if there is none
}

func (st *Snapshot) dumped() bool { return st.By == ResourceDump || st.By == ResourceDumpArchive }

func (st *Snapshot) capability() resourcesync.Capability {
	if st.dumped() {
		return resourcesync.CapabilityResourceDump
	}
	return resourcesync.CapabilityResourceList
}

// oldestTime returns the oldest time of the documents, or zero if a time is unknown.
func (st *Snapshot) oldestTime(ctx context.Context) (time.Time, error) {
	if !st.dumped() {
		return st.listTime(ctx)
	}
	err := st.readDumps(ctx)
	return st.At, err
}

func (st *Snapshot) readDumps(ctx context.Context) (err error) {
	r := newLister(ctx, st, func(_ Item, failed error) bool {
		err = failed
		return false
	})
	r.leaf = r.addPackage
	if !r.lists() {
		return err
	}
	return nil
}

// Weight returns the total size of all packages in bytes. known is false if the length
// of some package is unknown.
func (st *Snapshot) Weight() (bytes int64, known bool) {
	for _, p := range st.Packages {
		if !p.Length.Known() {
			return 0, false
		}
		bytes += p.Length.Int64()
	}
	return bytes, true
}

// maxOpened is the maximum number of lists that stay open after their times were read.
const maxOpened = 16

// listTime returns the oldest time of the Resource Lists, or zero if one of the times
// is unknown. It returns an error only if no list can be read, because Resources
// reports the errors of single lists.
func (st *Snapshot) listTime(ctx context.Context) (at time.Time, err error) {
	unknown, usable := len(st.lists) > maxOpened, false
	for i := 0; i < min(len(st.lists), maxOpened); i++ { // followIndex may add lists
		uri := st.lists[i]
		doc, failed := st.open(ctx, uri)
		if failed != nil {
			if !OfSource(failed) || ctx.Err() != nil {
				return time.Time{}, failed
			}
			st.broken[uri], unknown = failed, true
			err = cmp.Or(err, failed)
			continue
		}
		st.opened[uri], usable = doc, true
		if failed := UnlessOfSource(ctx, st.followIndex(ctx, doc)); failed != nil {
			return time.Time{}, failed
		}
		t, failed := doc.oldest()
		if failed != nil {
			return time.Time{}, failed
		}
		// an index without a time does not set Latest, since its parts may state their times
		if unknown = unknown || t.IsZero(); t.IsZero() && doc.Header.Root != resourcesync.SitemapIndex {
			latest, _ := doc.latest(st.Reader.Now())
			st.Latest = evidence.Later(st.Latest, latest)
		}
		if at.IsZero() || t.Before(at) {
			at = t
		}
	}
	if usable || len(st.lists) > maxOpened {
		err = nil
	}
	if unknown {
		at = time.Time{}
	}
	return at, err
}

// followIndex adds the index to which a list links (1.1 §10.2) to the lists, because the
// index may name further lists. A link to anything else than an index is ignored.
func (st *Snapshot) followIndex(ctx context.Context, doc *Document) error {
	i := slices.IndexFunc(doc.Header.Links, func(l resourcesync.Link) bool { return l.Rel == relIndex && l.Type != "text/html" })
	if i < 0 || doc.Header.Root == resourcesync.SitemapIndex {
		return nil
	}
	uri, err := st.Reader.named(doc.Header.Links[i].Href, doc.Base)
	if err != nil || uri == doc.Base.String() || st.noIndex[uri] || slices.Contains(st.lists, uri) {
		return err
	}
	index, err := st.open(ctx, uri)
	var bad *DocumentError
	more := false
	if err == nil {
		if more, err = st.namesMore(index); err != nil || !more {
			index.Close()
		}
	}
	switch {
	case more && err == nil:
		st.lists, st.opened[uri] = append(st.lists, uri), index
	case err == nil:
		st.noIndex[uri] = true
	case errors.As(err, &bad) && bad.other:
		st.noIndex[uri] = true
		return nil
	case OfSource(err) && ctx.Err() == nil:
		st.broken[uri] = err
		err = notUsable("index of "+doc.URI, uri, err)
	}
	return err
}

// namesMore reports whether a document is an index that names a list which is not offered.
// Another index is not used, because it adds nothing but its own time.
func (st *Snapshot) namesMore(index *Document) (bool, error) {
	if index.Header.Root != resourcesync.SitemapIndex && !index.lists {
		return false, nil
	}
	for e, err := range index.Entries() {
		if err != nil {
			return false, err
		}
		if uri, err := st.Reader.named(e.Loc, index.Base); err != nil || !slices.Contains(st.lists, uri) {
			return true, nil
		}
	}
	return index.Bad > 0, nil
}

// oldest returns the time of a list. For an index, this is the oldest of the times that
// the index states for itself and for its parts.
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

// readFirst reads the manifest of the first package while the Change Lists are read. It
// does so only if the caller holds no resource of the set, because then the manifest is
// certainly needed.
func (st *Snapshot) readFirst(ctx context.Context) {
	if !st.fresh || st.Unsure || len(st.Packages) == 0 {
		return
	}
	first := sync.OnceValues(func() (*Document, error) { return st.ask(ctx, st.Packages[0]) })
	go func() { _, _ = first() }() // the caller of Snapshot.first closes the document
	st.first = first
}

func (st *Snapshot) manifest(ctx context.Context, p *Package) (*Document, error) {
	if first := st.first; first != nil && p == st.Packages[0] {
		st.first = nil
		return first()
	}
	return st.ask(ctx, p)
}

func (st *Snapshot) ask(ctx context.Context, p *Package) (*Document, error) {
	p.Harmless, p.Alone = st.fresh, !st.fresh && !st.Weighed
	return st.Reader.Packages.Manifest(ctx, st.Reader, p, resourcesync.CapabilityResourceDumpManifest)
}

// Close closes the lists that were opened and not read, and the packages that are still
// in Packages.
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

// Resources yields every resource that exists at the Source. It skips unusable
// documents and records them in Partial. If no Resource List can be used, it ends with
// an error.
func (st *Snapshot) Resources(ctx context.Context) iter.Seq2[Item, error] {
	if !st.Reader.until.IsZero() {
		return st.asOf(ctx)
	}
	return st.resources(ctx)
}

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
		} else if !r.lists() {
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

// unlisted returns the changed resource if the lists do not contain it, or ok=false if it
// does not exist. The lastmod of a change without a datetime is no latest time: an older
// file, with an older lastmod, may have replaced the resource.
func (st *Snapshot) unlisted(c *Change) (_ Item, ok bool) {
	said, told := c.Word()
	if c.OfBytes {
		said.To = c.Most
	}
	switch d, _ := evidence.Decide(said, evidence.Held{Gone: true, At: st.At}); d {
	case evidence.Fetch:
		return Item{Resource: *told, Location: c.Location, By: c}, true
	case evidence.Ask:
		open := c.disputed(!c.Torn || c.Denied || !c.From.After(st.At))
		open.aged = c.OfBytes && !c.Torn
		return Item{Resource: *told, Location: c.Location, By: open, At: st.At, Or: c.Or()}, true
	}
	return Item{}, false
}

// AsOf returns the time of the state that the documents together describe. If an open
// Change List has the changes after the lists, this is the time at which the Source
// sent it.
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

// Newest returns the latest possible time of the lists.
func (st *Snapshot) Newest() time.Time {
	if st.At.IsZero() {
		return st.Latest
	}
	return st.At
}

// Old reports whether a list with the given time is older than the state that earlier
// runs applied.
func (st *Snapshot) Old(at time.Time, a evidence.Applied) bool {
	return evidence.Snapshot{At: at, Then: st.Changes.Span()}.Old(a)
}
