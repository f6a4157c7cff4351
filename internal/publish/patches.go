package publish

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"path/filepath"
	"slices"

	"instep/blob"
	"instep/internal/catalog"
	"instep/internal/patch"
	"instep/internal/spool"
	"instep/resourcesync"
	"instep/source"
)

// basesName is the directory of the state that keeps the published bytes of resources, of
// each set apart.
const basesName = "bases"

// bases keeps the bytes of each resource of a set as they were published last, up to
// patch.MaxBytes of each, by a digest of the URI. An object at markKey says of which
// publication they are. It is removed before bases are replaced and written when the
// publication is done, so that after an interruption no patch is made from bytes that were
// never published.
type bases struct{ *blob.Dir }

const markKey = "published"

// baseMark is the object at markKey.
type baseMark struct {
	Through int64 // source.Publication.ChangesThrough
}

func baseKey(uri string) string {
	sum := sha256.Sum256([]byte(uri))
	name := hex.EncodeToString(sum[:])
	return name[:2] + "/" + name
}

// checkPatches refuses patches of a set whose bytes cannot be had or proved.
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

// openAllBases opens the bases of all sets that publish patches.
func (s *Session) openAllBases(ctx context.Context) error {
	for _, set := range s.sets {
		if err := s.openBases(ctx, set); err != nil {
			return err
		}
	}
	return nil
}

// openBases opens the bases of a set that publishes patches, and removes those of another
// one. A dry run reads those that exist.
func (s *Session) openBases(ctx context.Context, set *setState) error {
	name := filepath.Join(s.site.State, basesName, "default")
	if set.Name != "" {
		name = filepath.Join(s.site.State, basesName, "set", set.Name)
	}
	create := set.Patches && !s.site.DryRun
	dir, err := openStore(name, create)
	if !create && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("opening the directory for the bytes that patches are made from: %w", err)
	}
	s.closers = append(s.closers, dir)
	if set.Patches {
		set.bases = &bases{dir}
	}
	if s.site.DryRun {
		return nil
	}
	err = dir.Clean(ctx)
	if err == nil && !set.Patches {
		err = (&bases{dir}).clear(ctx)
	}
	if err != nil {
		return fmt.Errorf("removing bytes that no patches are made from: %w", err)
	}
	return nil
}

// clear removes all bases.
func (b *bases) clear(ctx context.Context) error {
	if err := b.unmark(ctx); err != nil {
		return err
	}
	for {
		batch, err := b.Begin(ctx)
		if err != nil {
			return err
		}
		n := 0
		for info, err := range b.List(ctx, "") {
			if err != nil {
				return errors.Join(err, batch.Discard())
			}
			batch.Delete(info.Key)
			if n++; n == pruneSize {
				break
			}
		}
		if n == 0 {
			return batch.Discard()
		}
		if err := errors.Join(batch.Commit(ctx), batch.Discard()); err != nil {
			return err
		}
	}
}

// through returns of which change on the bases are not up to date; -1 if they are of no
// publication.
func (b *bases) through(ctx context.Context) (int64, error) {
	text, err := b.read(ctx, markKey)
	if err != nil || text == nil {
		return -1, err
	}
	var m baseMark
	if json.Unmarshal(text, &m) != nil {
		return -1, nil
	}
	return m.Through, nil
}

