package mirror

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"

	"instep/destination"
	"instep/harvest"
	"instep/internal/catalog"
	"instep/resourcesync"
)

// claims records which files the open batches will move or replace, so that no two
// batches move the same file.
type claims struct {
	mu         sync.Mutex // guards the rest
	lastNumber uint64
	byPath     map[string]pledge
}

// pledge reserves a file for a batch that will move or replace it, or for a transfer that
// is writing it.
type pledge struct {
	b     *batch // the batch that will move or replace the file; nil if a transfer is writing the file
	moves bool   // whether the batch will move the file; if not, it will replace the file
}

func (c *claims) newNumber() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastNumber++
	return c.lastNumber
}

func (c *claims) reserveMove(path string, b *batch) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, taken := c.byPath[path]; taken {
		return false
	}
	c.set(path, pledge{b, true})
	return true
}

// reservePlace reserves a path for a new file of the batch. It also succeeds if an
// older batch will move the present file away from the path, since older batches commit
// first.
func (c *claims) reservePlace(path string, b *batch) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	h, ok := c.byPath[path]
	if !ok {
		c.set(path, pledge{b, false})
		return true
	}
	return h.b != nil && (!h.moves || h.b.number <= b.number)
}

func (c *claims) willMove(path string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.byPath[path].moves
}

func (c *claims) set(path string, h pledge) {
	if c.byPath == nil {
		c.byPath = map[string]pledge{}
	}
	c.byPath[path] = h
}

func (c *claims) passTo(path string, b *batch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.byPath[path] = pledge{b, true}
}

func (c *claims) drop(path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.byPath, path)
}

func (c *claims) release(b *batch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for path, h := range c.byPath {
		if h.b == b {
			delete(c.byPath, path)
		}
	}
}

// Found is a file that did not belong to the mirror and that Options.Adopt has moved to
// the trash, because it was at the path of a resource and had other bytes.
type Found struct {
	URI  string // the URI of the resource
	Path string // the path at which the file was, relative to the mirror and with slashes
	Kept string // the path of the file in the trash, relative to the mirror and with slashes
}

func (b *batch) findDisplaced(ctx context.Context, w *work) error {
	for i := range w.steps {
		s := &w.steps[i]
		if s.Kept == "" || !s.stray && !s.New {
			continue
		}
		set, err := b.m.makeSet(ctx, FoundSet)
		if err != nil {
			return err
		}
		f := catalog.Found{Set: set, URI: s.URI, Path: s.Path, Kept: s.Kept}
		if info, err := b.m.strayInfo(s.Path); err == nil && info != nil {
			f.Length = resourcesync.Bytes(info.Size())
		}
		w.outcome.Found = append(w.outcome.Found, f)
	}
	return nil
}

func (m *Mirror) tellDisplaced(found []catalog.Found) {
	if m.o.Found == nil {
		return
	}
	for _, f := range found {
		m.o.Found(Found{URI: f.URI, Path: f.Path, Kept: f.Kept})
	}
}

// takeOver makes the file at key the content of the resource without copying it. The
// reader r returns the bytes of that file.
func (b *batch) takeOver(ctx context.Context, w *harvest.Resource, key string, r io.Reader) (*content, error) {
	o, err := b.blobs.Take(ctx, key)
	if err != nil {
		return nil, err
	}
	h := resourcesync.NewHasher(algorithmsOf(w)...)
	buf := buffers.Get().(*[64 << 10]byte)
	defer buffers.Put(buf)
	n, err := io.CopyBuffer(h, &contextReader{ctx, r}, buf[:])
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read %q: %w", key, err), o.Discard())
	}
	c, err := b.contentOf(w, o, n, h.Digests())
	if err == nil {
		c.taken = key
	}
	return c, err
}

