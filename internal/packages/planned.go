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
	Whole  bool    // transfer the whole package instead of parts
	Wanted int64   // number of members to extract
	Bytes  int64   // number of bytes to transfer; members of unknown length do not count
	Proved bool    // a strong digest proves each wanted member
	Named  int64   // number of members in the manifest on which the plan is based
	Copied string  // length and checksum of the manifest's copy outside the package, if that copy describes all wanted members; else ""
	Opened *Opened // the package, if the planner opened it and will close it; else nil
}

// Member is a member of a package with the description of its resource.
type Member struct {
	Package int    // number of the package, counted from 1
	Path    string // rs:md/@path
	Want    harvest.Resource
}

type plannedPackage struct {
	*Planned
	ready  chan struct{} // closed when the fields from pkg to chunks are set
	pkg    *Opened
	kept   bool                              // the planner opened pkg and will close it
	err    error                             // reason why the package cannot be used; nil if it can
	found  map[resourcesync.Key]manifestInfo // descriptions of wanted resources in the package's manifest; nil if the manifest was not read
	chunks []*chunk                          // the wanted members in chunks, if range requests read the package

	first   int   // index of the first chunk that may have unclaimed members
	left    int64 // number of members that have not been taken yet
	lost    int64 // number of members that could not be taken
	lostURI string
	lostErr error // error of the first member that could not be taken
}

type manifestInfo struct {
	path    string
	length  resourcesync.Length
	digests resourcesync.Digests
	differs bool // the manifest's length or digests of the resource contradict those in the plan
}

// record skips an entry that contradicts the plan, except in the manifest of a Resource
// Dump: this manifest takes precedence over the copy of it from which the plan was
// made. The manifest of a Change Dump does not take precedence over a Change List.
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

// member returns an error if the member does not exist, is too large, or may be mixed
// from several versions of the package.
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
	case !p.pkg.remote.isSafe(known):
		why = fmt.Sprintf("may be mixed from several versions, and no sha-256 proves the member %q", m.Path)
	default:
		return b, p.pkg.fits(b, transfer.Most(known))
	}
	return b, &harvest.DocumentError{URI: p.pkg.ref.URI, Reason: why}
}
