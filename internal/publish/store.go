package publish

import (
	"context"
	"iter"
	"maps"
	"slices"
	"sync"

	"instep/blob"
	"instep/internal/catalog"
	"instep/internal/scan"
	"instep/internal/spool"
	"instep/resourcesync"
)

// pruneSize is the number of objects that prune checks at a time.
const pruneSize = 10_000

// store keeps the bytes of changes that no Change Dump contains yet. Between Session.Look
// and Session.Record it also keeps the bytes of a resource whose change is not recorded
// yet.
type store struct {
	blob.Bucket
	mu      sync.Mutex     // guards holders, and is locked while bytes are removed
	holders map[string]int // by key: the number of callers of hold that have not called release yet
}

func newStore(b blob.Bucket) *store { return &store{Bucket: b, holders: map[string]int{}} }

// bucket returns the bucket of the store. It may be called on a nil store.
func (s *store) bucket() blob.Bucket {
	if s == nil {
		return nil
	}
	return s.Bucket
}

// hold stores the bytes of the resource that the function fill returns. They are kept
// until the caller calls release, and after that as long as a recorded change needs them.
// After an error, release is nil.
func (s *store) hold(ctx context.Context, fill func(blob.Batch) (catalog.Resource, error)) (r catalog.Resource, release func(), err error) {
	batch, err := s.Begin(ctx)
	if err != nil {
		return r, nil, err
	}
	if r, err = fill(batch); err != nil {
		_ = batch.Discard() // the error of Discard is ignored, since the first error is more useful
		return r, nil, err
	}
	key := scan.KeepKey(r.Digests.Get(resourcesync.SHA256))
	s.count(key, 1) // the call is counted before the bytes exist, so that prune never removes these bytes
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
	if s.holders[key] += n; s.holders[key] == 0 {
		delete(s.holders, key)
	}
}

// prune removes stored bytes, except those that a caller of hold still needs, and those
// of the given changes, which no Change Dump contains yet.
func (s *store) prune(ctx context.Context, unpacked iter.Seq2[catalog.Change, error]) error {
	for infos, err := range spool.Batches(s.List(ctx, ""), pruneSize) {
		if err != nil {
			return err
		}
		if err := s.remove(ctx, infos, unpacked); err != nil {
			return err
		}
	}
	return nil
}

// remove locks s.mu, so that release has to wait. Thus it never removes the bytes of a
// change that is being recorded: either the caller of hold has not called release yet, or
// the change is already among the unpacked changes.
func (s *store) remove(ctx context.Context, infos []blob.Info, unpacked iter.Seq2[catalog.Change, error]) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	free := make(map[string]bool, len(infos))
	for i := range infos {
		if key := infos[i].Key; s.holders[key] == 0 {
			free[key] = true
		}
	}
	for ch, err := range unpacked {
		if err != nil {
			return err
		}
		if sum := ch.Digests.Get(resourcesync.SHA256); !sum.IsZero() {
			delete(free, scan.KeepKey(sum))
		}
	}
	return blob.Remove(ctx, s, slices.Collect(maps.Keys(free)))
}
