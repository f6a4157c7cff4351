package publish

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"instep/blob"
	"instep/internal/catalog"
	"instep/internal/patch"
	"instep/internal/spool"
)

// basesName is the directory, below the state directory, of the published bytes of
// resources, from which patches are made. It has a subdirectory for each set.
const basesName = "bases"

// bases stores the last published bytes of each resource of a set, from which patches are
// made. It leaves out resources that are longer than patch.MaxVCDIFF. The key of an
// object is a digest of the URI. The object at markKey, the mark, names the publication
// to which the bytes belong. The mark is removed before any bytes are replaced, and
// written again when the publication is done. Therefore no patch is made from bytes that
// an interrupted run stored but never published.
type bases struct{ *blob.Dir }

const markKey = "published"

// baseMark is the content of the object at markKey, as JSON. It names the publication to
// which the bytes belong.
type baseMark struct {
	Through int64 // source.Publication.ChangesThrough
}

func baseKey(uri string) string {
	sum := sha256.Sum256([]byte(uri))
	name := hex.EncodeToString(sum[:])
	return name[:2] + "/" + name
}

func (s *Session) openAllBases(ctx context.Context) error {
	for _, set := range s.sets {
		if err := s.openBases(ctx, set); err != nil {
			return err
		}
	}
	return nil
}

// openBases opens the published bytes (see bases) of a set that publishes patches. It
// removes the bytes of a set that publishes no patches. A dry run neither creates nor
// removes anything.
func (s *Session) openBases(ctx context.Context, set *setState) error {
	dir, err := s.openDir(ctx, setDir(basesName, set.Name), set.Patches && !s.site.DryRun, blob.DirOptions{})
	if err != nil || dir == nil {
		return err
	}
	if set.Patches {
		set.bases = &bases{dir}
		return nil
	}
	if s.site.DryRun {
		return nil
	}
	if err := (&bases{dir}).clear(ctx); err != nil {
		return fmt.Errorf("removing the bytes from which patches were made: %w", err)
	}
	return nil
}

func (b *bases) clear(ctx context.Context) error {
	if err := b.unmark(ctx); err != nil {
		return err
	}
	for infos, err := range spool.Batches(b.List(ctx, ""), pruneSize) {
		if err != nil {
			return err
		}
		keys := make([]string, len(infos))
		for i := range infos {
			keys[i] = infos[i].Key
		}
		if err := blob.Remove(ctx, b, keys); err != nil {
			return err
		}
	}
	return nil
}

// lastChange returns the number of the last change that the stored bytes include, or -1 if
// the stored bytes belong to no publication.
func (b *bases) lastChange(ctx context.Context) (int64, error) {
	text, err := b.read(ctx, markKey)
	if err != nil || text == nil {
		return -1, err
	}
	var m baseMark
	if json.Unmarshal(text, &m) != nil {
		return -1, nil
	}
	return m.Through, nil
}

// read returns the bytes of an object. It returns nil if there is no object, or if the
// object is longer than patch.MaxBytes.
func (b *bases) read(ctx context.Context, key string) ([]byte, error) {
	data, err := blob.ReadAll(ctx, b, key, patch.MaxBytes)
	if errors.Is(err, blob.ErrNotExist) || errors.Is(err, blob.ErrTooLarge) {
		return nil, nil
	}
	return data, err
}

// unmark removes the mark, so that the stored bytes belong to no publication.
func (b *bases) unmark(ctx context.Context) error { return blob.Remove(ctx, b, []string{markKey}) }

// mark records that the stored bytes belong to the publication whose last change has the
// given number.
func (b *bases) mark(ctx context.Context, last int64) error {
	text, err := json.Marshal(baseMark{last})
	if err == nil {
		_, err = blob.Write(ctx, b.Dir, bytes.NewReader(text), blob.Put{Key: markKey})
	}
	return err
}

const (
	// basesBatch is the largest number, and basesBytes the largest total length, of stored
	// objects that are replaced in one batch.
	basesBatch = 250
	basesBytes = 64 << 20
)

type baseWriter struct {
	bases   *bases
	batch   blob.Batch      // nil if no batch is open
	pending map[string]bool // keys that the open batch changes
	size    int64           // number of bytes in the open batch
}

// replace replaces the object at a key by the bytes that the function fill writes. size is
// their estimated number. If fill returns false, the object is removed.
func (w *baseWriter) replace(ctx context.Context, key string, size int64, fill func(io.Writer) (ok bool, err error)) (err error) {
	if w.batch == nil {
		if w.batch, err = w.bases.Begin(ctx); err != nil {
			return err
		}
		w.pending, w.size = map[string]bool{}, 0
	}
	w.pending[key] = true
	o, err := w.batch.Create(ctx)
	if err != nil {
		return err
	}
	if ok, err := fill(o); !ok || err != nil {
		if err = errors.Join(err, o.Discard()); err != nil {
			return err
		}
		w.batch.Delete(key)
	} else {
		if err := o.Close(); err != nil {
			return err
		}
		w.batch.Put(o, blob.Put{Key: key})
		w.size += size
	}
	if len(w.pending) < basesBatch && w.size < basesBytes {
		return nil
	}
	return w.flush(ctx)
}

// put replaces the object at a key by data. If data is nil, it removes the object.
func (w *baseWriter) put(ctx context.Context, key string, data []byte) error {
	return w.replace(ctx, key, int64(len(data)), func(o io.Writer) (bool, error) {
		_, err := o.Write(data)
		return data != nil, err
	})
}

// copy replaces the object at a key by the bytes of a resource, or removes the object if
// these bytes cannot be read.
func (w *baseWriter) copy(ctx context.Context, key string, c *contents, m catalog.Resource) error {
	return w.replace(ctx, key, m.Length.Int64(), func(o io.Writer) (bool, error) {
		return c.readVerified(ctx, m, patch.MaxVCDIFF, func(r io.Reader) error {
			_, err := io.Copy(o, r)
			return err
		})
	})
}

func (w *baseWriter) flush(ctx context.Context) error {
	if w.batch == nil {
		return nil
	}
	return errors.Join(w.batch.Commit(ctx), w.discard())
}

func (w *baseWriter) discard() error {
	if w.batch == nil {
		return nil
	}
	err := w.batch.Discard()
	w.batch, w.pending = nil, nil
	return err
}

// finishBases records that the stored bytes are those of the publication that was just
// written. If they did not belong to the publication before it, finishBases first copies
// the bytes of all resources again.
func (r *run) finishBases(ctx context.Context) error {
	if r.bases == nil {
		return nil
	}
	if !r.patching.current {
		if err := r.copyBases(ctx); err != nil {
			return fmt.Errorf("copying the bytes from which patches are made: %w", err)
		}
	}
	if err := r.bases.mark(ctx, r.last.ChangesThrough); err != nil {
		return fmt.Errorf("storing the bytes from which patches are made: %w", err)
	}
	return nil
}

// copyBases replaces all stored bytes by the present bytes of the resources. It stores no
// bytes of a resource that has changed since the publication, because its published bytes
// no longer exist.
func (r *run) copyBases(ctx context.Context) (err error) {
	c, err := r.contents(ctx, r.now)
	if err != nil {
		return err
	}
	if err := r.bases.clear(ctx); err != nil {
		return err
	}
	w := &baseWriter{bases: r.bases}
	defer func() { err = errors.Join(err, w.discard()) }()
	for m, err := range r.facts.Members(ctx, r.id) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		if !m.Changed.Before(r.now) {
			continue
		}
		if err := w.copy(ctx, baseKey(m.URI), c, m); err != nil {
			return err
		}
	}
	return w.flush(ctx)
}
