package publish

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"

	"instep/internal/catalog"
	"instep/internal/patch"
	"instep/internal/spool"
	"instep/resourcesync"
	"instep/source"
)

// patching has the data with which one publication makes patches, and counts the patches
// made.
type patching struct {
	links       map[int64]resourcesync.Link // links to patches, by the number of the change
	current     bool                        // whether the stored bytes (see bases) are those of the last publication
	made        int64                       // number of patches made
	bytes       int64                       // total length in bytes of the patches made
	targetBytes int64                       // total length in bytes of the new versions of the resources that have a patch
	contents    *contents
	bases       baseWriter
	kept        *spool.File      // a file with the new patches, for Change Dumps; nil if no Change Dumps are made
	places      map[int64]extent // the position of each patch in the temporary file, by the number of the change
	replaced    map[string]bool  // in a dry run, the keys (see baseKey) of the resources whose stored bytes a real run would have replaced; otherwise nil
}

// extent is the position and length of a patch in the file patching.kept.
type extent struct{ at, n int64 }

const (
	// maxPatches is the largest number of patches in a publication. It is limited because
	// the links to the patches are held in memory.
	maxPatches = 50_000
	// patchRoom is an upper estimate of the length, in bytes, of a link to a patch in a
	// Change List, without the base URL and the name of the set.
	patchRoom = 400
)

func (p *patching) addLink(seq int64, en *resourcesync.Entry) {
	if l, ok := p.links[seq]; ok {
		en.Links = append(en.Links, l)
	}
}

func (p *patching) addPatch(seq int64, b *source.Bitstream) {
	if p == nil {
		return
	}
	at, ok := p.places[seq]
	if !ok {
		return
	}
	b.Links = append(b.Links, p.links[seq])
	b.Patch = func(context.Context) (io.ReadCloser, error) {
		return io.NopCloser(io.NewSectionReader(p.kept, at.at, at.n)), nil
	}
}

func (p *patching) keep(made *source.Patch) error {
	if p.kept == nil {
		return nil
	}
	p.places[made.Number] = extent{p.kept.Len(), made.Length}
	_, err := p.kept.Write(made.Data)
	return err
}

func (p *patching) close() error {
	if p.kept == nil {
		return nil
	}
	return p.kept.Close()
}

// beginPatches reads the links to the patches of the open Change List.
func (r *run) beginPatches(ctx context.Context) error {
	r.patching = patching{links: map[int64]resourcesync.Link{}}
	if r.last.ChangesNumber == 0 {
		return nil
	}
	for it, err := range r.pub.Journal.Items(ctx, r.Name, source.ItemPatch, r.last.ChangesNumber) {
		if err != nil {
			return fmt.Errorf("reading the published patches: %w", err)
		}
		r.patching.links[it.Number] = it.PatchLink(r.site.BaseURL)
	}
	return nil
}

// patchRoom returns the number of bytes that are reserved in a Change List for links to
// patches, at most half of the list.
func (r *run) patchRoom() int64 {
	if r.bases == nil && len(r.patching.links) == 0 {
		return 0
	}
	each := patchRoom + int64(len(r.site.BaseURL)+len(r.Name))
	return min(each*int64(r.ChangeListMax), maxListBytes/2)
}

// patches returns the patches of the changes that this publication adds. It returns nil for
// a first publication, which has no changes, and if the stored bytes are not those of the
// last publication, for example after an interruption.
func (r *run) patches(ctx context.Context) (iter.Seq2[source.Patch, error], error) {
	if r.bases == nil || r.last.ID == 0 {
		return nil, nil
	}
	through, err := r.bases.lastChange(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the bytes from which patches are made: %w", err)
	}
	if through != r.last.ChangesThrough {
		return nil, nil
	}
	p := &r.patching
	if p.contents, err = r.contents(ctx, r.now); err != nil {
		return nil, err
	}
	p.current = true
	if r.Dumps {
		p.kept, p.places = spool.NewFile("", 0), map[int64]extent{}
	}
	return func(yield func(source.Patch, error) bool) {
		stopped := false
		err := r.makePatches(ctx, func(made *source.Patch) bool {
			stopped = !yield(*made, nil)
			return !stopped
		})
		if err != nil && !stopped {
			yield(source.Patch{}, err)
		}
	}, nil
}

