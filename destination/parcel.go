package destination

import (
	"cmp"
	"context"
	"strings"
	"time"

	"instep/internal/evidence"
	"instep/resourcesync"
)

// parcel is a package of a dump, while a plan is made.
type parcel struct {
	ref     *packageRef
	members int64          // entries with a path in its manifest
	listed  int64          // bytes of these members, as far as the manifest gives lengths
	unsized bool           // some of them have no length
	copied  checksum       // of the copy of a Resource Dump's manifest, if that was read
	opened  *openedPackage // the package, if the manifest in it was read
}

// carrier is the place of a resource's bytes in a package; the zero carrier is none.
type carrier struct {
	parcel *parcel
	path   string // rs:md/@path
	offset int64  // bytes of the members before it
}

// resource is what a Source says of a resource, and where its bytes are beside its URI.
type resource struct {
	Wanted
	carrier
	by *change   // that says so; nil: a list does
	at time.Time // of a dispute: the moment of the list that names it, or does not
}

// compare orders by package, and by offset in it.
func (c carrier) compare(o carrier) int {
	return cmp.Or(strings.Compare(c.name(), o.name()), cmp.Compare(c.offset, o.offset))
}

func (c carrier) name() string {
	if c.parcel == nil {
		return ""
	}
	return c.parcel.ref.uri
}

// carries counts an entry of the manifest of p and returns the place of its bytes. An entry
// without a path has none; neither has any entry of a nil parcel.
func (p *parcel) carries(e *resourcesync.Entry) carrier {
	if p == nil || e.Path == "" {
		return carrier{}
	}
	c := carrier{p, e.Path, p.listed}
	p.members++
	p.listed += sizeOr(e.Length)
	p.unsized = p.unsized || !e.Length.Known()
	return c
}

// sizeOr is a length, or what a resource of unknown length counts.
func sizeOr(n resourcesync.Length) int64 {
	if n.Known() {
		return n.Int64()
	}
	return unsizedBytes
}

// length is the length of the package, or that of its members if the dump gives none.
func (p *parcel) length() int64 {
	if n := p.ref.length; n.Known() {
		return n.Int64()
	}
	return p.listed
}

// parcelOf returns the parcel of an entry of a dump.
func (r *reader) parcelOf(dump *document, e *resourcesync.Entry) (*parcel, error) {
	ref, err := r.packageOf(dump, e)
	if err != nil {
		return nil, err
	}
	if ref.at.IsZero() {
		ref.at = dump.header.At
	}
	return &parcel{ref: ref}, ref.otherFormat()
}

// manifest reads the manifest of a package. If the package had to be opened for that, it
// stays open for the run.
func (d *Destination) manifest(ctx context.Context, p *parcel, want resourcesync.Capability) (*document, error) {
	doc, opened, err := d.readManifest(ctx, p.ref, want)
	if err != nil {
		return nil, err
	}
	p.close()
	*p = parcel{ref: p.ref, opened: opened}
	if opened == nil && want == resourcesync.CapabilityResourceDumpManifest {
		if p.copied, err = doc.checksum(); err != nil {
			doc.close()
			return nil, err
		}
	}
	return doc, nil
}

// maxKept bounds the packages that stay open from the plan to the run; others are opened
// again.
const maxKept = 64

// keep keeps the package open unless too many are; opened counts them.
func (p *parcel) keep(opened *int) {
	if p.opened == nil {
		return
	}
	if *opened++; *opened > maxKept {
		p.leave()
	}
}

// leave gives the package back; it may be opened again.
func (p *parcel) leave() {
	if p.opened != nil {
		_ = p.opened.leave() // of no consequence
		p.opened = nil
	}
}

// close closes the package for good.
func (p *parcel) close() {
	if p.opened != nil {
		_ = p.opened.close() // a temporary file
		p.opened = nil
	}
}

// clock is when the Source sent the document, by its own clock; zero if that is
// unknown, or before what the document itself says it is of.
func (doc *document) clock() time.Time {
	h := &doc.header
	for _, t := range []resourcesync.Datetime{h.At, h.From} {
		if evidence.ToCome(t.Time(), doc.served) {
			return time.Time{}
		}
	}
	return doc.served
}
