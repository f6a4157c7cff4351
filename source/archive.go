package source

import (
	"cmp"
	"context"
	"slices"

	"instep/resourcesync"
)

const archiveSuffix = "-archive"

// applyRetention moves old lists and dumps of the set to the archives or removes them. It
// also writes the archives and the indexes of Change Lists and Change Dumps.
func (m *maker) applyRetention(ctx context.Context, u Update) error {
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
		if err := m.recordRetention(ctx, slices.Clone(m.shelf.items[kind]), o[kind]); err != nil {
			return err
		}
		if err := m.writeArchive(ctx, kind); err != nil {
			return err
		}
	}
	m.pub.ArchiveEntries = int(m.partSize())
	return m.changeIndexes(ctx)
}

// endDumps withdraws the Change Dumps. It also withdraws the Resource Dump, unless the
// Update u has a new one.
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

// recordRetention records how retention has changed the lists or dumps of one kind, and
// retires the keys that are no longer needed. oldItems and newItems are in ascending
// order of Number.
func (m *maker) recordRetention(ctx context.Context, oldItems, newItems []Item) error {
	for _, was := range oldItems {
		var linked []string
		if len(newItems) > 0 && newItems[0].Number == was.Number {
			is := newItems[0]
			newItems = newItems[1:]
			linked = m.neededKeys(&is)
			if is.Current != was.Current || is.Archive != was.Archive {
				m.shelf.put(is)
			}
		} else {
			m.shelf.drop(was)
			if err := m.dropParts(ctx, &was); err != nil {
				return err
			}
		}
		for _, key := range m.neededKeys(&was) {
			if !slices.Contains(linked, key) {
				m.retire(key)
			}
		}
	}
	return nil
}

// neededKeys returns those keys of a list or dump whose files must be kept.
func (m *maker) neededKeys(it *Item) (keys []string) {
	switch it.Kind {
	case ItemResourceDump:
		return it.Keys // packages are large and take long to download, so they stay as long as their Resource Dump
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
		keys = append(keys, m.l.archiveKey(it.Kind, it.Number))
	}
	return keys
}

// dropParts removes the packages of a removed Change Dump, or the patches of a removed
// Change List.
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

// writeArchive writes the archive of one kind of document (Archives §3 to §6): as one
// document, or as parts and an index. A list or dump in an archive never moves to another
// part. A publication therefore rewrites only the last part, and also the first part if its
// oldest entries are dropped. Documents keep linking to an archive that exists, so an
// archive stays even if it becomes empty.
func (m *maker) writeArchive(ctx context.Context, kind ItemKind) error {
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
	gone, err := m.anyAbsent(ctx, key)
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

func (m *maker) partSize() int64 {
	if n := m.p.MaxEntries; n > 0 && n < resourcesync.MaxEntries {
		return int64(n)
	}
	return resourcesync.MaxEntries
}

// archivePart is a part of an archive. Parts are numbered from 1, and so are the lists or
// dumps in the archive.
type archivePart struct {
	number      int64
	first, last int64 // the numbers of the first and the last list or dump in this part
}

// partsOf returns the parts of an archive that has lists or dumps with the given numbers. The
// numbers are ascending and may have gaps. The range of numbers of each part has the given size.
func partsOf(numbers []int64, size int64) (parts []archivePart) {
	for _, n := range numbers {
		part := (n-1)/size + 1
		if last := len(parts) - 1; last >= 0 && parts[last].number == part {
			parts[last].last = n
			continue
		}
		parts = append(parts, archivePart{part, n, n})
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
			if gone, err := m.anyAbsent(ctx, key); err != nil || !gone {
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

// archiveEntry returns the entry of a list or dump in an archive. Its "changefreq" is
// "never", because archived lists and dumps stay unchanged.
func (m *maker) archiveEntry(it *Item) (en resourcesync.Entry) {
	if it.At.IsZero() {
		en = m.interval(it, m.l.archiveKey(it.Kind, it.Number))
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