// makePatches makes the patches of the new changes, and replaces the stored bytes of the
// changed resources by the new ones. It stops when yield returns false.
func (r *run) makePatches(ctx context.Context, yield func(*source.Patch) bool) (err error) {
	p := &r.patching
	p.bases = baseWriter{bases: r.bases}
	if r.site.DryRun {
		p.replaced = map[string]bool{}
	} else if err := r.bases.unmark(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.bases.discard()) }()
	for ch, err := range r.facts.Changes(ctx, r.id, r.last.ChangesThrough, r.seq) {
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return err
		}
		made, err := r.patchOf(ctx, ch)
		if err != nil {
			return err
		}
		if made != nil && !yield(made) {
			return nil
		}
	}
	return p.bases.flush(ctx)
}

// patchOf makes the patch of one change, unless the patch is too large to be useful. It
// then replaces the stored bytes of the resource by the new ones.
func (r *run) patchOf(ctx context.Context, ch catalog.Change) (made *source.Patch, err error) {
	p, key := &r.patching, baseKey(ch.URI)
	if p.bases.pending[key] {
		if err := p.bases.flush(ctx); err != nil {
			return nil, err
		}
	}
	var after []byte // the new bytes; nil if the resource is deleted or too long for memory
	deleted, long := ch.Change == resourcesync.Deleted, isLong(ch.Resource)
	if !deleted && !long {
		if after, err = p.contents.readWhole(ctx, ch.Resource); err != nil {
			return nil, err
		}
	}
	if (after != nil || long) && p.wantsPatch(key, ch) {
		kind, data, err := patch.VCDIFF, []byte(nil), error(nil)
		if long {
			data, err = r.longPatch(ctx, key, ch.Resource)
		} else {
			kind, data, err = r.shortPatch(ctx, key, ch.Type, after)
		}
		if err == nil && data != nil {
			made, err = r.newPatch(ch, kind, data)
		}
		if err != nil {
			return nil, err
		}
	}
	switch {
	case r.site.DryRun:
		p.replaced[key] = true
	case long && !deleted:
		err = p.bases.copy(ctx, key, p.contents, ch.Resource)
	default:
		err = p.bases.put(ctx, key, after)
	}
	return made, err
}

func (p *patching) wantsPatch(key string, ch catalog.Change) bool {
	return ch.Change == resourcesync.Updated && len(p.links) < maxPatches && !p.replaced[key]
}

// shortPatch returns a patch that turns the stored bytes at key into the new version. The
// patch is nil if no bytes are stored, or if the patch would not be small enough.
func (r *run) shortPatch(ctx context.Context, key, mediaType string, after []byte) (patch.Kind, []byte, error) {
	before, err := r.bases.read(ctx, key)
	if err != nil || before == nil {
		return "", nil, err
	}
	return patch.Best(ctx, mediaType, before, after)
}

func (r *run) newPatch(ch catalog.Change, kind patch.Kind, data []byte) (*source.Patch, error) {
	p, made := &r.patching, source.NewPatch(r.Name, ch.Seq, string(kind), kind.Extension(), data)
	if err := p.keep(&made); err != nil {
		return nil, err
	}
	p.links[ch.Seq] = made.PatchLink(r.site.BaseURL)
	p.made, p.bytes, p.targetBytes = p.made+1, p.bytes+made.Length, p.targetBytes+ch.Length.Int64()
	return &made, nil
}

// readWhole returns the bytes of a resource. It returns nil if they are longer than
// patch.MaxBytes or no longer exist.
func (c *contents) readWhole(ctx context.Context, m catalog.Resource) ([]byte, error) {
	var data *bytes.Buffer
	ok, err := c.readVerified(ctx, m, patch.MaxBytes, func(r io.Reader) error {
		data = bytes.NewBuffer(make([]byte, 0, m.Length.Int64()))
		_, err := io.Copy(data, r)
		return err
	})
	if !ok {
		return nil, err
	}
	return data.Bytes(), nil
}

// readVerified passes a reader of the bytes of a resource to the function take. The
// reader verifies the bytes when it reaches their end. The result ok is false if the
// resource has more than limit bytes, no longer exists, or has changed since it was
// recorded.
func (c *contents) readVerified(ctx context.Context, m catalog.Resource, limit int64, take func(io.Reader) error) (ok bool, err error) {
	if !m.Length.Known() || m.Length.Int64() > limit || m.Digests.Get(resourcesync.SHA256).IsZero() {
		return false, nil
	}
	body, err := c.open(ctx, m)
	if errors.Is(err, source.ErrGone) || errors.Is(err, fs.ErrPermission) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer body.Close()
	err = take(resourcesync.NewVerifyReader(body, m.Length.Int64(), m.Digests))
	if _, differs := errors.AsType[*resourcesync.MismatchError](err); differs {
		return false, nil // no error: the file has changed since it was recorded
	}
	return err == nil, err
}
