package harvest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"instep/evidence"
	"instep/fetch"
	"instep/internal/spool"
	"instep/resourcesync"
)

const (
	maxDocuments = 10_000 // maximum number of documents of one set that a run reads (FAULTS §5)
	maxNamed     = 20     // maximum number of unusable documents of a set, or entries of a document, that are reported one by one
	maxLevels    = 4      // maximum depth of lists that contain lists; 1.1 §10.2 allows one level
)

// lister reads the Resource Lists of a set: plain lists, their indexes (1.1 §10.2),
// chains of pages, and lists that contain lists.
type lister struct {
	st     *Snapshot
	ctx    context.Context
	yield  func(Item, error) bool
	listed *spool.Index                                           // URIs of listed resources that also have a change after the lists
	leaf   func(doc *Document, e *resourcesync.Entry, n int) bool // called for each entry of a document that is not an index; n is the number of the entry

	read     map[string]bool // URIs of all documents that were requested, even if they could not be read
	indexes  map[string]bool // URIs of documents that are indexes
	parts    map[string]bool // URIs of all documents that were read, after redirects; true for the parts of indexes
	packages map[string]bool // URIs of packages
	full     bool            // the limit of maxDocuments was reached
	opened   int             // number of members of the packages that stay open (see keepOpen)
	failed   int             // number of errors in documents of the Source
	linked   []page          // pages that have to be read, because a document links to them
}

func newLister(ctx context.Context, st *Snapshot, yield func(Item, error) bool) *lister {
	return &lister{st: st, ctx: ctx, yield: yield, listed: spool.NewIndex(st.Reader.Spool, 0), read: map[string]bool{}, indexes: map[string]bool{}, parts: map[string]bool{}, packages: map[string]bool{}}
}

type page struct{ doc, which, uri string }

