package mirror

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"instep/blob"
	"instep/destination"
	"instep/internal/catalog"
	"instep/resourcesync"
)

// Layout is how a mirror stores bytes in files. The layout of a mirror never changes.
type Layout string

// The layouts of a mirror.
const (
	Tree Layout = "tree" // one file for each resource, with a path that resembles the URI of the resource
	Flat Layout = "flat" // one file for all resources with the same bytes, named by the SHA-256 of the bytes: sha256/ab/cdef…
)

// ErrLayout is returned by Open if the mirror has another layout than Options.Layout.
var ErrLayout = errors.New("the layout of an existing mirror cannot be changed")

// markerText returns the layout as it is in the marker of a mirror, which has "" for
// Tree.
func (l Layout) markerText() Layout {
	if l == Tree {
		return ""
	}
	return l
}

// format returns the version of the marker's format; 0 if the layout is unknown.
func (l Layout) format() int {
	switch l {
	case "":
		return markerFormat
	case Flat:
		return flatFormat
	}
	return 0
}

// useLayout prepares the mirror for the given layout from its marker. It returns
// ErrLayout if Options.Layout is a different one.
func (m *Mirror) useLayout(layout Layout) error {
	if m.o.Layout != "" && m.o.Layout.markerText() != layout {
		return fmt.Errorf("%w: this mirror has the layout %s, not %s", ErrLayout, cmp.Or(layout, Tree), m.o.Layout)
	}
	if layout == Flat {
		m.flat = newFlat(m.files, m.contents)
		m.bucket = m.flat
	}
	return nil
}

// look is like disk.look. In the flat layout it reads the catalog, since the paths of
// resources exist only there.
func (m *Mirror) look(ctx context.Context, path string) (kind, string, error) {
	if m.flat == nil || !isName(path) {
		return m.disk.look(path)
	}
	found, err := m.contents.Contents(ctx, []string{path})
	if err != nil || found[path].IsZero() {
		return absent, path, err
	}
	return file, path, nil
}

// checkContentPath returns an error if the path for the bytes of c in the flat layout
// is occupied by something that does not belong to the mirror.
func (m *Mirror) checkContentPath(c *content) error {
	if m.flat == nil || c == nil {
		return nil
	}
	key := contentKey(c.digests.Get(resourcesync.SHA256))
	k, at, err := m.disk.look(key)
	if err == nil && k != absent && k != stateDir && (k != file || at != key) {
		err = fmt.Errorf("the path for the bytes, %q, is %w: there is a %s at %q", key, destination.ErrOccupied, k, at)
	}
	return err
}

const contentDir = "sha256"

// flat is the bucket of a mirror with the layout Flat. It stores equal bytes once, in a
// file named by their SHA-256. The paths of resources, and paths in the trash, are only
// names: the catalog records which bytes each name has. Any other key below .instep is
// the path of a file. The catalog records bytes that may have no name as loose: new
// bytes before they are stored, and old bytes before their last name is removed. So
// bytes without a name are found and removed after an interruption.
type flat struct {
	files    blob.Bucket
	contents contentNames
	commit   chan struct{} // a lock that is held while names in the catalog change
}

var _ blob.Bucket = (*flat)(nil)

func newFlat(files blob.Bucket, contents contentNames) *flat {
	return &flat{files: files, contents: contents, commit: make(chan struct{}, 1)}
}

func contentKey(sum resourcesync.Digest) string {
	digits := fmt.Sprintf("%x", sum.Sum())
	return contentDir + "/" + digits[:2] + "/" + digits[2:]
}

// hasNamed reports whether file is a file of the flat layout whose bytes have a name in
// the catalog.
func (f *flat) hasNamed(ctx context.Context, file string) (bool, error) {
	digits, ok := strings.CutPrefix(file, contentDir+"/")
	if !ok {
		return false, nil
	}
	sum, err := resourcesync.ParseDigest("sha-256:" + strings.Replace(digits, "/", "", 1))
	if err != nil || contentKey(sum) != file {
		return false, nil
	}
	return f.contents.HasContent(ctx, sum)
}

// isName reports whether a key of the bucket is a name in the catalog, and not the path
// of a file.
func isName(key string) bool {
	return !strings.HasPrefix(key, ours+"/") || strings.HasPrefix(key, trashKey+"/")
}

