package publish

import (
	"context"
	"iter"
	"sync"

	"instep/blob"
	"instep/internal/catalog"
	"instep/internal/scan"
	"instep/resourcesync"
)

// pruneSize is the number of keys that prune checks at a time.
const pruneSize = 10_000

// store keeps the bytes of changes that are in no Change Dump yet. It also holds the
// bytes of a resource between Look and Record.
type store struct {
	blob.Bucket
	mu   sync.Mutex     // guards held, also while bytes are removed
	held map[string]int // number of holders, by key
}

func newStore(b blob.Bucket) *store { return &store{Bucket: b, held: map[string]int{}} }

// bucket is nil if there is no store.
func (s *store) bucket() blob.Bucket {
	if s == nil {
		return nil
	}
	return s.Bucket
}

// hold stores the bytes that fill copies, and returns the resource that fill describes.
// The bytes are kept until release is called, and after that while a recorded change
// needs them. If there is an error, release is nil.
func (s *store) hold(ctx context.Context, fill func(blob.Batch) (catalog.Resource, error)) (r catalog.Resource, release func(), err error) {
	batch, err := s.Begin(ctx)
	if err != nil {
		return r, nil, err
	}
	if r, err = fill(batch); err != nil {
		_ = batch.Discard() // the first error is more useful
		return r, nil, err
	}
	key := scan.KeepKey(r.Digests.Get(resourcesync.SHA256))
	s.count(key, 1) // count before the bytes exist, so that prune never finds them without a holder
	release = sync.OnceFunc(func() { s.count(key, -1) })
	if err := batch.Commit(ctx); err != nil {
		release()
		return r, nil, err
	}
	return r, release, nil
}

func (s *store) count(key string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[key] += n; s.held[key] == 0 {
		delete(s.held, key)
	}
}

// prune removes bytes that have no holder and that no unpublished change needs.
func (s *store) prune(ctx context.Context, waiting iter.Seq2[catalog.Change, error]) error {
	var keys []string
	for info, err := range s.List(ctx, "") {
		if err != nil {
			return err
		}
		if keys = append(keys, info.Key); len(keys) < pruneSize {
			continue
		}
		if err := s.remove(ctx, keys, waiting); err != nil {
			return err
		}
		keys = keys[:0]
	}
	return s.remove(ctx, keys, waiting)
}

// remove removes the bytes of those keys that have no holder. The lock prevents
// releases meanwhile, so a change that an application records now still holds its bytes
// or has been counted.
func (s *store) remove(ctx context.Context, keys []string, waiting iter.Seq2[catalog.Change, error]) error {
	if len(keys) == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	free := make(map[string]bool, len(keys))
	for _, key := range keys {
		if s.held[key] == 0 {
			free[key] = true
		}
	}
	for ch, err := range waiting {
		if err != nil {
			return err
		}
		if sum := ch.Digests.Get(resourcesync.SHA256); !sum.IsZero() {
			delete(free, scan.KeepKey(sum))
		}
	}
	batch, err := s.Begin(ctx)
	if err != nil {
		return err
	}
	defer batch.Discard()
	for key := range free {
		batch.Delete(key)
	}
	if len(free) == 0 {
		return nil
	}
	return batch.Commit(ctx)
}