// lists yields the resources of the lists of the snapshot. It returns false if the
// consumer stopped the iteration, like each method of lister that yields resources.
func (r *lister) lists() bool {
	var failed error
	usable, only := false, len(r.st.lists) == 1
	for i := 0; i < len(r.st.lists); i++ { // followIndex may add lists
		uri := r.st.lists[i]
		if r.read[uri] {
			usable = true // the document was already read as a part or page of another document
			continue
		}
		doc, err := r.open(uri)
		switch {
		case err == nil:
			usable = true
			err := r.st.followIndex(r.ctx, doc)
			var page *fetch.Error
			if errors.As(err, &page) && page.Page {
				r.reportUnsure(resourcesync.QuirkPages, doc.URI+": links to an HTML page as its index, so it may be a part of a list; resources missing from it are not deleted")
			} else if err != nil && !r.partFailed(resourcesync.QuirkPages, err) {
				doc.Close()
				return false
			}
			r.recordPage(doc, relPrev)
			if !r.pages(doc, 0) {
				return false
			}
		case !OfSource(err) || r.ctx.Err() != nil || only:
			r.yield(Item{}, err)
			return false
		default: // an unusable list does not prevent the use of the other lists in the Capability List
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
	return r.checkPages()
}

// checkPages makes the snapshot partial if a page to which a document links was not read.
func (r *lister) checkPages() bool {
	for _, p := range r.linked {
		known, err := r.wasRead(p.uri)
		if err != nil {
			r.yield(Item{}, err)
			return false
		}
		if !known {
			r.failAs(resourcesync.QuirkPages, &DocumentError{URI: p.doc, Reason: fmt.Sprintf("is not the only page of its list, and its %s page was not read: %s", p.which, p.uri)})
		}
	}
	return true
}

// wasRead reports whether the document at the URI was read, also if the URI leads to it by
// a redirect. Nothing is requested once the snapshot is partial.
func (r *lister) wasRead(uri string) (bool, error) {
	_, known := r.parts[uri]
	if known = known || r.read[uri]; known || r.st.Partial != nil || len(r.read) >= maxDocuments {
		return known, nil
	}
	doc, err := r.open(uri)
	if err == nil {
		_, known = r.parts[doc.Base.String()]
		doc.Close()
	} else if r.ctx.Err() == nil && OfSource(err) {
		err = nil
	}
	return known, err
}

func (r *lister) open(uri string) (*Document, error) {
	r.read[uri] = true
	return r.st.open(r.ctx, uri)
}

// recordPage records the URI of the previous or next page (rel), because the list is
// complete only if that page is read too.
func (r *lister) recordPage(doc *Document, rel string) {
	ref := doc.Header.Link(rel)
	if ref == "" {
		return
	}
	if u, err := doc.Base.Parse(ref); err == nil && u.Host == doc.Base.Host { // http and https mean the same document
		u.Scheme = doc.Base.Scheme
		ref = u.String()
	}
	uri, err := r.st.Reader.named(ref, doc.Base)
	if err != nil {
		r.failAs(resourcesync.QuirkPages, err)
		return
	}
	r.linked = append(r.linked, page{doc.URI, map[string]string{relPrev: "previous", relNext: "next"}[rel], uri})
}

// pages yields the entries of a document and of the pages after it, and closes these
// documents.
func (r *lister) pages(doc *Document, level int) bool {
	first, chain := doc, map[string]bool{}
	for doc != nil {
		chain[doc.URI] = true
		if at := doc.Base.String(); !r.parts[at] {
			r.parts[at] = false // it was read, and no index has named it as a part so far
		}
		more := r.document(doc, level)
		doc.Close()
		if !more {
			return false
		}
		next, err := r.nextPage(doc, chain)
		if err != nil {
			return r.partFailed(resourcesync.QuirkPages, err)
		}
		// if the pages have different times, a resource that moved between two pages may be in
		// neither
		if doc = next; doc != nil && first.Header.At != doc.Header.At {
			r.reportShifting(resourcesync.QuirkPages, fmt.Sprintf("%s: this page and the first page have different times (at %s and at %s), so resources missing from the list are not deleted",
				doc.URI, doc.Header.At, first.Header.At))
		}
	}
	return true
}

// nextPage opens the page after doc. It returns nil if doc is the last page or its next
// page was already read.
func (r *lister) nextPage(doc *Document, chain map[string]bool) (*Document, error) {
	uri, err := r.st.Reader.pageAfter(doc, chain)
	if err != nil || uri == "" || r.read[uri] || !r.allowsMore(doc) {
		return nil, err
	}
	return r.open(uri)
}

// reportShifting is like reportUnsure. It also sets Snapshot.Shifting, because the
// lists may have the same time in a later run.
func (r *lister) reportShifting(q resourcesync.Quirk, text string) {
	r.st.Shifting = true
	r.reportUnsure(q, text)
}

// reportUnsure records that a resource may exist although it is missing from the lists,
// and reports why.
func (r *lister) reportUnsure(q resourcesync.Quirk, text string) {
	if !r.st.Unsure {
		r.st.Unsure = true
		r.st.Reader.Tell(q, r.st.set, text)
	}
}

func (r *lister) allowsMore(doc *Document) bool {
	if len(r.read) < maxDocuments {
		return true
	}
	if !r.full {
		r.full = true
		r.fail(fmt.Errorf("%s: has more than %d parts", doc.URI, maxDocuments))
	}
	return false
}

func (r *lister) document(doc *Document, level int) bool {
	if err := doc.flaw(); err != nil {
		r.fail(err)
	}
	if doc.Header.At.IsZero() {
		at, by := doc.latest(r.st.Reader.Now())
		// the time may be in another document: in the index of this list, or, if this is an
		// index, in one of its parts
		if r.st.Latest = evidence.Later(r.st.Latest, at); level > 0 || doc.Header.Root == resourcesync.SitemapIndex {
			r.st.Shifting = true
		}
		r.reportUnsure(resourcesync.QuirkMoment, fmt.Sprintf("%s: has no \"at\" attribute, so its time is unknown, at the latest %s (%s); resources missing from it are not deleted",
			doc.URI, at.UTC().Format(time.RFC3339), by))
	}
	r.setAt(doc.Header.At)
	r.st.Served = evidence.Later(r.st.Served, doc.clock())
	index := doc.Header.Root == resourcesync.SitemapIndex
	r.indexes[doc.URI] = index
	if doc.lists && !index {
		r.st.Reader.Tell(resourcesync.QuirkNested, r.st.set, doc.URI+": lists documents of its own kind, as an index does; they are read")
	}
	if !index {
		r.twice(doc)
	}
	return r.entries(doc, func(e *resourcesync.Entry, n int) bool {
		if index || e.Capability == doc.Header.Capability {
			return r.readPart(e, doc, level+1)
		}
		return r.leaf(doc, e, n)
	})
}

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

func (r *lister) twice(doc *Document) {
	if n := len(doc.last); n > 0 {
		r.st.Reader.Tell(resourcesync.QuirkListedTwice, r.st.set, Counted(n, "%s: %d {resource is|resources are} listed more than once; the entry with the latest lastmod counts, or the last one", doc.URI, n))
	}
}

func (r *lister) resource(doc *Document, e *resourcesync.Entry, n int) bool {
	switch c := e.Capability; {
	case c == resourcesync.CapabilityDescription, c == resourcesync.CapabilityCapabilityList: // a resource like others: no list has its resources
	case c.Known():
		return r.partFailed(resourcesync.QuirkNested, &DocumentError{URI: doc.URI, Reason: fmt.Sprintf("names %s, a document of capability %q, which is not read as a part of a list", e.Loc, e.Capability)})
	}
	return r.takeEntry(doc, e, n, doc.Header.At, Location{})
}

// takeEntry yields the resource of an entry, unless another entry of the document counts
// for the same resource.
func (r *lister) takeEntry(doc *Document, e *resourcesync.Entry, n int, at resourcesync.Datetime, from Location) bool {
	if e.Change != "" {
		r.reportShifting(0, doc.URI+": contains changes like a Change List, so it may be incomplete: resources missing from it are not deleted")
		if e.Change == resourcesync.Deleted {
			return true
		}
	}
	if len(doc.last) > 0 {
		if last, several := doc.last[resourcesync.KeyOf(e.Loc)]; several && last != n {
			return true
		}
	}
	if err := r.st.Reader.notAfter(doc, at); err != nil {
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

// unlisted yields the resource of a change, unless the lists contain the resource.
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

// addPackage adds the package of an entry. If it cannot be used, the snapshot becomes
// partial.
func (r *lister) addPackage(doc *Document, e *resourcesync.Entry, _ int) bool {
	if len(r.st.Packages) >= maxDocuments {
		r.fail(&DocumentError{URI: doc.URI, Reason: fmt.Sprintf("names more than %d packages", maxDocuments)})
		return false
	}
	p, err := r.st.Reader.packageOf(doc, e)
	if err != nil {
		return r.packageFailed(err)
	}
	if !r.packages[p.URI] { // else another entry names the same package
		r.packages[p.URI] = true
		r.st.Packages = append(r.st.Packages, p)
	}
	return true
}

func (r *lister) manifests() bool {
	for _, p := range r.st.Packages {
		r.read[p.Contents] = true
		doc, err := r.st.manifest(r.ctx, p)
		if err == nil {
			if err = behind(doc, p.at); err != nil {
				doc.Close()
			}
		}
		p.keepOpen(&r.opened)
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
	return r.checkPages()
}

func (r *lister) packaged(p *Package, doc *Document) bool {
	if err := doc.flaw(); err != nil {
		r.fail(err)
	}
	at := p.at
	if !doc.Header.At.IsZero() {
		at = doc.Header.At
	}
	r.recordPage(doc, relPrev)
	r.recordPage(doc, relNext)
	r.sameGeneration(doc, p.at, &resourcesync.Header{})
	r.setAt(at)
	r.twice(doc)
	return r.entries(doc, func(e *resourcesync.Entry, n int) bool { return r.takeEntry(doc, e, n, at, p.countEntry(e)) })
}

// readPart makes the snapshot partial if a document of an index is unusable, or older
// than the index says. The other documents of the index are still used.
func (r *lister) readPart(e *resourcesync.Entry, index *Document, level int) bool {
	uri, err := r.st.Reader.named(e.Loc, index.Base)
	switch {
	case err != nil:
		return r.partFailed(0, err)
	case r.indexes[uri] && index.Header.Root == resourcesync.SitemapIndex:
		return r.partFailed(0, indexInIndex(uri))
	case r.read[uri]:
		if _, known := r.parts[uri]; known {
			r.parts[uri] = true
		}
		return true // another entry names the same document, so its resources were already yielded
	case level > maxLevels:
		return r.partFailed(resourcesync.QuirkNested, &DocumentError{URI: index.URI, Reason: fmt.Sprintf("names lists more than %d levels deep", maxLevels)})
	case !r.allowsMore(index):
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
	at := doc.Base.String()
	part, known := r.parts[at]
	switch r.parts[at] = true; {
	case part:
		doc.Close()
		return r.partFailed(0, &DocumentError{URI: uri, Reason: "is the same document as another part of its index: " + at})
	case known: // it was read as a list that is offered, or as a page
		doc.Close()
		return true
	}
	r.recordPage(doc, relPrev)
	r.sameGeneration(doc, e.At, &index.Header)
	// A part may be older than its index if the entry in the index states the time of the
	// part (1.1 §10.2). The time of the snapshot is then that of the oldest part.
	if err := behind(doc, index.Header.At); err != nil && (e.At.IsZero() || !overlap(e.At, doc.Header.At)) {
		r.fail(err) // the part may be an outdated copy, so the snapshot is partial; the entries of the part are used all the same
	}
	return r.pages(doc, level)
}

// sameGeneration reports a document that was not made together with the index or dump
// that names it: its time is not the stated one or, if none is stated, is after the
// index was made. A resource that moved between two such parts may be in neither.
func (r *lister) sameGeneration(doc *Document, told resourcesync.Datetime, whole *resourcesync.Header) {
	at := doc.Header.At.Time()
	end := whole.At.Latest()
	if !whole.Completed.IsZero() {
		end = whole.Completed.Latest()
	}
	if at.IsZero() || !told.IsZero() && overlap(doc.Header.At, told) || told.IsZero() && !at.After(end) {
		return
	}
	r.reportShifting(0, fmt.Sprintf("%s: has another time (at %s) than the document that names it: resources missing from it are not deleted", doc.URI, doc.Header.At))
}

func behind(doc *Document, root resourcesync.Datetime) error {
	if at := doc.Header.At; !at.IsZero() && at.Before(root) {
		return &DocumentError{URI: doc.URI, Reason: fmt.Sprintf("is older (at %s) than the document that names it (at %s)", at, root)}
	}
	return nil
}

// EndsBefore returns an error if the period of a manifest ends earlier than the dump says of
// the package.
func EndsBefore(doc *Document, until resourcesync.Datetime) error {
	if u := doc.Header.Until; !u.IsZero() && u.Before(until) {
		return &DocumentError{URI: doc.URI, Reason: fmt.Sprintf("ends (until %s) earlier than the dump says (until %s)", u, until)}
	}
	return nil
}

func indexInIndex(uri string) error {
	return &DocumentError{URI: uri, Reason: "is an index inside an index"}
}

func (r *lister) partFailed(q resourcesync.Quirk, err error) bool {
	if r.ctx.Err() != nil || !OfSource(err) {
		r.yield(Item{}, err)
		return false
	}
	r.failAs(q, err)
	return true
}

// packageFailed reports an unusable package. It ends the iteration if a Resource List
// can be used instead of the dump.
func (r *lister) packageFailed(err error) bool {
	if !r.partFailed(QuirkOf(err), err) {
		return false
	}
	if r.st.spare {
		r.yield(Item{}, err)
	}
	return !r.st.spare
}

func (r *lister) fail(err error) { r.failAs(0, err) }

// failAs reports an error, unless there are too many, and stores the first one in
// Snapshot.Partial.
func (r *lister) failAs(q resourcesync.Quirk, err error) {
	switch r.failed++; {
	case r.failed <= maxNamed:
		r.st.Reader.Tell(q, r.st.set, err.Error())
	case r.failed == maxNamed+1:
		r.st.Reader.Note(r.st.set, fmt.Sprintf("%s names more than %d documents that cannot be used; the others are not reported", r.st.lists[0], maxNamed))
	}
	if r.st.Partial == nil {
		r.st.Partial = err
	}
}

// setAt sets the time of the snapshot to that of its oldest part.
func (r *lister) setAt(at resourcesync.Datetime) {
	if t := at.Time(); r.st.At.IsZero() || t.Before(r.st.At) {
		r.st.At = t
	}
}

// overlay replaces the listed description of a resource by that of a later change. ok
// is false if the change deleted the resource.
func (r *lister) overlay(w Item) (_ Item, ok bool, err error) {
	c, err := r.st.overlay().Of(w.URI)
	if c == nil || err != nil {
		return w, true, err
	}
	if err := r.listed.Set(w.URI, spool.Place{}); err != nil {
		return w, false, err
	}
	over, ok := r.applyChange(w, c)
	return over, ok, nil
}

// applyChange returns the later of two descriptions of a resource: the listed one or
// that of the change. It returns ok=false if the change deleted the resource.
func (r *lister) applyChange(w Item, c *Change) (_ Item, ok bool) {
	said, told := c.Against(w.LastMod, resourcesync.Datetime{})
	held := evidence.Held{Member: true, At: w.Changed}
	switch tied := w.Beside(told.Length, told.Digests); {
	case !w.Changed.IsZero():
	case said.Kind == evidence.Deleted: // w.Changed is unknown, so the list may be newer than the deletion
		held.Until = r.st.Latest
	case tied == evidence.Untied:
		held.At = w.LastMod.Time()
	default: // the listed version is not older than its lastmod and not newer than the list
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
		// if the resource exists, its version is either the listed one or that of the change
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

// disputed returns a copy of the change that is marked as contradictory (Torn): the
// version of the resource is unknown and, if denied is true, also whether the resource
// exists.
func (c *Change) disputed(denied bool) *Change {
	open := *c
	open.Torn, open.Denied, open.Change = true, denied, resourcesync.Updated
	return &open
}
