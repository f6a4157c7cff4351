package missed

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"instep/blob"
	"instep/internal/versions"
)

// Store contains the versions that a Bringer has fetched for a mirror. The history of the
// mirror is separate: it contains earlier states of the files of the mirror.
type Store struct {
	*versions.Store
	bytes *blob.Dir
}

// bytesDir is the directory for the bytes of the versions, in the state directory of the
// mirror.
const bytesDir = "content/versions"

// Open opens the store of versions in the state directory of a mirror. It creates the
// store if there is none. The caller must hold the lock of the mirror.
func Open(ctx context.Context, state string) (*Store, error) {
	name := filepath.Join(state, filepath.FromSlash(bytesDir))
	if err := os.MkdirAll(name, 0o700); err != nil { //nolint:forbidigo // the state directory is the user's choice
		return nil, fmt.Errorf("making the directory of versions: %w", err)
	}
	dir, err := blob.OpenDir(name, blob.DirOptions{})
	if err == nil {
		err = dir.Clean(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("opening the directory of versions: %w", err)
	}
	return withBytes(ctx, state, dir, versions.Open)
}

// OpenReadOnly opens the store of versions in the state directory of a mirror for
// reading only. It returns nil if there is none.
func OpenReadOnly(ctx context.Context, state string) (*Store, error) {
	dir, err := blob.OpenDir(filepath.Join(state, filepath.FromSlash(bytesDir)), blob.DirOptions{})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("opening the directory of versions: %w", err)
	}
	s, err := withBytes(ctx, state, dir, versions.OpenReadOnly)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return s, err
}

func withBytes(ctx context.Context, state string, dir *blob.Dir, open func(context.Context, string, blob.Bucket) (*versions.Store, error)) (*Store, error) {
	s, err := open(ctx, state, dir)
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return &Store{s, dir}, nil
}

// Close closes the store.
func (s *Store) Close() error { return errors.Join(s.Store.Close(), s.bytes.Close()) }
