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
	"io/fs"
	"path/filepath"

	"instep/blob"
	"instep/internal/catalog"
	"instep/internal/patch"
)

// basesName is the directory of the state that keeps the published bytes of resources, of
// each set apart.
const basesName = "bases"

// bases keeps the bytes of each resource of a set as they were published last, up to
// patch.MaxVCDIFF of each, by a digest of the URI. An object at markKey says of which
// publication they are. It is removed before bases are replaced and written when the
// publication is done, so that after an interruption no patch is made from bytes that were
// never published.
type bases struct{ *blob.Dir }

const markKey = "published"

// baseMark is the object at markKey.
type baseMark struct {
	Through int64 // source.Publication.ChangesThrough
}

func baseKey(uri string) string {
	sum := sha256.Sum256([]byte(uri))
	name := hex.EncodeToString(sum[:])
	return name[:2] + "/" + name
}

// openAllBases opens the bases of all sets that publish patches.
func (s *Session) openAllBases(ctx context.Context) error {
	for _, set := range s.sets {
		if err := s.openBases(ctx, set); err != nil {
			return err
		}
	}
	return nil
}

// openBases opens the bases of a set that publishes patches, and removes those of another
// one. A dry run reads those that exist.
func (s *Session) openBases(ctx context.Context, set *setState) error {
	name := filepath.Join(s.site.State, basesName, "default")
	if set.Name != "" {
		name = filepath.Join(s.site.State, basesName, "set", set.Name)
	}
	create := set.Patches && !s.site.DryRun
	dir, err := openStore(name, create)
	if !create && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("opening the directory for the bytes that patches are made from: %w", err)
	}
	s.closers = append(s.closers, dir)
	if set.Patches {
		set.bases = &bases{dir}
	}
	if s.site.DryRun {
		return nil
	}
	err = dir.Clean(ctx)
	if err == nil && !set.Patches {
		err = (&bases{dir}).clear(ctx)
	}
	if err != nil {
		return fmt.Errorf("removing bytes that no patches are made from: %w", err)
	}
	return nil
}

// clear removes all bases.
func (b *bases) clear(ctx context.Context) error {
	if err := b.unmark(ctx); err != nil {
		return err
	}
	for {
		batch, err := b.Begin(ctx)
		if err != nil {
			return err
		}
		n := 0
		for info, err := range b.List(ctx, "") {
			if err != nil {
				return errors.Join(err, batch.Discard())
			}
			batch.Delete(info.Key)
			if n++; n == pruneSize {
				break
			}
		}
		if n == 0 {
			return batch.Discard()
		}
		if err := errors.Join(batch.Commit(ctx), batch.Discard()); err != nil {
			return err
		}
	}
}

// through returns of which change on the bases are not up to date; -1 if they are of no
// publication.
func (b *bases) through(ctx context.Context) (int64, error) {
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

// read returns an object; nil if there is none, or it is too long to be a base.
func (b *bases) read(ctx context.Context, key string) ([]byte, error) {
	r, info, err := b.Get(ctx, key, 0, -1)
	if errors.Is(err, blob.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if info.Size > patch.MaxBytes {
		return nil, nil
	}
	return io.ReadAll(io.LimitReader(r, patch.MaxBytes))
}

// unmark says that the bases are of no publication.
func (b *bases) unmark(ctx context.Context) error {
	batch, err := b.Begin(ctx)
	if err != nil {
		return err
	}
	defer batch.Discard()
	batch.Delete(markKey)
	return batch.Commit(ctx)
}

// mark says that the bases are those of a publication.
func (b *bases) mark(ctx context.Context, through int64) error {
	text, err := json.Marshal(baseMark{through})
	if err == nil {
		_, err = blob.Write(ctx, b.Dir, bytes.NewReader(text), blob.Put{Key: markKey})
	}
	return err
}

const (
	// basesBatch and basesBytes bound the bases that are replaced together.
	basesBatch = 250
	basesBytes = 64 << 20
)

// baseWriter replaces bases, some at a time.
type baseWriter struct {
	bases   *bases
	batch   blob.Batch      // nil: none is open
	pending map[string]bool // keys that the open batch changes
	size    int64           // bytes in the open batch
}

// put replaces a base; nil removes it.
func (w *baseWriter) put(ctx context.Context, key string, data []byte) error {
	if err := w.begin(ctx, key); err != nil {
		return err
	}
	if data == nil {
		w.batch.Delete(key)
	} else if err := w.create(ctx, key, data); err != nil {
		return err
	}
	return w.end(ctx, int64(len(data)))
}

// begin opens a batch that changes key, if none is open.
func (w *baseWriter) begin(ctx context.Context, key string) (err error) {
	if w.batch == nil {
		if w.batch, err = w.bases.Begin(ctx); err != nil {
			return err
		}
		w.pending, w.size = map[string]bool{}, 0
	}
	w.pending[key] = true
	return nil
}

// end counts a change of n bytes, and commits a batch that is full.
func (w *baseWriter) end(ctx context.Context, n int64) error {
	w.size += n
	if len(w.pending) < basesBatch && w.size < basesBytes {
		return nil
	}
	return w.flush(ctx)
}

func (w *baseWriter) create(ctx context.Context, key string, data []byte) error {
	o, err := w.batch.Create(ctx)
	if err != nil {
		return err
	}
	if _, err = o.Write(data); err != nil {
		return errors.Join(err, o.Discard())
	}
	if err := o.Close(); err != nil {
		return err
	}
	w.batch.Put(o, blob.Put{Key: key})
	return nil
}

// flush commits the open batch.
func (w *baseWriter) flush(ctx context.Context) error {
	if w.batch == nil {
		return nil
	}
	return errors.Join(w.batch.Commit(ctx), w.discard())
}

// discard drops the open batch.
func (w *baseWriter) discard() error {
	if w.batch == nil {
		return nil
	}
	err := w.batch.Discard()
	w.batch, w.pending = nil, nil
	return err
}

// settleBases marks the bases as those of the publication that was written, after making
// them anew if they were of another one.
func (r *run) settleBases(ctx context.Context) error {
	if r.bases == nil {
		return nil
	}
	if !r.patching.current {
		if err := r.copyBases(ctx); err != nil {
			return fmt.Errorf("copying the bytes that patches are made from: %w", err)
		}
	}
	if err := r.bases.mark(ctx, r.last.ChangesThrough); err != nil {
		return fmt.Errorf("storing the bytes that patches are made from: %w", err)
	}
	return nil
}

// copyBases makes all bases anew. A resource that has changed since the publication gets
// none: its published bytes are gone.
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
		if err := w.add(ctx, c, m); err != nil {
			return err
		}
	}
	return w.flush(ctx)
}

// add makes a base of the bytes of a resource, if they can be had.
func (w *baseWriter) add(ctx context.Context, c *contents, m catalog.Resource) error {
	if isLong(m) {
		return w.copy(ctx, baseKey(m.URI), c, m)
	}
	data, err := c.whole(ctx, m)
	if err != nil || data == nil {
		return err
	}
	return w.put(ctx, baseKey(m.URI), data)
}
