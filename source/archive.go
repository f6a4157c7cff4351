package source

import (
	"cmp"
	"context"
	"slices"

	"instep/resourcesync"
)

const archiveSuffix = "-archive"

// retention decides about the lists and dumps of the set (its items): which ones move to
// the archives, and which ones are old enough to be removed. It also writes the archives
// and indexes that list them.
func (m *maker) retention(ctx context.Context, u Update) error {
	if !m.shelf.all {
		return nil
	}
	r := retention{
		now: m.pub.Made, keep: m.p.keep(), generations: m.p.generations(),
		keepChanges: cmp.Or(m.policy.KeepChanges, DefaultKeepChanges), archive: m.policy.Archive,
	}
	o := offered{}
	for _, kind := range ListKinds {
		o[kind] = slices.Clone(m.shelf.items[kind])
	}
	if m.endsDumps(u) {
		m.endDumps(o, u)
	}
	if err := r.retain(o); err != nil {
		return err
	}
	for _, kind := range ListKinds {
		if err := m.settle(ctx, slices.Clone(m.shelf.items[kind]), o[kind]); err != nil {
			return err
		}
		if err := m.archive(ctx, kind); err != nil {
			return err
		}
	}
	m.pub.ArchiveEntries = int(m.partSize())
	return m.changeIndexes(ctx)
}

// endDumps is called if the Update u switches dumps off. It withdraws the Change Dumps
// and, unless u has a new one, the Resource Dump.
func (m *maker) endDumps(o offered, u Update) {
	for i := range o[ItemChangeDump] {
		o[ItemChangeDump][i].Current = false
	}
	if u.Dump != nil {
		return
	}
	o[ItemResourceDump] = slices.DeleteFunc(o[ItemResourceDump], func(it Item) bool { return it.Archive == 0 })
	m.withdraw(resourcesync.CapabilityResourceDump)
	m.pub.DumpNumber, m.pub.DumpAt, m.pub.DumpThrough = 0, m.pub.DumpsSince, 0
}

// settle records what retention has changed. It gets the items (lists or dumps) of one
// kind as they were before and as they are after that, both in ascending order. It also
// retires the keys to which no document links any more.
func (m *maker) settle(ctx context.Context, before, after []Item) error {
	for _, was := range before {
		var linked []string
		if len(after) > 0 && after[0].Number == was.Number {
			is := after[0]
			after = after[1:]
			linked = m.linked(&is)
			if is.Current != was.Current || is.Archive != was.Archive {
				m.shelf.put(is)
			}
		} else {
			m.shelf.drop(was)
			if err := m.dropParts(ctx, &was); err != nil {
				return err
			}
		}
		for _, key := range m.linked(&was) {
			if !slices.Contains(linked, key) {
				m.retire(key)
			}
		}
	}
	return nil
}

// linked returns those keys of a list or dump to which another document may still link,
// or whose files must be kept.
func (m *maker) linked(it *Item) (keys []string) {
	switch it.Kind {
	case ItemResourceDump:
		return it.Keys // packages are large and slow to download, so they are kept as long as their dump
	case ItemResourceList:
		if it.Current || it.Archive > 0 {
			return it.Keys
		}
		return nil
	}
	if it.Current {
		keys = append(keys, it.Key)
	}
	if it.Archive > 0 {
		keys = append(keys, m.l.archived(it.Kind, it.Number))
	}
	return keys
}

// dropParts removes the packages of a Change Dump that was removed, and the patches of a
// Change List that was removed.
func (m *maker) dropParts(ctx context.Context, it *Item) error {
	packages, err := PackagesOf(ctx, m.p.Journal, m.l.set, it)
	if err != nil {
		return err
	}
	patches, err := PatchesOf(ctx, m.p.Journal, m.l.set, it)
	for _, part := range slices.Concat(packages, patches) {
		m.shelf.drop(part)
		m.retire(part.Keys...)
	}
	return err
}

