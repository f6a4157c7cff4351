package destination

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"instep/internal/evidence"
	"instep/internal/spool"
	"instep/resourcesync"
)

// parcel is a package of a dump, as a plan sees it.
type parcel struct {
	ref     *packageRef
	members int64          // bitstreams that were read of its manifest
	listed  int64          // bytes of these, as far as that is known
	unsized bool           // of some of them it is not
	copied  checksum       // of the copy of the manifest of a Resource Dump that was read
	opened  *openedPackage // if it had to be opened to read its manifest
}

// carrier is where in a package the bytes of a resource are; the zero carrier is nowhere.
type carrier struct {
	parcel *parcel
	path   string // rs:md/@path
	offset int64  // bytes of the members before it
}

// resource is what a Source says of a resource, and where its bytes are beside its URI.
type resource struct {
	Wanted
	carrier
	by     *change    // that says so; nil: a list does
	at     time.Time  // of a dispute: the moment of the list that names it, or does not
	others []resource // what other documents say of it that counts no less
}

// compare orders by package, and by place in it.
func (c carrier) compare(o carrier) int {
	return cmp.Or(strings.Compare(c.name(), o.name()), cmp.Compare(c.offset, o.offset))
}

func (c carrier) name() string {
	if c.parcel == nil {
		return ""
	}
	return c.parcel.ref.uri
}

// carries takes a member down that the manifest of p names, and returns where it is.
// What has no path has no bytes, and a nil parcel has none at all.
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

// length is how many bytes the package has, as far as is known.
func (p *parcel) length() int64 {
	if n := p.ref.length; n.Known() {
		return n.Int64()
	}
	return p.listed
}

// memberName is about what the name of a member and what belongs to it take in the
// directory of a package, and minDirectory what is read of one at least, in bytes.
const (
	memberName   = 100
	minDirectory = 64 << 10
	// maxHole is how many bytes between two members are transferred rather than asked around.
	maxHole = 64 << 10
)

// shipment collects what a plan wants of one package.
type shipment struct {
	parcel   *parcel
	number   int                // of the shipment
	again    *spool.Log[Action] // what could not be brought before; nil: nothing
	wanted   int64              // members
	bytes    int64              // of the members
	unsized  int64              // members of unknown length
	unproved bool               // no strong digest proves some of them
	runs     int64
	span     int64
	end      int64 // of the last run
}

// add takes down what an action wants, and in the action where that is.
func (s *shipment) add(a *Action, c carrier) {
	size := sizeOr(a.Want.Length)
	s.wanted++
	s.bytes += size
	s.unproved = s.unproved || !strong(a.Want.Digests)
	if !a.Want.Length.Known() {
		s.unsized++
	}
	if s.runs > 0 && c.offset >= s.end && c.offset-s.end <= maxHole {
		s.span += c.offset - s.end
	} else {
		s.runs++
	}
	s.span += size
	s.end = c.offset + size
	a.Member, a.Package = c.path, s.number
}

// close frees what was not dispatched; a nil shipment has nothing.
func (s *shipment) close() {
	if s != nil && s.again != nil {
		s.again.Close()
	}
}

// bulk is what is known when the way is chosen.
func (s *shipment) bulk(prefer Prefer) *bulk {
	p := s.parcel
	b := &bulk{
		length: p.length(), here: p.opened != nil && p.opened.remote == nil, wanted: s.wanted, gets: s.bytes,
		runs: s.runs, span: s.span, prefer: prefer,
	}
	if p.opened == nil {
		b.names, b.opening = max(minDirectory, p.members*memberName), directoryRequests
	}
	switch {
	case p.unsized || p.listed == 0:
		b.span = -1
	case b.length < p.listed: // compressed
		b.span = int64(float64(b.span) * float64(b.length) / float64(p.listed))
	}
	return b
}

// ship adds an action whose bytes may come out of a package. Those of one package have
// to follow each other, as far as other actions allow.
func (pl *planner) ship(a Action, c carrier) error {
	if pl.shipment != nil && pl.shipment.parcel != c.parcel {
		if err := pl.dispatch(); err != nil {
			return err
		}
	}
	if pl.shipment == nil {
		pl.shipped = append(pl.shipped, shipped{})
		pl.shipment = &shipment{parcel: c.parcel, number: len(pl.shipped)}
	}
	s := pl.shipment
	if s.add(&a, c); !a.Again {
		return pl.actions.Append(a)
	}
	if s.again == nil {
		s.again = spool.NewLog[Action](pl.d.Spool)
	}
	return s.again.Append(a)
}

// dispatch decides by which way the members of the present package come.
func (pl *planner) dispatch() error {
	s := pl.shipment
	if s == nil {
		return nil
	}
	pl.shipment = nil
	defer s.close()
	via, bytes, requests, why := s.bulk(pl.d.Prefer).carriage()
	pl.reason("%s: %s: %s", s.parcel.ref.uri, via.phrase(), why)
	number := 0
	if via == ViaGet {
		pl.Unsized += s.unsized
		bytes -= s.unsized * unsizedBytes
	} else {
		pl.Packages = append(pl.Packages, Package{
			URI: s.parcel.ref.uri, Length: s.parcel.ref.length, Digests: s.parcel.ref.digests,
			Via: via, Wanted: s.wanted, Bytes: bytes, proved: !s.unproved, members: s.parcel.members, copied: s.parcel.copied,
		})
		number = len(pl.Packages)
		if s.parcel.opened != nil {
			if pl.opened == nil {
				pl.opened = map[int]*openedPackage{}
			}
			pl.opened[number], s.parcel.opened = s.parcel.opened, nil
		}
	}
	pl.Bytes += bytes
	pl.Requests += requests
	way := shipped{via, number}
	pl.shipped[s.number-1] = way
	if s.again == nil {
		return nil
	}
	add := pl.actions.Append
	if via == ViaGet {
		add = pl.late.Append
	}
	for a, err := range s.again.All() {
		if err == nil {
			err = add(a)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// phrase names a way in a sentence.
func (v Via) phrase() string {
	switch v {
	case ViaDump:
		return "transferred whole"
	case ViaRange:
		return "parts of it are transferred"
	case ViaLocal:
		return "taken from what is here"
	}
	return "its members are requested one by one"
}

// reason takes down why a choice was made. Reasons are for people: there are not many.
func (pl *planner) reason(format string, args ...any) {
	if len(pl.Reasons) < maxReasons {
		pl.Reasons = append(pl.Reasons, fmt.Sprintf(format, args...))
	}
}

const maxReasons = 1000

// parcelOf makes a parcel of an entry of a dump.
func (d *Destination) parcelOf(sc *scope, dump *document, e *resourcesync.Entry) (*parcel, error) {
	ref, err := d.packageOf(sc, dump, e)
	if err != nil {
		return nil, err
	}
	if ref.at.IsZero() {
		ref.at = dump.header.At
	}
	return &parcel{ref: ref}, ref.otherFormat()
}

// manifest reads what a package holds. If the package had to be opened for that, it
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

// maxKept bounds the packages that stay open from when they are planned; others are
// opened once more.
const maxKept = 64

// keep lets the package open, as one of those that are counted, unless they are too many.
func (p *parcel) keep(opened *int) {
	if p.opened == nil {
		return
	}
	if *opened++; *opened > maxKept {
		p.leave()
	}
}

// leave gives a package back that may be wanted again.
func (p *parcel) leave() {
	_ = p.opened.leave() // of no consequence
	p.opened = nil
}

// close gives a package back that nobody wants.
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
