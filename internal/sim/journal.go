package sim

import (
	"context"
	"sync"
	"time"

	"instep/blob"
	"instep/source"
)

// journal is an in-memory journal that also counts publications and records when each
// document was written.
type journal struct {
	*source.BucketJournal
	mu    sync.Mutex           // guards the fields below
	begun int64                // the number of publications that have begun
	made  map[string]time.Time // the time at which each present document was written, by its key
	fresh []string             // the keys of the documents that takeWritten returns
}

func newJournal() *journal {
	return &journal{BucketJournal: source.NewJournal(blob.NewMem()), made: map[string]time.Time{}}
}

func (j *journal) Begin(ctx context.Context, set string) (int64, error) {
	id, err := j.BucketJournal.Begin(ctx, set)
	if err != nil {
		return 0, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.begun = id
	return id, nil
}

func (j *journal) publications() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.begun
}

// takeWritten returns the keys of the documents that were published after the last call.
func (j *journal) takeWritten() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	keys := j.fresh
	j.fresh = nil
	return keys
}

func (j *journal) Done(ctx context.Context, p source.Publication) error {
	if err := j.BucketJournal.Done(ctx, p); err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, d := range p.Documents {
		j.made[d.Key] = p.Made
		j.fresh = append(j.fresh, d.Key)
	}
	return nil
}

func (j *journal) Forget(ctx context.Context, key string) error {
	j.mu.Lock()
	delete(j.made, key)
	j.mu.Unlock()
	return j.BucketJournal.Forget(ctx, key)
}

// writtenAt returns zero if there is no document at key.
func (j *journal) writtenAt(key string) time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.made[key]
}
