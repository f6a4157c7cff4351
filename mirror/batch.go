package mirror

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"instep/blob"
	"instep/destination"
	"instep/evidence"
	"instep/harvest"
	"instep/internal/catalog"
	"instep/resourcesync"
)

// batch implements destination.Batch.
type batch struct {
	m      *Mirror
	blobs  blob.Batch
	number uint64 // batches commit in ascending order of their numbers

	mu        sync.Mutex                   // guards the rest
	entries   map[string]*entry            // changes by URI
	known     map[rowKey]*catalog.Resource // records that Expect has read from the catalog
	spent     bool
	consented bool // whether a person has approved the deletions in the batch
}

type entry struct {
	uri     string
	content *content // the new bytes of the resource; nil if the batch does not change the bytes
	claims  map[catalog.SetID]*claim
}

// content describes received bytes that are not committed yet.
type content struct {
	object   blob.Object
	length   int64
	digests  resourcesync.Digests
	verified bool
	proof    string // the algorithm of the strongest digest that the Source gave
	typ      string
	changed  time.Time
	modTime  time.Time // the modification time to set on the file; if zero, none is set

	taken string // the path of an existing file that becomes the file of the resource; "" for a new file
	note  string // the path of the file with the partNote, if the bytes come from an interrupted transfer
	found bool   // whether the bytes come from a file that did not belong to the mirror
}

// claim is a change of the membership of a resource in one set.
type claim struct {
	gone  bool
	state catalog.Membership // the new membership; after a deletion, its field Changed is the time of the deletion, if the Source states one

	noted    bool // whether to record the fields typ and verified although the batch has no new bytes
	typ      string
	verified bool
}

var errDiffers = errors.New("wrong bytes")

var errSpent = errors.New("the batch was already committed or discarded")

// Begin implements destination.Mirror.
func (m *Mirror) Begin(ctx context.Context) (destination.Batch, error) {
	if m.readOnly {
		return nil, ErrReadOnly
	}
	if err := m.checkSpace(); err != nil {
		return nil, err
	}
	blobs, err := m.bucket.Begin(ctx)
	if err != nil {
		return nil, err
	}
	return &batch{m: m, blobs: blobs, number: m.claims.newNumber(), entries: map[string]*entry{}}, nil
}

// Discard implements destination.Batch.
func (b *batch) Discard() error {
	b.mu.Lock()
	b.spent = true
	b.mu.Unlock()
	b.m.claims.release(b)
	return b.blobs.Discard()
}

// Put implements destination.Batch. It verifies the bytes itself: if they differ from
// what the Source states about them, it returns an error, even if reading r does not.
func (b *batch) Put(ctx context.Context, set string, w harvest.Resource, r io.Reader, verified bool) (int64, error) {
	var n int64
	err := b.store(ctx, set, &w, verified, func() (c *content, err error) {
		c, n, err = b.receive(ctx, &w, r)
		return c, b.m.addFull(err)
	})
	return n, err
}

// store adds the content that receive returns to the batch. It fails before calling
// receive if a file that does not belong to the mirror is at the path of the resource,
// so that no bytes are fetched in vain.
func (b *batch) store(ctx context.Context, set string, w *harvest.Resource, verified bool, receive func() (*content, error)) error {
	cl, row, err := b.admit(ctx, set, w)
	if err != nil {
		return err
	}
	stands, err := b.reusablePath(ctx, w, b.checkVacant(ctx, w, &row))
	if err != nil {
		return err
	}
	c, err := receive()
	if err == nil && stands != "" {
		c, err = b.takeIfEqual(ctx, w, stands, c)
	}
	if err != nil {
		return err
	}
	c.verified = c.verified || verified
	return b.add(w.URI, c, cl)
}

func claimOf(id catalog.SetID, w *harvest.Resource) (*claim, error) {
	remainder, err := w.Remainder.Text()
	return &claim{state: catalog.Membership{
		Set: id, URI: w.URI, Changed: w.Changed, LastMod: w.LastMod, Told: w.Told, Until: w.Until, Came: w.Came, Remainder: remainder,
	}}, err
}

type rowKey struct {
	set catalog.SetID
	uri string
}

// Expect implements destination.Batch.
func (b *batch) Expect(ctx context.Context, set string, uris []string) error {
	id, err := b.m.makeSet(ctx, set)
	if err != nil {
		return err
	}
	rows, err := b.m.facts.Lookup(ctx, id, uris)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.known == nil {
		b.known = make(map[rowKey]*catalog.Resource, len(uris))
	}
	for i, uri := range uris {
		b.known[rowKey{id, uri}] = &rows[i]
	}
	return nil
}

func (b *batch) row(ctx context.Context, id catalog.SetID, uri string) (catalog.Resource, error) {
	b.mu.Lock()
	row, ok := b.known[rowKey{id, uri}]
	b.mu.Unlock()
	if ok {
		return *row, nil
	}
	return b.m.row(ctx, id, uri)
}