// archive writes the archive of one kind of document (Archives §3 to §6): as one
// document, or as parts and an index. A list or dump in an archive never moves to
// another part. A publication therefore rewrites only the last part, and also the first
// part if its oldest entries are dropped. Documents keep linking to an archive that
// exists, so it stays even if it becomes empty.
func (m *maker) archive(ctx context.Context, kind ItemKind) error {
	c := resourcesync.Capability(kind) + archiveSuffix
	var archived []Item
	var places []int64
	for _, it := range m.shelf.items[kind] {
		if it.Archive > 0 {
			archived, places = append(archived, it), append(places, it.Archive)
		}
	}
	offered := m.last.Offer(c) != ""
	if len(archived) == 0 && !offered {
		return nil
	}
	size := m.partSize()
	if m.last.ArchiveEntries != 0 {
		size = int64(m.last.ArchiveEntries)
	}
	before, now := partsOf(m.shelf.places[kind], size), partsOf(places, m.partSize())
	if err := m.archiveParts(ctx, kind, archived, before, now); err != nil {
		return err
	}
	key := m.l.archive(kind)
	gone, err := m.absent(ctx, key)
	if err != nil {
		return err
	}
	switch many := len(now) > 1; {
	case !gone && slices.Equal(before, now):
	case many:
		err = m.archiveIndex(ctx, kind, now)
	default:
		err = m.archiveDocument(ctx, kind, Document{Key: key, Rank: rankArchives}, false, archived)
	}
	if m.policy.Archive == nil {
		m.withdraw(c)
	} else {
		m.offer(c, key)
	}
	return err
}

// partSize returns the largest number of entries in a part of an archive.
func (m *maker) partSize() int64 {
	if n := m.p.MaxEntries; n > 0 && n < resourcesync.MaxEntries {
		return int64(n)
	}
	return resourcesync.MaxEntries
}

// archivePart is a part of an archive. Parts are numbered from 1. The lists or dumps in
// an archive are numbered from 1 as well, and a part contains all those from number
// first to number last.
type archivePart struct {
	number      int64
	first, last int64 // numbers in the archive
}

// partsOf divides the items with the given ascending numbers in an archive into parts of
// equal size.
func partsOf(places []int64, size int64) (parts []archivePart) {
	for _, place := range places {
		number := (place-1)/size + 1
		if n := len(parts); n > 0 && parts[n-1].number == number {
			parts[n-1].last = place
			continue
		}
		parts = append(parts, archivePart{number, place, place})
	}
	return parts
}

// archiveParts writes those parts of an archive that have changed. It writes nothing if
// the archive is a single document.
func (m *maker) archiveParts(ctx context.Context, kind ItemKind, archived []Item, before, now []archivePart) error {
	if len(before) > 1 {
		for _, part := range before {
			stays := slices.ContainsFunc(now, func(p archivePart) bool { return p.number == part.number })
			if len(now) < 2 || !stays {
				m.retire(partKey(m.l.archive(kind), part.number))
			}
		}
	}
	if len(now) < 2 {
		return nil
	}
	for _, part := range now {
		key := partKey(m.l.archive(kind), part.number)
		if len(before) > 1 && slices.Contains(before, part) {
			if gone, err := m.absent(ctx, key); err != nil || !gone {
				if err != nil {
					return err
				}
				continue
			}
		}
		first := slices.IndexFunc(archived, func(it Item) bool { return it.Archive == part.first })
		last := slices.IndexFunc(archived, func(it Item) bool { return it.Archive == part.last })
		doc := Document{Key: key, Rank: rankArchiveParts}
		if err := m.archiveDocument(ctx, kind, doc, true, archived[first:last+1]); err != nil {
			return err
		}
	}
	return nil
}

// archiveDocument writes a whole archive, or one part of it.
func (m *maker) archiveDocument(ctx context.Context, kind ItemKind, doc Document, part bool, items []Item) error {
	h := m.l.header(resourcesync.Capability(kind) + archiveSuffix)
	if part {
		h.Links = append(h.Links, resourcesync.Link{Rel: resourcesync.RelIndex, Href: m.l.uri(m.l.archive(kind))})
	}
	var entries []resourcesync.Entry
	for i := range items {
		entries = append(entries, m.archiveEntry(&items[i]))
	}
	return m.writeShort(ctx, doc, h, entries)
}

// archiveEntry returns the entry of an archive for a list or dump, whose document never
// changes again.
func (m *maker) archiveEntry(it *Item) (en resourcesync.Entry) {
	if it.At.IsZero() {
		en = m.interval(it, m.l.archived(it.Kind, it.Number))
	} else {
		en = resourcesync.Entry{Loc: m.l.uri(it.Key)}
		en.At, en.Completed = resourcesync.DatetimeOf(it.At), resourcesync.DatetimeOf(it.Completed)
	}
	en.ChangeFreq = resourcesync.Never
	return en
}

func (m *maker) archiveIndex(ctx context.Context, kind ItemKind, parts []archivePart) error {
	h := m.l.header(resourcesync.Capability(kind) + archiveSuffix)
	h.Root = resourcesync.SitemapIndex
	var entries []resourcesync.Entry
	for _, part := range parts {
		entries = append(entries, resourcesync.Entry{Loc: m.l.uri(partKey(m.l.archive(kind), part.number))})
	}
	return m.writeShort(ctx, Document{Key: m.l.archive(kind), Rank: rankArchives}, h, entries)
}
