package harvest

import (
	"context"
	"fmt"
	"time"

	"instep/evidence"
	"instep/internal/spool"
	"instep/resourcesync"
)

const (
	maxDocuments = 10_000 // maximum number of documents of one set that a run reads (FAULTS §5)
	maxNamed     = 20     // maximum number of unusable packages that are reported one by one
	maxLevels    = 4      // maximum depth of lists that contain lists; 1.1 §10.2 allows one level
)

// lister reads the Resource Lists of a set: plain lists, their indexes (1.1 §10.2),
// chains of pages, and lists that contain other lists.
type lister struct {
	st     *Snapshot
	ctx    context.Context
	yield  func(Item, error) bool
	listed *spool.Index                                           // URIs of the listed resources that also have a change
	leaf   func(doc *Document, e *resourcesync.Entry, n int) bool // handles the nth entry of a document that is not an index

	read     map[string]bool // URIs of the documents that were requested, including unreadable ones
	indexes  map[string]bool // URIs of documents that are indexes
	full     bool            // set if there are more documents than a run reads
	opened   int             // number of members in the packages that stay open; see Package.keep
	unusable int             // number of unusable packages
	before   []page          // pages with a link to a previous page
}

func newLister(ctx context.Context, st *Snapshot, yield func(Item, error) bool) *lister {
	return &lister{st: st, ctx: ctx, yield: yield, listed: spool.NewIndex(st.Reader.Spool, 0), read: map[string]bool{}, indexes: map[string]bool{}}
}

// page is a page with a link to a previous page.
type page struct{ doc, prev string }

// lists yields the resources of all lists. Like the other methods of lister, it returns
// false when the consumer stops.
func (r *lister) lists(uris []string) bool {
	var failed error
	usable := false
	for _, uri := range uris {
		if r.read[uri] {
			usable = true // the document was read as a part or page of another one
			continue
		}
		doc, err := r.open(uri)
		switch {
		case err == nil:
			usable = true
			r.follows(doc)
			if !r.pages(doc, 0) {
				return false
			}
		case !OfSource(err) || r.ctx.Err() != nil || len(uris) == 1:
			r.yield(Item{}, err)
			return false
		default: // the other lists of the Capability List are still used
			failed = err
			quirk := resourcesync.Quirk(0)
			if !IsSourceError(err) {
				quirk = resourcesync.QuirkOtherDocument
			}
			r.failAs(quirk, err)
		}
	}
	if !usable && failed != nil {
		r.yield(Item{}, failed)
		return false
	}
	for _, p := range r.before {
		if !r.read[p.prev] {
			r.failAs(resourcesync.QuirkPages, &DocumentError{URI: p.doc, Reason: "is a page of a list that begins elsewhere, before " + p.prev})
		}
	}
	return true
}

func (r *lister) open(uri string) (*Document, error) {
	r.read[uri] = true
	return r.st.open(r.ctx, uri)
}

// follows records the predecessor of a page, which must be read as well.
func (r *lister) follows(doc *Document) {
	ref := doc.Header.Link(relPrev)
	if ref == "" {
		return
	}
	uri, err := r.st.Reader.named(ref, doc.Base)
	if err != nil {
		r.failAs(resourcesync.QuirkPages, err)
		return
	}
	r.before = append(r.before, page{doc.URI, uri})
}

// pages yields the entries of a document and of the pages after it, and closes them.
// All pages form one list, which is complete only if the last page was read.
func (r *lister) pages(doc *Document, level int) bool {
	first, chain := doc, map[string]bool{}
	for doc != nil {
		chain[doc.URI] = true
		more := r.document(doc, level)
		doc.Close()
		if !more {
			return false
		}
		next, err := r.next(doc, chain)
		if err != nil {
			return r.partFailed(resourcesync.QuirkPages, err)
		}
		// between two moments a resource may have moved unseen from one page to another
		if doc = next; doc != nil && first.Header.At != doc.Header.At {
			r.doubt(resourcesync.QuirkPages, fmt.Sprintf("%s: this page and the first page have different times (at %s and at %s), so resources missing from the list are not deleted",
				doc.URI, doc.Header.At, first.Header.At))
		}
	}
	return true
}

// next opens the page after doc; nil if there is none or if it was already read.
func (r *lister) next(doc *Document, chain map[string]bool) (*Document, error) {
	uri, err := r.st.Reader.pageAfter(doc, chain)
	if err != nil || uri == "" || r.read[uri] || !r.room(doc) {
		return nil, err
	}
	return r.open(uri)
}