// admit returns the change by which the resource becomes a member of the set, and the
// record of the resource in the catalog. It returns ErrStale if the recorded state is
// newer than the statement of the Source.
func (b *batch) admit(ctx context.Context, set string, w *harvest.Resource) (*claim, catalog.Resource, error) {
	id, err := b.m.makeSet(ctx, set)
	if err != nil {
		return nil, catalog.Resource{}, err
	}
	c, err := claimOf(id, w)
	if err != nil {
		return nil, catalog.Resource{}, err
	}
	row, err := b.row(ctx, id, w.URI)
	if err == nil && row.Member && micros(w.Changed).Before(b.m.withoutFuture(row.Changed)) {
		err = fmt.Errorf("%w: the recorded state of %q is from %s, but the Source's statement is from %s", destination.ErrStale, w.URI,
			row.Changed.Format(time.RFC3339Nano), w.Changed.UTC().Format(time.RFC3339Nano))
	}
	return c, row, err
}

// withoutFuture returns the zero time instead of a time in the future. Such a time
// comes from a wrong clock, and all later changes would look old beside it.
func (m *Mirror) withoutFuture(t time.Time) time.Time {
	if t.Equal(farFuture) {
		return t
	}
	return evidence.Placed(t, time.Time{}, m.o.Now())
}

// naturalPath returns the path of a resource. For a new resource it returns the path
// without a hash, which the resource gets unless a file of the mirror is already there.
func (m *Mirror) naturalPath(uri string, row *catalog.Resource) (string, error) {
	if row.URI != "" {
		return row.Path, nil
	}
	segments, err := m.segments(uri)
	if err != nil {
		return "", err
	}
	return unhashedPath(segments), nil
}

// checkVacant returns an error if a file that does not belong to the mirror is at the
// path of the resource. A file of the mirror is no obstacle, since the commit then gives
// the resource another path. With Options.Adopt no file is an obstacle, since the commit
// moves the file to the trash.
func (b *batch) checkVacant(ctx context.Context, w *harvest.Resource, row *catalog.Resource) error {
	m := b.m
	path, err := m.naturalPath(w.URI, row)
	if err != nil {
		return err
	}
	k, at, err := m.look(ctx, path)
	if err != nil || k == absent || k == file && at == path && row.Stored {
		return err
	}
	if row.URI == "" {
		if k == stateDir {
			return nil // no obstacle, since the commit gives the resource a path outside of the state directory
		}
		known, err := m.isNamed(ctx, at)
		if err != nil || known {
			return err
		}
	}
	if m.o.Adopt && k == file && at == path && m.claims.reservePlace(path, b) {
		return nil
	}
	if k == file && !row.Stored {
		if ours, err := m.justStored(ctx, w.URI, at); ours || err != nil {
			return err
		}
	}
	return &occupiedError{uri: w.URI, path: path, kind: k, at: at}
}

// occupiedError says what occupies the path of a resource, or a parent of that path.
type occupiedError struct {
	uri, path string
	kind      kind
	at        string
}

func (e *occupiedError) Error() string {
	return fmt.Sprintf("path %q of %q is %v: there is a %s at %q", e.path, e.uri, destination.ErrOccupied, e.kind, e.at)
}

func (e *occupiedError) Unwrap() error { return destination.ErrOccupied }

// justStored waits for a running commit. Then it reports whether the given URI has a
// file at path. If the URI has no path yet, it reports whether another resource has
// this path.
func (m *Mirror) justStored(ctx context.Context, uri, path string) (bool, error) {
	if err := m.lockCommit(ctx); err != nil {
		return false, err
	}
	defer m.unlockCommit()
	row, err := m.row(ctx, 0, uri)
	if err != nil || row.URI != "" {
		return row.Stored && row.Path == path, err
	}
	return m.isNamed(ctx, path)
}

func (m *Mirror) isNamed(ctx context.Context, path string) (bool, error) {
	names, fold := m.own.Names(ctx), m.names.key(path)
	if ok, err := names.File(fold); ok || err != nil {
		return ok, err
	}
	_, ok, err := names.Directory(fold)
	return ok, err
}

var buffers = sync.Pool{New: func() any { return new([64 << 10]byte) }}

func (b *batch) receive(ctx context.Context, w *harvest.Resource, r io.Reader) (*content, int64, error) {
	o, err := b.blobs.Create(ctx)
	if err != nil {
		return nil, 0, err
	}
	to, digests := hashing(w, o, r)
	buf := buffers.Get().(*[64 << 10]byte)
	defer buffers.Put(buf)
	n, err := io.CopyBuffer(to, &contextReader{ctx, r}, buf[:])
	if err == nil {
		err = o.Close()
	}
	if err != nil {
		return nil, n, errors.Join(err, o.Discard())
	}
	c, err := b.contentOf(w, o, n, digests())
	return c, n, err
}

