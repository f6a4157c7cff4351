package blobtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"

	"instep/blob"
)

// Op names a call that can be made to fail.
type Op string

// Calls of a bucket, its batches, objects and readers that a Plan can make fail.
const (
	OpGet    Op = "get"
	OpRead   Op = "read" // a call of Read on the reader that Get returns
	OpStat   Op = "stat"
	OpList   Op = "list" // each object that List yields counts as one call
	OpBegin  Op = "begin"
	OpCreate Op = "create"
	OpTake   Op = "take"
	OpWrite  Op = "write"
	OpClose  Op = "close" // a call of Close on an object that is being written
	OpCommit Op = "commit"
)

// Call is one call to a faulty bucket.
type Call struct {
	Op  Op
	N   int    // number of this call among the calls with the same Op, counted from 1
	Key string // key of the object, for OpGet, OpRead, OpStat, OpList and OpTake
}

// ErrInjected is the error of a call that fails with a Fault whose Err is nil.
var ErrInjected = errors.New("injected fault")

// Fault describes how a call fails.
type Fault struct {
	Err error // nil: ErrInjected
	// Steps is the part of the call that takes effect before the call fails: for OpCommit a
	// number of Put, Move and Delete calls, for OpWrite a number of bytes. Any other call
	// takes effect unless Steps is 0. If Steps is the constant All, the whole call takes
	// effect and still returns the error.
	Steps int
}

// All is a value of Fault.Steps: the whole call takes effect, and still returns the error.
const All = -1

// Plan returns the Fault with which a call fails, or nil if the call succeeds. A Plan need
// not be safe for concurrent use.
type Plan func(Call) *Fault

// At returns a plan with which the nth call of op fails.
func At(op Op, n int, f Fault) Plan {
	return func(c Call) *Fault {
		if c.Op == op && c.N == n {
			return &f
		}
		return nil
	}
}

// Faulty returns a bucket that passes its calls on to the bucket b. A call for which plan
// returns a Fault fails. If a Commit fails, its Fault says how many changes of the batch
// are made in b.
func Faulty(b blob.Bucket, plan Plan) blob.Bucket {
	return &faulty{bucket: b, plan: plan, counts: map[Op]int{}}
}

type faulty struct {
	bucket blob.Bucket

	mu     sync.Mutex // guards the fields below
	plan   Plan
	counts map[Op]int
}

func (f *faulty) nextFault(op Op, key string) *Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts[op]++
	fault := f.plan(Call{Op: op, N: f.counts[op], Key: key})
	if fault == nil {
		return nil
	}
	made := *fault
	if made.Err == nil {
		made.Err = ErrInjected
	}
	made.Err = fmt.Errorf("%s %q: %w", op, key, made.Err)
	return &made
}

func (f *faulty) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, blob.Info, error) {
	if fault := f.nextFault(OpGet, key); fault != nil {
		return nil, blob.Info{}, fault.Err
	}
	r, info, err := f.bucket.Get(ctx, key, off, n)
	if err != nil {
		return nil, info, err
	}
	return faultyReader{r, f, key}, info, nil
}

type faultyReader struct {
	io.ReadCloser
	f   *faulty
	key string
}

func (r faultyReader) Read(p []byte) (int, error) {
	if fault := r.f.nextFault(OpRead, r.key); fault != nil {
		return 0, fault.Err
	}
	return r.ReadCloser.Read(p)
}

func (f *faulty) Stat(ctx context.Context, key string) (blob.Info, error) {
	if fault := f.nextFault(OpStat, key); fault != nil {
		return blob.Info{}, fault.Err
	}
	return f.bucket.Stat(ctx, key)
}

func (f *faulty) List(ctx context.Context, prefix string) iter.Seq2[blob.Info, error] {
	return func(yield func(blob.Info, error) bool) {
		for info, err := range f.bucket.List(ctx, prefix) {
			if fault := f.nextFault(OpList, info.Key); fault != nil {
				yield(blob.Info{}, fault.Err)
				return
			}
			if !yield(info, err) {
				return
			}
		}
	}
}

func (f *faulty) Begin(ctx context.Context) (blob.Batch, error) {
	if fault := f.nextFault(OpBegin, ""); fault != nil {
		return nil, fault.Err
	}
	batch, err := f.bucket.Begin(ctx)
	if err != nil {
		return nil, err
	}
	return &faultyBatch{f: f, batch: batch}, nil
}

// faultyBatch passes no step on before Commit, so that Commit can execute a part of the steps.
type faultyBatch struct {
	f     *faulty
	batch blob.Batch

	mu    sync.Mutex // guards steps
	steps []func()
}

func (b *faultyBatch) Create(ctx context.Context) (blob.Object, error) {
	fault := b.f.nextFault(OpCreate, "")
	if fault != nil && fault.Steps == 0 {
		return nil, fault.Err
	}
	o, err := b.batch.Create(ctx)
	if err != nil {
		return nil, err
	}
	if fault != nil {
		return nil, fault.Err // Create takes effect although it fails: the inner batch must discard the object
	}
	return &faultyObject{o, b.f}, nil
}

func (b *faultyBatch) Take(ctx context.Context, key string) (blob.Object, error) {
	if fault := b.f.nextFault(OpTake, key); fault != nil {
		return nil, fault.Err
	}
	return b.batch.Take(ctx, key)
}

func (b *faultyBatch) Put(o blob.Object, p blob.Put) {
	if wrapped, ok := o.(*faultyObject); ok {
		o = wrapped.Object
	}
	b.step(func() { b.batch.Put(o, p) })
}

func (b *faultyBatch) Move(from, to string) { b.step(func() { b.batch.Move(from, to) }) }
func (b *faultyBatch) Delete(key string)    { b.step(func() { b.batch.Delete(key) }) }

func (b *faultyBatch) step(do func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.steps = append(b.steps, do)
}

func (b *faultyBatch) Commit(ctx context.Context) error {
	b.mu.Lock()
	steps := b.steps
	b.steps = nil
	b.mu.Unlock()
	fault := b.f.nextFault(OpCommit, "")
	if fault != nil && fault.Steps == 0 {
		return errors.Join(fault.Err, b.batch.Discard())
	}
	if fault != nil && fault.Steps > 0 {
		steps = steps[:min(fault.Steps, len(steps))]
	}
	for _, do := range steps {
		do()
	}
	if err := b.batch.Commit(ctx); err != nil {
		return err
	}
	if fault != nil {
		return fault.Err
	}
	return nil
}

func (b *faultyBatch) Discard() error { return b.batch.Discard() }

type faultyObject struct {
	blob.Object
	f *faulty
}

func (o *faultyObject) Write(p []byte) (int, error) {
	fault := o.f.nextFault(OpWrite, "")
	if fault == nil {
		return o.Object.Write(p)
	}
	part := p
	if fault.Steps != All {
		part = p[:min(fault.Steps, len(p))]
	}
	n, err := o.Object.Write(part)
	return n, errors.Join(fault.Err, err)
}

func (o *faultyObject) Close() error {
	fault := o.f.nextFault(OpClose, "")
	if fault == nil {
		return o.Object.Close()
	}
	if fault.Steps == 0 {
		return errors.Join(fault.Err, o.Discard())
	}
	return errors.Join(fault.Err, o.Object.Close())
}
