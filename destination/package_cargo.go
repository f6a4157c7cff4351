package destination

import (
	"context"
	"fmt"
	"io"
	"iter"
	"runtime"
	"sync"

	"instep/pack"
	"instep/resourcesync"
)

// freight brings the packages that a plan takes members from, in their order: while the
// actions of one take theirs, the next one is transferred.
type freight struct {
	r      *runner
	cancel context.CancelFunc
	ended  chan struct{} // closed when no further package comes
	places chan struct{} // one for each package that is here or coming
	hands  chan struct{} // one for each member that is unpacked

	mu     sync.Mutex
	cargos map[int]*cargo // by the number of the package
}

// cargo is what came of one package.
type cargo struct {
	number int
	came   chan struct{} // closed when the rest of the fields is there
	pkg    *openedPackage
	kept   bool  // the plan keeps the package open
	flow   *flow // brings the members; nil: they are here
	err    error
	told   map[resourcesync.Key]told // what its manifest says of the members that are wanted; nil if it was not asked

	left int64 // actions that have not taken theirs yet
	lost missed
}

// told is what the manifest in a package says of a resource.
type told struct {
	path    string
	length  resourcesync.Length
	digests resourcesync.Digests
	other   bool // than the copy said by which the plan was made
}

// missed counts the members of a package that had to be fetched otherwise.
type missed struct {
	n   int
	uri string // of the first
	err error
}

// packagesAtOnce are here or coming: the present one and the next.
const packagesAtOnce = 2

// carry begins to bring the packages of the plan. Close what it returns. Members are not
// unpacked by as many as may wait for a server: this is work, and who does it at the same
// time stands in the way of the others.
func (r *runner) carry(ctx context.Context) *freight {
	ctx, cancel := context.WithCancel(ctx)
	f := &freight{
		r: r, cancel: cancel, ended: make(chan struct{}), cargos: map[int]*cargo{},
		places: make(chan struct{}, packagesAtOnce), hands: make(chan struct{}, 2*runtime.GOMAXPROCS(0)),
	}
	go func() {
		defer close(f.ended)
		f.run(ctx)
	}()
	return f
}

// close ends what is under way and gives all packages back.
func (f *freight) close() {
	f.cancel()
	<-f.ended
	for _, c := range f.cargos {
		c.close()
	}
}

func (f *freight) run(ctx context.Context) {
	wanted := f.r.sp.packaged()
	defer wanted.stop()
	for i := range f.r.sp.Packages {
		select {
		case f.places <- struct{}{}:
		case <-ctx.Done():
			return
		}
		c := f.cargo(i + 1)
		c.left = f.r.sp.Packages[i].Wanted
		c.load(ctx, f.r, wanted.of(c.number))
		if c.err != nil && ctx.Err() != nil {
			return
		}
		close(c.came)
	}
}

// wantedMembers reads the actions of a plan that take members of packages, in the order of
// the packages. Those of one package can be read once.
type wantedMembers struct {
	next  func() (Action, error, bool)
	stop  func()
	ahead *Action // was read, and is of a later package
}

func (s *SetPlan) packaged() *wantedMembers {
	m := &wantedMembers{}
	m.next, m.stop = iter.Pull2(func(yield func(Action, error) bool) {
		for a, err := range s.Actions() {
			if (err != nil || a.packaged()) && !yield(a, err) {
				return
			}
		}
	})
	return m
}

// of yields the actions of a package.
func (m *wantedMembers) of(number int) iter.Seq2[Action, error] {
	return func(yield func(Action, error) bool) {
		for {
			if m.ahead == nil {
				a, err, more := m.next()
				if err != nil {
					yield(a, err)
				}
				if err != nil || !more {
					return
				}
				m.ahead = &a
			}
			a := *m.ahead
			if a.Package > number {
				return
			}
			m.ahead = nil
			if a.Package == number && !yield(a, nil) {
				return
			}
		}
	}
}

// packaged reports whether the bytes of an action come out of a package.
func (a *Action) packaged() bool { return a.Via == ViaDump || a.Via == ViaRange }

// cargo is that of a package, whether it came or not.
func (f *freight) cargo(number int) *cargo {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.cargos[number]
	if c == nil {
		c = &cargo{number: number, came: make(chan struct{})}
		f.cargos[number] = c
	}
	return c
}

