package destination

import (
	"fmt"
	"slices"

	"instep/harvest"
	"instep/internal/packages"
)

const (
	directoryRequests = 2   // number of requests that read the ZIP directory of a remote package
	memberName        = 100 // estimated bytes of one member in the ZIP directory of a package, which the planner does not read
)

// bulk has the facts that decide how the wanted members of a package are obtained.
type bulk struct {
	pkg      *harvest.Package
	number   int   // index in SetPlan.decisions, counted from 1
	again    int64 // number of members that an earlier run failed to fetch
	unsized  int64 // number of members of unknown length
	unproved bool  // set if some members have no strong digest
	end      int64 // offset in bytes at which the last group of consecutive members ends

	length  int64 // length of the package in bytes
	here    bool  // set if the package has already been transferred
	wanted  int64 // number of wanted members
	gets    int64 // number of bytes to transfer if each member is requested by itself
	runs    int64 // number of groups of consecutive wanted members in the package
	span    int64 // number of bytes in the groups of consecutive wanted members; -1 if unknown
	names   int64 // number of bytes of the package's ZIP directory, if it must be read
	opening int64 // number of requests that read the package's ZIP directory, if it must be read
	prefer  Prefer
}

func (b *bulk) add(a *Action, c harvest.Location) {
	size := harvest.LengthOr(a.Want.Length)
	b.wanted++
	b.gets += a.cost()
	if a.Again {
		b.again++
	}
	b.unproved = b.unproved || !a.Want.Digests.Strong()
	if !a.Want.Length.Known() {
		b.unsized++
	}
	if b.runs > 0 && c.Offset >= b.end && c.Offset-b.end <= packages.GapSize {
		b.span += c.Offset - b.end
	} else {
		b.runs++
	}
	b.span += size
	b.end = c.Offset + size
	a.Member, a.Package = c.Path, b.number
}

func (b *bulk) complete(opened *packages.Opened) {
	p := b.pkg
	b.length, b.here = p.Size(), opened != nil && opened.Here()
	if opened == nil {
		b.names, b.opening = max(packages.TailSize, p.Members*memberName), directoryRequests
	}
	switch {
	case p.Unsized || p.Listed == 0:
		b.span = -1
	case b.length < p.Listed: // the members are compressed, so they take less space in the package
		b.span = int64(float64(b.span) * float64(b.length) / float64(p.Listed))
	}
}

// cheapestWay returns how the wanted members are obtained, what that costs, and why. If
// costs are equal, it chooses single requests, because a package may be wrong.
func (b *bulk) cheapestWay() (via Via, bytes, requests int64, why string) {
	type way struct {
		via             Via
		bytes, requests int64
	}
	ways := []way{{ViaGet, b.gets, b.wanted}}
	if b.prefer == PreferDump {
		ways = nil
	}
	whole := way{ViaDump, b.length, 1}
	switch {
	case b.here:
		whole = way{ViaDump, 0, 0}
	case b.length >= packages.LargeSize:
		whole.bytes, whole.requests = whole.bytes+b.names, 1+b.opening
	}
	ways = append(ways, whole)
	why = harvest.Counted(b.wanted, "%d {member|members} wanted; bytes and requests needed: %d and %d one by one, %d and %d by the whole package",
		b.wanted, b.gets, b.wanted, whole.bytes, whole.requests)
	if b.span >= 0 && !b.here {
		parts := way{ViaRange, b.span + b.names, b.runs + b.opening}
		why += fmt.Sprintf(", %d and %d by parts of the package", parts.bytes, parts.requests)
		// Parts must cost much less than the whole package, because only the whole package
		// has a digest as proof.
		if packages.Cost(parts.bytes, parts.requests) < packages.Cost(whole.bytes, whole.requests)/10*9 {
			ways = append(ways, parts)
		}
	}
	best := slices.MinFunc(ways, func(x, y way) int {
		return int(max(-1, min(1, packages.Cost(x.bytes, x.requests)-packages.Cost(y.bytes, y.requests))))
	})
	return best.via, best.bytes, best.requests, why
}

// addMember adds an action for a member of a package. Actions without a package may be
// added between the members of one package.
func (pl *planner) addMember(a Action, c harvest.Location) error {
	if pl.bulk != nil && pl.bulk.pkg != c.Package {
		pl.dispatch()
	}
	if pl.bulk == nil {
		pl.decisions = append(pl.decisions, 0)
		pl.bulk = &bulk{pkg: c.Package, number: len(pl.decisions), prefer: pl.d.Prefer}
		if !pl.Moment.IsZero() { // packages are preferred, because a request may return newer bytes than those of the past moment
			pl.bulk.prefer = PreferDump
		}
	}
	pl.bulk.add(&a, c)
	return pl.actions.Append(a)
}

func (pl *planner) dispatch() {
	b := pl.bulk
	if b == nil {
		return
	}
	pl.bulk = nil
	opened, _ := b.pkg.Opened.(*packages.Opened)
	b.complete(opened)
	via, bytes, requests, why := b.cheapestWay()
	pl.reason("%s: %s: %s", b.pkg.URI, map[Via]string{
		ViaGet: "its members are requested one by one", ViaDump: "transferred whole", ViaRange: "parts of it are transferred",
	}[via], why)
	if via == ViaGet {
		pl.retries += b.again
		bytes -= b.unsized * harvest.UnknownLength
	} else {
		pl.planned = append(pl.planned, packages.Planned{
			Ref: b.pkg, Whole: via == ViaDump, Wanted: b.wanted, Bytes: bytes,
			Proved: !b.unproved, Named: b.pkg.Members, Copied: b.pkg.Copied, Opened: opened,
		})
		pl.decisions[b.number-1], b.pkg.Opened = len(pl.planned), nil
	}
	pl.Bytes += bytes
	pl.Requests += requests
}

// maxReasons is the maximum number of reasons in a plan.
const maxReasons = 1000

func (pl *planner) reason(format string, args ...any) {
	if len(pl.Reasons) < maxReasons {
		pl.Reasons = append(pl.Reasons, fmt.Sprintf(format, args...))
	}
}
