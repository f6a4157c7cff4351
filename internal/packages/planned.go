package packages

import (
	"fmt"

	"instep/harvest"
	"instep/pack"
	"instep/resourcesync"
	"instep/transfer"
)

// Planned is a package that members are taken out of.
type Planned struct {
	Ref    *harvest.Package
	Whole  bool    // transfer all of it, not parts
	Wanted int64   // members that are taken
	Bytes  int64   // bytes to transfer, as far as known
	Proved bool    // a strong digest proves each wanted member
	Named  int64   // bitstreams that the manifest names by which it was planned
	Copied string  // checksum of the copy of the manifest, if that describes all wanted members; else ""
	Opened *Opened // opened during planning, and closed by the plan; nil if it is not open
}

// Member is a member of a package, with the description of its resource.
type Member struct {
	Package int    // counted from 1
	Path    string // rs:md/@path
	Want    harvest.Resource
}

// plannedPackage is a package while members are taken from it.
type plannedPackage struct {
	*Planned
	ready  chan struct{} // closed when the fields up to chunks are set
	pkg    *Opened
	kept   bool                              // the plan closes pkg
	err    error                             // why the package cannot be used
	found  map[resourcesync.Key]manifestInfo // wanted resources found in the manifest of the package; nil if it was not read
	chunks []*chunk                          // chunks of a remote package

	first   int   // index in chunks: earlier ones have no unclaimed members
	left    int64 // members that were not taken yet
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

// record records an entry of the manifest. The manifest of a Resource Dump overrides its
// copy; that of a Change Dump does not override a Change List.
func (p *plannedPackage) record(e *resourcesync.Entry, m *Member, manifest resourcesync.Capability) {
	key := resourcesync.KeyOf(e.Loc)
	differs := !agrees(e, &m.Want)
	if differs && manifest != resourcesync.CapabilityResourceDumpManifest {
		return
	}
	if f, known := p.found[key]; !known || !differs && (f.differs || e.Path == m.Path) {
		p.found[key] = manifestInfo{e.Path, e.Length, e.Digests, differs}
	}
}

// agrees reports whether an entry of a manifest does not contradict the wanted resource.
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

// known merges the descriptions of a resource in the plan and in the manifest.
func (p *plannedPackage) known(m *Member) harvest.Resource {
	w := m.Want
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

// member finds a wanted member, described by known, if it may be taken. One that is too
// large is refused before it is transferred.
func (p *plannedPackage) member(m *Member, known *harvest.Resource) (pack.Bitstream, error) {
	path, why := m.Path, ""
	f, ok := p.found[resourcesync.KeyOf(m.Want.URI)]
	if ok {
		path = f.path
	}
	b, has := p.pkg.find(path, m.Want.Digests.Strong())
	switch {
	case p.found != nil && (!ok || !has):
		why = fmt.Sprintf("has no member for %s as it should be, by its manifest", m.Want.URI)
	case !has:
		why = fmt.Sprintf("has no member %q", m.Path)
	case !p.pkg.remote.safe(known):
		why = fmt.Sprintf("may be of several versions, and no sha-256 proves the member %q", m.Path)
	default:
		return b, p.pkg.fits(b, transfer.Most(known))
	}
	return b, &harvest.DocumentError{URI: p.pkg.ref.URI, Reason: why}
}
