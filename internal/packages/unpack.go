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
// semaphores limit how far it runs ahead.
type Unpacker struct {
	t        *Transport
	set      string
	reader   *harvest.Reader
	members  iter.Seq2[Member, error]
	doubt    func(resourcesync.Quirk, error) // called with an error which shows that the plan is based on a wrong document
	cancel   context.CancelFunc
	transfer sync.WaitGroup    // counts the goroutine that executes run, and one goroutine for each chunk in transfer
	packages []*plannedPackage // packages of the plan

	open    chan struct{} // semaphore for open packages
	chunks  chan struct{} // semaphore for chunks in memory
	readers chan struct{} // semaphore for members that are being decompressed and hashed

	mu sync.Mutex // guards the counters and claims of packages and chunks
}

// packagesAtOnce is the maximum number of open packages: members of one are taken while
// another is transferred.
const packagesAtOnce = 2

// Unpack starts to transfer the packages of a set. It iterates over members once, in
// the order of the packages. It calls doubt with an error which shows that the plan is
// based on a wrong document. The caller must close the returned Unpacker.
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

// Close stops all transfers and closes all packages. It must be the last call.
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
		opened := p.pkg // a copy, because workers may set p.pkg to nil as soon as ready is closed
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

// load waits while too many chunks are in memory. After a failed chunk, the remaining
// chunks fail without a request.
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

// finishMember closes the package after its last member.
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
		_ = p.pkg.Leave() // an error does no harm, because all wanted members were read
	}
	p.pkg, p.found = nil, nil
}

// prepare reports an unusable package once, and not for each member.
func (u *Unpacker) prepare(ctx context.Context, p *plannedPackage, members iter.Seq2[Member, error]) {
	byParts, err := u.openPlanned(ctx, p)
	if err == nil {
		err = u.find(ctx, p, byParts, members)
	}
	if p.err = err; harvest.OfSource(err) && ctx.Err() == nil {
		u.t.Tell(harvest.QuirkOf(err), u.set, harvest.Counted(p.left, "%s: %d {resource is|resources are} requested one by one, because the package cannot be used: %v", p.Ref.URI, p.left, err))
	}
}

// openPlanned opens a package unless it is still open from planning. If a strong digest
// proves each member, they may come from different versions of the package. Then a
// large package is transferred in parts, so that the mirror has its first members
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

// find reads the manifest of the package, except in two cases: the plan is based on
// this manifest or an equal copy, or the package is read in parts and digests prove all
// members.
func (u *Unpacker) find(ctx context.Context, p *plannedPackage, byParts bool, members iter.Seq2[Member, error]) error {
	if !u.madeBy(p) && !p.kept && (p.pkg.remote == nil || byParts || !p.Proved) {
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
	if p.chunks = chunksOf(spans); costOf(p.chunks) > Cost(p.pkg.remote.total, 1)/4*5 {
		return u.openWhole(ctx, p)
	}
	return nil
}

// openWhole is used if range requests would cost more, because the plan determines the
// order of the members.
func (u *Unpacker) openWhole(ctx context.Context, p *plannedPackage) error {
	before, err := p.pkg.manifestChecksum()
	if err != nil {
		return err
	}
	whole, err := u.t.openWhole(ctx, p.pkg.ref)
	if err != nil {
		return err
	}
	p.pkg, p.kept, p.chunks = whole, false, nil
	if now, err := whole.manifestChecksum(); err != nil || now != before {
		return &harvest.SourceError{Err: fmt.Errorf("%s: %w", whole.ref.URI, errReplaced)}
	}
	return nil
}

// madeBy reports whether the plan is based on a copy of the manifest that equals the
// one in the package.
func (u *Unpacker) madeBy(p *plannedPackage) bool {
	if p.Copied == "" {
		return false
	}
	if sum, err := p.pkg.manifestChecksum(); err != nil || sum != p.Copied {
		return false // readManifest reports the error
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
// It iterates over members, and returns a sequence of the same members that can be used
// again.
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
			"names %d bitstreams, but its copy outside the package names %d: nothing is deleted because of the copy, and the next run makes a new plan", named, p.Named)})
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

// Put stores the bytes of a member as the resource want. The reader body verifies and
// hashes the bytes. proved means that a length or a digest proves them.
type Put func(want *harvest.Resource, body io.Reader, digested *resourcesync.VerifyReader, proved bool) (int64, error)

// Take passes a member to the function put, and verifies it by all known digests and
// lengths. It returns the resource with the length and digests that prove its bytes.
// whole means that the whole package was transferred. Each member may be taken once.
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
		u.lose(p, m.Want.URI, err)
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
	want.Length, want.Digests = known.Length, known.Digests // the values that prove the bytes
	return want, n, err
}

// openMember waits until the chunk of a remote member is loaded.
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

// claim uses the first chunk with an unclaimed copy of the member. It returns nil if
// there is none.
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

// release frees the memory of a chunk after its last member, so that another chunk can
// be loaded.
func (u *Unpacker) release(c *chunk) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if c.unread--; c.unread == 0 {
		c.free()
		c.members = nil
		<-u.chunks
	}
}

// chunkReader releases the member of a chunk when it is closed.
type chunkReader struct {
	io.ReadCloser
	release func()
}

func (r *chunkReader) Close() error {
	defer r.release()
	return r.ReadCloser.Close()
}

// memberReader turns errors about the bytes of a member into errors of the Source.
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

// lose counts a member that could not be taken, unless the whole package is unusable,
// which is reported elsewhere.
func (u *Unpacker) lose(p *plannedPackage, uri string, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if p.err != nil {
		return
	}
	if p.lost++; p.lost == 1 {
		p.lostURI, p.lostErr = uri, err
	}
}

// reportLost makes one message for all members of a package that could not be taken.
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
