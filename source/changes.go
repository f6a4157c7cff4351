package source

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"instep/resourcesync"
)

func (m *maker) changes(ctx context.Context, u Update) error {
	if err := m.checkNoGap(u.Changes); err != nil {
		return err
	}
	for i := range u.Changes {
		w := &u.Changes[i]
		it, err := m.changeList(ctx, w)
		if err != nil {
			return err
		}
		if m.pub.ChangesNumber == 0 {
			m.offer(resourcesync.CapabilityChangeList, it.Key)
		}
		m.pub.Changes, m.pub.ChangesNumber = it.Entries, it.Number
		m.pub.ChangesFrom, m.pub.ChangesUntil, m.pub.ChangesThrough = it.From, it.Until, it.Through
		if err := m.changeDump(ctx, w); err != nil {
			return err
		}
	}
	if m.endsDumps(u) {
		m.pub.DumpsSince = time.Time{}
	}
	return nil
}

// checkNoGap returns an error if changes would be missing between the last publication and
// the first Change List of an Update. That list must continue the open Change List or, if
// the last one was closed, begin at its end.
func (m *maker) checkNoGap(windows []Window) error {
	if m.last.ChangesNumber == 0 || len(windows) == 0 {
		return nil
	}
	w := &windows[0]
	switch open := m.last.ChangesUntil.IsZero(); {
	case m.continuesLast(w) && w.From.Equal(m.last.ChangesFrom):
	case !open && w.Number > m.last.ChangesNumber && w.From.Equal(m.last.ChangesUntil):
	case open:
		return fmt.Errorf("publishing: Change List %d from %s: expected it to continue the open Change List %d from %s", w.Number, w.From, m.last.ChangesNumber, m.last.ChangesFrom)
	default:
		return fmt.Errorf("publishing: Change List %d from %s: expected it to begin at the end of the last Change List %d, %s", w.Number, w.From, m.last.ChangesNumber, m.last.ChangesUntil)
	}
	return nil
}

// changeList writes a Change List (1.1 §12.1). A closed list never changes, so the copy
// for the archive is written when the list is closed. The copy has no link to the index
// of current lists, since the list will be removed from that index.
func (m *maker) changeList(ctx context.Context, w *Window) (Item, error) {
	it := Item{
		Kind: ItemChangeList, Number: w.Number, Key: m.l.changeList(w.Number),
		From: w.From.UTC(), Through: w.Through, Current: true,
	}
	n, err := m.changeDocument(ctx, w, &it, keepLatest(&m.pub.Latest, m.pub.Latest, w.From, m.allInProfile(w.Changes)))
	if errors.Is(err, resourcesync.ErrFull) {
		err = fmt.Errorf("%w: %w", ErrChangesFull, err)
	}
	it.Entries = n
	m.shelf.put(it)
	return it, err
}

// changeDocument writes the Change List or Change Dump for a period. If the period is
// closed, changeDocument also writes the copy for the archive.
func (m *maker) changeDocument(ctx context.Context, w *Window, it *Item, entries iter.Seq2[resourcesync.Entry, error]) (int64, error) {
	h := m.header(resourcesync.Capability(it.Kind))
	h.From, h.Until = resourcesync.DatetimeOf(it.From), resourcesync.DatetimeOf(w.Until)
	doc := Document{Key: it.Key, Rank: rankChanges, Immutable: !w.Until.IsZero()}
	if doc.Immutable {
		it.Until, it.Since = w.Until.UTC(), m.pub.Made
	}
	indexed := h
	indexed.Links = append(slices.Clip(h.Links), resourcesync.Link{Rel: resourcesync.RelIndex, Href: m.l.uri(m.l.changeIndex(it.Kind))})
	n, err := m.st.write(ctx, doc, indexed, entries)
	if err != nil {
		return 0, err
	}
	it.Keys = []string{doc.Key}
	it.Bytes = m.st.length(it.Keys)
	if it.Until.IsZero() || m.policy.Archive == nil {
		return n, nil
	}
	doc.Key = m.l.archiveKey(it.Kind, it.Number)
	it.Keys = append(it.Keys, doc.Key)
	it.Archive = nextPlace(m.shelf.items[it.Kind])
	_, err = m.st.write(ctx, doc, h, entries)
	return n, err
}

// allInProfile applies inProfile to each change, and updates m.pub.ChangedAt.
func (m *maker) allInProfile(changes iter.Seq2[resourcesync.Entry, error]) iter.Seq2[resourcesync.Entry, error] {
	return converted(changes, func(en resourcesync.Entry) resourcesync.Entry {
		if at := en.Datetime.Time(); at.After(m.pub.ChangedAt) {
			m.pub.ChangedAt = at
		}
		return m.inProfile(en)
	})
}

// inProfile converts the entry of a change to the version of ResourceSync that the Policy
// selects. Readers of version 1.0 expect the time of a change in "lastmod", since that
// version has no "datetime" attribute (1.0 §12.1).
func (m *maker) inProfile(en resourcesync.Entry) resourcesync.Entry {
	switch {
	case en.Change == "":
	case m.policy.Profile10:
		en.LastMod, en.Datetime = en.Datetime, resourcesync.Datetime{}
	case m.policy.ProfileBoth:
		en.LastMod = RoundedUp(en.Datetime)
	}
	return en
}

