package destination

import (
	"fmt"

	"instep/harvest"
	"instep/internal/packages"
)

// Estimates for the plan, which does not read the directory of a package, in bytes.
const (
	memberName   = 100               // a member in the directory of a package
	minDirectory = packages.TailSize // least bytes read for a directory
)

// packageSelection collects the members that a plan wants of one package.
type packageSelection struct {
	bulk
	pkg      *harvest.Package
	number   int   // of the selection
	again    int64 // members that an earlier run could not bring
	unsized  int64 // members of unknown length
	unproved bool  // some members have no strong digest
	end      int64 // end of the last run
}

// add counts the member that an action wants, and writes its place into the action.
func (s *packageSelection) add(a *Action, c harvest.Location) {
	size := harvest.LengthOr(a.Want.Length)
	s.wanted++
	s.gets += size
	if a.Again {
		s.again++
	}
	s.unproved = s.unproved || !a.Want.Digests.Strong()
	if !a.Want.Length.Known() {
		s.unsized++
	}
	if s.runs > 0 && c.Offset >= s.end && c.Offset-s.end <= packages.GapSize {
		s.span += c.Offset - s.end
	} else {
		s.runs++
	}
	s.span += size
	s.end = c.Offset + size
	a.Member, a.Package = c.Path, s.number
}

// whole completes the input of the choice of the way.
func (s *packageSelection) whole(prefer Prefer) *bulk {
	p, b := s.pkg, &s.bulk
	opened, _ := p.Opened.(*packages.Opened)
	b.length, b.here, b.prefer = p.Size(), opened != nil && opened.Here(), prefer
	if opened == nil {
		b.names, b.opening = max(minDirectory, p.Members*memberName), directoryRequests
	}
	switch {
	case p.Unsized || p.Listed == 0:
		b.span = -1
	case b.length < p.Listed: // compressed
		b.span = int64(float64(b.span) * float64(b.length) / float64(p.Listed))
	}
	return b
}

// addMember adds an action whose bytes may be in a package. Actions of one package follow
// each other; others may be between them.
func (pl *planner) addMember(a Action, c harvest.Location) error {
	if pl.selection != nil && pl.selection.pkg != c.Package {
		pl.dispatch()
	}
	if pl.selection == nil {
		pl.decisions = append(pl.decisions, packageDecision{})
		pl.selection = &packageSelection{pkg: c.Package, number: len(pl.decisions)}
	}
	pl.selection.add(&a, c)
	return pl.actions.Append(a)
}

// dispatch chooses how the members of the current package are obtained.
func (pl *planner) dispatch() {
	s := pl.selection
	if s == nil {
		return
	}
	pl.selection = nil
	via, bytes, requests, why := s.whole(pl.prefer()).carriage()
	pl.reason("%s: %s: %s", s.pkg.URI, via.phrase(), why)
	number := 0
	if via == ViaGet {
		pl.Unsized += s.unsized
		pl.retries += s.again
		bytes -= s.unsized * harvest.UnknownLength
	} else {
		ref := s.pkg
		opened, _ := ref.Opened.(*packages.Opened)
		pl.Packages = append(pl.Packages, Package{ref.URI, ref.Length, ref.Digests, via, s.wanted, bytes})
		pl.planned = append(pl.planned, packages.Planned{
			Ref: ref, Whole: via == ViaDump, Wanted: s.wanted, Bytes: bytes,
			Proved: !s.unproved, Named: ref.Members, Copied: ref.Copied, Opened: opened,
		})
		number, ref.Opened = len(pl.Packages), nil
	}
	pl.Bytes += bytes
	pl.Requests += requests
	pl.decisions[s.number-1] = packageDecision{via, number}
}

// phrase is the way as a part of a sentence.
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

// reason records why a choice was made, for people: at most maxReasons.
func (pl *planner) reason(format string, args ...any) {
	if len(pl.Reasons) < maxReasons {
		pl.Reasons = append(pl.Reasons, fmt.Sprintf(format, args...))
	}
}

const maxReasons = 1000
