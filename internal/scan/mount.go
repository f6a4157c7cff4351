package scan

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"instep/internal/catalog"
)

// maxMounts is the largest number of mount points that are recorded.
const maxMounts = 1000

// aboveRoot is the name with which Dir.Device is called for the parent directory of
// the root.
const aboveRoot = ".."

func (d *Dir) device(name string, info fs.FileInfo) (uint64, bool) {
	switch {
	case info == nil:
		return 0, false
	case d.Device != nil:
		return d.Device(name, info)
	}
	return deviceOf(info)
}

func (d *Dir) onOtherDevice(name string, info, above fs.FileInfo) bool {
	parent := aboveRoot
	if name != "." {
		parent = catalog.DirOf(name)
	}
	on, known := d.device(name, info)
	in, knownAbove := d.device(parent, above)
	return known && knownAbove && on != in
}

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
	return d.onOtherDevice(name, info, above)
}

func (d *Dir) mountsSetting() string { return fmt.Sprintf("scan mounts %d", d.Set) }

// knownMounts returns the mount points that earlier scans found. They are stored as
// bytes, since file names need not be valid UTF-8.
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

// keepMounts records the mount points that the plan found. Recorded mount points that this
// scan did not examine stay recorded.
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
	text, err := json.Marshal(names)
	if err != nil {
		return err
	}
	return d.Facts.SetSettings(ctx, map[string]string{d.mountsSetting(): string(text)})
}

// lostMount returns a directory that is no longer a mount point and below which every
// published file is missing, with the number of these files. It returns "" if there is no
// such directory.
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

// missingBelow returns the number of members below a directory, or 0 if at least one of
// their files exists.
func (d *Dir) missingBelow(ctx context.Context, dir string) (n int64, err error) {
	for m, err := range d.Facts.Members(ctx, d.Set) {
		if err != nil {
			return 0, err
		}
		if dir != "." && !isBelow(map[string]bool{dir: true}, m.Path) {
			continue
		}
		if _, err := d.Tree.Lstat(m.Path); !errors.Is(err, fs.ErrNotExist) {
			return 0, nil
		}
		n++
	}
	return n, nil
}
