package scan

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"time"

	"instep/internal/catalog"
	"instep/resourcesync"
)

// batchBytes bounds what is hashed between two transactions, and so what is hashed
// again after a crash, beside batchSize.
const batchBytes = 256 << 20

// Apply hashes the new and the modified files of p and records what changed, in
// the order of the walk, then the deletions. A file that can't be read is a
// failure in the Result and nothing of it is changed. What the guard holds is a
// *GuardError, and nothing is recorded. On another error the Result says how far
// it came; what it counts is recorded, and a new plan goes on from there.
func (d *Dir) Apply(ctx context.Context, p *Plan) (Result, error) {
	r := newResult(p)
	if p.Guard != nil {
		return r, p.Guard
	}
	if err := d.Catalog.Reserve(ctx, p.At); err != nil {
		return r, err
	}
	a := applier{ctx: ctx, d: d, r: &r}
	if err := d.hashAll(ctx, p, a.take); err != nil {
		return r, err
	}
	if err := a.flush(); err != nil {
		return r, err
	}
	for resources, err := range d.gone(ctx, p) {
		if err == nil {
			err = a.remove(resources)
		}
		if err != nil {
			return r, err
		}
	}
	r.Completed = latest(d.Now(), r.At)
	return r, nil
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// applier records what comes out of hashing. Its methods are not called concurrently.
type applier struct {
	ctx   context.Context
	d     *Dir
	r     *Result
	batch []hashed
	bytes int64
}

func (a *applier) take(h hashed) error {
	a.r.Hashed += h.read
	switch {
	case h.err != nil:
		a.failed(h.path, h.err)
		return nil
	case h.gone:
		a.r.Gone++
		return nil
	}
	a.batch = append(a.batch, h)
	a.bytes += h.length
	if len(a.batch) == batchSize || a.bytes >= batchBytes {
		return a.flush()
	}
	return nil
}

func (a *applier) failed(name string, err error) {
	e := &FileError{name, err}
	a.r.Failures.add(e)
	a.d.observe(Event{URI: URI(a.d.BaseURL, name), Path: name, Bytes: -1, Err: e})
}

// flush records the batch. What each file is compared with is read again: a
// directory that changes while it is read may list a name twice.
func (a *applier) flush() error {
	keys := make([]resourcesync.Key, len(a.batch))
	for i := range a.batch {
		keys[i] = resourcesync.KeyOf(a.batch[i].uri)
	}
	known, err := a.d.Catalog.Lookup(a.ctx, a.d.Set, keys)
	if err != nil {
		return err
	}
	var changes []catalog.Change
	var same []catalog.Resource
	taken := map[resourcesync.Key]bool{}
	for i, h := range a.batch {
		if taken[keys[i]] {
			continue
		}
		taken[keys[i]] = true
		if kind := decide(known[i], h); kind != "" {
			changes = append(changes, catalog.Change{Change: kind, Resource: h.resource()})
		} else {
			same = append(same, h.resource())
		}
	}
	a.batch, a.bytes = a.batch[:0], 0
	if err := a.record(changes); err != nil || len(same) == 0 {
		return err
	}
	a.r.Unchanged += int64(len(same))
	return a.d.Catalog.Restat(a.ctx, same)
}

func (h *hashed) resource() catalog.Resource {
	return catalog.Resource{URI: h.uri, Path: h.path, Length: resourcesync.Bytes(h.length), Digests: h.digests,
		Type: h.mimeType, Stat: h.stat, LastMod: lastMod(h.modified)}
}

// lastMod is the modification time of a file, if a W3C Datetime can say it.
func lastMod(t time.Time) resourcesync.Datetime {
	if y := t.UTC().Year(); y < 1 || y > 9999 {
		return resourcesync.Datetime{}
	}
	return resourcesync.DatetimeOf(t)
}

// decide says what happened to a resource; "" is nothing.
func decide(known catalog.Resource, h hashed) resourcesync.Change {
	switch {
	case !known.Member:
		return resourcesync.Created
	case known.Due != "": // another set has recorded the change, this one has not
		return resourcesync.Updated
	case known.Path == h.path && known.Length == resourcesync.Bytes(h.length) && agree(known.Digests, h.known()):
		return ""
	}
	return resourcesync.Updated
}

// known are all digests of the bytes that were read.
func (h *hashed) known() resourcesync.Digests {
	if h.also.IsZero() {
		return h.digests
	}
	return append(slices.Clone(h.digests), h.also)
}

// agree reports whether two lists of digests can be of the same bytes: the
// strongest algorithm that both have decides; there must be one.
func agree(a, b resourcesync.Digests) bool {
	var common resourcesync.Digests
	for _, d := range a {
		if !b.Get(d.Algorithm()).IsZero() {
			common = append(common, d)
		}
	}
	strongest := common.Strongest()
	return !strongest.IsZero() && strongest == b.Get(strongest.Algorithm())
}

func (a *applier) record(changes []catalog.Change) error {
	return a.d.record(a.ctx, a.r, changes)
}

// record records changes and counts them.
func (d *Deps) record(ctx context.Context, r *Result, changes []catalog.Change) error {
	if len(changes) == 0 {
		return nil
	}
	record := d.Catalog.Record
	if d.Unpublished {
		record = d.Catalog.Enroll
	}
	if err := record(ctx, d.Set, changes); err != nil {
		return err
	}
	for i := range changes {
		ch := &changes[i]
		switch ch.Change {
		case resourcesync.Created:
			r.Created++
		case resourcesync.Updated:
			r.Updated++
		case resourcesync.Deleted:
			r.Deleted++
		}
		d.observe(Event{Change: ch.Change, URI: ch.URI, Path: ch.Path, Bytes: ch.Length.Int64()})
	}
	return nil
}

// remove records that resources are gone, after one more look.
func (a *applier) remove(resources []catalog.Resource) error {
	var changes []catalog.Change
	for _, r := range resources {
		if !r.Member {
			continue // gone from the set since the walk
		}
		_, reason, err := a.d.locate(r.Path)
		switch {
		case errors.Is(err, fs.ErrNotExist) || reason != "":
			changes = append(changes, catalog.Change{Change: resourcesync.Deleted,
				Resource: catalog.Resource{URI: r.URI, Path: r.Path}})
		case err != nil:
			a.failed(r.Path, err)
		default:
			a.r.Gone++ // it is back
		}
	}
	return a.record(changes)
}
