package packages

import (
	"fmt"

	"instep/harvest"
	"instep/pack"
	"instep/resourcesync"
	"instep/transfer"
)

// Planned is a package from which the plan takes members.
type Planned struct {
	Ref    *harvest.Package
	Whole  bool    // whether to transfer the whole package instead of parts
	Wanted int64   // the number of members to take
	Bytes  int64   // the number of bytes to transfer, as far as it is known
	Proved bool    // whether a strong digest proves each wanted member
	Named  int64   // the number of members in the manifest that the plan was based on
	Copied string  // the length and checksum of the copy of the manifest, if this copy describes all wanted members; else ""
	Opened *Opened // the open package, if it was opened during planning; then the Unpacker must not close it; else nil
}

// Member is a member of a package with the description of its resource.
type Member struct {
	Package int    // the number of the package, counted from 1
	Path    string // rs:md/@path
	Want    harvest.Resource
}

// plannedPackage is a package of the plan while its members are extracted.
type plannedPackage struct {
	*Planned
	ready  chan struct{} // closed when the fields from pkg to chunks have been set
	pkg    *Opened
	kept   bool                              // whether pkg was opened during planning, so that the Unpacker must not close it
	err    error                             // the reason why the package cannot be used
	found  map[resourcesync.Key]manifestInfo // what the package's manifest states about wanted resources; nil if it was not read
	chunks []*chunk                          // the chunks of members, if the package is read by range requests

	first   int   // the index of the first chunk that may have unclaimed members
	left    int64 // the number of members that have not been taken yet
	lost    int64 // the number of members that could not be taken
	lostURI string
	lostErr error // the error of the first member that could not be taken
}

// manifestInfo is the description of one resource in the package's manifest.
type manifestInfo struct {
	path    string
	length  resourcesync.Length
	digests resourcesync.Digests
	differs bool // whether the description contradicts the one in the plan
}

// record stores an entry of the package's manifest that describes a wanted resource. It
// skips an entry that contradicts the plan, unless the manifest is that of a Resource
// Dump. Such a manifest takes precedence over its copy, but the manifest of a Change
// Dump takes no precedence over a Change List.
func (p *plannedPackage) record(e *resourcesync.Entry, m *Member, manifest resourcesync.Capability) {
	key := resourcesync.KeyOf(e.Loc)
	differs := m.Want.Contradicts(e.Length, e.Digests)
	if differs && manifest != resourcesync.CapabilityResourceDumpManifest {
		return
	}
	if f, known := p.found[key]; !known || !differs && (f.differs || e.Path == m.Path) {
		p.found[key] = manifestInfo{e.Path, e.Length, e.Digests, differs}
	}
}

// known returns what the plan and the package's manifest state about a resource.
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

// member returns the wanted member if it may be taken. known is what the plan and the
// manifest state about its resource. A member that is too large is refused before its
// transfer.
func (p *plannedPackage) member(m *Member, known *harvest.Resource) (pack.Bitstream, error) {
	path, why := m.Path, ""
	f, ok := p.found[resourcesync.KeyOf(m.Want.URI)]
	if ok {
		path = f.path
	}
	b, has := p.pkg.find(path, m.Want.Digests.Strong())
	switch {
	case p.found != nil && (!ok || !has):
		why = fmt.Sprintf("has no usable member for %s according to its manifest", m.Want.URI)
	case !has:
		why = fmt.Sprintf("has no member %q", m.Path)
	case !p.pkg.remote.safe(known):
		why = fmt.Sprintf("may be mixed from several versions, and no sha-256 proves the member %q", m.Path)
	default:
		return b, p.pkg.fits(b, transfer.Most(known))
	}
	return b, &harvest.DocumentError{URI: p.pkg.ref.URI, Reason: why}
}
