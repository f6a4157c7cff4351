package packages

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"runtime"
	"sync"
	"sync/atomic"

	"instep/harvest"
	"instep/pack"
	"instep/resourcesync"
	"instep/transfer"
)

// Unpacker extracts the wanted members of packages in the order of the plan. A
// goroutine transfers packages and chunks before the workers take their members. Two
// semaphores limit the number of packages and chunks that it transfers in advance.
type Unpacker struct {
	t        *Transport
	set      string
	reader   *harvest.Reader
	members  iter.Seq2[Member, error]
	doubt    func(resourcesync.Quirk, error) // called if the manifest in a package proves that the plan comes from a wrong copy
	cancel   context.CancelFunc
	transfer sync.WaitGroup    // waits for the goroutine of run, and for one goroutine for each chunk in transfer
	packages []*plannedPackage // packages of the plan

	open    chan struct{} // semaphore that limits the number of open packages
	chunks  chan struct{} // semaphore that limits the number of chunks in memory
	readers chan struct{} // semaphore that limits the number of members that are decompressed and hashed at a time

	mu sync.Mutex // guards the counters of packages and chunks, and chunkMember.claimed
}

// packagesAtOnce is the maximum number of open packages: members are taken from one
// while the other is transferred.
const packagesAtOnce = 2

// Unpack starts to transfer the packages of a set. It iterates over members once, in
// the order of the packages. It calls doubt if the manifest in a package proves that
// the copy of the manifest, from which the plan was made, is wrong. The caller must close the returned Unpacker.
func (t *Transport) Unpack(ctx context.Context, r *harvest.Reader, set string, planned []Planned, members iter.Seq2[Member, error], doubt func(resourcesync.Quirk, error)) *Unpacker {
	ctx, cancel := context.WithCancel(ctx)
	u := &Unpacker{
		t: t, reader: r, set: set, members: members, doubt: doubt, cancel: cancel,
		open: make(chan struct{}, packagesAtOnce), chunks: make(chan struct{}, chunksAtOnce),
		// unpacking is CPU-bound, so more goroutines would not be faster
		readers: make(chan struct{}, 2*runtime.GOMAXPROCS(0)),
	}
	for i := range planned {
		p := &planned[i]
		u.packages = append(u.packages, &plannedPackage{Planned: p, ready: make(chan struct{}), left: p.Wanted})
	}
	u.transfer.Go(func() { u.run(ctx) })
	return u
}

// Close stops all transfers and closes all packages. No other method may be called
// after it.
func (u *Unpacker) Close() {
	u.cancel()
	u.transfer.Wait()
	for _, p := range u.packages {
		p.close()
		for _, c := range p.chunks {
			c.free()
		}
	}
}

func (u *Unpacker) run(ctx context.Context) {
	next, stop := iter.Pull2(u.members)
	defer stop()
	m, err, more := next()
	for i, p := range u.packages {
		if !acquire(ctx, u.open) {
			return
		}
		u.prepare(ctx, p, func(yield func(Member, error) bool) {
			for ; more && (err != nil || m.Package <= i+1); m, err, more = next() {
				if (err != nil || m.Package == i+1) && !yield(m, err) {
					return
				}
			}
		})
		opened := p.pkg // copied, because workers may set p.pkg to nil as soon as p.ready is closed
		close(p.ready)
		u.load(ctx, opened, p.chunks)
	}
}

