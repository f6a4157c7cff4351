package blob

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
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

// dirBatch is a Batch of a Dir.
type dirBatch struct {
	d     *Dir
	group *durable.Group
	steps steps

	mu      sync.Mutex // guards the rest
	objects map[*dirObject]struct{}
	spent   bool
}

// dirObject is an Object of a Dir.
type dirObject struct {
	b *dirBatch

	mu     sync.Mutex // guards the rest
	f      *os.File   // nil once closed
	temp   string     // key of the temporary file; "" once it has its name or is gone
	closed bool       // by Close, without an error
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

func (o *dirObject) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.f == nil {
		return 0, fs.ErrClosed
	}
	return o.f.Write(p)
}

func (o *dirObject) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.f == nil {
		return fs.ErrClosed
	}
	err := o.b.group.Add(o.f)
	o.f = nil
	o.closed = err == nil
	return err
}

func (o *dirObject) Discard() error {
	o.b.mu.Lock()
	delete(o.b.objects, o)
	o.b.mu.Unlock()
	return o.drop()
}

// drop closes and removes the temporary file if it is still there.
func (o *dirObject) drop() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	var err error
	if o.f != nil {
		err = o.f.Close()
		o.f = nil
	}
	o.closed = false
	if o.temp == "" {
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

func (b *dirBatch) Commit(ctx context.Context) (err error) {
	b.mu.Lock()
	spent := b.spent
	b.spent = true
	b.mu.Unlock()
	if spent {
		return errSpent
	}
	defer func() { err = errors.Join(err, b.Discard()) }()
	if err := b.steps.check(b.d.check, b.ready); err != nil {
		return err
	}
	if err := b.group.Sync(ctx); err != nil {
		return err
	}
	if err := b.d.lockNames(ctx); err != nil {
		return err
	}
	defer b.d.unlockNames()
	n := naming{d: b.d, made: map[string]struct{}{}, touched: map[string]struct{}{}}
	for _, s := range b.steps.list {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := n.apply(s); err != nil {
			return err
		}
	}
	if err := b.group.SyncDirs(ctx, slices.Collect(maps.Keys(n.touched))); err != nil {
		return err
	}
	n.settle()
	return nil
}

// ready reports why o can't be put.
func (b *dirBatch) ready(o Object) error {
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

// naming is one run of names being given; its owner holds Dir.naming.
type naming struct {
	d       *Dir
	made    map[string]struct{} // directories seen or made, whose names are not durable yet
	touched map[string]struct{} // directories to sync
}

// settle remembers the directories after their names were made durable.
func (n *naming) settle() {
	if len(n.d.known)+len(n.made) > maxKnown {
		n.d.known = map[string]struct{}{".": {}}
	}
	for dir := range n.made {
		if len(n.d.known) < maxKnown {
			n.d.known[dir] = struct{}{}
		}
	}
}

func (n *naming) apply(s step) error {
	switch s.kind {
	case stepPut:
		o := s.object.(*dirObject)
		if err := n.put(o.temp, s); err != nil {
			return fmt.Errorf("put %q: %w", s.to, err)
		}
		o.mu.Lock()
		o.temp = ""
		o.mu.Unlock()
	case stepMove:
		if err := n.move(s.from, s.to); err != nil {
			return fmt.Errorf("move %q to %q: %w", s.from, s.to, err)
		}
	case stepDelete:
		if err := n.delete(s.from); err != nil {
			return fmt.Errorf("delete %q: %w", s.from, err)
		}
	}
	return nil
}

func (n *naming) put(temp string, s step) error {
	if s.keep != "" {
		if err := n.keep(s.to, s.keep, temp+".keep"); err != nil {
			return fmt.Errorf("keep the old object at %q: %w", s.keep, err)
		}
	}
	return n.rename(temp, s.to, s.ifAbsent)
}

func (n *naming) keep(key, keep, temp string) error {
	there, err := n.object(key)
	if err != nil || !there {
		return err
	}
	if err := n.makeDir(path.Dir(keep)); err != nil {
		return err
	}
	err = n.d.disk.Keep(n.d.root, key, keep, temp, n.d.o.FileMode)
	if errors.Is(err, fs.ErrExist) {
		_, err = n.object(keep)
	}
	n.touch(path.Dir(keep))
	return err
}

func (n *naming) move(from, to string) error {
	there, err := n.object(from)
	if err != nil || !there || from == to {
		return err
	}
	if err := n.rename(from, to, false); err != nil {
		return err
	}
	n.left(from)
	return nil
}

func (n *naming) delete(key string) error {
	there, err := n.object(key)
	if err != nil || !there {
		return err
	}
	if err := n.d.disk.Remove(n.d.root, key); err != nil {
		return err
	}
	n.left(key)
	return nil
}

// object reports whether an object stands at key.
func (n *naming) object(key string) (bool, error) {
	_, err := n.d.stat(context.Background(), key)
	if errors.Is(err, ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// rename gives the file at from the key to.
func (n *naming) rename(from, to string, ifAbsent bool) error {
	err := n.renameNew(from, to)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	st, looked := n.d.root.Lstat(to)
	switch {
	case ifAbsent:
		return ErrExist
	case looked != nil:
		return looked
	case st.IsDir():
		return fmt.Errorf("%w: a directory stands there", ErrClash)
	case !st.Mode().IsRegular():
		return ErrForeign
	}
	return n.d.disk.Rename(n.d.root, from, to)
}

// renameNew makes the directory of to and renames; it does both again if the
// directory was removed by somebody else since it was last seen.
func (n *naming) renameNew(from, to string) error {
	dir := path.Dir(to)
	if err := n.makeDir(dir); err != nil {
		return err
	}
	n.touch(dir)
	err := n.d.disk.RenameNew(n.d.root, from, to)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	n.d.known = map[string]struct{}{".": {}}
	clear(n.made)
	if err := n.makeDir(dir); err != nil {
		return err
	}
	return n.d.disk.RenameNew(n.d.root, from, to)
}

func (n *naming) touch(dir string) { n.touched[dir] = struct{}{} }

// makeDir makes the directory dir and those above it. A name that is seen for
// the first time counts as not durable: a run that was cut short may have made it.
func (n *naming) makeDir(dir string) error {
	if _, ok := n.d.known[dir]; ok {
		return nil
	}
	if _, ok := n.made[dir]; ok {
		return nil
	}
	parent := path.Dir(dir)
	if err := n.makeDir(parent); err != nil {
		return err
	}
	err := n.d.root.Mkdir(dir, n.d.o.DirMode)
	if errors.Is(err, fs.ErrExist) {
		err = n.d.isDir(dir)
	}
	if err != nil {
		return err
	}
	n.made[dir] = struct{}{}
	n.touch(parent)
	return nil
}

// isDir returns an error unless dir is a directory, seen without following links.
func (d *Dir) isDir(dir string) error {
	st, err := d.root.Lstat(dir)
	switch {
	case err != nil:
		return err
	case st.IsDir():
		return nil
	case st.Mode().IsRegular():
		return fmt.Errorf("%w: a file stands at %q where a directory is needed", ErrClash, dir)
	}
	return fmt.Errorf("%w at %q where a directory is needed", ErrForeign, dir)
}

// left removes the directories that are empty now that nothing is at key.
func (n *naming) left(key string) {
	dir := path.Dir(key)
	for dir != "." && n.d.root.Remove(dir) == nil {
		delete(n.d.known, dir)
		delete(n.made, dir)
		delete(n.touched, dir)
		dir = path.Dir(dir)
	}
	n.touch(dir)
}