// doubt does what unsure does, for lists that may be complete when read again.
func (r *lister) doubt(q resourcesync.Quirk, text string) {
	r.st.Shifting = true
	r.unsure(q, text)
}

// unsure records that absence from the lists proves nothing, and reports why.
func (r *lister) unsure(q resourcesync.Quirk, text string) {
	if !r.st.Unsure {
		r.st.Unsure = true
		r.st.Reader.Tell(q, r.st.set, text)
	}
}

// room reports whether one more document may be read.
func (r *lister) room(doc *Document) bool {
	if len(r.read) < maxDocuments {
		return true
	}
	if !r.full {
		r.full = true
		r.fail(fmt.Errorf("%s: has more than %d parts", doc.URI, maxDocuments))
	}
	return false
}

// document yields the resources of a Resource List and of the lists that it contains.
func (r *lister) document(doc *Document, level int) bool {
	if err := doc.flaw(); err != nil {
		r.fail(err)
	}
	if doc.Header.At.IsZero() {
		at, by := doc.latest(r.st.Reader.Now())
		// the index of this list, or one of its parts, may give another time
		if r.st.Latest = evidence.Later(r.st.Latest, at); level > 0 || doc.Header.Root == resourcesync.SitemapIndex {
			r.st.Shifting = true
		}
		r.unsure(resourcesync.QuirkMoment, fmt.Sprintf("%s: has no at, so its time is unknown, at the latest %s (%s); resources missing from it are not deleted",
			doc.URI, at.UTC().Format(time.RFC3339), by))
	}
	r.setAt(doc.Header.At)
	r.st.Served = evidence.Later(r.st.Served, doc.clock())
	index := doc.Header.Root == resourcesync.SitemapIndex
	r.indexes[doc.URI] = index
	if doc.lists && !index {
		r.st.Reader.Tell(resourcesync.QuirkNested, r.st.set, doc.URI+": lists documents of its own kind as an index does; they are read")
	}
	if !index {
		r.twice(doc)
	}
	return r.entries(doc, func(e *resourcesync.Entry, n int) bool {
		if index || e.Capability == doc.Header.Capability {
			return r.part(e, doc, level+1)
		}
		return r.leaf(doc, e, n)
	})
}

// entries calls take with each entry of a document and the entry's number.
func (r *lister) entries(doc *Document, take func(e *resourcesync.Entry, n int) bool) bool {
	n := 0
	for e, err := range doc.Entries() {
		if err != nil {
			r.yield(Item{}, err)
			return false
		}
		if !take(&e, n) {
			return false
		}
		n++
	}
	return true
}

// twice reports the resources that a document lists more than once.
func (r *lister) twice(doc *Document) {
	if n := len(doc.last); n > 0 {
		r.st.Reader.Tell(resourcesync.QuirkListedTwice, r.st.set, Counted(n, "%s: %d {resource is listed more than once; its last entry|resources are listed more than once; the last entry of each} counts", doc.URI, n))
	}
}

// resource yields the resource of an entry of a Resource List.
func (r *lister) resource(doc *Document, e *resourcesync.Entry, n int) bool {
	if e.Change != "" {
		r.doubt(0, doc.URI+": contains changes like a Change List, so it may be incomplete: resources missing from it are not deleted")
		if e.Change == resourcesync.Deleted {
			return true
		}
	}
	return r.take(doc, e, n, doc.Header.At, Location{})
}

// take yields the resource of an entry, with the given time. It skips the entry if a
// later entry of the document describes the same resource.
func (r *lister) take(doc *Document, e *resourcesync.Entry, n int, at resourcesync.Datetime, from Location) bool {
	if len(doc.last) > 0 {
		if last, several := doc.last[resourcesync.KeyOf(e.Loc)]; several && last != n {
			return true
		}
	}
	if err := r.st.Reader.past(doc, at); err != nil {
		r.yield(Item{}, err)
		return false
	}
	r.st.Unproved = r.st.Unproved || !e.Digests.Strong()
	w, ok, err := r.overlay(Item{Resource: wanted(e, at.Time()), Location: from})
	if err != nil {
		r.yield(Item{}, err)
		return false
	}
	return !ok || r.yield(w, nil)
}

// unlisted yields the resource of a change if the lists do not contain it.
func (r *lister) unlisted(c *Change, err error) bool {
	listed := false
	if err == nil {
		_, listed, err = r.listed.Get(c.URI)
	}
	if err != nil {
		r.yield(Item{}, err)
		return false
	}
	w, ok := r.st.unlisted(c)
	return !ok || listed || r.yield(w, nil)
}

