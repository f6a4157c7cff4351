package source

import (
	"context"
	"crypto/sha256"
	"fmt"
	"path"

	"instep/resourcesync"
)

// patchesOf is how many changes have their patches in one directory, at most.
const patchesOf = 1000

// Patch makes the version of a resource that a change brought from the version before it
// (1.1 §14.4).
type Patch struct {
	Item
	Data []byte
}

// NewPatch returns the patch to the change of that number, which is unique in its set. The
// extension is that of its file, with the dot.
func NewPatch(set string, number int64, mediaType, extension string, data []byte) Patch {
	l := layout{set: set}
	key := path.Join(l.dir(), "patches", fmt.Sprint(number/patchesOf), fmt.Sprint(number)+extension)
	return Patch{Item{
		Kind: ItemPatch, Number: number, Key: key, Keys: []string{key},
		Bytes: int64(len(data)), Length: int64(len(data)), SHA256: sha256.Sum256(data), Type: mediaType,
	}, data}
}

// PatchLink returns the link of a change to a patch, for a base URL that ends in a slash.
func (it *Item) PatchLink(base string) resourcesync.Link {
	return resourcesync.Link{
		Rel: resourcesync.RelPatch, Href: base + it.Key, Type: it.Type,
		Length: resourcesync.Bytes(it.Length), Digests: it.SHA256.digests(),
	}
}

// patches makes documents of the new patches.
func (m *maker) patches(ctx context.Context, u Update) error {
	if u.Patches == nil {
		return nil
	}
	for p, err := range u.Patches {
		if err != nil {
			return fmt.Errorf("making a patch: %w", err)
		}
		d, err := m.st.draft(ctx)
		if err != nil {
			return err
		}
		if _, err := d.Write(p.Data); err != nil {
			d.drop()
			return fmt.Errorf("writing %q: %w", p.Key, err)
		}
		if err := m.st.keep(d, Document{Key: p.Key, Rank: rankPatches, Immutable: true}); err != nil {
			return err
		}
		m.shelf.put(p.Item)
	}
	return nil
}

// dropPatches drops the patches of a Change List that is dropped.
func (m *maker) dropPatches(ctx context.Context, list Item) error {
	patches, err := PatchesOf(ctx, m.p.Journal, m.l.set, &list)
	for i := range patches {
		m.shelf.drop(patches[i])
		m.retire(patches[i].Keys...)
	}
	return err
}

// PatchesOf returns the patches that the changes of a Change List link; none of another item.
func PatchesOf(ctx context.Context, j Journal, set string, list *Item) (patches []Item, err error) {
	if list.Kind != ItemChangeList {
		return nil, nil
	}
	for it, err := range j.Items(ctx, set, ItemPatch, list.Number) {
		if err != nil {
			return nil, fmt.Errorf("reading the patches of Change List %d: %w", list.Number, err)
		}
		if it.Number > list.Through {
			break
		}
		patches = append(patches, it)
	}
	return patches, nil
}
