package blob

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"sync"

	"instep/internal/durable"
)

// Begin implements Bucket.
func (d *Dir) Begin(ctx context.Context) (Batch, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	group, err := d.disk.NewGroup(d.root, d.o.Workers)
	if err != nil {
		return nil, fmt.Errorf("begin a batch: %w", err)
	}
	return &dirBatch{d: d, group: group, objects: map[*dirObject]struct{}{}}, nil
}

type dirBatch struct {
	d     *Dir
	group *durable.Group
	steps steps

	mu      sync.Mutex // guards the fields below
	objects map[*dirObject]struct{}
	spent   bool
}

type dirObject struct {
	b *dirBatch

	mu       sync.Mutex // guards the fields below
	f        *os.File   // nil when closed
	temp     string     // key of the temporary or taken file; "" if the file was created without a name, or was renamed or removed
	writeErr error      // error of a Write, after which the object is incomplete
	closed   bool       // Close succeeded

	nameless *os.File    // open file that was created without a name; nil for any other file
	taken    fs.FileInfo // state of a taken file at the time of Take; nil if the object was not taken
}

func (b *dirBatch) Create(ctx context.Context) (Object, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f, temp, err := b.d.create(ctx)
	if err != nil {
		return nil, fmt.Errorf("create a temporary file in %q: %w", b.d.root.Name(), err)
	}
	o := &dirObject{b: b, f: f, temp: temp}
	if temp == "" {
		o.nameless = f
	}
	b.mu.Lock()
	spent := b.spent
	if !spent {
		b.objects[o] = struct{}{}
	}
	b.mu.Unlock()
	if spent {
		return nil, errors.Join(errSpent, o.Discard())
	}
	return o, nil
}

func (b *dirBatch) Take(ctx context.Context, key string) (Object, error) {
	o, err := b.take(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("take %q: %w", key, err)
	}
	return o, nil
}

func (b *dirBatch) take(ctx context.Context, key string) (*dirObject, error) {
	b.mu.Lock()
	spent := b.spent
	b.mu.Unlock()
	if spent {
		return nil, errSpent
	}
	if _, err := b.d.openTemp(ctx); err != nil {
		return nil, err
	}
	f, _, err := b.d.open(ctx, key)
	if err != nil {
		return nil, err
	}
	o := &dirObject{b: b, temp: key, closed: true}
	if o.taken, err = f.Stat(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return o, b.group.Add(f)
}

var _ Linker = (*dirBatch)(nil)

// Link implements Linker for another Dir on the same file system. It creates a hard link,
// so the object has the mode and modification time of the linked file.
func (b *dirBatch) Link(ctx context.Context, from Bucket, key string) (Object, error) {
	other, ok := from.(*Dir)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	if _, err := other.stat(ctx, key); err != nil {
		return nil, fmt.Errorf("link %q: %w", key, err)
	}
	if _, err := b.d.openTemp(ctx); err != nil {
		return nil, err
	}
	temp, err := b.d.nameTemp(func(temp string) error { return durable.LinkBetween(other.root, key, b.d.root, temp) })
	if err != nil {
		return nil, fmt.Errorf("link %q: %w", key, err)
	}
	o := &dirObject{b: b, temp: temp, closed: true}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.spent {
		return nil, errors.Join(errSpent, o.drop())
	}
	b.objects[o] = struct{}{}
	return o, nil
}

func (o *dirObject) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.f == nil {
		return 0, fs.ErrClosed
	}
	n, err := o.f.Write(p)
	if err != nil {
		o.writeErr = err
	}
	return n, err
}

func (o *dirObject) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.f == nil {
		return fs.ErrClosed
	}
	f := o.f
	o.f = nil
	var err error
	switch {
	case o.writeErr != nil && o.nameless != nil:
		err = errors.Join(o.writeErr, o.release())
	case o.writeErr != nil:
		err = errors.Join(o.writeErr, f.Close())
	case o.nameless != nil:
		err = o.b.group.Lend(f)
	default:
		err = o.b.group.Add(f)
	}
	o.closed = err == nil
	return err
}

// release closes a file that was created without a name. It must not be called for a stored
// object before the batch ends, because the bytes would be lost.
func (o *dirObject) release() error {
	f := o.nameless
	if f == nil {
		return nil
	}
	o.nameless = nil
	o.b.group.Return(f)
	<-o.b.d.nameless
	return f.Close()
}

func (o *dirObject) Discard() error {
	o.b.mu.Lock()
	delete(o.b.objects, o)
	o.b.mu.Unlock()
	return o.drop()
}

func (o *dirObject) drop() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	var err error
	if o.nameless != nil {
		err = o.release()
	} else if o.f != nil {
		err = o.f.Close()
	}
	o.f = nil
	o.closed = false
	if o.temp == "" || o.taken != nil {
		return err
	}
	temp := o.temp
	o.temp = ""
	if gone := o.b.d.root.Remove(temp); !errors.Is(gone, fs.ErrNotExist) {
		err = errors.Join(err, gone)
	}
	return err
}

func (b *dirBatch) Put(o Object, p Put)  { b.steps.put(o, p) }
func (b *dirBatch) Move(from, to string) { b.steps.move(from, to) }
func (b *dirBatch) Delete(key string)    { b.steps.delete(key) }

func (b *dirBatch) Discard() error {
	b.mu.Lock()
	b.spent = true
	left := b.objects
	b.objects = nil
	b.mu.Unlock()
	err := b.group.Close()
	for o := range left {
		err = errors.Join(err, o.drop())
	}
	return err
}

var _ Syncer = (*dirBatch)(nil)

// Sync implements Syncer.
func (b *dirBatch) Sync(ctx context.Context) error { return b.group.Sync(ctx) }

func (b *dirBatch) Commit(ctx context.Context) (err error) {
	b.mu.Lock()
	spent := b.spent
	b.spent = true
	b.mu.Unlock()
	if spent {
		return errSpent
	}
	defer func() { err = errors.Join(err, b.Discard()) }()
	if err := b.steps.check(b.d.check, b.checkClosed); err != nil {
		return err
	}
	if err := b.group.Sync(ctx); err != nil {
		return err
	}
	if err := b.d.lockNames(ctx); err != nil {
		return err
	}
	defer b.d.unlockNames()
	n := b.d.newNaming()
	if err := errors.Join(n.applyAll(ctx, b.steps.list), n.closeDirs()); err != nil {
		return err
	}
	if err := b.group.SyncDirs(ctx, slices.Collect(maps.Keys(n.touched))); err != nil {
		return err
	}
	n.rememberDirs()
	return nil
}

func (b *dirBatch) checkClosed(o Object) error {
	d, ok := o.(*dirObject)
	if !ok || d.b != b {
		return errOtherBatch
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.closed {
		return errObjectIsOpen
	}
	return nil
}
