package versions

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"instep/blob"
	"instep/resourcesync"
)

// Store stores versions (earlier states) of resources. One process may write to it
// while others read.
type Store struct {
	*index
	bytes blob.Bucket
}

// Open opens the Store in a state directory for reading and writing, and creates it if
// it does not exist. The bytes of versions are stored in the bucket bytes, which the
// caller must close after the Store.
func Open(ctx context.Context, state string, bytes blob.Bucket) (*Store, error) {
	x, err := openIndex(ctx, state, true)
	return &Store{x, bytes}, err
}

// OpenReadOnly opens the Store in a state directory for reading. It returns
// fs.ErrNotExist if there is no Store.
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

// Keep stores the bytes of states, then their rows in the database. It skips states
// that are stored already, states whose bytes, type and coding are those of the
// previous state, and deletions without an earlier state. It returns in lost the states
// whose bytes no longer exist (State.Open or the reader returns fs.ErrNotExist) or
// differ from their digest or length. One call with many states is faster than many
// calls.
func (s *Store) Keep(ctx context.Context, states []State) (lost []Version, err error) {
	batch, err := s.bytes.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer batch.Discard()
	put := map[string]bool{}
	kept := make([]Version, 0, len(states))
	for i := range states {
		st := &states[i]
		err := s.copyBytes(ctx, batch, put, st)
		_, other := errors.AsType[*resourcesync.MismatchError](err)
		switch {
		case errors.Is(err, fs.ErrNotExist) || other:
			lost = append(lost, st.Version)
		case err != nil:
			return nil, fmt.Errorf("version of %q: %w", st.Path, err)
		default:
			kept = append(kept, st.Version)
		}
	}
	if err := batch.Commit(ctx); err != nil {
		return nil, fmt.Errorf("storing the bytes of versions: %w", err)
	}
	return lost, s.insert(ctx, kept)
}

func (s *Store) copyBytes(ctx context.Context, batch blob.Batch, put map[string]bool, st *State) error {
	if st.Deleted {
		return nil
	}
	if st.SHA256.Algorithm() != resourcesync.SHA256 {
		return fmt.Errorf("expected a sha-256, found %q", st.SHA256)
	}
	key := Key(st.SHA256)
	info, err := s.bytes.Stat(ctx, key)
	if put[key] || err == nil && info.Size == st.Length {
		return nil
	}
	if err != nil && !errors.Is(err, blob.ErrNotExist) {
		return err
	}
	body, err := st.Open(ctx)
	if err != nil {
		return err
	}
	defer body.Close()
	o, err := batch.Create(ctx)
	if err != nil {
		return err
	}
	_, err = io.Copy(o, resourcesync.NewVerifyReader(body, st.Length, resourcesync.Digests{st.SHA256}))
	if err = errors.Join(err, o.Close()); err != nil {
		return errors.Join(err, o.Discard())
	}
	batch.Put(o, blob.Put{Key: key})
	put[key] = true
	return nil
}

// Open opens the bytes that have the given digest. If the stored bytes are damaged,
// reading them ends with a resourcesync.MismatchError. Open returns ErrNoVersion if no
// such bytes are stored.
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

type verified struct {
	io.Reader
	io.Closer
}

// Place creates the files that a web server sends for the given states, under the keys that
// Version.Place returns. The files are hard links to the bytes in the Store if both buckets
// are on one file system that supports such links, and copies otherwise. Place skips
// deletions, states that are not stored, and states whose file exists. If the file of a state
// would replace a directory, or the bucket does not accept the key, Place removes the state
// from the Store.
func (s *Store) Place(ctx context.Context, to blob.Bucket, states []Version) error {
	err := s.placeAll(ctx, to, states)
	if !noPlace(err) {
		return err
	}
	for i := range states {
		err := s.placeAll(ctx, to, states[i:i+1])
		if noPlace(err) {
			err = s.drop(ctx, &states[i])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func noPlace(err error) bool {
	return errors.Is(err, blob.ErrClash) || errors.Is(err, blob.ErrKey) || errors.Is(err, blob.ErrForeign)
}

func (s *Store) placeAll(ctx context.Context, to blob.Bucket, states []Version) error {
	batch, err := to.Begin(ctx)
	if err != nil {
		return err
	}
	defer batch.Discard()
	for i := range states {
		v := &states[i]
		if v.Deleted {
			continue
		}
		kept, err := s.At(ctx, v.Path, v.Since)
		if errors.Is(err, ErrNoVersion) || err == nil && kept != *v {
			continue
		}
		if err == nil {
			err = s.place(ctx, to, batch, v)
		}
		if err != nil {
			return fmt.Errorf("version of %q: %w", v.Path, err)
		}
	}
	return batch.Commit(ctx)
}

func (s *Store) place(ctx context.Context, to blob.Bucket, batch blob.Batch, v *Version) error {
	info, err := to.Stat(ctx, v.Place())
	if err == nil && info.Size == v.Length {
		return nil
	}
	if err != nil && !errors.Is(err, blob.ErrNotExist) {
		return err
	}
	o, err := s.share(ctx, batch, v)
	if err == nil {
		batch.Put(o, blob.Put{Key: v.Place()})
	}
	return err
}

func (s *Store) share(ctx context.Context, batch blob.Batch, v *Version) (blob.Object, error) {
	if l, ok := batch.(blob.Linker); ok {
		o, err := l.Link(ctx, s.bytes, Key(v.SHA256))
		if !errors.Is(err, errors.ErrUnsupported) {
			return o, err
		}
	}
	body, err := s.Open(ctx, v.SHA256)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	o, err := batch.Create(ctx)
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(o, body)
	return o, errors.Join(err, o.Close())
}

// Expire removes all states that ended before the given moment: first the files that
// Place created for them in a bucket, then the bytes that no remaining state has, and
// last their rows in the database. Because of this order, a call that was interrupted
// can be repeated.
func (s *Store) Expire(ctx context.Context, placed blob.Bucket, moment time.Time) error {
	old, free, err := s.expired(ctx, moment)
	if err != nil || len(old) == 0 {
		return err
	}
	files, keys := make([]string, len(old)), make([]string, len(free))
	for i := range old {
		files[i] = old[i].Place()
	}
	for i, sum := range free {
		keys[i] = Key(sum)
	}
	if err := blob.Remove(ctx, placed, files); err != nil {
		return err
	}
	if err := blob.Remove(ctx, s.bytes, keys); err != nil {
		return err
	}
	return s.forget(ctx, moment)
}