// Adopt implements destination.Batch. It compares digests or, if the Source gives none
// that can be computed, length and modification time.
func (b *batch) Adopt(ctx context.Context, set string, w harvest.Resource, path string) (int64, error) {
	cl, row, err := b.admit(ctx, set, &w)
	if err != nil {
		return 0, err
	}
	if own, err := b.m.mayBelong(&w, &row, path); err != nil || !own && !b.m.o.Adopt {
		return 0, cmp.Or(err, fmt.Errorf("%w: the mirror was not opened to adopt files", destination.ErrNotHeld))
	}
	if ok, err := b.m.isStray(ctx, path, &w, row.Path); err != nil || !ok {
		return 0, cmp.Or(err, fmt.Errorf("%w: there is no file at %q that could have the bytes of %q", destination.ErrNotHeld, path, w.URI))
	}
	if b.m.flat != nil {
		return b.copyStray(ctx, set, w, path)
	}
	if !b.m.claims.reserveMove(path, b) {
		return 0, fmt.Errorf("%w: the file %q is about to be adopted for another resource, or to be replaced", destination.ErrNotHeld, path)
	}
	c, err := b.adopt(ctx, &w, &row, path)
	if err == nil {
		err = b.add(w.URI, c, cl)
	}
	if err != nil {
		b.m.claims.drop(path)
		return 0, err
	}
	return c.length, nil
}

// mayBelong reports whether the resource has the given path, or may get it. It returns
// false if the Source gives no digest, since then nothing could prove the bytes of a
// file there.
func (m *Mirror) mayBelong(w *harvest.Resource, row *catalog.Resource, path string) (bool, error) {
	switch {
	case len(w.Digests) == 0:
		return false, nil
	case m.flat != nil:
		sum := w.Digests.Get(resourcesync.SHA256)
		return !sum.IsZero() && path == contentKey(sum), nil
	case row.URI != "":
		return path == row.Path, nil
	}
	segments, err := m.segments(w.URI)
	return err == nil && matchesPath(segments, path), err
}

func (b *batch) adopt(ctx context.Context, w *harvest.Resource, row *catalog.Resource, path string) (*content, error) {
	if err := b.mayMove(ctx, w, row, path); err != nil {
		return nil, err
	}
	r, _, err := b.m.files.Get(ctx, path, 0, -1)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", destination.ErrNotHeld, err)
	}
	defer r.Close()
	c, err := b.takeOver(ctx, w, path, r)
	if err != nil {
		return nil, notHeld(path, err)
	}
	if !proves(w, c.digests) && !b.m.o.Adopt {
		err = fmt.Errorf("%w: no digest proves that the file %q has the bytes of %q", destination.ErrNotHeld, path, w.URI)
	} else {
		err = b.m.checkProof(w, c.digests, path)
	}
	if err != nil {
		return nil, errors.Join(err, c.object.Discard())
	}
	c.found = true
	return c, nil
}

// reusablePath returns the path of a resource if the file that occupies it may have the
// bytes of the resource. Otherwise it returns err, the error of checkVacant. If the
// Source gives no digests, the caller still has to compare that file with the fetched
// bytes.
func (b *batch) reusablePath(ctx context.Context, w *harvest.Resource, err error) (string, error) {
	occupied, ok := errors.AsType[*occupiedError](err)
	if !ok || b.m.flat != nil || occupied.kind != file || occupied.at != occupied.path {
		return "", err
	}
	info, looked := b.m.strayInfo(occupied.path)
	if looked != nil || info == nil || w.Length.Known() && info.Size() != w.Length.Int64() {
		return "", cmp.Or(looked, err)
	}
	if len(w.Digests) > 0 {
		if same, read := b.m.hasBytes(ctx, occupied.path, w); read != nil || !same {
			return "", cmp.Or(read, err)
		}
	}
	return occupied.path, nil
}

// takeIfEqual makes the file at path the content of the resource if the file has the
// same bytes as the fetched content c. It always discards c.
func (b *batch) takeIfEqual(ctx context.Context, w *harvest.Resource, path string, c *content) (_ *content, err error) {
	defer func() {
		if discarded := c.object.Discard(); err == nil {
			err = discarded
		}
	}()
	occupied := fmt.Errorf("path %q of %q is %w: the file there has other bytes", path, w.URI, destination.ErrOccupied)
	if !b.m.claims.reserveMove(path, b) {
		return nil, occupied
	}
	came := harvest.Resource{URI: w.URI, Length: resourcesync.Bytes(c.length), Digests: resourcesync.Digests{c.digests.Get(resourcesync.SHA256)}}
	r, _, err := b.m.files.Get(ctx, path, 0, -1)
	if err == nil {
		defer r.Close()
		var there *content
		if there, err = b.takeOver(ctx, &came, path, r); err == nil {
			took := *c
			took.object, took.taken, took.found = there.object, path, true
			return &took, nil
		}
	}
	b.m.claims.drop(path)
	if errors.Is(err, errDiffers) || errors.Is(err, fs.ErrNotExist) {
		err = occupied
	}
	return nil, err
}