// contentOf returns the content with the bytes of the object. If the digests or the
// length n differ from what the Source states, it discards the object and returns an
// error.
func (b *batch) contentOf(w *harvest.Resource, o blob.Object, n int64, digests resourcesync.Digests) (*content, error) {
	how, proof := differs(w, n, digests)
	if how != "" {
		return nil, errors.Join(fmt.Errorf("%w for %q: %s", errDiffers, w.URI, how), o.Discard())
	}
	c := &content{object: o, length: n, digests: digests, verified: proof, proof: proofOf(w.Digests), typ: w.Type, changed: micros(w.Changed)}
	if b.m.flat == nil { // several resources may share a file of the flat layout, so it cannot have the time of one of them
		c.modTime = modTime(w, b.m.o.Now())
	}
	return c, nil
}

type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c *contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, context.Cause(c.ctx)
	}
	return c.r.Read(p)
}

// add adds to the batch a change of one membership and, unless it is nil, the content
// c. The last change of a membership replaces earlier ones. If there are several
// contents for one URI, add keeps the content with the latest time of change.
func (b *batch) add(uri string, c *content, cl *claim) error {
	if err := b.m.checkContentPath(c); err != nil {
		return errors.Join(err, c.object.Discard())
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.spent {
		return errSpent
	}
	e := b.entries[uri]
	if e == nil {
		e = &entry{uri: uri, claims: map[catalog.SetID]*claim{}}
		b.entries[uri] = e
	}
	e.claims[cl.state.Set] = cl
	switch {
	case c == nil:
		return nil
	case e.content == nil:
		e.content = c
		return nil
	case c.changed.Before(e.content.changed):
		return c.object.Discard()
	}
	old := e.content
	e.content = c
	return old.object.Discard()
}

// Copy implements destination.Batch.
func (b *batch) Copy(ctx context.Context, set string, w harvest.Resource, from string) (n int64, err error) {
	row, err := b.m.row(ctx, 0, from)
	if err != nil {
		return 0, err
	}
	r, err := b.m.open(ctx, from, &row)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	length, digests := row.Length, row.Digests
	if w.Length.Known() {
		length = w.Length
	}
	digests = append(slices.Clone(digests), w.Digests...)
	verified := resourcesync.NewVerifyReader(r, length.Int64(), digests)
	return b.Put(ctx, set, w, verified, false)
}

// Mark implements destination.Batch.
func (b *batch) Mark(ctx context.Context, set string, w harvest.Resource) error {
	c, row, err := b.admit(ctx, set, &w)
	if err != nil {
		return err
	}
	if !row.Stored {
		return fmt.Errorf("%w: the mirror has no bytes of %q to mark as verified", destination.ErrNotHeld, w.URI)
	}
	how, proof := differs(&w, row.Length.Int64(), row.Digests)
	if how != "" {
		return fmt.Errorf("%w of %q: %s", destination.ErrNotHeld, w.URI, how)
	}
	c.typ, c.verified = row.Type, row.Verified || proof
	if w.Type != "" {
		c.typ = w.Type
	}
	c.noted = c.typ != row.Type || c.verified != row.Verified
	return b.add(w.URI, nil, c)
}

// Due implements destination.Batch. The next run fetches the resource as described in
// w, unless the catalog has a later statement of the Source.
func (b *batch) Due(ctx context.Context, set string, w harvest.Resource, reason string) error {
	if reason == "" {
		return fmt.Errorf("expected a reason for marking %q as due, found none", w.URI)
	}
	id, err := b.m.makeSet(ctx, set)
	if err != nil {
		return err
	}
	row, err := b.row(ctx, id, w.URI)
	if err != nil {
		return err
	}
	if row.URI == "" {
		if _, err := b.m.segments(w.URI); err != nil {
			return err
		}
	}
	c, err := claimOf(id, &w)
	if err != nil {
		return err
	}
	c.state.Due, c.state.Came = reason, time.Time{}
	switch {
	case !row.Member || !micros(w.Changed).Before(b.m.withoutFuture(row.Changed)):
		c.state.Wanted, err = encodeWanted(&w)
	case row.Due != "":
		c.state.Changed, c.state.LastMod, c.state.Remainder, c.state.Wanted, c.state.Told = row.Changed, row.LastMod, row.Remainder, row.Wanted, false
	default:
		c.state.Changed, c.state.LastMod, c.state.Remainder, c.state.Told = row.Changed, row.LastMod, row.Remainder, false
		c.state.Wanted, err = b.m.statedOf(ctx, &row)
	}
	if err != nil {
		return err
	}
	if row.Member && row.Stored {
		c.state.LastMod, c.state.Remainder = row.LastMod, row.Remainder // the stored bytes remain, and these two fields describe them
	}
	return b.add(w.URI, nil, c)
}

// Delete implements destination.Batch.
func (b *batch) Delete(ctx context.Context, set, uri string, when time.Time) error {
	id, err := b.m.makeSet(ctx, set)
	if err != nil {
		return err
	}
	return b.add(uri, nil, &claim{gone: true, state: catalog.Membership{Set: id, URI: uri, Changed: when}})
}

// Consent implements destination.Batch.
func (b *batch) Consent() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.consented = true
}