// take waits for a package. Give it back.
func (f *freight) take(ctx context.Context, number int) (*cargo, error) {
	c := f.cargo(number)
	select {
	case <-c.came:
		return c, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-f.ended:
	}
	select {
	case <-c.came: // just before the end
		return c, nil
	default:
		return nil, fmt.Errorf("package %d of the plan was not brought", number)
	}
}

// give gives a package back after an action has taken its member. After the last one
// there is room for another package.
func (f *freight) give(c *cargo) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c.left--; c.left > 0 {
		return
	}
	delete(f.cargos, c.number)
	if c.pkg != nil {
		c.pkg.spent = true
	}
	c.close()
	c.tell(f.r)
	<-f.places
}

func (c *cargo) close() {
	c.flow.close()
	if c.pkg != nil && !c.kept {
		_ = c.pkg.leave() // of no consequence: everything was read that is needed
	}
}

// load opens the package and brings what these actions want of it, or begins to.
func (c *cargo) load(ctx context.Context, r *runner, actions iter.Seq2[Action, error]) {
	p := &r.sp.Packages[c.number-1]
	if c.err = c.bring(ctx, r, p, actions); !ofSource(c.err) || ctx.Err() != nil {
		return
	}
	r.d.quirk(quirkOf(c.err), r.sp.Set, fmt.Sprintf("%s: %d resources are requested one by one, as the package cannot be had: %v", p.URI, c.left, c.err))
}

func (c *cargo) bring(ctx context.Context, r *runner, p *Package, actions iter.Seq2[Action, error]) (err error) {
	ref := &packageRef{uri: p.URI, length: p.Length, digests: p.Digests}
	c.pkg = r.sp.opened[c.number]
	c.kept = c.pkg != nil
	flows := p.proved && (p.Via == ViaRange && p.Bytes >= largePackageSize ||
		p.Via == ViaDump && (ref.isLarge() || c.pkg != nil && c.pkg.remote != nil))
	if !c.kept || c.pkg.remote != nil && p.Via == ViaDump && !flows {
		c.kept = false
		if c.pkg, err = r.d.openPackage(ctx, ref, p.Via == ViaDump && !flows); err != nil {
			return err
		}
	}
	return c.prepare(ctx, r, flows, actions)
}

// prepare asks the manifest in the package, unless the plan was made by it or by the very
// same, or digests prove every member of parts of a package, and brings the members.
func (c *cargo) prepare(ctx context.Context, r *runner, flows bool, actions iter.Seq2[Action, error]) error {
	asks := !c.same(r) && !c.kept
	if !asks && c.pkg.remote == nil {
		return nil
	}
	if asks && (c.pkg.remote == nil || flows || !r.sp.Packages[c.number-1].proved) {
		group, err := collect(actions)
		if err != nil {
			return err
		}
		if err := c.ask(ctx, r, group); err != nil {
			return err
		}
		actions = func(yield func(Action, error) bool) {
			for _, a := range group {
				if !yield(a, nil) {
					return
				}
			}
		}
	}
	if c.pkg.remote == nil {
		return nil
	}
	if flows {
		c.pkg.remote.version = "" // a transfer that breaks off goes on with any: each member is proved
	}
	all, err := c.bitstreams(actions)
	switch {
	case err != nil:
		return err
	case flows:
		c.flow = newFlow(ctx, c.pkg.remote, c.pkg.remote.request, all)
		return nil
	}
	return c.pkg.bring(ctx, all...)
}

// bitstreams are the members that these actions may take.
func (c *cargo) bitstreams(actions iter.Seq2[Action, error]) (all []pack.Bitstream, err error) {
	for a, err := range actions {
		if err != nil {
			return nil, err
		}
		known := c.known(&a)
		if b, err := c.member(&a, &known); err == nil {
			all = append(all, b)
		}
	}
	return all, nil
}

func collect(actions iter.Seq2[Action, error]) (all []Action, err error) {
	for a, err := range actions {
		if err != nil {
			return nil, err
		}
		all = append(all, a)
	}
	return all, nil
}

// same reports whether the package has the very manifest by whose copy the plan was made.
func (c *cargo) same(r *runner) bool {
	p := &r.sp.Packages[c.number-1]
	if p.copied == (checksum{}) {
		return false
	}
	if sum, err := c.pkg.manifestChecksum(); err != nil || sum != p.copied {
		return false // what is wrong shows when it is read
	}
	c.unnamed(r, p.members)
	return true
}