// acquire returns false if the context ended before a slot was free.
func acquire(ctx context.Context, semaphore chan struct{}) bool {
	select {
	case semaphore <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// load transfers the chunks of a package, and waits while too many chunks are in
// memory. If one chunk fails, the later chunks of the package fail without a request.
func (u *Unpacker) load(ctx context.Context, from *Opened, chunks []*chunk) {
	var failed atomic.Pointer[error] // error of the first chunk that failed
	for _, c := range chunks {
		if !acquire(ctx, u.chunks) {
			return
		}
		u.transfer.Go(func() {
			defer close(c.loaded)
			if err := failed.Load(); err != nil {
				c.err = *err
			} else if c.err = c.load(ctx, from.remote, from.dir); c.err != nil {
				failed.CompareAndSwap(nil, &c.err)
			}
		})
	}
}

func (u *Unpacker) finishMember(p *plannedPackage) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if p.left--; p.left > 0 {
		return
	}
	if p.pkg != nil {
		p.pkg.spent = true
	}
	p.close()
	u.reportLost(p)
	<-u.open
}

func (p *plannedPackage) close() {
	if p.pkg != nil && !p.kept {
		_ = p.pkg.Leave() // an error is harmless, because no further member is read
	}
	p.pkg, p.found = nil, nil
}

// prepare opens a package and finds its members. It makes one report about an unusable
// package, so that the members fail without a message of their own.
func (u *Unpacker) prepare(ctx context.Context, p *plannedPackage, members iter.Seq2[Member, error]) {
	byParts, err := u.openPlanned(ctx, p)
	if err == nil {
		err = u.findMembers(ctx, p, byParts, members)
	}
	if p.err = err; harvest.OfSource(err) && ctx.Err() == nil {
		u.t.Tell(harvest.QuirkOf(err), u.set, harvest.Counted(p.left, "%s: %d {resource is|resources are} requested one by one, because the package cannot be used: %v", p.Ref.URI, p.left, err))
	}
}

// openPlanned opens the package unless the planner left it open. If a strong digest
// proves each member, the members may come from different versions of the package. Then
// a large package is transferred in parts, so that the mirror stores the first members
// before the last ones arrive.
func (u *Unpacker) openPlanned(ctx context.Context, p *plannedPackage) (byParts bool, err error) {
	p.pkg = p.Opened
	p.kept = p.pkg != nil
	isRemote := p.kept && p.pkg.remote != nil
	if byParts = p.Proved && p.Bytes >= LargeSize; p.Whole {
		byParts = p.Proved && (isLarge(p.Ref) || isRemote)
	}
	whole := p.Whole && !byParts
	if !p.kept || isRemote && whole {
		p.kept = false
		if p.pkg, err = u.t.open(ctx, p.Ref, whole); err != nil {
			return false, err
		}
	}
	if byParts && p.pkg.remote != nil {
		p.pkg.remote.version = ""
	}
	return byParts, nil
}

// findMembers reads the manifest of the package, except in two cases: the plan comes
// from this manifest or an equal copy, or the package is read in parts and digests
// prove all members.
func (u *Unpacker) findMembers(ctx context.Context, p *plannedPackage, byParts bool, members iter.Seq2[Member, error]) error {
	if !u.isPlanOfManifest(p) && !p.kept && (p.pkg.remote == nil || byParts || !p.Proved) {
		var err error
		if members, err = u.readManifest(ctx, p, members); err != nil {
			return err
		}
	}
	if p.pkg.remote == nil {
		return nil
	}
	var spans []span
	for a, err := range members {
		if err != nil {
			return err
		}
		known := p.known(&a)
		if b, err := p.member(&a, &known); err == nil {
			spans = append(spans, spanOf(b))
		}
	}
	chunks := chunksOf(spans)
	if costOf(chunks) > Cost(p.pkg.remote.total, 1)/4*5 {
		return u.openWhole(ctx, p)
	}
	p.chunks = chunks
	return nil
}

// openWhole transfers the whole package. It is called if the order of the members in
// the plan needs so many range requests that the whole package costs less.
func (u *Unpacker) openWhole(ctx context.Context, p *plannedPackage) error {
	before, err := p.pkg.manifestChecksum()
	if err != nil {
		return err
	}
	whole, err := u.t.openWhole(ctx, p.pkg.ref)
	if err != nil {
		return err
	}
	p.pkg, p.kept = whole, false
	if now, err := whole.manifestChecksum(); err != nil || now != before {
		return &harvest.SourceError{Err: fmt.Errorf("%s: %w", whole.ref.URI, errReplaced)}
	}
	return nil
}

// isPlanOfManifest reports whether the plan comes from a copy of the manifest that
// equals the manifest in the package.
func (u *Unpacker) isPlanOfManifest(p *plannedPackage) bool {
	if p.Copied == "" {
		return false
	}
	if sum, err := p.pkg.manifestChecksum(); err != nil || sum != p.Copied {
		return false // the error is ignored here, because readManifest returns it
	}
	u.noteUnnamed(p, p.Named)
	return true
}

func (u *Unpacker) noteUnnamed(p *plannedPackage, named int64) {
	if extra := int64(p.pkg.zip.Len()) - 1 - named; extra > 0 {
		u.t.Tell(resourcesync.QuirkManifest, u.set, harvest.Counted(extra, "%s: %d {member|members} missing from its manifest {is|are} ignored", p.pkg.ref.URI, extra))
	}
}

// readManifest reads the manifest in the package, which takes precedence over a copy.
// It consumes members, and returns a sequence of the same members that can be iterated
// over again.
func (u *Unpacker) readManifest(ctx context.Context, p *plannedPackage, members iter.Seq2[Member, error]) (iter.Seq2[Member, error], error) {
	doc, err := manifestIn(ctx, u.reader, p.pkg, resourcesync.CapabilityResourceDumpManifest, resourcesync.CapabilityChangeDumpManifest)
	if err != nil {
		return nil, err
	}
	defer doc.Close()
	var all []*Member
	wanted := map[resourcesync.Key]*Member{}
	for m, err := range members {
		if err != nil {
			return nil, err
		}
		all = append(all, &m)
		wanted[resourcesync.KeyOf(m.Want.URI)] = &m
	}
	p.found = make(map[resourcesync.Key]manifestInfo, len(all))
	named := int64(0)
	for e, err := range doc.Entries() {
		if err != nil {
			return nil, &harvest.DocumentError{URI: doc.URI, Reason: "cannot be used", Err: err}
		}
		if e.Path == "" {
			continue
		}
		named++
		if m := wanted[resourcesync.KeyOf(e.Loc)]; m != nil {
			p.record(&e, m, doc.Header.Capability)
		}
	}
	if doc.Header.Capability == resourcesync.CapabilityResourceDumpManifest && p.Named > 0 && named != p.Named {
		u.doubt(resourcesync.QuirkManifestCopy, &harvest.DocumentError{URI: doc.URI, Reason: fmt.Sprintf(
			"names %d bitstreams, but its copy outside the package names %d: nothing that depends on the copy is deleted, and the next run makes a new plan", named, p.Named)})
	}
	u.noteUnnamed(p, named)
	return func(yield func(Member, error) bool) {
		for _, m := range all {
			if !yield(*m, nil) {
				return
			}
		}
	}, nil
}

// Put is a function that stores the bytes of a member. want is the description of the
// resource, and body verifies and hashes the bytes. proved is true if a length or a
// digest proves the bytes.
type Put func(want *harvest.Resource, body io.Reader, digested *resourcesync.VerifyReader, proved bool) (int64, error)

// Take passes a member to the function put, and verifies the bytes by all known digests
// and lengths. It returns the resource with the length and digests that prove the
// bytes. whole is true if the whole package was transferred. Take may be called once
// for each member.
func (u *Unpacker) Take(ctx context.Context, m *Member, put Put) (want harvest.Resource, n int64, whole bool, err error) {
	p := u.packages[m.Package-1]
	select {
	case <-p.ready:
	case <-ctx.Done():
		return m.Want, 0, false, ctx.Err()
	}
	defer u.finishMember(p)
	want, n, err = u.put(ctx, p, m, put)
	whole = p.err == nil && p.pkg.Here()
	if err != nil && ctx.Err() == nil && harvest.OfSource(err) {
		u.countLost(p, m.Want.URI, err)
	}
	return want, n, whole, err
}

func (u *Unpacker) put(ctx context.Context, p *plannedPackage, m *Member, put Put) (harvest.Resource, int64, error) {
	if p.err != nil {
		return m.Want, 0, p.err
	}
	want, known := m.Want, p.known(m)
	if p.found[resourcesync.KeyOf(want.URI)].differs {
		want = known
	}
	b, err := p.member(m, &known)
	if err != nil {
		return want, 0, err
	}
	uri := p.pkg.ref.URI
	from, err := u.openMember(ctx, p, b, transfer.Most(&known))
	if err != nil {
		return want, 0, badPackage(uri, err)
	}
	defer from.Close()
	if !acquire(ctx, u.readers) {
		return want, 0, ctx.Err()
	}
	defer func() { <-u.readers }()
	verified := resourcesync.NewVerifyReader(from, known.Length.Int64(), known.Digests, resourcesync.SHA256)
	n, err := put(&want, memberReader{uri, verified}, verified, known.Provable())
	want.Length, want.Digests = known.Length, known.Digests // the values that proved the bytes may come from the manifest and not from the plan
	return want, n, err
}

// openMember opens a member. If range requests read the package, it waits until the
// chunk of the member is loaded.
func (u *Unpacker) openMember(ctx context.Context, p *plannedPackage, b pack.Bitstream, most int64) (io.ReadCloser, error) {
	c := u.claim(p, b)
	if c == nil {
		return b.Open(most)
	}
	select {
	case <-c.loaded:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if c.err != nil {
		u.release(c)
		return nil, c.err
	}
	r, err := c.open(b, most)
	if err != nil {
		u.release(c)
		return nil, err
	}
	return &chunkReader{r, sync.OnceFunc(func() { u.release(c) })}, nil
}

// claim returns the first chunk that has an unclaimed copy of the member, or nil.
func (u *Unpacker) claim(p *plannedPackage, b pack.Bitstream) *chunk {
	u.mu.Lock()
	defer u.mu.Unlock()
	for p.first < len(p.chunks) && p.chunks[p.first].unclaimed == 0 {
		p.first++
	}
	for _, c := range p.chunks[p.first:] {
		if c.claim(spanOf(b)) {
			return c
		}
	}
	return nil
}

// release frees the memory of a chunk after its last member was read, so that another
// chunk can be loaded.
func (u *Unpacker) release(c *chunk) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if c.unread--; c.unread == 0 {
		c.free()
		c.members, c.ranges = nil, nil
		<-u.chunks
	}
}

type chunkReader struct {
	io.ReadCloser
	release func()
}

func (r *chunkReader) Close() error {
	defer r.release()
	return r.ReadCloser.Close()
}

// memberReader turns errors about the bytes of a member into a SourceError or
// DocumentError, so that the Source is blamed for them.
type memberReader struct {
	uri string // URI of the package
	r   io.Reader
}

func (r memberReader) Read(b []byte) (int, error) {
	n, err := r.r.Read(b)
	if transfer.IsMismatch(err) {
		err = &harvest.SourceError{Err: fmt.Errorf("%s: %w", r.uri, err)}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = badPackage(r.uri, err)
	}
	return n, err
}

// countLost counts a member that could not be taken, unless the whole package is
// unusable: prepare has reported that.
func (u *Unpacker) countLost(p *plannedPackage, uri string, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if p.err != nil {
		return
	}
	if p.lost++; p.lost == 1 {
		p.lostURI, p.lostErr = uri, err
	}
}

// reportLost reports all members of a package that could not be taken in one message.
func (u *Unpacker) reportLost(p *plannedPackage) {
	if p.lost == 0 {
		return
	}
	q := harvest.QuirkOf(p.lostErr)
	if q == 0 && !harvest.IsSourceError(p.lostErr) {
		q = resourcesync.QuirkManifest
	}
	u.t.Tell(q, u.set, harvest.Counted(p.lost, "%d {member|members} could not be taken out of a package, {|such as }%s, and {was|were} requested one by one: %v", p.lost, p.lostURI, p.lostErr))
}