// dayOf returns the day on which the file with the given name was moved to the trash;
// "" if it is not in the trash.
func dayOf(key string) string {
	rest, ok := strings.CutPrefix(key, trashKey+"/")
	day, _, more := strings.Cut(rest, "/")
	if _, err := time.Parse(time.DateOnly, day); !ok || !more || err != nil {
		return ""
	}
	return day
}

func (f *flat) sum(ctx context.Context, key string) (resourcesync.Digest, error) {
	if err := ctx.Err(); err != nil {
		return resourcesync.Digest{}, err
	}
	if err := blob.ValidKey(key); err != nil {
		return resourcesync.Digest{}, err
	}
	found, err := f.contents.Contents(ctx, []string{key})
	if err == nil && found[key].IsZero() {
		err = blob.ErrNotExist
	}
	return found[key], err
}

// Get implements blob.Bucket.
func (f *flat) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, blob.Info, error) {
	if !isName(key) {
		return f.files.Get(ctx, key, off, n)
	}
	var last resourcesync.Digest
	for {
		sum, err := f.sum(ctx, key)
		if err != nil {
			return nil, blob.Info{}, fmt.Errorf("get %q: %w", key, err)
		}
		r, info, err := f.files.Get(ctx, contentKey(sum), off, n)
		info.Key = key
		if !errors.Is(err, fs.ErrNotExist) || sum == last {
			return r, info, err
		}
		last = sum // the loop continues, since the name may have got other bytes after sum returned
	}
}

// Stat implements blob.Bucket.
func (f *flat) Stat(ctx context.Context, key string) (blob.Info, error) {
	if !isName(key) {
		return f.files.Stat(ctx, key)
	}
	sum, err := f.sum(ctx, key)
	if err != nil {
		return blob.Info{}, fmt.Errorf("stat %q: %w", key, err)
	}
	info, err := f.files.Stat(ctx, contentKey(sum))
	info.Key = key
	return info, err
}

// List implements blob.Bucket. It leaves out names whose bytes are missing.
func (f *flat) List(ctx context.Context, prefix string) iter.Seq2[blob.Info, error] {
	return func(yield func(blob.Info, error) bool) {
		for n, err := range f.contents.ContentNames(ctx, dayOf(prefix)) {
			if err == nil && !strings.HasPrefix(n.Path, prefix) {
				continue
			}
			var info blob.Info
			if err == nil {
				info, err = f.files.Stat(ctx, contentKey(n.SHA256))
			}
			if info.Key = n.Path; errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if !yield(info, err) || err != nil {
				return
			}
		}
		if !strings.HasPrefix(ours+"/", prefix) && !strings.HasPrefix(prefix, ours+"/") {
			return
		}
		for info, err := range f.files.List(ctx, prefix) {
			ofOurs := strings.HasPrefix(info.Key, ours+"/") && !isName(info.Key)
			if err == nil && !ofOurs {
				continue
			}
			if !yield(info, err) || err != nil {
				return
			}
		}
	}
}

// Begin implements blob.Bucket.
func (f *flat) Begin(ctx context.Context) (blob.Batch, error) {
	files, err := f.files.Begin(ctx)
	if err != nil {
		return nil, err
	}
	return &flatBatch{f: f, files: files}, nil
}

// tidy removes the files whose bytes have no name in the catalog. Its caller must have
// called lockCommit, unless nothing else writes to the mirror.
func (f *flat) tidy(ctx context.Context) error {
	for {
		loose, err := f.contents.Loose(ctx)
		if err != nil || len(loose) == 0 {
			return err
		}
		b, err := f.files.Begin(ctx)
		if err != nil {
			return err
		}
		sums := make([]resourcesync.Digest, len(loose))
		for i, l := range loose {
			sums[i] = l.SHA256
			if !l.Named {
				b.Delete(contentKey(l.SHA256))
			}
		}
		if err := errors.Join(b.Commit(ctx), b.Discard()); err != nil {
			return err
		}
		if err := f.contents.Fasten(ctx, sums); err != nil {
			return err
		}
	}
}

type flatBatch struct {
	f     *flat
	files blob.Batch

	mu    sync.Mutex // guards the rest
	steps []func(ctx context.Context, n *naming) error
	keys  []string
	spent bool
}