// unnamed tells of members of which the manifest, which names so many, knows nothing.
func (c *cargo) unnamed(r *runner, described int64) {
	if extra := int64(c.pkg.zip.Len()) - 1 - described; extra > 0 {
		r.d.quirk(resourcesync.QuirkManifest, r.sp.Set, fmt.Sprintf("%s: %d members that its manifest does not name are left alone", c.pkg.ref.uri, extra))
	}
}

// ask takes down what the manifest in the package says of the resources wanted: it is
// the one that counts, not the copy that the plan may have been made by.
func (c *cargo) ask(ctx context.Context, r *runner, group []Action) error {
	doc, err := c.pkg.manifest(ctx, resourcesync.CapabilityResourceDumpManifest, resourcesync.CapabilityChangeDumpManifest)
	if err != nil {
		return err
	}
	defer doc.close()
	wanted := make(map[resourcesync.Key]*Action, len(group))
	for i := range group {
		wanted[resourcesync.KeyOf(group[i].Want.URI)] = &group[i]
	}
	c.told = make(map[resourcesync.Key]told, len(group))
	described := int64(0)
	for e, err := range doc.entries() {
		if err != nil {
			return &DocumentError{URI: doc.uri, Reason: "cannot be used", Err: err}
		}
		if e.Path == "" {
			continue
		}
		described++
		key := resourcesync.KeyOf(e.Loc)
		if a := wanted[key]; a != nil {
			c.hear(&e, a, doc.header.Capability)
		}
	}
	c.compare(r, doc, described)
	c.unnamed(r, described)
	return nil
}

// hear takes down what an entry of the manifest says of a resource that is wanted. That
// of a Resource Dump wins over the copy; what a Change List has told does not change.
func (c *cargo) hear(e *resourcesync.Entry, a *Action, manifest resourcesync.Capability) {
	key := resourcesync.KeyOf(e.Loc)
	other := !agrees(e, &a.Want)
	if other && manifest != resourcesync.CapabilityResourceDumpManifest {
		return
	}
	if t, known := c.told[key]; !known || !other && (t.other || e.Path == a.Member) {
		c.told[key] = told{e.Path, e.Length, e.Digests, other}
	}
}

// compare compares the manifest of a Resource Dump with the copy by which the plan was
// made, if it was.
func (c *cargo) compare(r *runner, doc *document, described int64) {
	planned := r.sp.Packages[c.number-1].members
	if doc.header.Capability == resourcesync.CapabilityResourceDumpManifest && planned > 0 && described != planned {
		r.doubts(resourcesync.QuirkManifestCopy, &DocumentError{URI: doc.uri, Reason: fmt.Sprintf(
			"names %d bitstreams and its copy %d: nothing is deleted on the word of the copy, and the next run begins anew", described, planned)})
	}
}

// doubts keeps the cursor where it is, as what the plan was made by was wrong.
func (r *runner) doubts(q resourcesync.Quirk, err error) {
	r.d.quirk(q, r.sp.Set, err.Error())
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.doubt == nil {
		r.doubt = err
	}
}

