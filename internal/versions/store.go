package versions

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"instep/blob"
	"instep/resourcesync"
)

// Store keeps versions. One process may write while others read.
type Store struct {
	*index
	bytes blob.Bucket
}

// Open opens the store of a state directory for writing, and makes it if there is none. bytes
// is where the bytes are; the caller closes it after the Store.
func Open(ctx context.Context, state string, bytes blob.Bucket) (*Store, error) {
	x, err := openIndex(ctx, state, true)
	return &Store{x, bytes}, err
}

// OpenReadOnly opens the store of a state directory for reading; fs.ErrNotExist if there is none.
func OpenReadOnly(ctx context.Context, state string, bytes blob.Bucket) (*Store, error) {
	root, err := os.OpenRoot(state) //nolint:forbidigo // the state directory is the user's choice
	if err != nil {
		return nil, err
	}
	_, err = root.Stat(FileName)
	if err = errors.Join(err, root.Close()); err != nil {
		return nil, err
	}
	x, err := openIndex(ctx, state, false)
	return &Store{x, bytes}, err
}

// Keep stores states, all or none: first the bytes, then the rows. It leaves out a state that
// is recorded already, or that has the same bytes, type and coding as the one before it. An
// error of State.Open, and bytes with another digest or length than stated
// (resourcesync.MismatchError), are returned with the URI. Many states at a time are faster
// than one.
func (s *Store) Keep(ctx context.Context, states []State) error {
	batch, err := s.bytes.Begin(ctx)
	if err != nil {
		return err
	}
	defer batch.Discard()
	put := map[string]bool{}
	for i := range states {
		st := &states[i]
		if st.Deleted {
			continue
		}
		if st.SHA256.Algorithm() != resourcesync.SHA256 {
			return fmt.Errorf("version of %q: expected a sha-256, found %q", st.URI, st.SHA256)
		}
		key := Key(st.SHA256)
		if put[key] {
			continue
		}
		if put[key], err = s.copyBytes(ctx, batch, key, st); err != nil {
			return fmt.Errorf("version of %q: %w", st.URI, err)
		}
	}
	if err := batch.Commit(ctx); err != nil {
		return fmt.Errorf("storing the bytes of versions: %w", err)
	}
	return s.insert(ctx, states)
}

// copyBytes puts the bytes of a state into a batch unless the bucket has them.
func (s *Store) copyBytes(ctx context.Context, batch blob.Batch, key string, st *State) (bool, error) {
	info, err := s.bytes.Stat(ctx, key)
	if err == nil && info.Size == st.Length {
		return true, nil
	}
	if err != nil && !errors.Is(err, blob.ErrNotExist) {
		return false, err
	}
	body, err := st.Open(ctx)
	if err != nil {
		return false, err
	}
	defer body.Close()
	o, err := batch.Create(ctx)
	if err != nil {
		return false, err
	}
	_, err = io.Copy(o, resourcesync.NewVerifyReader(body, st.Length, resourcesync.Digests{st.SHA256}))
	if err = errors.Join(err, o.Close()); err != nil {
		return false, err
	}
	batch.Put(o, blob.Put{Key: key})
	return true, nil
}

// Open opens kept bytes. Reading fails before the end if they are not those of the digest
// any more (resourcesync.MismatchError). ErrNoVersion: they are not kept.
func (s *Store) Open(ctx context.Context, sha256 resourcesync.Digest) (io.ReadCloser, error) {
	body, info, err := s.bytes.Get(ctx, Key(sha256), 0, -1)
	if errors.Is(err, blob.ErrNotExist) {
		err = fmt.Errorf("%w: bytes %s", ErrNoVersion, sha256)
	}
	if err != nil {
		return nil, err
	}
	return verified{resourcesync.NewVerifyReader(body, info.Size, resourcesync.Digests{sha256}), body}, nil
}

// verified reads bytes through a check, and closes them.
type verified struct {
	io.Reader
	io.Closer
}

// Expire forgets the states that ended before a moment, and removes bytes that no state has
// any more. It returns the states that it forgot.
func (s *Store) Expire(ctx context.Context, before time.Time) ([]Version, error) {
	old, free, err := s.forget(ctx, before)
	if err != nil || len(free) == 0 {
		return old, err
	}
	batch, err := s.bytes.Begin(ctx)
	if err != nil {
		return old, err
	}
	defer batch.Discard()
	for _, sum := range free {
		batch.Delete(Key(sum))
	}
	return old, batch.Commit(ctx)
}
