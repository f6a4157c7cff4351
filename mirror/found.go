package mirror

import (
	"context"

	"instep/resourcesync"
)

// In the flat layout, a file can have bytes to which no name in the catalog refers, for
// example after the catalog was lost. Such a file does not belong to the mirror until a
// batch gives its bytes a name. An interrupted batch must not remove the file.

// hasUnnamed reports whether a file has these bytes, but the catalog has no name for
// them.
func (f *flat) hasUnnamed(ctx context.Context, sum resourcesync.Digest) (bool, error) {
	if _, err := f.files.Stat(ctx, contentKey(sum)); err != nil {
		return false, ignoreAbsent(err)
	}
	named, err := f.contents.HasContent(ctx, sum)
	return !named && err == nil, err
}

// dropName removes a name from the catalog. The bytes of the name remain even if they
// have no other name.
func (b *flatBatch) dropName(key string) {
	b.step([]string{key}, func(_ context.Context, n *naming) error {
		n.left[n.names[key]] = true
		delete(n.names, key)
		return nil
	})
}

// markFound marks each step whose new bytes are already in a file without a name, so
// that undoing the step does not remove that file.
func (m *Mirror) markFound(ctx context.Context, w *work) error {
	if m.flat == nil {
		return nil
	}
	for i := range w.steps {
		s := &w.steps[i]
		if s.content == nil || s.Taken != "" {
			continue
		}
		found, err := m.flat.hasUnnamed(ctx, s.SHA256)
		if err != nil {
			return err
		}
		if found {
			s.Taken = contentKey(s.SHA256)
		}
	}
	return nil
}
