package mirror

import (
	"context"

	"instep/resourcesync"
)

// In the flat layout, a file can store bytes to which no name in the catalog refers, for
// example after the catalog was lost. Such bytes do not belong to the mirror until a
// batch gives them a name. If that batch is interrupted, they are not removed.

// found reports whether there is a file with these bytes to which no name in the catalog
// refers.
func (f *flat) found(ctx context.Context, sum resourcesync.Digest) (bool, error) {
	if _, err := f.files.Stat(ctx, contentKey(sum)); err != nil {
		return false, ignoreAbsent(err)
	}
	named, err := f.contents.HasContent(ctx, sum)
	return !named && err == nil, err
}

// leave removes a name from the catalog and keeps its bytes, even if no other name refers
// to them.
func (b *flatBatch) leave(key string) {
	b.step([]string{key}, func(_ context.Context, n *naming) error {
		n.left[n.names[key]] = true
		delete(n.names, key)
		return nil
	})
}

// noteFound marks the intents (the recorded plans to change files) whose bytes already
// exist in a file to which no name refers, so that undoing them does not remove the
// bytes.
func (m *Mirror) noteFound(ctx context.Context, w *work) error {
	if m.flat == nil {
		return nil
	}
	for i := range w.steps {
		s := &w.steps[i]
		if s.content == nil || s.Taken != "" {
			continue
		}
		found, err := m.flat.found(ctx, s.SHA256)
		if err != nil {
			return err
		}
		if found {
			s.Taken = contentKey(s.SHA256)
		}
	}
	return nil
}
