package harvest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"instep/resourcesync"
)

// openArchive puts what is archived of a track before what is current (Archives §5,
// §6). Without anything current an archive is no way to the present.
func (o *Offer) openArchive(ctx context.Context, tr Track, since time.Time) (*Sequence, error) {
	now, err := o.chain(ctx, tr-1, since)
	if err != nil {
		return nil, err
	}
	c := o.reader.newChain(o.set.URI, now.name)
	if len(now.windows) == 0 {
		c.Why = now.Why
		return c, nil
	}
	begin := now.windows[0].from.Time()
	for _, uri := range o.set.Documents(trackDocuments[tr]) {
		entries, err := o.archived(ctx, uri, trackDocuments[tr])
		if err == nil {
			err = c.archived(ctx, tr, entries, since, begin)
		}
		if err != nil {
			if lost(ctx, err) {
				c.drop(fmt.Errorf("the archive %s cannot be used: %w", uri, err))
				return c, nil
			}
			return nil, err
		}
	}
	for _, w := range now.windows {
		c.add(w)
	}
	return c, c.settle(ctx)
}

// archived adds the documents of an archive that tell of the time from since to begin.
func (c *Sequence) archived(ctx context.Context, tr Track, entries []resourcesync.Entry, since, begin time.Time) error {
	for i := range entries {
		e := &entries[i]
		w := window{uri: e.Loc, from: e.From, until: e.Until}
		switch {
		case w.closedBy(since) || !e.From.IsZero() && !e.From.Time().Before(begin):
		case tr == ChangeDumpArchive:
			if err := c.dump(ctx, w.uri, since, 0); err != nil {
				return err
			}
		default:
			c.add(w)
		}
	}
	return nil
}

// archived reads an archive, or an index and its parts (Archives §3.1). The entries name
// documents that may be read.
func (o *Offer) archived(ctx context.Context, uri string, want resourcesync.Capability) ([]resourcesync.Entry, error) {
	doc, err := o.reader.Read(ctx, uri, want)
	if err != nil {
		return nil, err
	}
	if doc.Header.Root != resourcesync.SitemapIndex {
		defer doc.Close()
		return o.archivedIn(doc)
	}
	parts, err := o.archivedIn(doc)
	doc.Close()
	if err != nil {
		return nil, err
	}
	var all []resourcesync.Entry
	for i := range parts {
		part, err := o.reader.Read(ctx, parts[i].Loc, want)
		if err != nil {
			return nil, err
		}
		var entries []resourcesync.Entry
		if part.Header.Root == resourcesync.SitemapIndex {
			err = indexInIndex(part.URI)
		} else {
			entries, err = o.archivedIn(part)
		}
		part.Close()
		if err != nil {
			return nil, err
		}
		if all = append(all, entries...); len(all) > maxDocuments {
			return nil, &DocumentError{URI: uri, Reason: fmt.Sprintf("has more than %d documents", maxDocuments)}
		}
	}
	return all, nil
}

// archivedIn returns the entries of one document, with URIs that may be read.
func (o *Offer) archivedIn(doc *Document) ([]resourcesync.Entry, error) {
	var entries []resourcesync.Entry
	for e, err := range doc.Entries() {
		if err != nil {
			return nil, err
		}
		if e.Loc, err = o.reader.named(e.Loc, doc.Base); err != nil {
			return nil, err
		}
		if entries = append(entries, e); len(entries) > maxDocuments {
			return nil, &DocumentError{URI: doc.URI, Reason: fmt.Sprintf("has more than %d entries", maxDocuments)}
		}
	}
	return entries, doc.flaw()
}

// newest returns the URI of the newest snapshot of the archives; "" if none says of
// which moment it is.
func (o *Offer) newest(ctx context.Context, s SnapshotKind) (string, error) {
	var all []resourcesync.Entry
	for _, uri := range o.set.Documents(snapshotDocuments[s]) {
		entries, err := o.archived(ctx, uri, snapshotDocuments[s])
		if err != nil {
			return "", err
		}
		all = append(all, entries...)
	}
	all = slices.DeleteFunc(all, func(e resourcesync.Entry) bool { return e.At.IsZero() })
	if len(all) == 0 {
		return "", nil
	}
	return slices.MaxFunc(all, func(a, b resourcesync.Entry) int { return a.At.Time().Compare(b.At.Time()) }).Loc, nil
}
