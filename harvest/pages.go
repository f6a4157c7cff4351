package harvest

import (
	"context"
	"fmt"
	"slices"

	"instep/document"
	"instep/resourcesync"
)

// These are the link relations between the pages of a list.
const (
	relNext = "next"
	relPrev = "prev"
)

// maxPages is the maximum number of pages of one Change List. All pages together may
// have as many entries as one document.
const maxPages = 1_000

// pageAfter returns the URI of the next page; "" after the last page. chain has the
// URIs of the pages up to doc; if the next page is one of them, pageAfter returns an
// error.
func (r *Reader) pageAfter(doc *Document, chain map[string]bool) (string, error) {
	ref := doc.Header.Link(relNext)
	if ref == "" {
		return "", nil
	}
	uri, err := r.named(ref, doc.Base)
	if slices.ContainsFunc(doc.Header.Links, func(l resourcesync.Link) bool {
		other, failed := r.named(l.Href, doc.Base)
		return l.Rel == relNext && (other != uri || failed != nil && l.Href != ref)
	}) {
		return "", &DocumentError{URI: doc.URI, Reason: "has several next pages"}
	}
	if err == nil && chain[uri] {
		err = &DocumentError{URI: doc.URI, Reason: fmt.Sprintf("has %s as its next page, which was read before: the pages have no end", uri)}
	}
	return uri, err
}

type reading func(ctx context.Context, uri string, want resourcesync.Capability) (*Document, error)

// changeList reads a Change List with all its pages as one document that begins with
// the first page and ends with the last.
func (r *Reader) changeList(ctx context.Context, uri string, read reading) (_ *Document, err error) {
	doc, err := read(ctx, uri, resourcesync.CapabilityChangeList)
	if err != nil || doc.Header.Link(relNext) == "" && doc.Header.Link(relPrev) == "" {
		return doc, err
	}
	defer func() {
		if err != nil {
			doc.Close()
		}
	}()
	if prev := doc.Header.Link(relPrev); prev != "" {
		return nil, &DocumentError{URI: doc.URI, Reason: "is not the first page of its Change List: its previous page is " + prev}
	}
	chain, last, entries := map[string]bool{uri: true}, doc, doc.count
	most := document.EntriesWithin(r.Client.MaxDocument())
	for {
		next, err := r.pageAfter(last, chain)
		switch {
		case err != nil:
			return nil, err
		case next == "":
			r.Tell(resourcesync.QuirkPages, "", Counted(len(doc.after), "%s: continues in %d more {page; both|pages; they} are read as one Change List", uri, len(doc.after)))
			return doc, nil
		case len(chain) == maxPages || entries > most:
			return nil, &DocumentError{URI: uri, Reason: fmt.Sprintf("has more than %d pages or %d entries", maxPages, most)}
		}
		chain[next] = true
		if last, err = read(ctx, next, resourcesync.CapabilityChangeList); err != nil {
			return nil, err
		}
		doc.after = append(doc.after, last)
		if last.Header.Root != doc.Header.Root {
			return nil, &DocumentError{URI: last.URI, Reason: "is an index among the pages of a list, or a list among those of an index"}
		}
		doc.lists = doc.lists || last.lists
		entries += last.count
	}
}

// request reads a list. If the list is from an index (not paged), its "next" link usually
// leads to another list of the index. It leads to a further page only if the index does not
// name that document, and the document has the same start.
func (c *sequence) request(ctx context.Context, w window, read reading) (*Document, error) {
	switch {
	case w.dump:
		return read(ctx, w.uri, resourcesync.CapabilityChangeDump)
	case w.paged:
		return c.reader.changeList(ctx, w.uri, read)
	}
	doc, err := read(ctx, w.uri, resourcesync.CapabilityChangeList)
	if err != nil || doc.Header.Link(relNext) == "" || doc.Header.Link(relPrev) != "" {
		return doc, err
	}
	uri, err := c.reader.pageAfter(doc, map[string]bool{w.uri: true})
	if err != nil || c.names(uri) {
		return doc, nil
	}
	page, err := read(ctx, uri, resourcesync.CapabilityChangeList)
	switch {
	case meansUnusable(ctx, err):
		c.reader.Note(c.set, fmt.Sprintf("%s has %s as its next page, which its index does not name and which cannot be used: %v", w.uri, uri, err))
		return doc, nil
	case err != nil:
		doc.Close()
		return nil, err
	case page.Header.From != doc.Header.From:
		page.Close()
		return doc, nil
	}
	kept := map[string]*Document{w.uri: doc, uri: page} // changeList needs these two first
	return c.reader.changeList(ctx, w.uri, func(ctx context.Context, uri string, want resourcesync.Capability) (*Document, error) {
		if doc := kept[uri]; doc != nil {
			delete(kept, uri)
			return doc, nil
		}
		return read(ctx, uri, want)
	})
}
