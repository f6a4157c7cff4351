package blob

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"path"
	"strings"
	"sync"
	"time"
)

// Mem is a Bucket in memory, for tests and temporary data.
type Mem struct {
	Now func() time.Time // clock for the modification times of objects; if Now is nil, these times are zero

	mu      sync.RWMutex // guards the fields below
	objects map[string]memEntry
	below   map[string]int // number of objects below each directory
}

// The bytes of a memEntry never change, so readers need no lock.
type memEntry struct {
	data    []byte
	modTime time.Time
}

var _ Bucket = (*Mem)(nil)

// NewMem returns an empty bucket.
func NewMem() *Mem {
	return &Mem{objects: map[string]memEntry{}, below: map[string]int{}}
}

// Get implements Bucket.
func (m *Mem) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, Info, error) {
	e, info, err := m.look(ctx, key)
	if err == nil {
		off, n, err = span(off, n, info.Size)
	}
	if err != nil {
		return nil, Info{}, fmt.Errorf("get %q: %w", key, err)
	}
	return io.NopCloser(bytes.NewReader(e.data[off : off+n])), info, nil
}

// Stat implements Bucket.
func (m *Mem) Stat(ctx context.Context, key string) (Info, error) {
	_, info, err := m.look(ctx, key)
	if err != nil {
		return Info{}, fmt.Errorf("stat %q: %w", key, err)
	}
	return info, nil
}

func (m *Mem) look(ctx context.Context, key string) (memEntry, Info, error) {
	if err := ctx.Err(); err != nil {
		return memEntry{}, Info{}, err
	}
	if err := ValidKey(key); err != nil {
		return memEntry{}, Info{}, err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	e, ok := m.objects[key]
	if !ok {
		return memEntry{}, Info{}, ErrNotExist
	}
	return e, e.info(key), nil
}

func (e memEntry) info(key string) Info {
	return Info{Key: key, Size: int64(len(e.data)), ModTime: e.modTime}
}

// List implements Bucket.
func (m *Mem) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		var found []Info
		m.mu.RLock()
		for key, e := range m.objects {
			if strings.HasPrefix(key, prefix) {
				found = append(found, e.info(key))
			}
		}
		m.mu.RUnlock()
		for _, info := range found {
			if err := ctx.Err(); err != nil {
				yield(Info{}, fmt.Errorf("list %q: %w", prefix, err))
				return
			}
			if !yield(info, nil) {
				return
			}
		}
	}
}

// Begin implements Bucket.
func (m *Mem) Begin(ctx context.Context) (Batch, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return &memBatch{m: m}, nil
}

type memBatch struct {
	m     *Mem
	steps steps

	mu    sync.Mutex // guards spent
	spent bool
}

type memObject struct {
	b *memBatch

	mu    sync.Mutex // guards the fields below
	data  []byte
	taken string // the key from which the object was taken; "" if the object was created
	state objectState
}

type objectState uint8

const (
	objectOpen objectState = iota
	objectClosed
	objectDiscarded
)

func (b *memBatch) Create(ctx context.Context) (Object, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.spent {
		return nil, errSpent
	}
	return &memObject{b: b}, nil
}

func (b *memBatch) Take(ctx context.Context, key string) (Object, error) {
	e, _, err := b.m.look(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("take %q: %w", key, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.spent {
		return nil, errSpent
	}
	return &memObject{b: b, data: e.data, taken: key, state: objectClosed}, nil
}

func (o *memObject) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.state != objectOpen {
		return 0, fs.ErrClosed
	}
	o.data = append(o.data, p...)
	return len(p), nil
}

func (o *memObject) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.state != objectOpen {
		return fs.ErrClosed
	}
	o.state = objectClosed
	return nil
}

func (o *memObject) Discard() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.state = objectDiscarded
	o.data = nil
	return nil
}

func (b *memBatch) Put(o Object, p Put)  { b.steps.put(o, p) }
func (b *memBatch) Move(from, to string) { b.steps.move(from, to) }
func (b *memBatch) Delete(key string)    { b.steps.delete(key) }

func (b *memBatch) Discard() error {
	b.spend()
	return nil
}

// spend ends the batch. It returns false if the batch was already committed or discarded.
func (b *memBatch) spend() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	was := b.spent
	b.spent = true
	return !was
}

func (b *memBatch) Commit(ctx context.Context) error {
	if !b.spend() {
		return errSpent
	}
	if err := b.steps.check(ValidKey, b.checkClosed); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	b.m.mu.Lock()
	defer b.m.mu.Unlock()
	for _, s := range b.steps.list {
		if err := b.m.apply(s); err != nil {
			return err
		}
	}
	return nil
}

func (b *memBatch) checkClosed(o Object) error {
	m, ok := o.(*memObject)
	if !ok || m.b != b {
		return errOtherBatch
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state != objectClosed {
		return errObjectIsOpen
	}
	return nil
}

func (m *Mem) apply(s step) error {
	switch s.kind {
	case stepPut:
		if err := m.put(s); err != nil {
			return fmt.Errorf("put %q: %w", s.to, err)
		}
	case stepMove:
		e, ok := m.objects[s.from]
		if !ok || s.from == s.to {
			return nil
		}
		if err := m.set(s.to, e); err != nil {
			return fmt.Errorf("move %q to %q: %w", s.from, s.to, err)
		}
		m.unset(s.from)
	case stepDelete:
		m.unset(s.from)
	}
	return nil
}

func (m *Mem) put(s step) error {
	o := s.object.(*memObject)
	if o.taken != "" {
		if e, ok := m.objects[o.taken]; !ok || !bytes.Equal(e.data, o.data) {
			return fmt.Errorf("the object taken from %q: %w", o.taken, errChanged)
		}
		if o.taken == s.to {
			if !s.modTime.IsZero() {
				m.objects[s.to] = memEntry{o.data, s.modTime}
			}
			return nil
		}
	}
	old, taken := m.objects[s.to]
	if s.ifAbsent && (taken || m.below[s.to] > 0) {
		return ErrExist
	}
	if _, kept := m.objects[s.keep]; taken && s.keep != "" && !kept {
		if err := m.set(s.keep, old); err != nil {
			return fmt.Errorf("keep the old object at %q: %w", s.keep, err)
		}
	}
	e := memEntry{data: o.data}
	switch {
	case !s.modTime.IsZero():
		e.modTime = s.modTime
	case o.taken != "":
		e.modTime = m.objects[o.taken].modTime
	case m.Now != nil:
		e.modTime = m.Now()
	}
	if err := m.set(s.to, e); err != nil {
		return err
	}
	m.unset(o.taken)
	return nil
}

func (m *Mem) set(key string, e memEntry) error {
	if m.below[key] > 0 {
		return fmt.Errorf("%w: there is a directory at the key", ErrClash)
	}
	for dir := path.Dir(key); dir != "."; dir = path.Dir(dir) {
		if _, taken := m.objects[dir]; taken {
			return fmt.Errorf("%w: there is a file at %q where a directory is needed", ErrClash, dir)
		}
	}
	if _, taken := m.objects[key]; !taken {
		m.count(key, 1)
	}
	m.objects[key] = e
	return nil
}

func (m *Mem) unset(key string) {
	if _, taken := m.objects[key]; taken {
		m.count(key, -1)
		delete(m.objects, key)
	}
}

func (m *Mem) count(key string, by int) {
	for dir := path.Dir(key); dir != "."; dir = path.Dir(dir) {
		m.below[dir] += by
		if m.below[dir] == 0 {
			delete(m.below, dir)
		}
	}
}
