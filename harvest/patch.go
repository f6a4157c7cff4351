package harvest

import (
	"slices"

	"instep/evidence"
	"instep/internal/patch"
	"instep/resourcesync"
)

// Patch converts one version of a resource into the next version (1.1 §14.4).
type Patch struct {
	URI     string
	Type    string // media type of a supported kind of patch
	Length  resourcesync.Length
	Digests resourcesync.Digests // digests of the patch
	Before  resourcesync.Digests // digests of the version that the patch changes; nil if unknown
	After   resourcesync.Digests // digests of the resulting version
	Size    resourcesync.Length  // length of the resulting version
}

// These constants limit the memory for the patches of a resource: their number, and the
// total length of their URIs in bytes.
const (
	maxPatches   = 16
	maxPatchText = 2 << 10
)

// patchOf returns the shortest patch of a supported kind whose result a digest proves.
func patchOf(e *resourcesync.Entry) []Patch {
	if e.Change != resourcesync.Updated || len(e.Digests) == 0 {
		return nil
	}
	var best []Patch
	for _, l := range e.Links {
		_, known := patch.KindOf(l.Type)
		if l.Rel != resourcesync.RelPatch || !known || len(l.Href) > maxPatchText || l.Encoding != "" {
			continue
		}
		p := Patch{URI: l.Href, Type: l.Type, Length: l.Length, Digests: l.Digests, After: e.Digests, Size: e.Length}
		if best == nil || LengthOr(p.Length) < LengthOr(best[0].Length) {
			best = []Patch{p}
		}
	}
	return best
}

// continuePatches puts the patches of an earlier change before the patches of c.
func (c *ChangeEntry) continuePatches(before *ChangeEntry) {
	switch {
	case len(c.Patches) == 0:
	case before.Change == resourcesync.Deleted:
		c.Patches = nil
	case c.Beside(before.Length, before.Digests) == evidence.Same: // both are the same change, from two lists, so its patches count once
		c.Patches = before.Patches
	default:
		c.Patches[0].Before = before.Digests
		c.Patches = newest(slices.Concat(before.Patches, c.Patches))
	}
}

// newest drops the oldest patches if there are more than the limits allow.
func newest(all []Patch) []Patch {
	text := 0
	for i := len(all) - 1; i >= 0; i-- {
		if text += len(all[i].URI); text > maxPatchText || len(all)-i > maxPatches {
			return all[i+1:]
		}
	}
	return all
}

// PatchesFrom returns the patches that convert a version with the given length and
// digests into w. It returns nil if there are none, or if the patches together are not
// shorter than w.
func (w *Resource) PatchesFrom(length resourcesync.Length, held resourcesync.Digests) []Patch {
	if len(w.Patches) == 0 || !w.Length.Known() {
		return nil
	}
	first := -1
	for i, p := range w.Patches {
		before := Resource{Digests: p.Before}
		if before.Beside(resourcesync.Length{}, held) == evidence.Same || i == 0 && p.Before == nil {
			first = i
		}
	}
	if first < 0 {
		return nil
	}
	way := w.Patches[first:]
	if CostOf(way) >= w.Length.Int64() || longest(length, w, way) > maxVersion(way) {
		return nil
	}
	return way
}

// longest returns the length of the longest version from the first one up to w. It
// ignores unknown lengths.
func longest(held resourcesync.Length, w *Resource, way []Patch) int64 {
	most := max(held.Int64(), w.Length.Int64())
	for i := range way {
		most = max(most, way[i].Size.Int64())
	}
	return most
}

// maxVersion returns the maximum length of a version to which all of the patches can be
// applied.
func maxVersion(way []Patch) int64 {
	for i := range way {
		if kind, _ := patch.KindOf(way[i].Type); kind != patch.VCDIFF {
			return patch.MaxBytes
		}
	}
	return patch.MaxVCDIFF
}

// CostOf returns the total length of the patches in bytes, with an estimate for unknown
// lengths.
func CostOf(patches []Patch) (n int64) {
	for i := range patches {
		n += LengthOr(patches[i].Length)
	}
	return n
}
