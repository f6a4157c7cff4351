package mirror

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"instep/blob"
	"instep/internal/versions"
	"instep/resourcesync"
)

// versionsDir is where the bytes of fetched versions are, in the state.
const versionsDir = "content/versions"

// Fetched opens the states of resources that the Source keeps as versions and that were fetched
// from there (1.1 §14.6), by URI; they are beside those that the mirror has held itself. They
// are closed with the Mirror. nil: the mirror is open for reading, and has none.
func (m *Mirror) Fetched(ctx context.Context) (*versions.Store, error) {
	if m.fetched != nil || m.cat == nil {
		return m.fetched, nil
	}
	state := (&Options{Dir: m.dir, State: m.state}).state()
	name := filepath.Join(state, filepath.FromSlash(versionsDir))
	if !m.readOnly {
		if err := makeDir(name, oursMode); err != nil {
			return nil, err
		}
	}
	dir, err := blob.OpenDir(name, blob.DirOptions{})
	if m.readOnly && errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("opening the fetched versions: %w", err)
	}
	m.close = append(m.close, dir.Close)
	open := versions.Open
	if m.readOnly {
		open = versions.OpenReadOnly
	} else if err := dir.Clean(ctx); err != nil {
		return nil, fmt.Errorf("removing what an interrupted run left: %w", err)
	}
	s, err := open(ctx, state, dir)
	if m.readOnly && errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	m.fetched = s
	m.close = append(m.close, s.Close)
	return s, nil
}

// HoldsBytes reports whether the present state of a resource has these bytes, in any set.
func (m *Mirror) HoldsBytes(ctx context.Context, uri string, sha256 resourcesync.Digest) (bool, error) {
	for v, err := range m.History(ctx, uri) {
		if err != nil || !v.Present() {
			return false, err
		}
		if v.Digests.Get(resourcesync.SHA256) == sha256 {
			return true, nil
		}
	}
	return false, nil
}