// read returns an object; nil if there is none, or it is too long to be a base.
func (b *bases) read(ctx context.Context, key string) ([]byte, error) {
	r, info, err := b.Get(ctx, key, 0, -1)
	if errors.Is(err, blob.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if info.Size > patch.MaxBytes {
		return nil, nil
	}
	return io.ReadAll(io.LimitReader(r, patch.MaxBytes))
}

// patching is the making of patches in one publication.
type patching struct {
	links       map[int64]resourcesync.Link // by the number of the change
	current     bool                        // the bases are those of the last publication
	made        int64
	bytes       int64
	whole       int64 // bytes of the versions made by patches
	contents    *contents
	batch       blob.Batch
	kept        *spool.File      // the new patches, for Change Dumps; nil if there are none
	places      map[int64]extent // of the patches in kept, by the number of the change
	pending     map[string]bool  // keys that the batch changes
	touched     map[string]bool  // in a dry run: keys whose base would be replaced
	pendingSize int
}

// extent is where a patch is among those kept.
type extent struct{ at, n int64 }

const (
	// maxPatches bounds the patches of a publication: their links are in memory.
	maxPatches = 50_000
	// basesBatch and basesBytes bound the bases that are replaced together.
	basesBatch = 250
	basesBytes = 64 << 20
	// patchRoom is how long the link to a patch is in a Change List, about, and not less.
	patchRoom = 400
)

// link adds the patch of a change to its entry.
func (p *patching) link(seq int64, en *resourcesync.Entry) {
	if l, ok := p.links[seq]; ok {
		en.Links = append(en.Links, l)
	}
}

// pack adds the patch of a change to what goes into a Change Dump with it.
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

// close frees the patches that are kept.
func (p *patching) close() error {
	if p.kept == nil {
		return nil
	}
	return p.kept.Close()
}

// beginPatches reads which patches the changes of the open Change List have.
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

// patchRoom is what links to patches may take of a Change List, at most half of it.
func (r *run) patchRoom() int64 {
	if r.bases == nil && len(r.patching.links) == 0 {
		return 0
	}
	each := patchRoom + int64(len(r.site.BaseURL)+len(r.Name))
	return min(each*int64(r.ChangeListMax), maxListBytes/2)
}

// patches returns the patches of the changes that are published now; nil if there are none,
// as the first publication has no changes, and an interrupted one leaves no bases.
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

// errStopped ends the making of patches that nobody wants any more.
var errStopped = errors.New("stopped")

// makePatches makes the patches of the new changes, and replaces the bases.
func (r *run) makePatches(ctx context.Context, yield func(source.Patch) bool) (err error) {
	p := &r.patching
	p.pending, p.touched = map[string]bool{}, map[string]bool{}
	if !r.site.DryRun {
		if err := r.bases.unmark(ctx); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, r.discardBases()) }()
	}
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
	return r.flushBases(ctx)
}

// patchOf makes the patch of one change, if it pays, and replaces the base of its resource.
func (r *run) patchOf(ctx context.Context, ch catalog.Change, yield func(source.Patch) bool) error {
	p, key := &r.patching, baseKey(ch.URI)
	if p.pending[key] {
		if err := r.flushBases(ctx); err != nil {
			return err
		}
	}
	var after []byte
	var err error
	if ch.Change != resourcesync.Deleted {
		if after, err = p.contents.whole(ctx, ch.Resource); err != nil {
			return err
		}
	}
	if ch.Change == resourcesync.Updated && after != nil && len(p.links) < maxPatches && !p.touched[key] {
		before, err := r.bases.read(ctx, key)
		if err != nil {
			return err
		}
		kind, data, err := patch.Best(ctx, ch.Type, before, after)
		if err != nil {
			return err
		}
		if before != nil && data != nil {
			made := source.NewPatch(r.Name, ch.Seq, string(kind), kind.Extension(), data)
			if err := p.keep(&made); err != nil {
				return err
			}
			p.links[ch.Seq] = made.PatchLink(r.site.BaseURL)
			p.made, p.bytes, p.whole = p.made+1, p.bytes+made.Length, p.whole+int64(len(after))
			if !yield(made) {
				return errStopped
			}
		}
	}
	if r.site.DryRun {
		p.touched[key] = true
		return nil
	}
	return r.putBase(ctx, key, after)
}

