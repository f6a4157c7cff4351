package source

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"path"

	"instep/resourcesync"
)

// patchesPerDir is the number of consecutive changes whose patches are in one directory.
const patchesPerDir = 1000

// Patch is the patch of a change: bytes that turn the previous version of a resource
// into the new one (1.1 §14.4).
type Patch struct {
	Item
	Data []byte
}

// NewPatch returns the patch of the change with the given number, which is unique in its
// set. extension is the file extension of the patch, with the dot.
func NewPatch(set string, number int64, mediaType, extension string, data []byte) Patch {
	l := layout{set: set}
	key := path.Join(l.dir(), "patches", fmt.Sprint(number/patchesPerDir), fmt.Sprint(number)+extension)
	return Patch{Item{
		Kind: ItemPatch, Number: number, Key: key, Keys: []string{key},
		Bytes: int64(len(data)), Length: int64(len(data)), SHA256: sha256.Sum256(data), Type: mediaType,
	}, data}
}

// PatchLink returns the link from the entry of a change to its patch. base is the base
// URL, which ends in a slash.
func (it *Item) PatchLink(base string) resourcesync.Link {
	return resourcesync.Link{
		Rel: resourcesync.RelPatch, Href: base + it.Key, Type: it.Type,
		Length: resourcesync.Bytes(it.Length), Digests: it.SHA256.digests(),
	}
}

func (m *maker) patches(ctx context.Context, u Update) error {
	if u.Patches == nil {
		return nil
	}
	for p, err := range u.Patches {
		if err != nil {
			return fmt.Errorf("making a patch: %w", err)
		}
		write := func(w io.Writer) error {
			_, err := w.Write(p.Data)
			return err
		}
		if err := m.st.add(ctx, Document{Key: p.Key, Rank: rankPatches, Immutable: true}, write); err != nil {
			return err
		}
		m.shelf.put(p.Item)
	}
	return nil
}

// PatchesOf returns the patches to which the changes of a Change List link. It returns
// none if list is an item of another kind.
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