func (m *Mirror) noteTaken(w *work) {
	for i := range w.steps {
		if c := w.steps[i].content; c != nil && c.found {
			m.taken.Add(1)
		}
	}
}

// Taken returns the number of files that did not belong to the mirror, and that have
// become files of resources since the mirror was opened.
func (m *Mirror) Taken() int64 { return m.taken.Load() }

// copyStray copies a file that does not belong to the mirror into the flat layout. The
// original file remains.
func (b *batch) copyStray(ctx context.Context, set string, w harvest.Resource, path string) (int64, error) {
	if err := b.m.checkProof(&w, w.Digests, path); err != nil { // checked here, because Put does not verify the modification time, which may be the only proof
		return 0, err
	}
	r, _, err := b.m.files.Get(ctx, path, 0, -1)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", destination.ErrNotHeld, err)
	}
	defer r.Close()
	n, err := b.Put(ctx, set, w, r, false)
	return n, notHeld(path, err)
}

func notHeld(path string, err error) error {
	if errors.Is(err, errDiffers) {
		return fmt.Errorf("%w: %q: %w", destination.ErrNotHeld, path, err)
	}
	return err
}

// checkProof returns an error if nothing proves that the file at path has the bytes
// that the Source states. The proof is a digest, or else the length and the
// modification time.
func (m *Mirror) checkProof(w *harvest.Resource, have resourcesync.Digests, path string) error {
	if proves(w, have) {
		return nil
	}
	info, err := m.strayInfo(path)
	if err == nil && (info == nil || !hasStatedTime(w, info)) {
		err = fmt.Errorf("%w: neither a digest nor the length and modification time prove that the file %q has the bytes of %q", destination.ErrNotHeld, path, w.URI)
	}
	return err
}

func (b *batch) mayMove(ctx context.Context, w *harvest.Resource, row *catalog.Resource, path string) error {
	if path == row.Path {
		return nil
	}
	segments, err := b.m.segments(w.URI)
	if err != nil || row.URI == "" && matchesPath(segments, path) {
		return err
	}
	place, err := b.m.naturalPath(w.URI, row)
	if err != nil {
		return err
	}
	if b.m.claims.willMove(place) {
		return fmt.Errorf("%w: path %q still has a file that is to be moved to the path of another resource", destination.ErrNotHeld, place)
	}
	return b.checkVacant(ctx, w, row)
}

// placeAmongStrays finds a path for a new URI. A file that does not belong to the
// mirror blocks its path, unless the batch adopts that file or the file has the bytes
// of the resource. With Options.Adopt such a file never blocks a path, since the commit
// moves the file to the trash.
func (b *batch) placeAmongStrays(ctx context.Context, w *work, s *step, names catalog.Names) (catalog.Place, error) {
	stands := ""
	p := placer{names: names, rules: b.m.names, prefer: s.Taken, closed: b.m.isStateDir, blocked: func(path string, dir bool) (bool, error) {
		k, at, err := b.m.disk.look(path)
		if err != nil || k != file || at != path || dir {
			return k != absent && !(dir && k == directory), err
		}
		gives := b.m.o.Adopt || path == s.Taken
		if !gives {
			gives, err = b.m.holds(ctx, path, s.Length, s.SHA256)
		}
		if err != nil || !gives || !b.m.claims.reservePlace(path, b) {
			return true, err
		}
		stands = path
		return false, nil
	}}
	place, err := p.put(s.segments)
	if err == nil && place.Path == stands && stands != s.Taken {
		var room string
		room, err = w.trash(ctx, b.m)
		place.Kept = room + "/" + place.Path
	}
	return place, err
}
