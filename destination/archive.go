package destination

import (
	"context"
	"fmt"
	"slices"
	"time"

	"instep/resourcesync"
)

// trackDocuments are the documents that lead to a track.
var trackDocuments = [tracks]resourcesync.Capability{
	resourcesync.CapabilityChangeList, resourcesync.CapabilityChangeListArchive,
	resourcesync.CapabilityChangeDump, resourcesync.CapabilityChangeDumpArchive,
}

// snapshotDocuments are the documents that lead to a snapshot.
var snapshotDocuments = [snapshots]resourcesync.Capability{
	resourcesync.CapabilityResourceList, resourcesync.CapabilityResourceDump,
	resourcesync.CapabilityResourceListArchive, resourcesync.CapabilityResourceDumpArchive,
}

// openArchive puts what is archived of a track before what is current (Archives §5,
// §6). Without anything current an archive is no way to the present.
func (k *desk) openArchive(ctx context.Context, tr track, since time.Time) (*chain, error) {
	now, err := k.chain(ctx, tr-1, since)
	if err != nil {
		return nil, err
	}
	c := k.d.newChain(k.scope, k.set.URI, now.name)
	if len(now.windows) == 0 {
		c.why = now.why
		return c, nil
	}
	begin := now.windows[0].from.Time()
	for _, uri := range k.set.Documents(trackDocuments[tr]) {
		entries, err := k.archived(ctx, uri, trackDocuments[tr])
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
func (c *chain) archived(ctx context.Context, tr track, entries []resourcesync.Entry, since, begin time.Time) error {
	for i := range entries {
		e := &entries[i]
		w := window{uri: e.Loc, from: e.From, until: e.Until}
		switch {
		case w.closedBy(since) || !e.From.IsZero() && !e.From.Time().Before(begin):
		case tr == changeDumpArchive:
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
func (k *desk) archived(ctx context.Context, uri string, want resourcesync.Capability) ([]resourcesync.Entry, error) {
	doc, err := k.d.read(ctx, uri, want)
	if err != nil {
		return nil, err
	}
	if doc.header.Root != resourcesync.SitemapIndex {
		defer doc.close()
		return k.archivedIn(doc)
	}
	parts, err := k.archivedIn(doc)
	doc.close()
	if err != nil {
		return nil, err
	}
	var all []resourcesync.Entry
	for i := range parts {
		part, err := k.d.read(ctx, parts[i].Loc, want)
		if err != nil {
			return nil, err
		}
		var entries []resourcesync.Entry
		if part.header.Root == resourcesync.SitemapIndex {
			err = indexInIndex(part.uri)
		} else {
			entries, err = k.archivedIn(part)
		}
		part.close()
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
func (k *desk) archivedIn(doc *document) ([]resourcesync.Entry, error) {
	var entries []resourcesync.Entry
	for e, err := range doc.entries() {
		if err != nil {
			return nil, err
		}
		if e.Loc, err = k.scope.document(e.Loc, doc.base.String()); err != nil {
			return nil, err
		}
		if entries = append(entries, e); len(entries) > maxDocuments {
			return nil, &DocumentError{URI: doc.uri, Reason: fmt.Sprintf("has more than %d entries", maxDocuments)}
		}
	}
	return entries, doc.flaw()
}

// newest returns the URI of the newest snapshot of the archives; "" if none says of
// which moment it is.
func (k *desk) newest(ctx context.Context, s snapshot) (string, error) {
	var all []resourcesync.Entry
	for _, uri := range k.set.Documents(snapshotDocuments[s]) {
		entries, err := k.archived(ctx, uri, snapshotDocuments[s])
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
