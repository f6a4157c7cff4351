package source

import (
	"context"
	"io"
	"slices"

	"instep/pack"
	"instep/resourcesync"
)

const zipType = "application/zip"

// dump writes the Resource Dump of the Update u (1.1 §11), in parts with an index if
// necessary, and its packages and their manifests.
func (m *maker) dump(ctx context.Context, u Update) error {
	d := u.Dump
	if d == nil {
		return nil
	}
	h := m.header(resourcesync.CapabilityResourceDump)
	h.At, h.Completed = resourcesync.DatetimeOf(d.At), resourcesync.DatetimeOf(d.Completed)
	k := packer{m: m, header: m.l.header(resourcesync.CapabilityResourceDumpManifest), dir: m.l.packagePrefixes(m.pub.ID)[0]}
	k.header.At, k.header.Completed = h.At, h.Completed
	if err := k.pack(ctx, d.Bitstreams); err != nil {
		return err
	}
	it := Item{
		Kind: ItemResourceDump, Number: m.pub.ID, Key: m.l.resourceDump(m.pub.ID), At: d.At.UTC(), Completed: d.Completed.UTC(),
		Through: d.Through, Current: true, Since: m.pub.Made,
	}
	var entries []resourcesync.Entry
	for i := range k.items {
		p := &k.items[i]
		en := m.packageEntry(p)
		en.At, en.Completed = h.At, h.Completed
		entries = append(entries, en)
		it.Keys = append(it.Keys, p.Keys...)
		it.Entries, it.Bytes = it.Entries+p.Entries, it.Bytes+p.Bytes
	}
	keys, _, err := m.series(ctx, h, Document{Key: it.Key, Rank: rankList, Immutable: true}, Document{Key: it.Key, Rank: rankParts, Immutable: true}, listed(entries))
	if err != nil {
		return err
	}
	it.Keys, it.Bytes = append(it.Keys, keys...), it.Bytes+m.st.length(keys)
	m.shelf.put(it)
	m.offer(resourcesync.CapabilityResourceDump, it.Key)
	m.pub.DumpNumber, m.pub.DumpAt, m.pub.DumpThrough = it.Number, it.At, it.Through
	return nil
}

// changePackages packs the changes of a period that are in no package yet, writes copies
// of the manifests (1.1 §13), and records the packages. The period of each package ends
// where that of the next package begins. The last one ends with the period of the Change
// List or, if that is not closed yet, at the last change.
func (m *maker) changePackages(ctx context.Context, w *Window) ([]Item, error) {
	from := w.FreshFrom
	if from.Before(w.From) {
		from = w.From
	}
	k := packer{m: m, header: m.l.header(resourcesync.CapabilityChangeDumpManifest), dir: m.l.packagePrefixes(m.pub.ID)[1], earlier: m.packages}
	k.header.From, k.until = resourcesync.DatetimeOf(from), resourcesync.DatetimeOf(w.Until)
	if err := k.pack(ctx, w.Fresh); err != nil {
		return nil, err
	}
	for i := range k.items {
		m.packages++
		k.items[i].Number, k.items[i].Of = PackageNumber(m.pub.ID, m.packages), w.Number
		m.shelf.put(k.items[i])
	}
	return k.items, nil
}

func writeManifest(w io.Writer, h resourcesync.Header, members []pack.Member) error {
	entries := make([]resourcesync.Entry, len(members))
	for i := range members {
		entries[i] = members[i].Entry
	}
	_, err := encode(w, h, listed(entries))
	return err
}

// memberOf returns a bitstream as the nth member of a package, counted from 1. A deletion
// has no bytes and therefore no path.
func memberOf(b Bitstream, n int) pack.Member {
	b.Path = ""
	if b.Open != nil {
		b.Path = pack.PathOf(n, b.Loc)
	}
	return pack.Member{Entry: b.Entry, Open: b.Open}
}

// patchMemberOf returns the member of a package for the patch to which an entry links,
// and sets the path of that link. It returns false if there is no patch. The patch has
// no entry of its own in the manifest.
func patchMemberOf(en *resourcesync.Entry, b Bitstream, n int) (pack.Member, bool) {
	at := slices.IndexFunc(en.Links, func(l resourcesync.Link) bool { return l.Rel == resourcesync.RelPatch })
	if b.Patch == nil || at < 0 {
		return pack.Member{}, false
	}
	l := &en.Links[at]
	l.Path = "/patches" + pack.PathOf(n, l.Href)
	m := pack.Member{Open: b.Patch}
	m.Loc, m.Path, m.Length, m.Digests, m.Type = l.Href, l.Path, l.Length, l.Digests, l.Type
	return m, true
}