// RoundedUp returns the datetime of a change, rounded up to a second. With
// Policy.ProfileBoth it is the "lastmod" of the change.
func RoundedUp(d resourcesync.Datetime) resourcesync.Datetime {
	second := d.Time().Truncate(time.Second)
	if second.Before(d.Time()) {
		second = second.Add(time.Second)
	}
	return resourcesync.DatetimeOf(second)
}

func (m *maker) endsDumps(u Update) bool {
	return !m.last.DumpsSince.IsZero() && len(u.Changes) > 0 && u.Changes[len(u.Changes)-1].Fresh == nil
}

// changeDump writes the Change Dump for the period of a Change List. Each publication
// adds one or more packages to it (1.1 §13).
func (m *maker) changeDump(ctx context.Context, w *Window) error {
	if w.Fresh == nil {
		return nil
	}
	if m.pub.DumpsSince.IsZero() {
		m.pub.DumpsSince = w.FreshFrom.UTC()
		if w.FreshFrom.IsZero() {
			m.pub.DumpsSince = w.From.UTC()
		}
	}
	if !w.Until.IsZero() && !m.pub.DumpsSince.Before(w.Until) {
		return nil // no Change Dump is written, because the Change List ended before Change Dumps were switched on
	}
	it, packages, err := m.dumpSoFar(ctx, w.Number)
	if err != nil {
		return err
	}
	fresh, err := m.changePackages(ctx, w)
	if err != nil {
		return err
	}
	packages = append(packages, fresh...)
	if it.Of == 0 && len(packages) > 0 {
		it.Of = packages[0].Number
	}
	it.From, it.Through, it.Current = w.From.UTC(), w.Through, true
	if it.From.Before(m.pub.DumpsSince) {
		it.From = m.pub.DumpsSince
	}
	return m.changeDumpDocument(ctx, w, it, packages)
}

// dumpSoFar returns the Change Dump with the given number and its packages, as they are
// already published. If there is no such dump, it returns a new one without packages.
func (m *maker) dumpSoFar(ctx context.Context, number int64) (Item, []Item, error) {
	it := Item{Kind: ItemChangeDump, Number: number, Key: m.l.changeDump(number)}
	if m.last.DumpsSince.IsZero() || number > m.last.ChangesNumber {
		return it, nil, nil
	}
	for found, err := range m.p.Journal.Items(ctx, m.l.set, ItemChangeDump, number) {
		if err != nil {
			return it, nil, fmt.Errorf("reading Change Dump %d: %w", number, err)
		}
		if found.Number == number {
			it = found
		}
		break
	}
	packages, err := PackagesOf(ctx, m.p.Journal, m.l.set, &it)
	return it, packages, err
}

func (m *maker) changeDumpDocument(ctx context.Context, w *Window, it Item, packages []Item) error {
	var entries []resourcesync.Entry
	var bytes int64
	for i := range packages {
		entries = append(entries, m.packageEntry(&packages[i]))
		bytes += packages[i].Bytes
	}
	_, err := m.changeDocument(ctx, w, &it, listed(entries))
	it.Entries, it.Bytes = int64(len(packages)), it.Bytes+bytes
	m.shelf.put(it)
	return err
}

func (m *maker) packageEntry(p *Item) resourcesync.Entry {
	en := resourcesync.Entry{Loc: m.l.uri(p.Key)}
	en.Type, en.Length, en.Digests = zipType, resourcesync.Bytes(p.Length), p.SHA256.digests()
	en.From, en.Until = resourcesync.DatetimeOf(p.From), resourcesync.DatetimeOf(p.Until)
	for _, key := range p.Keys {
		if key != p.Key {
			en.Links = append(en.Links, resourcesync.Link{Rel: resourcesync.RelContents, Href: m.l.uri(key), Type: "application/xml"})
		}
	}
	return en
}

// changeIndexes writes the index of the current Change Lists, and that of the current
// Change Dumps. While there is only one list or dump, the Capability List links directly
// to it.
func (m *maker) changeIndexes(ctx context.Context) error {
	for _, kind := range changeKinds {
		c, index := resourcesync.Capability(kind), m.l.changeIndex(kind)
		var entries []resourcesync.Entry
		var only string
		for _, it := range m.shelf.items[kind] {
			if it.Current {
				entries = append(entries, m.interval(&it, it.Key))
				only = it.Key
			}
		}
		if len(entries) == 0 {
			if m.pub.Offer(c) != "" {
				m.withdraw(c)
				m.retire(index)
			}
			continue
		}
		h := m.header(c)
		h.Root, h.From = resourcesync.SitemapIndex, entries[0].From
		if err := m.writeShort(ctx, Document{Key: index, Rank: rankIndexes}, h, entries); err != nil {
			return err
		}
		// The Capability List keeps linking to an index that exists, because readers may
		// have stored its URI.
		if len(entries) > 1 || m.last.Offer(c) == m.l.uri(index) {
			only = index
		}
		m.offer(c, only)
	}
	return nil
}

func (m *maker) interval(it *Item, key string) resourcesync.Entry {
	en := resourcesync.Entry{Loc: m.l.uri(key)}
	en.From, en.Until = resourcesync.DatetimeOf(it.From), resourcesync.DatetimeOf(it.Until)
	return en
}
