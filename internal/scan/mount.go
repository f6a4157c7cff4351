package scan

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"instep/internal/catalog"
)

// maxMounts bounds the number of recorded mount points.
const maxMounts = 1000

// aboveRoot is the name that Dir.Device gets for the parent of the root.
const aboveRoot = ".."

// device returns the device of a directory; false if that is unknown.
func (d *Dir) device(name string, info fs.FileInfo) (uint64, bool) {
	switch {
	case info == nil:
		return 0, false
	case d.Device != nil:
		return d.Device(name, info)
	}
	return deviceOf(info)
}

// mounted reports whether a directory is on another device than its parent.
func (d *Dir) mounted(name string, info, above fs.FileInfo) bool {
	parent := aboveRoot
	if name != "." {
		parent = catalog.DirOf(name)
	}
	on, known := d.device(name, info)
	in, knownAbove := d.device(parent, above)
	return known && knownAbove && on != in
}

// isMount reports whether a recorded mount point is still a mount point.
func (d *Dir) isMount(name string) bool {
	info, err := d.Tree.Lstat(name)
	if err != nil || !info.IsDir() {
		return false
	}
	above := d.Above
	if name != "." {
		if above, err = d.Tree.Lstat(catalog.DirOf(name)); err != nil {
			return false
		}
	}
	return d.mounted(name, info, above)
}

// mountsSetting is the name of the setting with the mount points of a set.
func (d *Dir) mountsSetting() string { return fmt.Sprintf("scan mounts %d", d.Set) }

// knownMounts returns the mount points that earlier scans found. They are stored as bytes,
// since file names need not be text.
func (d *Dir) knownMounts(ctx context.Context) (mounts []string, err error) {
	text, ok, err := d.Facts.Setting(ctx, d.mountsSetting())
	if err != nil || !ok {
		return nil, err
	}
	var names [][]byte
	if err := json.Unmarshal([]byte(text), &names); err != nil {
		return nil, fmt.Errorf("setting %q of the catalog: %w", d.mountsSetting(), err)
	}
	for _, name := range names {
		mounts = append(mounts, string(name))
	}
	return mounts, nil
}

// keepMounts records the mount points that p found. Recorded ones that were not
// examined, or could not be, stay recorded.
func (d *Dir) keepMounts(ctx context.Context, p *Plan) error {
	before, err := d.knownMounts(ctx)
	if err != nil {
		return err
	}
	now := slices.Clone(p.mounts)
	if p.Doubt || d.Paths != nil {
		now = append(now, before...)
	}
	slices.Sort(now)
	if now = slices.Compact(now); len(now) > maxMounts {
		now = now[:maxMounts]
	}
	if slices.Equal(now, before) {
		return nil
	}
	names := make([][]byte, len(now))
	for i, name := range now {
		names[i] = []byte(name)
	}
	var text bytes.Buffer
	if err := json.NewEncoder(&text).Encode(names); err != nil {
		return err
	}
	return d.Facts.SetSettings(ctx, map[string]string{d.mountsSetting(): text.String()})
}

// lostMount returns a directory that is no longer a mount point, and below which every
// published file is missing; "" if there is none. n is the number of missing resources.
func (d *Dir) lostMount(ctx context.Context) (mount string, n int64, err error) {
	known, err := d.knownMounts(ctx)
	if err != nil {
		return "", 0, err
	}
	for _, name := range known {
		if d.isMount(name) {
			continue
		}
		if n, err := d.missingBelow(ctx, name); err != nil || n > 0 {
			return name, n, err
		}
	}
	return "", 0, nil
}

// missingBelow returns the number of members below a directory, or 0 if the file of any
// of them exists.
func (d *Dir) missingBelow(ctx context.Context, dir string) (n int64, err error) {
	for m, err := range d.Facts.Members(ctx, d.Set) {
		if err != nil {
			return 0, err
		}
		if dir != "." && !below(map[string]bool{dir: true}, m.Path) {
			continue
		}
		if _, err := d.Tree.Lstat(m.Path); !errors.Is(err, fs.ErrNotExist) {
			return 0, nil
		}
		n++
	}
	return n, nil
}
