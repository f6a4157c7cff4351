package destination

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"runtime"
	"sync"

	"instep/harvest"
	"instep/pack"
	"instep/resourcesync"
	"instep/transfer"
)

// unpacker brings the members of packages that a plan wants, in the order of the plan. A
// goroutine transfers packages and chunks ahead of the workers that take the members; two
// semaphores bound how far ahead.
type unpacker struct {
	d        *Destination
	plan     *SetPlan
	doubt    func(resourcesync.Quirk, error) // told that the plan was made by something wrong
	cancel   context.CancelFunc
	transfer sync.WaitGroup    // the goroutine, and one for each chunk that is transferred
	packages []*plannedPackage // those of the plan

	open    chan struct{} // semaphore: packages that are open
	chunks  chan struct{} // semaphore: chunks in memory
	readers chan struct{} // semaphore: members that are decompressed and hashed

	mu sync.Mutex // guards the counts and claims of packages and chunks
}

// plannedPackage is a package of the plan.
type plannedPackage struct {
	*Package
	ready  chan struct{} // closed when the fields up to chunks are set
	pkg    *openedPackage
	kept   bool                              // the plan closes pkg
	err    error                             // why the package cannot be used
	found  map[resourcesync.Key]manifestInfo // of the wanted resources, in the manifest of the package; nil if it was not read
	chunks []*chunk                          // of a remote package

	first   int   // of chunks: those before it have no unclaimed members
	left    int64 // actions that have not taken their member
	lost    int64 // members that could not be taken
	lostURI string
	lostErr error // of the first
}

// manifestInfo is an entry of the manifest in a package.
type manifestInfo struct {
	path    string
	length  resourcesync.Length
	digests resourcesync.Digests
	differs bool // from the copy of the manifest that made the plan
}

// packagesAtOnce are open: one is unpacked while the next one is transferred.
const packagesAtOnce = 2

// unpack starts to bring the packages of a plan. Close what it returns.
func (d *Destination) unpack(ctx context.Context, plan *SetPlan, doubt func(resourcesync.Quirk, error)) *unpacker {
	ctx, cancel := context.WithCancel(ctx)
	u := &unpacker{
		d: d, plan: plan, doubt: doubt, cancel: cancel,
		open: make(chan struct{}, packagesAtOnce), chunks: make(chan struct{}, chunksAtOnce),
		readers: make(chan struct{}, 2*runtime.GOMAXPROCS(0)), // this is CPU-bound: more at once take longer
	}
	for i := range plan.Packages {
		p := &plan.Packages[i]
		u.packages = append(u.packages, &plannedPackage{Package: p, ready: make(chan struct{}), left: p.Wanted})
	}
	u.transfer.Go(func() { u.run(ctx) })
	return u
}

// close ends all transfers and closes all packages. No worker may use the unpacker any more.
func (u *unpacker) close() {
	u.cancel()
	u.transfer.Wait()
	for _, p := range u.packages {
		p.close()
		for _, c := range p.chunks {
			c.free()
		}
	}
}

// run opens the packages and loads their chunks.
func (u *unpacker) run(ctx context.Context) {
	members, stop := u.plan.members()
	defer stop()
	for i, p := range u.packages {
		if !acquire(ctx, u.open) {
			return
		}
		u.prepare(ctx, p, i+1, members(i+1))
		opened := p.pkg // the workers may be done with p at once
		close(p.ready)
		u.load(ctx, opened, p.chunks)
	}
}