// pkg adds the package of an entry of a Resource Dump to the snapshot. An unusable
// package makes the snapshot partial.
func (r *lister) pkg(doc *Document, e *resourcesync.Entry, _ int) bool {
	if len(r.st.Packages) >= maxDocuments {
		r.fail(&DocumentError{URI: doc.URI, Reason: fmt.Sprintf("names more than %d packages", maxDocuments)})
		return false
	}
	p, err := r.st.Reader.packageOf(doc, e)
	if err != nil {
		return r.packageFailed(err)
	}
	r.st.Packages = append(r.st.Packages, p)
	return true
}

// manifests yields the resources in the packages of a Resource Dump.
func (r *lister) manifests() bool {
	for _, p := range r.st.Packages {
		doc, err := r.st.manifest(r.ctx, p)
		if err == nil {
			if err = behind(doc, p.at); err != nil {
				doc.Close()
			}
		}
		p.keep(&r.opened)
		if err != nil {
			if !r.packageFailed(err) {
				return false
			}
			continue
		}
		more := r.packaged(p, doc)
		doc.Close()
		if !more {
			return false
		}
	}
	return true
}

// packaged yields the resources of a manifest.
func (r *lister) packaged(p *Package, doc *Document) bool {
	if err := doc.flaw(); err != nil {
		r.fail(err)
	}
	at := p.at
	if !doc.Header.At.IsZero() {
		at = doc.Header.At
	}
	r.sameGeneration(doc, p.at, &resourcesync.Header{})
	r.setAt(at)
	r.twice(doc)
	return r.entries(doc, func(e *resourcesync.Entry, n int) bool { return r.take(doc, e, n, at, p.carries(e)) })
}

// part yields the entries of a document that an index contains. If that document is
// unusable, or older than the index says, the snapshot becomes partial; the other
// documents are still used.
func (r *lister) part(e *resourcesync.Entry, index *Document, level int) bool {
	uri, err := r.st.Reader.named(e.Loc, index.Base)
	switch {
	case err != nil:
		return r.partFailed(0, err)
	case r.indexes[uri] && index.Header.Root == resourcesync.SitemapIndex:
		return r.partFailed(0, indexInIndex(uri))
	case r.read[uri]:
		return true // the index names it twice; its resources are already known
	case level > maxLevels:
		return r.partFailed(resourcesync.QuirkNested, &DocumentError{URI: index.URI, Reason: fmt.Sprintf("names lists more than %d levels deep", maxLevels)})
	case !r.room(index):
		return true
	}
	doc, err := r.open(uri)
	switch {
	case err != nil:
		return r.partFailed(0, err)
	case doc.Header.Root == resourcesync.SitemapIndex && index.Header.Root == resourcesync.SitemapIndex:
		doc.Close()
		return r.partFailed(0, indexInIndex(uri))
	}
	r.sameGeneration(doc, e.At, &index.Header)
	// The time of an index may be later than the time of a part if the index states the
	// part's time (1.1 §10.2). Then the whole has the time of the oldest part.
	if err := behind(doc, index.Header.At); err != nil && (e.At.IsZero() || !e.At.Time().Equal(doc.Header.At.Time())) {
		r.fail(err) // the part may be an outdated copy, but its entries are used with its own time
	}
	return r.pages(doc, level)
}

// sameGeneration checks that a document belongs to its index or dump: its time is the
// one stated there, or at least in the period in which the index or dump was made.
// Otherwise a resource may have moved from a part that is new to a part that is old,
// and appear in neither.
func (r *lister) sameGeneration(doc *Document, told resourcesync.Datetime, whole *resourcesync.Header) {
	at := doc.Header.At.Time()
	end := whole.At.Time()
	if !whole.Completed.IsZero() {
		end = whole.Completed.Time()
	}
	if at.IsZero() || !told.IsZero() && at.Equal(told.Time()) || told.IsZero() && !at.After(end) {
		return
	}
	r.doubt(0, fmt.Sprintf("%s: has another time (at %s) than the document that names it: resources missing from it are not deleted", doc.URI, doc.Header.At))
}

// behind returns an error if a document is older than the one that names it.
func behind(doc *Document, root resourcesync.Datetime) error {
	if at := doc.Header.At; !at.IsZero() && at.Before(root) {
		return &DocumentError{URI: doc.URI, Reason: fmt.Sprintf("is older (at %s) than the document that names it (at %s)", at, root)}
	}
	return nil
}