// whole returns the bytes of a resource; nil if they are too many, or are there no more.
func (c *contents) whole(ctx context.Context, m catalog.Resource) ([]byte, error) {
	if !m.Length.Known() || m.Length.Int64() > patch.MaxBytes || m.Digests.Get(resourcesync.SHA256).IsZero() {
		return nil, nil
	}
	body, err := c.open(ctx, m)
	if errors.Is(err, source.ErrGone) || errors.Is(err, fs.ErrPermission) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer body.Close()
	data := bytes.NewBuffer(make([]byte, 0, m.Length.Int64()))
	_, err = io.Copy(data, resourcesync.NewVerifyReader(body, m.Length.Int64(), m.Digests))
	if _, differs := errors.AsType[*resourcesync.MismatchError](err); differs {
		return nil, nil // it has changed since it was recorded
	}
	return data.Bytes(), err
}

// putBase replaces a base in the open batch; nil removes it.
func (r *run) putBase(ctx context.Context, key string, data []byte) error {
	p := &r.patching
	if p.batch == nil {
		batch, err := r.bases.Begin(ctx)
		if err != nil {
			return err
		}
		p.batch = batch
	}
	p.pending[key] = true
	p.pendingSize += len(data)
	if data == nil {
		p.batch.Delete(key)
	} else {
		o, err := p.batch.Create(ctx)
		if err != nil {
			return err
		}
		if _, err = o.Write(data); err != nil {
			return errors.Join(err, o.Discard())
		}
		if err := o.Close(); err != nil {
			return err
		}
		p.batch.Put(o, blob.Put{Key: key})
	}
	if len(p.pending) < basesBatch && p.pendingSize < basesBytes {
		return nil
	}
	return r.flushBases(ctx)
}

// flushBases commits the open batch.
func (r *run) flushBases(ctx context.Context) error {
	p := &r.patching
	if p.batch == nil {
		return nil
	}
	err := p.batch.Commit(ctx)
	return errors.Join(err, r.discardBases())
}

// discardBases drops the open batch.
func (r *run) discardBases() error {
	p := &r.patching
	if p.batch == nil {
		return nil
	}
	err := p.batch.Discard()
	p.batch, p.pendingSize = nil, 0
	clear(p.pending)
	return err
}

// unmark says that the bases are of no publication.
func (b *bases) unmark(ctx context.Context) error {
	batch, err := b.Begin(ctx)
	if err != nil {
		return err
	}
	defer batch.Discard()
	batch.Delete(markKey)
	return batch.Commit(ctx)
}

// settleBases marks the bases as those of the publication that was written, after making
// them anew if they were of another one.
func (r *run) settleBases(ctx context.Context) error {
	if r.bases == nil {
		return nil
	}
	if !r.patching.current {
		if err := r.copyBases(ctx); err != nil {
			return fmt.Errorf("copying the bytes that patches are made from: %w", err)
		}
	}
	text, err := json.Marshal(baseMark{r.last.ChangesThrough})
	if err == nil {
		_, err = blob.Write(ctx, r.bases.Dir, bytes.NewReader(text), blob.Put{Key: markKey})
	}
	if err != nil {
		return fmt.Errorf("storing the bytes that patches are made from: %w", err)
	}
	return nil
}

// copyBases makes all bases anew. A resource that has changed since the publication gets
// none: its published bytes are gone.
func (r *run) copyBases(ctx context.Context) (err error) {
	p := &r.patching
	p.pending = map[string]bool{}
	if p.contents, err = r.contents(ctx, r.now); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.discardBases()) }()
	if err := r.bases.clear(ctx); err != nil {
		return err
	}
	for m, err := range r.facts.Members(ctx, r.id) {
		if err == nil {
			err = ctx.Err()
		}
		if err == nil && m.Changed.Before(r.now) {
			var data []byte
			if data, err = p.contents.whole(ctx, m); err == nil && data != nil {
				err = r.putBase(ctx, baseKey(m.URI), data)
			}
		}
		if err != nil {
			return err
		}
	}
	return r.flushBases(ctx)
}
