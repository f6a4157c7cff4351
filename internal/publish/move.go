package publish

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/dustin/go-humanize/english"

	"instep/internal/catalog"
	"instep/source"
)

// movedSuffix is added to the name of the catalog when a publication is moved to another
// base URL. The renamed catalog is kept until the next move.
const movedSuffix = ".moved"

// moveAway ends the publication at the old base URL, so that the site can be published from
// scratch at the new one. It completes an interrupted publication, removes those documents
// that this state wrote and nobody has changed, and renames the catalog. Other files stay.
// It does nothing if the state already belongs to the new base URL, or if it belongs to
// another directory or to a mirror. If moveAway is interrupted, the next run completes the
// move.
func (p *places) moveAway(ctx context.Context, o checkedSite) (note string, err error) {
	before, _, err := p.toMove(ctx, o)
	if err != nil || before == "" {
		return "", err
	}
	old := &Session{site: o, places: p}
	old.site.BaseURL, old.site.Adopt = before, false
	err = old.prepare(ctx)
	for _, c := range slices.Backward(old.closers) {
		err = errors.Join(err, c.Close())
	}
	if err != nil {
		return "", fmt.Errorf("finishing the publication at %q: %w", before, err)
	}
	still, keys, err := p.toMove(ctx, o) // look again, because completing the interrupted run may have added documents
	if err != nil || still == "" {
		return "", err
	}
	pub := &source.Publisher{Bucket: p.bucket, Journal: journal{p.facts, p.pubs}, BaseURL: before, Now: o.Now}
	removed, err := pub.Withdraw(ctx, keys)
	if err != nil {
		return "", err
	}
	if err := p.renameCatalog(ctx, o); err != nil {
		return "", fmt.Errorf("renaming the state of the publication at %q: %w", before, err)
	}
	return fmt.Sprintf("moved from %s: removed %s of that publication", before, english.Plural(int(removed), "document", "")), nil
}

// toMove returns the old base URL and the keys of the documents that a move removes. The
// URL is "" if there is nothing to move.
func (p *places) toMove(ctx context.Context, o checkedSite) (before string, keys []string, err error) {
	for name, want := range map[string]string{catalog.MirrorSetting: "", dirSetting: p.dir, outSetting: p.outPath} {
		recorded, _, err := p.facts.Setting(ctx, name)
		if err != nil || recorded != want {
			return "", nil, err // checkSettings returns an error if the state belongs to another directory or to a mirror
		}
	}
	before, ok, err := p.facts.Setting(ctx, catalog.PublisherSetting)
	if err != nil || !ok || before == o.BaseURL {
		return "", nil, err
	}
	uuid, err := p.catalog.UUID(ctx)
	if err != nil {
		return "", nil, err
	}
	info, err := publishedInfo(p.outPath)
	switch {
	case errors.Is(err, fs.ErrNotExist): // no error: publication.json was removed by hand, or by an interrupted move
	case err != nil:
		return "", nil, err
	case info.State != uuid:
		return "", nil, &source.WrongStateError{Found: info.State, Want: uuid, BaseURL: info.BaseURL}
	}
	for key, err := range p.pubs.Documents(ctx) {
		if err != nil {
			return "", nil, err
		}
		keys = append(keys, key)
	}
	return before, keys, nil
}

// renameCatalog renames the catalog, removes the bytes stored for its Change Dumps, and
// opens a new catalog.
func (p *places) renameCatalog(ctx context.Context, o checkedSite) error {
	if err := p.catalog.Close(); err != nil {
		return err
	}
	p.stores = stores{}
	name := filepath.Join(o.State, catalogName)
	for _, suffix := range []string{"-wal", "-shm", ""} { // the database file is renamed last, because without it a repeated move would do nothing
		err := os.Rename(name+suffix, name+movedSuffix+suffix)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err != nil {
			_ = os.Remove(name + movedSuffix + suffix) // remove the file of an earlier move
		}
	}
	for _, of := range []string{defaultName, setName} { // the bytes of versions stay, since versions are stored by path and not by URL
		if err := os.RemoveAll(filepath.Join(o.State, contentName, of)); err != nil {
			return err
		}
	}
	var err error
	p.stores, err = openStores(ctx, catalog.Options{Path: name, Create: true, Now: o.Now})
	return err
}

// BaseURLOf returns the base URL of the publication whose state is in a directory, or "" if
// there is no such state. It writes nothing.
func BaseURLOf(ctx context.Context, state string, now func() time.Time) (base string, err error) {
	c, err := catalog.OpenReadOnly(ctx, filepath.Join(state, catalogName), "", now)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	base, _, err = c.Facts.Setting(ctx, catalog.PublisherSetting)
	return base, err
}

// PlanMove returns the base URL from which Open with Move would move the site, and the keys
// of the documents that Open would remove. The URL is "" if there is nothing to move.
// PlanMove writes nothing.
func PlanMove(ctx context.Context, site Site) (before string, keys []string, err error) {
	site.DryRun = true
	o, err := site.validate()
	if err != nil {
		return "", nil, err
	}
	p, err := openPlaces(ctx, o)
	if err != nil {
		return "", nil, err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	before, keys, err = p.toMove(ctx, o)
	pub := &source.Publisher{Bucket: p.bucket, Journal: journal{p.facts, p.pubs}, BaseURL: before, Now: o.Now}
	var ours []string
	for _, key := range keys {
		is, err := pub.Wrote(ctx, key)
		if err != nil {
			return "", nil, err
		}
		if is {
			ours = append(ours, key)
		}
	}
	slices.Sort(ours)
	return before, ours, err
}
