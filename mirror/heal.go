package mirror

import (
	"context"
	"errors"
	"io/fs"

	"instep/internal/catalog"
)

// findMarker reads the marker. If the marker is missing and there is a catalog of a
// mirror in .instep, the catalog is that of this mirror, so findMarker reconstructs the
// marker from it.
func (m *Mirror) findMarker(ctx context.Context) (mark marker, found bool, err error) {
	if mark, found, err = m.readMarker(ctx); found || err != nil || m.inside != ours {
		return mark, found, err
	}
	c, err := catalog.OpenReadOnly(ctx, m.o.catalog(), "", m.o.Now)
	if err != nil {
		return mark, false, nil // creating a mirror here reports the error
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
	mark = marker{UUID: id, Created: m.o.Now().UTC(), lost: true}
	for _, err := range c.Mirror.ContentNames(ctx, "") {
		if err != nil {
			return mark, false, err
		}
		mark.Layout = Flat // only a mirror with the layout Flat has names of bytes
		break
	}
	mark.Format = mark.format()
	return mark, true, nil
}

// check reads the whole catalog if Options.Adopt lets this run replace a damaged one,
// since some damage is not found otherwise.
func (m *Mirror) check(ctx context.Context) error {
	if !m.o.Adopt {
		return nil
	}
	return m.cat.Check(ctx)
}

// beginsAnew reports whether a mirror gets a new catalog after its catalog could not be
// opened because of err. With Options.Adopt, it does if the catalog is lost or damaged,
// or if the one in .instep belongs to another mirror. The files in the directory are then
// compared with the Source. Without Adopt, only a mirror whose creation was interrupted
// gets a new catalog, since it has nothing to lose.
func (m *Mirror) beginsAnew(err error) (bool, error) {
	lost, damaged := errors.Is(err, fs.ErrNotExist), errors.Is(err, catalog.ErrDamaged)
	other := errors.Is(err, catalog.ErrOther) && m.inside == ours
	switch {
	case !m.o.Create || !lost && !damaged && !other:
		return false, nil
	case m.o.Adopt:
		return true, nil
	case !lost || m.inside != ours:
		return false, nil
	}
	name, err := m.disk.stranger()
	return name == "", err
}

// Aside returns the path to which Open has moved a catalog that could not be used
// (Options.Adopt); "" if there was none.
func (m *Mirror) Aside() string { return m.aside }
