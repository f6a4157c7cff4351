package scan

import (
	"context"
	"iter"
	"slices"
	"strings"

	"instep/internal/catalog"
	"instep/resourcesync"
)

// roots returns the paths at which the walk begins. No root is below another root.
func (d *Dir) roots() []string {
	if d.Paths == nil {
		return []string{"."}
	}
	all := map[string]bool{}
	for _, p := range d.Paths {
		all[p] = true
		if of, ok := strings.CutSuffix(p, linkFileSuffix); ok && d.LinkFiles {
			all[of] = true
		}
	}
	var roots []string
	for p := range all {
		if p == "." {
			return []string{"."}
		}
		if !isBelow(all, catalog.DirOf(p)) {
			roots = append(roots, p)
		}
	}
	slices.Sort(roots)
	return roots
}

func isBelow(paths map[string]bool, name string) bool {
	for name != "." {
		if paths[name] {
			return true
		}
		name = catalog.DirOf(name)
	}
	return false
}

// members yields the keys of the members that the scan covers, in ascending order.
func (d *Dir) members(ctx context.Context) iter.Seq2[resourcesync.Key, error] {
	roots := d.roots()
	if d.Paths == nil || slices.Contains(roots, ".") {
		return d.Facts.MemberKeys(ctx, d.Set)
	}
	return func(yield func(resourcesync.Key, error) bool) {
		keys, dirs, err := d.splitRoots(ctx, roots)
		if err != nil {
			yield("", err)
			return
		}
		if len(dirs) == 0 {
			for _, k := range keys {
				if !yield(k, nil) {
					return
				}
			}
			return
		}
		for m, err := range d.Facts.MembersByKey(ctx, d.Set) {
			key := resourcesync.KeyOf(m.URI)
			_, asked := slices.BinarySearch(keys, key)
			if (err != nil || asked || isBelow(dirs, m.Path)) && !yield(key, err) {
				return
			}
		}
	}
}

// splitRoots divides the paths at which a scan begins into two groups. Files that are
// members of the set are returned as keys in ascending order. Directories, including former
// ones, are returned as paths, because missing files below them can be found only by
// reading all members.
func (d *Dir) splitRoots(ctx context.Context, roots []string) (keys []resourcesync.Key, dirs map[string]bool, err error) {
	dirs = map[string]bool{}
	for batch := range slices.Chunk(roots, batchSize) {
		spelled, err := d.Spelled(ctx, batch)
		if err != nil {
			return nil, nil, err
		}
		asked := make([]string, len(batch))
		for i, p := range batch {
			asked[i] = d.uri(p, spelled[p])
		}
		known, err := d.Facts.Lookup(ctx, d.Set, asked)
		if err != nil {
			return nil, nil, err
		}
		for i, r := range known {
			info, err := d.Tree.Lstat(batch[i])
			switch {
			case r.Member:
				keys = append(keys, resourcesync.KeyOf(asked[i]))
			case err != nil || info.IsDir():
				dirs[batch[i]] = true
			}
		}
	}
	slices.Sort(keys)
	return keys, dirs, nil
}
