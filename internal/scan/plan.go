package scan

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"

	"instep/internal/catalog"
	"instep/internal/spool"
	"instep/resourcesync"
)

const (
	batchSize  = 500     // resources looked up or recorded at a time
	keysMemory = 1 << 18 // keys held in memory: 4 MiB
)

// Plan is what a walk found, compared with what is recorded. Close gives its
// temporary files back.
type Plan struct {
	At time.Time // when the walk began: what is recorded with this plan holds at this moment or later

	Files     int64 // published
	Bytes     int64 // of them
	Unchanged int64 // of them, as their size, times and inode say
	New       int64 // of them, not in the set yet
	Modified  int64 // of them, that may have changed: only hashing tells
	ToHash    int64 // bytes of the new and the modified
	Vanished  int64 // members of the set that are gone; 0 if that is in doubt
	Set       int64 // members of the set before
	Excluded  map[Reason]int64

	Failures Failures    // what could not be looked at; nothing of it is changed
	Doubt    bool        // a directory could not be read: nothing is deleted
	Guard    *GuardError // not nil: Apply refuses

	work     *spool.Log[item]
	vanished *spool.Log[resourcesync.Key]
	listed   *spool.Log[listWork] // of a List, in place of work; else nil
	moment   time.Time            // of the listing of a List; zero if it does not say
}

// item is a file to hash.
type item struct {
	Path []byte // any bytes
	New  bool
	Also string // one more algorithm, the recorded digest of which tells whether the bytes changed; "" if none is needed
}

// Close ends the use of the plan.
func (p *Plan) Close() error {
	err := errors.Join(p.work.Close(), p.vanished.Close())
	if p.listed != nil {
		err = errors.Join(err, p.listed.Close())
	}
	return err
}

// Action is one thing that Apply will do, as far as it is known before hashing.
type Action struct {
	Change resourcesync.Change // of an Updated, hashing may show that nothing changed
	URI    string
	Path   string
}

// Actions yields what Apply will do, in its order.
func (d *Dir) Actions(ctx context.Context, p *Plan) iter.Seq2[Action, error] {
	return func(yield func(Action, error) bool) {
		for it, err := range p.work.All() {
			a := Action{Change: resourcesync.Updated, URI: URI(d.BaseURL, string(it.Path)), Path: string(it.Path)}
			if it.New {
				a.Change = resourcesync.Created
			}
			if !yield(a, err) || err != nil {
				return
			}
		}
		for resources, err := range d.gone(ctx, p) {
			if err != nil {
				yield(Action{}, err)
				return
			}
			for _, r := range resources {
				if !yield(Action{resourcesync.Deleted, r.URI, r.Path}, nil) {
					return
				}
			}
		}
	}
}

// gone yields the members that vanished, in batches.
func (d *Dir) gone(ctx context.Context, p *Plan) iter.Seq2[[]catalog.Resource, error] {
	return func(yield func([]catalog.Resource, error) bool) {
		var keys []resourcesync.Key
		flush := func() bool {
			resources, err := d.Catalog.Lookup(ctx, d.Set, keys)
			keys = keys[:0]
			return yield(resources, err) && err == nil
		}
		for key, err := range p.vanished.All() {
			if err != nil {
				yield(nil, err)
				return
			}
			if keys = append(keys, key); len(keys) == batchSize && !flush() {
				return
			}
		}
		if len(keys) > 0 {
			flush()
		}
	}
}

