package mirror

import (
	"context"

	"instep/resourcesync"
)

// Bytes that were in their file of the flat layout before the mirror named them, as after
// the loss of a catalog, are not the mirror's to remove until then: an interrupted batch
// leaves them where they were.

// found reports whether bytes are in their file although they have no name.
func (f *flat) found(ctx context.Context, sum resourcesync.Digest) (bool, error) {
	if _, err := f.files.Stat(ctx, contentKey(sum)); err != nil {
		return false, ignoreAbsent(err)
	}
	named, err := f.contents.HasContent(ctx, sum)
	return !named && err == nil, err
}

// leave removes a name of bytes, which stay.
func (b *flatBatch) leave(key string) {
	b.step([]string{key}, func(_ context.Context, n *naming) error {
		n.left[n.names[key]] = true
		delete(n.names, key)
		return nil
	})
}

// noteFound lets the intents say which bytes were found.
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
