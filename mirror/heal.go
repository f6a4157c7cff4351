package mirror

import (
	"context"
	"errors"
	"io/fs"

	"instep/internal/catalog"
)

// findMarker reads the marker or, if only the marker is lost, reconstructs it: a catalog of
// a Source in our own directory is that of this mirror.
func (m *Mirror) findMarker(ctx context.Context, o *Options) (mark marker, found bool, err error) {
	if mark, found, err = m.readMarker(ctx); found || err != nil || m.inside != ours {
		return mark, found, err
	}
	c, err := catalog.OpenReadOnly(ctx, o.catalog(), "", o.Now)
	if err != nil {
		return mark, false, nil // its meaning is reported when a mirror is made
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	_, bound, err := c.Facts.Setting(ctx, catalog.MirrorSetting)
	if err != nil || !bound {
		return mark, false, err
	}
	id, err := c.UUID(ctx)
	if err != nil {
		return mark, false, err
	}
	mark = marker{UUID: id, Created: m.now().UTC(), lost: true}
	for _, err := range c.Mirror.ContentNames(ctx, "") {
		if err != nil {
			return mark, false, err
		}
		mark.Layout = Flat // only there bytes have names
		break
	}
	mark.Format = mark.format()
	return mark, true, nil
}

// check reads the whole catalog where a run takes over the files anyway: a damaged one
// ends only then.
func (m *Mirror) check(ctx context.Context, o *Options) error {
	if !o.Adopt {
		return nil
	}
	return m.cat.Check(ctx)
}

// beginsAnew reports whether a mirror whose catalog could not be opened, for that reason,
// gets a new one: if Adopt is set and the catalog is lost or damaged, or is a foreign one
// in our own directory. Then the files in the directory are compared with the Source.
// Without Adopt only a mirror whose creation was interrupted, and which has nothing to
// lose, gets one.
func (m *Mirror) beginsAnew(o *Options, err error) (bool, error) {
	lost, damaged := errors.Is(err, fs.ErrNotExist), errors.Is(err, catalog.ErrDamaged)
	other := errors.Is(err, catalog.ErrOther) && m.inside == ours
	switch {
	case !o.Create || !lost && !damaged && !other:
		return false, nil
	case o.Adopt:
		return true, nil
	case !lost || m.inside != ours:
		return false, nil
	}
	name, err := m.disk.stranger()
	return name == "", err
}

// Aside returns where Open has moved a catalog that it could not use (Options.Adopt); "" if
// it has moved none.
func (m *Mirror) Aside() string { return m.aside }