// acquire takes a place of a semaphore; false if ctx ended.
func acquire(ctx context.Context, semaphore chan struct{}) bool {
	select {
	case semaphore <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// load starts to load the chunks of a package, as far as there is room. After one that
// failed the others fail without a request.
func (u *unpacker) load(ctx context.Context, from *openedPackage, chunks []*chunk) {
	var once sync.Once
	var failed error
	broken := make(chan struct{})
	for _, c := range chunks {
		if !acquire(ctx, u.chunks) {
			return
		}
		u.transfer.Go(func() {
			defer close(c.loaded)
			select {
			case <-broken:
				c.err = failed
				return
			default:
			}
			if c.err = c.load(ctx, from.remote, from.dir); c.err != nil {
				once.Do(func() { failed = c.err; close(broken) })
			}
		})
	}
}

// members reads the actions of a plan that take members of packages, once, in the order of
// the packages: of yields those of one package.
func (s *SetPlan) members() (of func(number int) iter.Seq2[Action, error], stop func()) {
	next, stop := iter.Pull2(func(yield func(Action, error) bool) {
		for a, err := range s.Actions() {
			if (err != nil || a.packaged()) && !yield(a, err) {
				return
			}
		}
	})
	a, err, more := next()
	return func(number int) iter.Seq2[Action, error] {
		return func(yield func(Action, error) bool) {
			for ; more && (err != nil || a.Package <= number); a, err, more = next() {
				if (err != nil || a.Package == number) && !yield(a, err) {
					return
				}
			}
		}
	}, stop
}

// packaged reports whether the bytes of an action come out of a package.
func (a *Action) packaged() bool { return a.Via == ViaDump || a.Via == ViaRange }

// done counts an action that has taken its member. The last one closes the package.
func (u *unpacker) done(p *plannedPackage) {
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
		_ = p.pkg.leave() // everything was read that is needed
	}
	p.pkg, p.found = nil, nil
}

// prepare opens a package and finds the members that the actions want. One that cannot be
// used is one note for all of them.
func (u *unpacker) prepare(ctx context.Context, p *plannedPackage, number int, actions iter.Seq2[Action, error]) {
	byParts, err := u.openPlanned(ctx, p, number)
	if err == nil {
		err = u.find(ctx, p, byParts, actions)
	}
	if p.err = err; harvest.OfSource(err) && ctx.Err() == nil {
		u.d.quirk(harvest.QuirkOf(err), u.plan.Set, fmt.Sprintf("%s: %d resources are requested one by one, as the package cannot be had: %v", p.URI, p.left, err))
	}
}

// openPlanned opens a package, unless it is open since the plan. If a strong digest proves
// each member, any version of a package will do, and a large one comes by parts: its first
// members are in the mirror before the last ones come.
func (u *unpacker) openPlanned(ctx context.Context, p *plannedPackage, number int) (byParts bool, err error) {
	ref := &harvest.PackageRef{URI: p.URI, Length: p.Length, Digests: p.Digests}
	p.pkg = u.plan.opened[number]
	p.kept = p.pkg != nil
	isRemote := p.kept && p.pkg.remote != nil
	if byParts = p.proved && p.Bytes >= largePackageSize; p.Via == ViaDump {
		byParts = p.proved && (isLarge(ref) || isRemote)
	}
	whole := p.Via == ViaDump && !byParts
	if !p.kept || isRemote && whole {
		p.kept = false
		if p.pkg, err = u.d.packages().open(ctx, ref, whole); err != nil {
			return false, err
		}
	}
	if byParts && p.pkg.remote != nil {
		p.pkg.remote.version = ""
	}
	return byParts, nil
}

// find finds the members in the package. It reads the manifest in it, unless the plan was
// made by that one or an equal copy, or digests prove all members of parts of a package.
func (u *unpacker) find(ctx context.Context, p *plannedPackage, byParts bool, actions iter.Seq2[Action, error]) error {
	if !u.madeBy(p) && !p.kept && (p.pkg.remote == nil || byParts || !p.proved) {
		var err error
		if actions, err = u.readManifest(ctx, p, actions); err != nil {
			return err
		}
	}
	if p.pkg.remote == nil {
		return nil
	}
	var spans []span
	for a, err := range actions {
		if err != nil {
			return err
		}
		known := p.known(&a)
		if b, err := p.member(&a, &known); err == nil {
			spans = append(spans, spanOf(b))
		}
	}
	if p.chunks = chunksOf(spans); costOf(p.chunks) > cost(p.pkg.remote.total, 1)/4*5 {
		return u.openWhole(ctx, p)
	}
	return nil
}

// openWhole replaces a remote package by the whole of it: its members are in such an order
// that parts cost more.
func (u *unpacker) openWhole(ctx context.Context, p *plannedPackage) error {
	before, err := p.pkg.manifestChecksum()
	if err != nil {
		return err
	}
	whole, err := u.d.packages().openWhole(ctx, &p.pkg.ref)
	if err != nil {
		return err
	}
	p.pkg, p.kept, p.chunks = whole, false, nil
	if now, err := whole.manifestChecksum(); err != nil || now != before {
		return &harvest.SourceError{Err: fmt.Errorf("%s: %w", whole.ref.URI, errReplaced)}
	}
	return nil
}

// madeBy reports whether the plan was made by a copy of the manifest in the package.
func (u *unpacker) madeBy(p *plannedPackage) bool {
	if p.copied == (checksum{}) {
		return false
	}
	if sum, err := p.pkg.manifestChecksum(); err != nil || sum != p.copied {
		return false // reading the manifest will say what is wrong
	}
	u.noteUnnamed(p, p.members)
	return true
}

// noteUnnamed tells of members that the manifest, which names so many, does not name.
func (u *unpacker) noteUnnamed(p *plannedPackage, named int64) {
	if extra := int64(p.pkg.zip.Len()) - 1 - named; extra > 0 {
		u.d.quirk(resourcesync.QuirkManifest, u.plan.Set, fmt.Sprintf("%s: %d members that its manifest does not name are left alone", p.pkg.ref.URI, extra))
	}
}

// readManifest reads the manifest in the package. It counts, not the copy that the plan may
// have been made by. It returns the actions, which can be read once.
func (u *unpacker) readManifest(ctx context.Context, p *plannedPackage, actions iter.Seq2[Action, error]) (iter.Seq2[Action, error], error) {
	doc, err := manifestIn(ctx, u.d.reader(&scope{}), p.pkg, resourcesync.CapabilityResourceDumpManifest, resourcesync.CapabilityChangeDumpManifest)
	if err != nil {
		return nil, err
	}
	defer doc.Close()
	var all []*Action
	wanted := map[resourcesync.Key]*Action{}
	for a, err := range actions {
		if err != nil {
			return nil, err
		}
		all = append(all, &a)
		wanted[resourcesync.KeyOf(a.Want.URI)] = &a
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
		if a := wanted[resourcesync.KeyOf(e.Loc)]; a != nil {
			p.record(&e, a, doc.Header.Capability)
		}
	}
	if doc.Header.Capability == resourcesync.CapabilityResourceDumpManifest && p.members > 0 && named != p.members {
		u.doubt(resourcesync.QuirkManifestCopy, &harvest.DocumentError{URI: doc.URI, Reason: fmt.Sprintf(
			"names %d bitstreams and its copy %d: nothing is deleted on the word of the copy, and the next run begins anew", named, p.members)})
	}
	u.noteUnnamed(p, named)
	return func(yield func(Action, error) bool) {
		for _, a := range all {
			if !yield(*a, nil) {
				return
			}
		}
	}, nil
}

// record records an entry of the manifest. That of a Resource Dump overrides its copy; that
// of a Change Dump does not override a Change List.
func (p *plannedPackage) record(e *resourcesync.Entry, a *Action, manifest resourcesync.Capability) {
	key := resourcesync.KeyOf(e.Loc)
	differs := !agrees(e, &a.Want)
	if differs && manifest != resourcesync.CapabilityResourceDumpManifest {
		return
	}
	if f, known := p.found[key]; !known || !differs && (f.differs || e.Path == a.Member) {
		p.found[key] = manifestInfo{e.Path, e.Length, e.Digests, differs}
	}
}

// agrees reports whether an entry of a manifest does not contradict what is wanted.
func agrees(e *resourcesync.Entry, w *harvest.Resource) bool {
	if e.Length.Known() && w.Length.Known() && e.Length != w.Length {
		return false
	}
	for _, d := range e.Digests {
		if want := w.Digests.Get(d.Algorithm()); !want.IsZero() && want != d {
			return false
		}
	}
	return true
}

// known is what the plan and the manifest in the package say of a resource, together.
func (p *plannedPackage) known(a *Action) harvest.Resource {
	w := a.Want
	f, ok := p.found[resourcesync.KeyOf(w.URI)]
	switch {
	case !ok:
		return w
	case f.differs:
		w.Length, w.Digests = f.length, f.digests
		return w
	case !w.Length.Known():
		w.Length = f.length
	}
	for _, d := range f.digests {
		if w.Digests.Get(d.Algorithm()).IsZero() {
			w.Digests = append(w.Digests[:len(w.Digests):len(w.Digests)], d)
		}
	}
	return w
}

// member finds the member that an action wants, of which this is known, if it may be taken. One
// that is too large is refused before it is transferred.
func (p *plannedPackage) member(a *Action, known *harvest.Resource) (pack.Bitstream, error) {
	path, why := a.Member, ""
	f, ok := p.found[resourcesync.KeyOf(a.Want.URI)]
	if ok {
		path = f.path
	}
	b, has := p.pkg.find(path, a.Want.Digests.Strong())
	switch {
	case p.found != nil && (!ok || !has):
		why = fmt.Sprintf("has no member for %s as it should be, by its manifest", a.Want.URI)
	case !has:
		why = fmt.Sprintf("has no member %q", a.Member)
	case !p.pkg.remote.safe(known):
		why = fmt.Sprintf("may be of several versions, and no sha-256 proves the member %q", a.Member)
	default:
		return b, p.pkg.fits(b, most(known))
	}
	return b, &harvest.DocumentError{URI: p.pkg.ref.URI, Reason: why}
}

// most returns how many bytes are taken of the member for a resource of which this is known.
func most(known *harvest.Resource) int64 {
	if known.Length.Known() {
		return known.Length.Int64() + slack
	}
	return maxResource
}

// fromPackage brings the bytes of an action out of its package into a batch, verified. If
// that fails for a reason of the Source, the action becomes a request for the resource, and
// the error says why.
func (r *runner) fromPackage(ctx context.Context, b Batch, a *Action) (int64, error) {
	u := r.unpacker
	p := u.packages[a.Package-1]
	select {
	case <-p.ready:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	defer u.done(p)
	if timed(&a.Want) {
		a.Want.Came = r.d.Client.Now() // the times are those of the entry, whenever the bytes were packed
	}
	n, err := u.put(ctx, b, p, a)
	if p.err == nil && p.pkg.remote == nil {
		a.Via = ViaDump // also where parts were planned
	}
	if err == nil || ctx.Err() != nil || !harvest.OfSource(err) {
		return n, err
	}
	u.lose(p, a.Want.URI, err)
	a.Via, a.Package, a.Member = ViaGet, 0, ""
	return 0, err
}

// put puts a member into a batch, verified by all that is known of it.
func (u *unpacker) put(ctx context.Context, b Batch, p *plannedPackage, a *Action) (int64, error) {
	if p.err != nil {
		return 0, p.err
	}
	want, known := a.Want, p.known(a)
	if p.found[resourcesync.KeyOf(want.URI)].differs {
		want = known
	}
	m, err := p.member(a, &known)
	if err != nil {
		return 0, err
	}
	uri := p.pkg.ref.URI
	from, err := u.openMember(ctx, p, m, most(&known))
	if err != nil {
		return 0, badPackage(uri, err)
	}
	defer from.Close()
	if !acquire(ctx, u.readers) {
		return 0, ctx.Err()
	}
	defer func() { <-u.readers }()
	verified := resourcesync.NewVerifyReader(from, known.Length.Int64(), known.Digests, resourcesync.SHA256)
	n, err := b.Put(ctx, u.plan.Set, want, hashedReader{memberReader{uri, verified}, verified}, known.Provable())
	if err == nil {
		a.Want = want
		a.Want.Length, a.Want.Digests = known.Length, known.Digests // by which the bytes were proved
	}
	return n, err
}

// openMember opens a member, once its chunk is loaded if the package is remote.
func (u *unpacker) openMember(ctx context.Context, p *plannedPackage, b pack.Bitstream, most int64) (io.ReadCloser, error) {
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

// claim claims a member from the first chunk that has it; nil if none has.
func (u *unpacker) claim(p *plannedPackage, b pack.Bitstream) *chunk {
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

// release gives a claimed member back. With the last one its chunk makes room for another.
func (u *unpacker) release(c *chunk) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if c.unread--; c.unread == 0 {
		c.free()
		c.members = nil
		<-u.chunks
	}
}

// chunkReader reads a member of a chunk.
type chunkReader struct {
	io.ReadCloser
	release func()
}

// Close releases the member.
func (r *chunkReader) Close() error {
	defer r.release()
	return r.ReadCloser.Close()
}

// memberReader marks what is wrong with the bytes of a member as an error of the Source.
type memberReader struct {
	uri string // of the package
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

// lose counts a member that could not be taken, unless the whole package was noted.
func (u *unpacker) lose(p *plannedPackage, uri string, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if p.err != nil {
		return
	}
	if p.lost++; p.lost == 1 {
		p.lostURI, p.lostErr = uri, err
	}
}

// reportLost notes the members that could not be taken, once for a package.
func (u *unpacker) reportLost(p *plannedPackage) {
	if p.lost == 0 {
		return
	}
	q := harvest.QuirkOf(p.lostErr)
	if q == 0 && !harvest.IsSourceError(p.lostErr) {
		q = resourcesync.QuirkManifest
	}
	u.d.quirk(q, u.plan.Set, fmt.Sprintf("%d members could not be taken out of a package, such as %s, and were requested one by one: %v", p.lost, p.lostURI, p.lostErr))
}