type flatObject struct {
	b     *flatBatch
	file  blob.Object // the file with new bytes; nil if the object has existing bytes
	taken string      // the name that Take got, if the object has existing bytes

	mu     sync.Mutex // guards the rest
	h      *resourcesync.Hasher
	sum    resourcesync.Digest // the SHA-256 of the object's bytes; zero until the object is closed
	broken bool                // whether the object was discarded or put, so that it cannot be used any more
}

// Create implements blob.Batch.
func (b *flatBatch) Create(ctx context.Context) (blob.Object, error) {
	file, err := b.files.Create(ctx)
	if err != nil {
		return nil, err
	}
	return &flatObject{b: b, file: file, h: resourcesync.NewHasher(resourcesync.SHA256)}, nil
}

// Take implements blob.Batch. The key is the path of a file, or a name in the catalog.
func (b *flatBatch) Take(ctx context.Context, key string) (blob.Object, error) {
	b.mu.Lock()
	spent := b.spent
	b.mu.Unlock()
	if spent {
		return nil, errSpent
	}
	if !isName(key) {
		return b.takeFile(ctx, key)
	}
	sum, err := b.f.sum(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("take %q: %w", key, err)
	}
	return &flatObject{b: b, taken: key, sum: sum}, nil
}

func (b *flatBatch) takeFile(ctx context.Context, key string) (_ blob.Object, err error) {
	file, err := b.files.Take(ctx, key)
	if err != nil {
		return nil, err
	}
	digests, found, err := hashFile(ctx, b.f.files, key, resourcesync.Length{}, resourcesync.SHA256)
	if err == nil && !found {
		err = fmt.Errorf("take %q: %w", key, blob.ErrNotExist)
	}
	if err != nil {
		return nil, errors.Join(err, file.Discard())
	}
	return &flatObject{b: b, file: file, sum: digests.Get(resourcesync.SHA256)}, nil
}

func (o *flatObject) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.h == nil {
		return 0, fs.ErrClosed
	}
	n, err := o.file.Write(p)
	_, _ = o.h.Write(p[:n]) // the error is ignored: writing to a hash never fails
	return n, err
}

func (o *flatObject) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.h == nil {
		return fs.ErrClosed
	}
	err := o.file.Close()
	if err == nil {
		o.sum = o.h.Digests().Get(resourcesync.SHA256)
	}
	o.h = nil
	return err
}

func (o *flatObject) Discard() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.broken, o.h = true, nil
	if o.file == nil {
		return nil
	}
	return o.file.Discard()
}

// use returns the SHA-256 of the object's bytes, and marks the object as put. It returns
// an error if the object is not closed yet, or was already discarded or put.
func (o *flatObject) use() (resourcesync.Digest, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.broken || o.sum.IsZero() {
		return resourcesync.Digest{}, errors.New("the object was not closed, was discarded, or was already put")
	}
	o.broken = true
	return o.sum, nil
}

func (b *flatBatch) step(keys []string, do func(ctx context.Context, n *naming) error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.keys = append(b.keys, keys...)
	b.steps = append(b.steps, do)
}

// Put implements blob.Batch.
func (b *flatBatch) Put(o blob.Object, p blob.Put) {
	keys := []string{p.Key}
	if p.Keep != "" {
		keys = append(keys, p.Keep)
	}
	fo, ok := o.(*flatObject)
	if ok && fo.taken != "" {
		keys = append(keys, fo.taken)
	}
	b.step(keys, func(_ context.Context, n *naming) error {
		if !ok || fo.b != b {
			return fmt.Errorf("put %q: the object belongs to another batch", p.Key)
		}
		if err := n.put(fo, p); err != nil {
			return fmt.Errorf("put %q: %w", p.Key, err)
		}
		return nil
	})
}

// Move implements blob.Batch.
func (b *flatBatch) Move(from, to string) {
	b.step([]string{from, to}, func(ctx context.Context, n *naming) error {
		if err := n.move(ctx, from, to); err != nil {
			return fmt.Errorf("move %q to %q: %w", from, to, err)
		}
		return nil
	})
}

// Delete implements blob.Batch.
func (b *flatBatch) Delete(key string) {
	b.step([]string{key}, func(_ context.Context, n *naming) error {
		if isName(key) {
			delete(n.names, key)
		} else {
			b.files.Delete(key)
		}
		return nil
	})
}

// Discard implements blob.Batch.
func (b *flatBatch) Discard() error {
	b.mu.Lock()
	b.spent = true
	b.mu.Unlock()
	return b.files.Discard()
}

