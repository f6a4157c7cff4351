package scan

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"time"

	"instep/blob"
	"instep/internal/catalog"
	"instep/internal/spool"
	"instep/resourcesync"
)

// Apply hashes the new and the modified files of the plan p. It records the changes in
// the order in which the scan found the files, then the deletions. A file that cannot
// be read becomes a failure in the Result and keeps its recorded state. If there are
// too many deletions, the error is a *GuardError and nothing is recorded. After any
// other error the changes that the Result counts are recorded, and the next plan finds
// the rest.
func (d *Dir) Apply(ctx context.Context, p *Plan) (Result, error) {
	r := newResult(p)
	if p.Guard != nil {
		return r, p.Guard
	}
	if err := d.Facts.Reserve(ctx, p.At); err != nil {
		return r, err
	}
	a := applier{ctx: ctx, d: d, r: &r, empty: p.Set == 0 && !d.Shared, changedPieces: map[int64]bool{}}
	if err := d.readAll(ctx, p, a.addResult, a.recordRound); err != nil {
		return r, err
	}
	for resources, err := range d.vanishedResources(ctx, p) {
		if err == nil {
			err = a.remove(resources)
		}
		if err != nil {
			return r, err
		}
	}
	if err := a.keepWalk(p); err != nil {
		return r, err
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

// maxChangedPieces is the largest number of changed pieces (parts of directories) that
// Apply remembers. If there are more, it stores no piece at all.
const maxChangedPieces = 1 << 16

// The methods of an applier must not be called concurrently.
type applier struct {
	ctx           context.Context
	d             *Dir
	r             *Result
	batch         []hashed
	changes       []catalog.Change // the changes of the current round; the slice is reused
	empty         bool             // whether the set had no members before, so that no recorded state has to be looked up
	changedPieces map[int64]bool   // numbers of the pieces (parts of directories) in which a file has changed since the scan read the directory
	unlabeled     bool             // whether the media type of a file is unknown because the file could not be read
}

func (a *applier) addResult(h hashed) error {
	a.r.Hashed += h.read
	if (h.stat == "" && !h.labelOnly || h.err != nil || h.gone) && h.piece > 0 && len(a.changedPieces) < maxChangedPieces {
		a.changedPieces[h.piece] = true
	}
	switch {
	case h.err != nil:
		a.unlabeled = a.unlabeled || h.labelOnly
		a.d.fail(&a.r.Failures, a.d.fileError(h.path, h.err))
	case h.gone:
		a.r.Gone++
	default:
		a.batch = append(a.batch, h)
	}
	return nil
}

type outcome struct {
	changes    []catalog.Change
	same       []catalog.Resource // the resources whose bytes did not change
	relabelled []catalog.Resource
	clashes    []string // URIs
}

// addClash notes the URI of a resource if another set has recorded it with the same bytes,
// but with another type or encoding. All sets share these facts, so their rules should give
// the same values.
func (o *outcome) addClash(known, now *catalog.Resource, ds resourcesync.Digests) {
	others := known.URI != "" && !known.Member || known.Due != ""
	if others && (known.Type != now.Type || known.Encoding != now.Encoding) && agree(known.Digests, ds) {
		o.clashes = append(o.clashes, now.URI)
	}
}

func (a *applier) recordRound(r *round) error {
	defer func() { a.batch = a.batch[:0] }()
	o, err := a.compare()
	if err != nil {
		return err
	}
	if r.keep != nil {
		if err := a.commitCopies(r.keep, o.changes); err != nil {
			return err
		}
	}
	err = a.record(o.changes)
	if a.empty && errors.Is(err, catalog.ErrState) { // compare after all: a directory may have listed a name twice, or another process may have recorded changes
		a.empty = false
		if o, err = a.compare(); err == nil {
			err = a.record(o.changes)
		}
	}
	if err != nil {
		return err
	}
	return a.d.recordUnchanged(a.ctx, a.r, o)
}

// A directory that changes while it is read may list a name twice; compare uses only one
// of these files.
func (a *applier) compare() (o outcome, err error) {
	uris := make([]string, len(a.batch))
	for i := range a.batch {
		uris[i] = a.batch[i].uri
	}
	var known []catalog.Resource
	if !a.empty {
		if known, err = a.d.Facts.Lookup(a.ctx, a.d.Set, uris); err != nil {
			return o, err
		}
	}
	o.changes = a.changes[:0]
	taken := make(map[string]bool, len(uris))
	for i := range a.batch {
		if taken[uris[i]] {
			continue
		}
		taken[uris[i]] = true
		var as catalog.Resource
		if known != nil {
			as = known[i]
		}
		o.add(as, &a.batch[i])
	}
	a.changes = o.changes
	return o, nil
}

func (o *outcome) add(known catalog.Resource, h *hashed) {
	r := h.resource()
	if h.labelOnly {
		if known.Member && !sameLabels(&r, &known) {
			o.relabelled = append(o.relabelled, r)
		}
		return
	}
	if kind := kindOfChange(known, *h); kind != "" {
		o.addClash(&known, &r, h.allDigests())
		o.changes = append(o.changes, catalog.Change{Change: kind, Resource: r})
		return
	}
	o.same = append(o.same, r)
	if !sameLabels(&r, &known) {
		o.relabelled = append(o.relabelled, r)
	}
}

func (a *applier) commitCopies(batch blob.Batch, changes []catalog.Change) error {
	changed := make(map[string]bool, len(changes))
	for i := range changes {
		changed[changes[i].URI] = true
	}
	for i := range a.batch {
		h := &a.batch[i]
		if h.kept == nil {
			continue
		}
		if !changed[h.uri] {
			if err := h.discard(); err != nil {
				return err
			}
			continue
		}
		delete(changed, h.uri) // if a directory listed a name twice, the bytes are stored only once
		batch.Put(h.kept, blob.Put{Key: KeepKey(h.sha256)})
	}
	return batch.Commit(a.ctx)
}

func (d *Deps) recordUnchanged(ctx context.Context, r *Result, o outcome) error {
	if r.Clashes += int64(len(o.clashes)); r.FirstClash == "" && len(o.clashes) > 0 {
		r.FirstClash = o.clashes[0]
	}
	if len(o.same) > 0 {
		r.Unchanged += int64(len(o.same))
		if err := d.Facts.Restat(ctx, o.same); err != nil {
			return err
		}
	}
	if len(o.relabelled) == 0 {
		return nil
	}
	r.Relabelled += int64(len(o.relabelled))
	return d.Facts.Relabel(ctx, d.Set, o.relabelled)
}

// keepWalk stores the facts by which the next scan skips unchanged directories: the
// digests of pieces (parts of directories), and the mount points.
func (a *applier) keepWalk(p *Plan) error {
	if p.relabel && !a.unlabeled && a.d.Paths == nil {
		if err := a.d.keepRules(a.ctx); err != nil {
			return err
		}
	}
	if err := a.d.keepMounts(a.ctx, p); err != nil {
		return err
	}
	if len(a.changedPieces) >= maxChangedPieces {
		return nil
	}
	number := int64(0)
	for batch, err := range spool.Batches(p.pieces.All(), enrollSize) {
		if err != nil {
			return err
		}
		batch = slices.DeleteFunc(batch, func(catalog.Piece) bool {
			number++
			return a.changedPieces[number]
		})
		if err := a.d.Seen.KeepPieces(a.ctx, a.d.Set, batch); err != nil {
			return err
		}
	}
	return nil
}

func (h *hashed) resource() catalog.Resource {
	return catalog.Resource{URI: h.uri, Path: h.path, Length: resourcesync.Bytes(h.length), Digests: h.digests, Stat: h.stat,
		LastMod: fileTime(h.modified), Type: h.label.Type, Encoding: h.label.Encoding, ChangeFreq: h.label.ChangeFreq, Remainder: h.remainder}
}

// fileTime returns the modification time of a file in whole seconds, as in the HTTP header
// Last-Modified, because many readers do not understand fractions of a second.
func fileTime(t time.Time) resourcesync.Datetime { return lastMod(t.Truncate(time.Second)) }

// lastMod returns a modification time, or the zero Datetime if a W3C Datetime cannot
// express the time.
func lastMod(t time.Time) resourcesync.Datetime {
	if y := t.UTC().Year(); y < 1 || y > 9999 {
		return resourcesync.Datetime{}
	}
	return resourcesync.DatetimeOf(t)
}

// kindOfChange returns the kind of change of a resource, or "" if it did not change.
func kindOfChange(known catalog.Resource, h hashed) resourcesync.Change {
	switch {
	case !known.Member:
		return resourcesync.Created
	case known.Due != "": // another set has recorded the new bytes, and this set records the change now
		return resourcesync.Updated
	case known.Path == h.path && known.Length == resourcesync.Bytes(h.length) && agree(known.Digests, h.allDigests()):
		return ""
	}
	return resourcesync.Updated
}

func (h *hashed) allDigests() resourcesync.Digests {
	all := slices.Clone(h.digests)
	for _, d := range []resourcesync.Digest{h.extra, h.sha256} {
		if !d.IsZero() && all.Get(d.Algorithm()).IsZero() {
			all = append(all, d)
		}
	}
	return all
}

// agree compares two lists of digests by the strongest algorithm that is in both lists.
// It returns false if the lists have no algorithm in common.
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
	return a.d.record(a.ctx, a.r, changes, nil)
}

// record records changes and settings in one transaction, and adds the changes to the
// counts of the Result.
func (d *Deps) record(ctx context.Context, r *Result, changes []catalog.Change, settings map[string]string) error {
	if len(changes) == 0 {
		return nil
	}
	var err error
	if d.Unpublished {
		err = d.Facts.Enroll(ctx, d.Set, changes)
	} else {
		err = d.Facts.RecordWith(ctx, d.Set, changes, settings)
	}
	if err != nil {
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

// remove records the deletion of the given resources, except those whose files exist
// again.
func (a *applier) remove(resources []catalog.Resource) error {
	var changes []catalog.Change
	for _, r := range resources {
		if !r.Member {
			continue // no deletion to record, because the resource has left the set since the plan was made
		}
		_, reason, err := a.d.locate(r.Path)
		switch {
		case errors.Is(err, fs.ErrNotExist) || reason != "":
			changes = append(changes, catalog.Change{Change: resourcesync.Deleted,
				Resource: catalog.Resource{URI: r.URI, Path: r.Path}})
		case err != nil:
			a.d.fail(&a.r.Failures, a.d.fileError(r.Path, err))
		default:
			a.r.Gone++ // the resource is not deleted, because its file exists again
		}
	}
	return a.record(changes)
}