// EndsBefore returns an error if a manifest ends before the time that its package's
// entry in the dump gives.
func EndsBefore(doc *Document, until resourcesync.Datetime) error {
	if u := doc.Header.Until; !u.IsZero() && u.Before(until) {
		return &DocumentError{URI: doc.URI, Reason: fmt.Sprintf("ends (until %s) earlier than the dump says (until %s)", u, until)}
	}
	return nil
}

func indexInIndex(uri string) error {
	return &DocumentError{URI: uri, Reason: "is an index inside an index"}
}

// partFailed records an error of the Source about a document and continues.
func (r *lister) partFailed(q resourcesync.Quirk, err error) bool {
	if r.ctx.Err() != nil || !OfSource(err) {
		r.yield(Item{}, err)
		return false
	}
	r.failAs(q, err)
	return true
}

// packageFailed continues without a package. If a Resource List can be used instead, it
// gives up the dump.
func (r *lister) packageFailed(err error) bool {
	if r.unusable++; r.unusable > maxNamed && OfSource(err) {
		err = &DocumentError{URI: r.st.lists[0], Reason: fmt.Sprintf("names more than %d packages that cannot be used; the others are not reported", maxNamed)}
	}
	if !r.partFailed(QuirkOf(err), err) {
		return false
	}
	if r.st.spare {
		r.yield(Item{}, err)
	}
	return !r.st.spare
}

func (r *lister) fail(err error) { r.failAs(0, err) }

// failAs reports an error and makes the snapshot partial.
func (r *lister) failAs(q resourcesync.Quirk, err error) {
	r.st.Reader.Tell(q, r.st.set, err.Error())
	if r.st.Partial == nil {
		r.st.Partial = err
	}
}

// setAt sets the time of the snapshot to the given time if that is earlier.
func (r *lister) setAt(at resourcesync.Datetime) {
	if t := at.Time(); r.st.At.IsZero() || t.Before(r.st.At) {
		r.st.At = t
	}
}

// overlay replaces the description from a Resource List or manifest by that of a later
// change. ok is false if the change deleted the resource.
func (r *lister) overlay(w Item) (_ Item, ok bool, err error) {
	c, err := r.st.overlay().Of(w.URI)
	if c == nil || err != nil {
		return w, true, err
	}
	if err := r.listed.Set(w.URI, spool.Place{}); err != nil {
		return w, false, err
	}
	over, ok := r.over(w, c)
	return over, ok, nil
}

// over applies a change to a listed resource. ok is false after a deletion.
func (r *lister) over(w Item, c *Change) (_ Item, ok bool) {
	said, told := c.Against(w.LastMod, resourcesync.Datetime{})
	held := evidence.Held{Member: true, At: w.Changed}
	switch tied := w.Beside(told.Length, told.Digests); {
	case !w.Changed.IsZero():
	case said.Kind == evidence.Deleted: // the list may be newer than the deletion
		held.Until = r.st.Latest
	case tied == evidence.Untied:
		held.At = w.LastMod.Time()
	default: // another version of the resource, which is not older than its lastmod
		held.At, held.Until, said.Bytes = w.LastMod.Time(), r.st.Latest, tied
	}
	d, _ := evidence.Decide(said, held)
	switch d {
	case evidence.Keep:
		return w, true
	case evidence.Remove:
		return w, false
	}
	listed := w
	if d == evidence.Ask {
		item := Item{Resource: w.Resource, Location: w.Location, By: c.disputed(c.Denied || c.Change == resourcesync.Deleted), Listed: &listed, At: w.Changed}
		// if the resource exists, either the list or the change describes it
		if said.Kind != evidence.Deleted {
			item.Or = told
		}
		switch or := c.Or(); {
		case or != nil && c.From.After(w.Changed):
			item.Resource, item.Or = *told, or
		case c.Rival != nil && !c.Rival.Changed.Before(w.Changed):
			item.Resource, item.Or = *told, &listed.Resource
		}
		return item, true
	}
	return Item{Resource: *told, Location: c.Location, By: c, Listed: &listed}, true
}

// disputed returns a copy of c that leaves open which version of the resource exists.
// If denied is set, it also leaves open whether the resource exists at all.
func (c *Change) disputed(denied bool) *Change {
	open := *c
	open.Torn, open.Denied, open.Change = true, denied, resourcesync.Updated
	return &open
}