// agrees reports whether a manifest does not contradict what is wanted.
func agrees(e *resourcesync.Entry, w *Wanted) bool {
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

// bitstream finds the member that an action wants.
func (c *cargo) bitstream(a *Action) (pack.Bitstream, bool) {
	path := a.Member
	if c.told != nil {
		t, ok := c.heard(a.Want.URI)
		if !ok {
			return pack.Bitstream{}, false
		}
		path = t.path
	}
	return c.pkg.find(path, strong(a.Want.Digests))
}

// heard is what was taken down of a resource, if it was.
func (c *cargo) heard(uri string) (t told, ok bool) {
	if c.told != nil {
		t, ok = c.told[resourcesync.KeyOf(uri)]
	}
	return t, ok
}

// fromPackage brings the bytes of an action out of its package into a batch, verified.
// If they cannot be had there, the action becomes a request for the resource, and the
// error says why.
func (r *runner) fromPackage(ctx context.Context, b Batch, a *Action) (int64, error) {
	if r.freight == nil {
		return 0, fmt.Errorf("%s: the plan has no packages", a.Want.URI)
	}
	c, err := r.freight.take(ctx, a.Package)
	if err != nil {
		return 0, err
	}
	defer r.freight.give(c)
	if a.Want.timed() {
		a.Want.Came = r.d.Client.Now() // they are those of the entry, however long ago they were packed
	}
	n, err := c.put(ctx, b, r.sp.Set, a, r.freight.hands)
	if c.err == nil && c.pkg.remote == nil {
		a.Via = ViaDump // a server that gives no parts gave all
	}
	if err == nil || ctx.Err() != nil || !ofSource(err) {
		return n, err
	}
	r.freight.lose(c, a.Want.URI, err)
	a.Via, a.Package, a.Member = ViaGet, 0, ""
	return 0, err
}

// put verifies a member by all that is known of it.
func (c *cargo) put(ctx context.Context, b Batch, set string, a *Action, hands chan struct{}) (int64, error) {
	if c.err != nil {
		return 0, c.err
	}
	want, known := a.Want, c.known(a)
	if t, _ := c.heard(want.URI); t.other {
		want = known
		want.Told = a.Want.Told
	}
	want.Came = a.Want.Came
	found, err := c.member(a, &known)
	if err != nil {
		return 0, err
	}
	most := int64(maxResource)
	if known.Length.Known() {
		most = known.Length.Int64() + slack
	}
	uri := c.pkg.ref.uri
	from, err := c.open(ctx, found, most)
	if err != nil {
		return 0, badPackage(uri, err)
	}
	defer from.Close()
	select {
	case hands <- struct{}{}:
		defer func() { <-hands }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	verified := resourcesync.NewVerifyReader(&memberReader{from, uri}, known.Length.Int64(), known.Digests, resourcesync.SHA256)
	n, err := b.Put(ctx, set, want, hashedReader{remoteMismatch{uri, verified}, verified}, known.provable())
	if err == nil {
		a.Want = want
		a.Want.Length, a.Want.Digests = known.Length, known.Digests // by which the bytes were proved
	}
	return n, err
}

func (c *cargo) open(ctx context.Context, b pack.Bitstream, most int64) (io.ReadCloser, error) {
	if c.flow == nil {
		return b.Open(most)
	}
	return c.flow.open(ctx, b, most)
}

// known is what the plan and the manifest in the package say of a resource, together.
func (c *cargo) known(a *Action) Wanted {
	w := a.Want
	t, ok := c.heard(w.URI)
	switch {
	case !ok:
		return w
	case t.other:
		w.Length, w.Digests = t.length, t.digests
		return w
	case !w.Length.Known():
		w.Length = t.length
	}
	for _, d := range t.digests {
		if w.Digests.Get(d.Algorithm()).IsZero() {
			w.Digests = append(w.Digests[:len(w.Digests):len(w.Digests)], d)
		}
	}
	return w
}

// member finds what an action wants, of which this is known, if it may be taken.
func (c *cargo) member(a *Action, known *Wanted) (pack.Bitstream, error) {
	found, ok := c.bitstream(a)
	why := ""
	switch {
	case !ok && c.told != nil:
		why = fmt.Sprintf("has no member for %s as it should be, by its manifest", a.Want.URI)
	case !ok:
		why = fmt.Sprintf("has no member %q", a.Member)
	case !c.pkg.remote.safe(known):
		why = fmt.Sprintf("may be of several versions, and no sha-256 proves the member %q", a.Member)
	default:
		return found, nil
	}
	return found, &DocumentError{URI: c.pkg.ref.uri, Reason: why}
}

// remoteMismatch tells bytes that are not those wanted from trouble with reading them.
type remoteMismatch struct {
	uri string
	r   io.Reader
}

func (r remoteMismatch) Read(b []byte) (int, error) {
	n, err := r.r.Read(b)
	if isMismatch(err) {
		err = &remoteError{fmt.Errorf("%s: %w", r.uri, err)}
	}
	return n, err
}

// lose counts a member that could not be had.
func (f *freight) lose(c *cargo, uri string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c.err != nil {
		return // told for all of them
	}
	if c.lost.n++; c.lost.n == 1 {
		c.lost.uri, c.lost.err = uri, err
	}
}

// tell reports the members that could not be had.
func (c *cargo) tell(r *runner) {
	if c.lost.n == 0 {
		return
	}
	q := quirkOf(c.lost.err)
	if q == 0 && !isRemote(c.lost.err) {
		q = resourcesync.QuirkManifest
	}
	r.d.quirk(q, r.sp.Set, fmt.Sprintf("%d members could not be taken out of a package, such as %s, and were requested one by one: %v", c.lost.n, c.lost.uri, c.lost.err))
}
