package mirror

import (
	"context"

	"instep/resourcesync"
)

// Bytes can be in their file of the flat layout without a name in the catalog, for
// example after the catalog was lost. Until they get a name they do not belong to the
// mirror, so an interrupted batch does not remove them.

// found reports whether the file with these bytes exists although they have no name.
func (f *flat) found(ctx context.Context, sum resourcesync.Digest) (bool, error) {
	if _, err := f.files.Stat(ctx, contentKey(sum)); err != nil {
		return false, ignoreAbsent(err)
	}
	named, err := f.contents.HasContent(ctx, sum)
	return !named && err == nil, err
}

// leave removes a name, but not the bytes.
func (b *flatBatch) leave(key string) {
	b.step([]string{key}, func(_ context.Context, n *naming) error {
		n.left[n.names[key]] = true
		delete(n.names, key)
		return nil
	})
}

// noteFound records in the intents which bytes were found.
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
