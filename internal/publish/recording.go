package publish

import (
	"context"
	"errors"

	"instep/internal/catalog"
	"instep/internal/scan"
	"instep/resourcesync"
	"instep/source"
)

// Known returns what is recorded of each key in a set, in the order asked; the zero
// Resource for what is unknown.
func (s *Session) Known(ctx context.Context, set string, keys []resourcesync.Key) ([]catalog.Resource, error) {
	one, err := s.set(set)
	if err != nil {
		return nil, err
	}
	return s.catalog.Lookup(ctx, one.id, keys)
}

// Look reads the file at a path of the site's directory as a scan of the set would, to
// record what it is now. fs.ErrNotExist: there is none, or none that is published. It
// may be called by several at once.
func (s *Session) Look(ctx context.Context, set, path string) (catalog.Resource, error) {
	one, err := s.set(set)
	if err != nil {
		return catalog.Resource{}, err
	}
	tree := s.root()
	if tree == nil || one.Input != nil {
		return catalog.Resource{}, errors.New("the set is not made of the files of a directory: expected a uri")
	}
	var unsure error
	d := scan.Dir{
		Deps: scan.Deps{BaseURL: s.site.BaseURL, Algorithms: s.site.Algorithms, Now: s.site.Now},
		Tree: scan.RootTree(tree), Include: one.Include, Exclude: one.Exclude, Rules: one.Rules,
		Ours: func(path string) bool {
			if s.ownTree(path) {
				return true
			}
			if !s.inside || !source.MayBeDocument(path) {
				return false
			}
			_, ours, err := one.pub.Journal.Document(ctx, path)
			unsure = errors.Join(unsure, err)
			return ours || err != nil
		},
	}
	r, err := d.Look(ctx, path)
	return r, errors.Join(unsure, err)
}
