package mirror

import (
	"context"
	"errors"
	"io/fs"

	"instep/internal/catalog"
)

// findMarker reads the marker file. If the file is missing, but .instep has the catalog
// of a mirror, findMarker makes a new marker from the catalog.
func (m *Mirror) findMarker(ctx context.Context) (mark marker, found bool, err error) {
	if mark, found, err = m.readMarker(ctx); found || err != nil || m.inside != ours {
		return mark, found, err
	}
	c, err := catalog.OpenReadOnly(ctx, m.o.catalog(), "", m.o.Now)
	if err != nil {
		return mark, false, nil // no error here, since creating a mirror in this directory will return the same error
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
		mark.Layout = Flat // the catalog has names for bytes, which only the layout Flat uses
		break
	}
	mark.Format = mark.format()
	return mark, true, nil
}

// check reads the whole catalog if Options.Adopt allows replacing a damaged catalog,
// since opening a catalog does not find all damage.
func (m *Mirror) check(ctx context.Context) error {
	if !m.o.Adopt {
		return nil
	}
	return m.cat.Check(ctx)
}

// mayReplaceCatalog reports whether Open may create a new catalog for a mirror whose
// catalog cannot be opened because of err. With Options.Adopt it may if the catalog is
// lost or damaged, or if the catalog in .instep belongs to another mirror; the files
// are then compared with the Source. Without Adopt it may only if the creation of the
// mirror was interrupted, so that nothing can be lost.
func (m *Mirror) mayReplaceCatalog(err error) (bool, error) {
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
	name, err := m.disk.foreignFile()
	return name == "", err
}

// Aside returns the path to which Open has moved an unusable catalog (see Options.Adopt);
// "" if it has moved none.
func (m *Mirror) Aside() string { return m.aside }