// Plan walks the directory and compares it with the catalog. It records nothing.
// ErrRoot: the directory itself can't be read. What else can't be read is in
// Failures.
func (d *Dir) Plan(ctx context.Context) (*Plan, error) {
	if err := d.validate(); err != nil {
		return nil, err
	}
	at, err := d.Catalog.Moment(ctx)
	if err != nil {
		return nil, err
	}
	p := &Plan{At: at, Excluded: map[Reason]int64{},
		work: spool.NewLog[item](d.Spool), vanished: spool.NewLog[resourcesync.Key](d.Spool)}
	b := planner{ctx: ctx, d: d, p: p, seen: spool.NewKeys(d.Spool, keysMemory)}
	err = b.run()
	if err = errors.Join(err, b.seen.Close()); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

func (d *Dir) validate() error {
	for _, patterns := range [][]string{d.Include, d.Exclude} {
		for _, p := range patterns {
			if !doublestar.ValidatePattern(p) {
				return fmt.Errorf("glob %q: %w", p, doublestar.ErrBadPattern)
			}
		}
	}
	for _, a := range d.Algorithms {
		if !a.Known() {
			return fmt.Errorf("%w %q", resourcesync.ErrUnknownAlgorithm, a)
		}
	}
	if !strings.HasSuffix(d.BaseURL, "/") {
		return fmt.Errorf("base URL %q: expected a slash at its end", d.BaseURL)
	}
	return nil
}

// planner makes a plan.
type planner struct {
	ctx   context.Context
	d     *Dir
	p     *Plan
	seen  *spool.Keys // of every file that is there, or may be
	keys  []resourcesync.Key
	files []candidate
}

// candidate is a file of the current batch.
type candidate struct {
	path string
	info fs.FileInfo
}

func (b *planner) run() error {
	w := walker{d: b.d, file: b.file, failed: b.failedDir, excluded: func(r Reason) { b.p.Excluded[r]++ }}
	if err := w.walk(b.ctx); err != nil {
		return err
	}
	if err := b.flush(); err != nil {
		return err
	}
	return b.compare()
}

// file takes what stands at name, which is no directory.
func (b *planner) file(name string) error {
	f, reason, err := b.d.find(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // gone since the directory was read
	case err != nil:
		b.failed(name, err)
		return b.seen.Add(b.key(name))
	case reason != "":
		b.p.Excluded[reason]++
		return nil
	}
	key := b.key(name)
	if err := b.seen.Add(key); err != nil {
		return err
	}
	b.p.Files++
	b.p.Bytes += f.info.Size()
	b.keys, b.files = append(b.keys, key), append(b.files, candidate{name, f.info})
	if len(b.files) == batchSize {
		return b.flush()
	}
	return nil
}

func (b *planner) key(name string) resourcesync.Key {
	return resourcesync.KeyOf(URI(b.d.BaseURL, name))
}

func (b *planner) failed(name string, err error) {
	e := &FileError{name, err}
	b.p.Failures.add(e)
	b.d.observe(Event{URI: URI(b.d.BaseURL, name), Path: name, Bytes: -1, Err: e})
}

func (b *planner) failedDir(name string, err error) error {
	if name == "." {
		return fmt.Errorf("%w: %w", ErrRoot, err)
	}
	b.p.Doubt = true
	b.failed(name, err)
	return nil
}

// flush compares the current batch with what is recorded.
func (b *planner) flush() error {
	known, err := b.d.Catalog.Lookup(b.ctx, b.d.Set, b.keys)
	if err != nil {
		return err
	}
	for i, f := range b.files {
		if b.d.unchanged(known[i], f) {
			b.p.Unchanged++
			continue
		}
		if known[i].Member {
			b.p.Modified++
		} else {
			b.p.New++
		}
		b.p.ToHash += f.info.Size()
		if err := b.p.work.Append(item{[]byte(f.path), !known[i].Member, string(b.d.also(known[i]))}); err != nil {
			return err
		}
	}
	b.keys, b.files = b.keys[:0], b.files[:0]
	return nil
}

// unchanged reports whether a file need not be hashed.
func (d *Dir) unchanged(known catalog.Resource, f candidate) bool {
	if !known.Member || known.Due != "" || !known.Stored || known.Path != f.path || known.Stat != fingerprint(f.info) {
		return false
	}
	for _, a := range d.algorithms() {
		if known.Digests.Get(a).IsZero() {
			return false
		}
	}
	return true
}

// also is the algorithm of the strongest recorded digest if those asked for now have
// none to be compared with.
func (d *Dir) also(known catalog.Resource) resourcesync.Algorithm {
	for _, a := range d.algorithms() {
		if !known.Digests.Get(a).IsZero() {
			return ""
		}
	}
	return known.Digests.Strongest().Algorithm()
}

// compare finds the members that are gone, unless that is in doubt.
func (b *planner) compare() error {
	n, _, err := b.d.Catalog.Count(b.ctx, b.d.Set)
	if err != nil {
		return err
	}
	b.p.Set = n
	if b.p.Doubt {
		return nil
	}
	for key, err := range spool.Minus(b.d.Catalog.MemberKeys(b.ctx, b.d.Set), b.seen.Sorted()) {
		if err != nil {
			return err
		}
		if err := b.p.vanished.Append(key); err != nil {
			return err
		}
	}
	b.p.Vanished = b.p.vanished.Len()
	if b.d.MaxDelete.Exceeded(b.p.Vanished, n) {
		b.p.Guard = &GuardError{b.p.Vanished, n, b.d.MaxDelete}
	}
	return nil
}

// Result is what Apply did.
type Result struct {
	At        time.Time // Plan.At
	Completed time.Time // when all was recorded

	Created, Updated, Deleted int64
	Unchanged                 int64 // with those that turned out to be so by hashing
	Gone                      int64 // vanished, or excluded, since the walk: left as recorded until the next
	Hashed                    int64 // bytes
	Failures                  Failures
	Excluded                  map[Reason]int64
}

func newResult(p *Plan) Result {
	r := Result{At: p.At, Unchanged: p.Unchanged, Failures: p.Failures, Excluded: maps.Clone(p.Excluded)}
	r.Failures.First = r.Failures.First[:len(r.Failures.First):len(r.Failures.First)]
	return r
}