// Commit implements blob.Batch. It changes all names in one transaction.
func (b *flatBatch) Commit(ctx context.Context) (err error) {
	b.mu.Lock()
	spent := b.spent
	b.spent = true
	b.mu.Unlock()
	if spent {
		return errSpent
	}
	defer func() { err = errors.Join(err, b.files.Discard()) }()
	for _, key := range b.keys {
		if err := blob.ValidKey(key); err != nil {
			return err
		}
	}
	select {
	case b.f.commit <- struct{}{}:
		defer func() { <-b.f.commit }()
	case <-ctx.Done():
		return ctx.Err()
	}
	was, err := b.f.contents.Contents(ctx, b.keys)
	if err != nil {
		return err
	}
	n := &naming{b: b, names: maps.Clone(was), came: map[resourcesync.Digest]bool{}, left: map[resourcesync.Digest]bool{}}
	for _, do := range b.steps {
		if err := do(ctx, n); err != nil {
			return err
		}
	}
	return b.f.rename(ctx, b.files, was, n)
}

// rename first stores the new bytes, then changes the names in the catalog, and then
// removes bytes without a name. So every name has its bytes even after a crash.
func (f *flat) rename(ctx context.Context, files blob.Batch, was map[string]resourcesync.Digest, n *naming) error {
	var changes []catalog.ContentName
	for sum := range n.came {
		found, err := f.hasUnnamed(ctx, sum)
		if err != nil {
			return err
		}
		if found {
			delete(n.came, sum)
		}
	}
	for key, sum := range n.names {
		if was[key] != sum {
			changes = append(changes, catalog.ContentName{Path: key, Day: dayOf(key), SHA256: sum})
		}
	}
	for key, sum := range was {
		if n.names[key] == sum {
			continue
		}
		if !n.left[sum] {
			n.came[sum] = true // this name may have been the last one of these bytes
		}
		if n.names[key].IsZero() {
			changes = append(changes, catalog.ContentName{Path: key})
		}
	}
	if err := f.contents.Loosen(ctx, slices.Collect(maps.Keys(n.came))); err != nil {
		return err
	}
	if err := files.Commit(ctx); err != nil {
		return err
	}
	if err := f.contents.NameContents(ctx, changes); err != nil {
		return err
	}
	return f.tidy(ctx)
}

// naming computes which bytes each name will have after the batch is committed.
type naming struct {
	b     *flatBatch
	names map[string]resourcesync.Digest
	came  map[resourcesync.Digest]bool
	left  map[resourcesync.Digest]bool // SHA-256 of bytes that are kept even if they have no name
}

func (n *naming) put(o *flatObject, p blob.Put) error {
	sum, err := o.use()
	if err != nil {
		return err
	}
	if !isName(p.Key) {
		if o.file == nil {
			return fmt.Errorf("the bytes of the name %q cannot be put into a file of their own", o.taken)
		}
		n.b.files.Put(o.file, p)
		return nil
	}
	if o.taken != "" && n.names[o.taken] != sum {
		return fmt.Errorf("the bytes of the name %q have changed since they were taken", o.taken)
	}
	if o.taken == p.Key {
		return nil
	}
	old := n.names[p.Key]
	if p.IfAbsent && !old.IsZero() {
		return blob.ErrExist
	}
	if p.Keep != "" && !old.IsZero() && n.names[p.Keep].IsZero() {
		n.names[p.Keep] = old
	}
	n.names[p.Key] = sum
	delete(n.names, o.taken)
	if o.file != nil {
		n.came[sum] = true
		n.b.files.Put(o.file, blob.Put{Key: contentKey(sum)})
	}
	return nil
}

func (n *naming) move(ctx context.Context, from, to string) error {
	switch {
	case !isName(from) && !isName(to):
		n.b.files.Move(from, to)
		return nil
	case !isName(from):
		o, err := n.b.takeFile(ctx, from)
		if err != nil {
			return ignoreAbsent(err)
		}
		return n.put(o.(*flatObject), blob.Put{Key: to})
	}
	sum := n.names[from]
	if sum.IsZero() || from == to {
		return nil
	}
	if isName(to) {
		n.names[to] = sum
	} else if err := copyFile(ctx, n.b.f.files, contentKey(sum), n.b.files, blob.Put{Key: to}); err != nil {
		return err
	}
	delete(n.names, from)
	return nil
}
