package harvest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"instep/resourcesync"
)

// openArchive returns the archived lists of changes, followed by the current lists
// (Archives §5, §6). Without current lists, the archived ones do not contain the
// changes up to the present.
func (o *Offer) openArchive(ctx context.Context, tr Track, since time.Time) (*sequence, error) {
	now, err := o.chain(ctx, tr-1, since)
	if err != nil {
		return nil, err
	}
	c := o.reader.newSequence(o.set.URI, now.name)
	begin := o.reader.until.Add(1) // without current lists, the archived ones are used up to the moment given to AsOf
	switch {
	case len(now.windows) > 0:
		begin = now.windows[0].from.Time()
	case o.reader.until.IsZero() || now.broken:
		c.Why = now.Why
		return c, nil
	}
	return c, c.gather(ctx, "archive", o.set.Documents(trackDocuments[tr]), now.windows, func(uri string) error {
		entries, err := o.archived(ctx, uri, trackDocuments[tr], 0)
		if err != nil {
			return err
		}
		return c.archived(ctx, tr, entries, since, begin)
	})
}

func (c *sequence) archived(ctx context.Context, tr Track, entries []resourcesync.Entry, since, begin time.Time) error {
	for i := range entries {
		e := &entries[i]
		w := window{uri: e.Loc, from: e.From, until: e.Until}
		switch {
		case w.closedBy(since) || !e.From.IsZero() && !e.From.Time().Before(begin):
		case tr == ChangeDumpArchive:
			if err := c.addDump(ctx, w.uri, since, 0); err != nil {
				return err
			}
		default:
			c.add(w)
		}
	}
	return nil
}

// archived reads an archive, or an archive index with its archives (Archives §3.1). It
// has checked the URI of each entry that it returns.
func (o *Offer) archived(ctx context.Context, uri string, want resourcesync.Capability, level int) (all []resourcesync.Entry, err error) {
	doc, err := o.reader.Read(ctx, uri, want)
	if err != nil {
		return nil, err
	}
	defer doc.Close()
	index, named := doc.Header.Root == resourcesync.SitemapIndex, 0
	if index && level > 0 {
		return nil, indexInIndex(doc.URI)
	}
	if err := doc.flaw(); err != nil {
		return nil, err
	}
	for e, err := range doc.Entries() {
		if err != nil {
			return nil, err
		}
		if e.Loc, err = o.reader.named(e.Loc, doc.Base); err != nil {
			return nil, err
		}
		some := []resourcesync.Entry{e}
		if named++; index && named <= maxDocuments {
			if some, err = o.archived(ctx, e.Loc, want, level+1); err != nil {
				return nil, err
			}
		}
		if all = append(all, some...); max(named, len(all)) > maxDocuments {
			return nil, &DocumentError{URI: uri, Reason: fmt.Sprintf("has more than %d documents", maxDocuments)}
		}
	}
	return all, nil
}

// newestArchived returns the newest snapshot that is not later than Reader.until. The
// returned entry has no URI if no snapshot has a time.
func (o *Offer) newestArchived(ctx context.Context, s SnapshotKind) (last resourcesync.Entry, err error) {
	until := o.reader.until
	var all []resourcesync.Entry
	for _, uri := range o.set.Documents(snapshotDocuments[s]) {
		entries, err := o.archived(ctx, uri, snapshotDocuments[s], 0)
		if err != nil {
			return last, err
		}
		all = append(all, entries...)
	}
	all = slices.DeleteFunc(all, func(e resourcesync.Entry) bool {
		return e.At.IsZero() || !until.IsZero() && (e.At.Latest().After(until) || e.Completed.Latest().After(until))
	})
	if len(all) == 0 {
		return last, nil
	}
	return slices.MaxFunc(all, func(a, b resourcesync.Entry) int { return a.At.Time().Compare(b.At.Time()) }), nil
}
