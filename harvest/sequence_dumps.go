package harvest

import (
	"context"
	"fmt"
	"time"

	"instep/resourcesync"
)

// openDumps finds the packages of a set's Change Dumps (1.1 §13), whose manifests list
// the changes.
func (o *Offer) openDumps(ctx context.Context, since time.Time) (*sequence, error) {
	c := o.reader.newSequence(o.set.URI, "Change Dump package")
	read := map[string]bool{}
	return c, c.gather(ctx, "Change Dump", o.set.Documents(resourcesync.CapabilityChangeDump), nil, func(uri string) error { return c.addDumpPages(ctx, uri, since, read) })
}

// addDumpPages adds the packages of a Change Dump and of its further pages, except those
// in read, which were added before.
func (c *sequence) addDumpPages(ctx context.Context, uri string, since time.Time, read map[string]bool) error {
	for chain := map[string]bool{}; uri != ""; {
		if chain[uri] || len(chain) == maxPages {
			return &DocumentError{URI: uri, Reason: fmt.Sprintf("is a page of a Change Dump whose pages have no end, or are more than %d", maxPages)}
		}
		if read[uri] {
			return nil
		}
		chain[uri], read[uri] = true, true
		if err := c.addDump(ctx, uri, since, 0); err != nil {
			return err
		}
		uri = c.page
	}
	return nil
}

// addDump adds the packages of a Change Dump. If the document is an index, addDump adds
// the packages of its Change Dumps, except dumps that ended before the given time.
func (c *sequence) addDump(ctx context.Context, uri string, since time.Time, level int) error {
	doc, err := c.reader.Read(ctx, uri, resourcesync.CapabilityChangeDump)
	if err != nil {
		return err
	}
	defer doc.Close()
	if level == 0 { // the dumps of an index are no pages of each other
		if c.page, err = c.reader.pageAfter(doc, nil); err != nil {
			return err
		}
	}
	index := doc.Header.Root == resourcesync.SitemapIndex
	if index && level > 0 {
		return indexInIndex(uri)
	}
	first, changes, packages := len(c.windows), false, false
	for e, err := range doc.Entries() {
		if err != nil {
			return err
		}
		switch {
		case index || e.Capability == doc.Header.Capability:
			err = c.dumpPart(ctx, &e, doc, since, level+1)
		case e.Change != "":
			changes = true
		default:
			packages = true
			err = c.dumped(&e, doc)
		}
		if err != nil {
			return err
		}
	}
	switch {
	case changes && packages:
		return &DocumentError{URI: uri, Reason: "lists both packages and changes"}
	case changes:
		return c.addAsList(doc)
	case !index:
		c.closeGaps(first, &doc.Header)
	}
	return doc.flaw()
}

// addAsList adds a Change Dump that lists changed resources, like a Change List,
// instead of packages.
func (c *sequence) addAsList(doc *Document) error {
	c.reader.Note(c.set, doc.URI+": is a Change Dump that names changes and no packages; read as a Change List")
	w := doc.window()
	w.dump = true
	c.add(w)
	return doc.flaw()
}

func (c *sequence) dumpPart(ctx context.Context, e *resourcesync.Entry, index *Document, since time.Time, level int) error {
	if (window{until: e.Until}).closedBy(since) {
		return nil
	}
	uri, err := c.reader.named(e.Loc, index.Base)
	switch {
	case err != nil:
		return err
	case c.names(uri):
		return nil
	case level > maxLevels || len(c.named) > maxDocuments:
		return &DocumentError{URI: index.URI, Reason: fmt.Sprintf("names more Change Dumps than are read: at most %d, nested at most %d deep", maxDocuments, maxLevels)}
	}
	c.named[uri] = -1
	return c.addDump(ctx, uri, since, level)
}

func (c *sequence) dumped(e *resourcesync.Entry, dump *Document) error {
	p, err := c.reader.packageOf(dump, e)
	if err != nil {
		return err
	}
	c.add(window{uri: p.URI, from: p.from, until: p.Until, pkg: p})
	return nil
}

// closeGaps changes the periods of the packages of one Change Dump, windows[n:], so
// that no gap is between them. The packages together contain all changes of the dump
// (1.1 §13.1), but the "until" of a package may be only the time of its last change.
// Between two Change Dumps of an index, changes may really be missing: one dump may be
// an outdated copy without the newest packages.
func (c *sequence) closeGaps(n int, h *resourcesync.Header) {
	for i := n; i < len(c.windows); i++ {
		w := &c.windows[i]
		switch {
		case i > n && c.windows[i-1].until.Latest().Before(w.from.Time()) && !c.windows[i-1].until.IsZero():
			w.from = c.windows[i-1].until
		case i == n && (w.from.IsZero() || h.From.Before(w.from) && !h.From.IsZero()):
			w.from = h.From
		}
	}
	if last := len(c.windows) - 1; last >= n {
		c.windows[last].told = h.Until
	}
}
