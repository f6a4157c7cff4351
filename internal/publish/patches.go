package publish

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"slices"

	"instep/internal/catalog"
	"instep/internal/patch"
	"instep/internal/spool"
	"instep/resourcesync"
	"instep/source"
)

// checkPatches returns an error if a set is to have patches but its bytes cannot be
// read or verified.
func checkPatches(set Set, s *settled) error {
	switch {
	case !set.Patches:
	case set.Input == nil && s.Dir == "":
		return &OptionError{"patches", set.Name, errors.New("a set that is recorded without a directory has no bytes to compare")}
	case !slices.Contains(s.Algorithms, resourcesync.SHA256):
		return &OptionError{"hash", fmt.Sprint(s.Algorithms), errors.New("patches need sha-256 among them: it proves the result of a patch")}
	}
	return nil
}

// patching is the state of making patches in one publication.
type patching struct {
	links    map[int64]resourcesync.Link // links to patches, by the number of the change
	current  bool                        // the bases are the bytes of the last publication
	made     int64                       // number of patches made
	bytes    int64                       // their length in bytes
	whole    int64                       // length of the versions that they make, in bytes
	contents *contents
	bases    baseWriter
	kept     *spool.File      // the new patches, for Change Dumps; nil if no dumps are made
	places   map[int64]extent // position of each patch in kept, by the number of the change
	touched  map[string]bool  // in a dry run, the keys whose base would be replaced; otherwise nil
}

// extent is the position and length of a patch in patching.kept.
type extent struct{ at, n int64 }

const (
	// maxPatches is the largest number of patches in a publication. Their links are
	// held in memory.
	maxPatches = 50_000
	// patchRoom is the approximate length of a link to a patch in a Change List,
	// rounded up.
	patchRoom = 400
)

// link adds the patch of a change to its entry.
func (p *patching) link(seq int64, en *resourcesync.Entry) {
	if l, ok := p.links[seq]; ok {
		en.Links = append(en.Links, l)
	}
}

// pack adds the patch of a change to its bitstream in a Change Dump.
func (p *patching) pack(seq int64, b *source.Bitstream) {
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

// keep stores a patch for a Change Dump.
func (p *patching) keep(made *source.Patch) error {
	if p.kept == nil {
		return nil
	}
	p.places[made.Number] = extent{p.kept.Len(), made.Length}
	_, err := p.kept.Write(made.Data)
	return err
}

// close removes the temporary file of the patches.
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

// patchRoom returns the number of bytes that links to patches may take in a Change
// List: at most half of it.
func (r *run) patchRoom() int64 {
	if r.bases == nil && len(r.patching.links) == 0 {
		return 0
	}
	each := patchRoom + int64(len(r.site.BaseURL)+len(r.Name))
	return min(each*int64(r.ChangeListMax), maxListBytes/2)
}

// patches returns the patches of the changes that are published now. It returns nil if
// none can be made: the first publication has no changes, and an interrupted one leaves
// no usable bases.
func (r *run) patches(ctx context.Context) (iter.Seq2[source.Patch, error], error) {
	if r.bases == nil || r.last.ID == 0 {
		return nil, nil
	}
	through, err := r.bases.through(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the bytes that patches are made from: %w", err)
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
		err := r.makePatches(ctx, func(made source.Patch) bool { return yield(made, nil) })
		if err != nil {
			yield(source.Patch{}, err)
		}
	}, nil
}

// errStopped stops making patches when the consumer stops.
var errStopped = errors.New("stopped")

// makePatches makes the patches of the new changes and replaces the bases.
func (r *run) makePatches(ctx context.Context, yield func(source.Patch) bool) (err error) {
	p := &r.patching
	p.bases = baseWriter{bases: r.bases}
	if r.site.DryRun {
		p.touched = map[string]bool{}
	} else if err := r.bases.unmark(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.bases.discard()) }()
	for ch, err := range r.facts.Changes(ctx, r.id, r.last.ChangesThrough, r.seq) {
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = r.patchOf(ctx, ch, yield)
		}
		if errors.Is(err, errStopped) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return p.bases.flush(ctx)
}

// patchOf makes the patch of one change if it is small enough to pay, and replaces the
// base of its resource.
func (r *run) patchOf(ctx context.Context, ch catalog.Change, yield func(source.Patch) bool) (err error) {
	p, key := &r.patching, baseKey(ch.URI)
	if p.bases.pending[key] {
		if err := p.bases.flush(ctx); err != nil {
			return err
		}
	}
	if ch.Change != resourcesync.Deleted && isLong(ch.Resource) {
		return r.patchLong(ctx, key, ch, yield)
	}
	var after []byte
	if ch.Change != resourcesync.Deleted {
		if after, err = p.contents.whole(ctx, ch.Resource); err != nil {
			return err
		}
	}
	if after != nil && p.wanted(key, ch) {
		if err := r.patchFrom(ctx, key, ch, after, yield); err != nil {
			return err
		}
	}
	if r.site.DryRun {
		p.touched[key] = true
		return nil
	}
	return p.bases.put(ctx, key, after)
}

// wanted reports whether a patch is made of a change, from the base at key.
func (p *patching) wanted(key string, ch catalog.Change) bool {
	return ch.Change == resourcesync.Updated && len(p.links) < maxPatches && !p.touched[key]
}

// patchFrom makes the patch of an update from the base at key, if there is a base and
// the patch is small enough to pay.
func (r *run) patchFrom(ctx context.Context, key string, ch catalog.Change, after []byte, yield func(source.Patch) bool) error {
	before, err := r.bases.read(ctx, key)
	if err != nil || before == nil {
		return err
	}
	kind, data, err := patch.Best(ctx, ch.Type, before, after)
	if err != nil || data == nil {
		return err
	}
	return r.addPatch(ch, kind, data, yield)
}

// addPatch links and yields a patch.
func (r *run) addPatch(ch catalog.Change, kind patch.Kind, data []byte, yield func(source.Patch) bool) error {
	p, made := &r.patching, source.NewPatch(r.Name, ch.Seq, string(kind), kind.Extension(), data)
	if err := p.keep(&made); err != nil {
		return err
	}
	p.links[ch.Seq] = made.PatchLink(r.site.BaseURL)
	p.made, p.bytes, p.whole = p.made+1, p.bytes+made.Length, p.whole+ch.Length.Int64()
	if !yield(made) {
		return errStopped
	}
	return nil
}

// whole returns the bytes of a resource; nil if they are too long or no longer exist.
func (c *contents) whole(ctx context.Context, m catalog.Resource) ([]byte, error) {
	var data *bytes.Buffer
	ok, err := c.verified(ctx, m, patch.MaxBytes, func(r io.Reader) error {
		data = bytes.NewBuffer(make([]byte, 0, m.Length.Int64()))
		_, err := io.Copy(data, r)
		return err
	})
	if !ok {
		return nil, err
	}
	return data.Bytes(), nil
}

// verified lets take read the bytes of a resource to their end, where they are verified. ok is false if they
// are more than most, are there no more, or have changed since they were recorded.
func (c *contents) verified(ctx context.Context, m catalog.Resource, most int64, take func(io.Reader) error) (ok bool, err error) {
	if !m.Length.Known() || m.Length.Int64() > most || m.Digests.Get(resourcesync.SHA256).IsZero() {
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
		return false, nil // the file has changed since it was recorded
	}
	return err == nil, err
}
