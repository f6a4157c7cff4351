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
	mu    sync.Mutex // protects the fields below
	begun int64
	made  map[string]time.Time // the time at which each present document was written, by the key of the document
	fresh []string             // the keys of documents published since the last call of the function written
}

func newJournal() *journal {
	return &journal{BucketJournal: source.NewJournal(blob.NewMem()), made: map[string]time.Time{}}
}

// Begin begins a publication in the embedded journal and counts it.
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

// count returns the number of publications that have begun.
func (j *journal) count() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.begun
}

// written returns the keys of the documents published since it was last called.
func (j *journal) written() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	keys := j.fresh
	j.fresh = nil
	return keys
}

// Done ends a publication in the embedded journal and records when its documents were
// written.
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

// Forget forgets a document in the embedded journal, and the time at which the document
// was written.
func (j *journal) Forget(ctx context.Context, key string) error {
	j.mu.Lock()
	delete(j.made, key)
	j.mu.Unlock()
	return j.BucketJournal.Forget(ctx, key)
}

// writtenAt returns the time at which the document at key was written, or zero if there is
// no document.
func (j *journal) writtenAt(key string) time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.made[key]
}
