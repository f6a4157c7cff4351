package destination

import (
	"errors"

	"instep/fetch"
	"instep/harvest"
	"instep/transfer"
)

// Cause is a stable word for why something failed, by which failures are grouped.
type Cause string

// The causes.
const (
	CauseTemporary Cause = "temporary"  // not reachable, too slow, cut off or busy
	CauseRefused   Cause = "refused"    // our own policy refuses the scheme, address, redirect or certificate
	CauseNotFound  Cause = "not-found"  // listed, and the server has it not
	CauseDenied    Cause = "denied"     // the server wants credentials, or others
	CauseTooLarge  Cause = "too-large"  // more bytes than listed or allowed
	CauseProtocol  Cause = "protocol"   // an answer that makes no sense where the resource was asked for
	CauseMismatch  Cause = "mismatch"   // the received bytes differ from the listed ones
	CauseDocument  Cause = "document"   // a document of the Source cannot be used
	CauseOccupied  Cause = "occupied"   // a foreign file has the path of the resource
	CauseNoPlace   Cause = "no-place"   // the mirror can make no path of the URI
	CauseMoved     Cause = "moved"      // it changed during the run
	CauseOther     Cause = "other"      // another reason, such as a full disk
	CauseMissing   Cause = "missing"    // an audit found it missing
	CauseDifferent Cause = "different"  // an audit found other bytes
	CauseUnread    Cause = "unreadable" // an audit could not read it
	CauseExtra     Cause = "extra"      // an audit found a resource that the Source does not list
)

var fetchCauses = map[fetch.Kind]Cause{
	fetch.Temporary: CauseTemporary, fetch.Refused: CauseRefused, fetch.NotFound: CauseNotFound,
	fetch.Denied: CauseDenied, fetch.TooLarge: CauseTooLarge, fetch.Protocol: CauseProtocol,
}

var verdictCauses = map[Verdict]Cause{
	VerdictMissing: CauseMissing, VerdictDifferent: CauseDifferent, VerdictError: CauseUnread, VerdictExtra: CauseExtra,
}

// CauseOf returns the cause of a failure.
func CauseOf(err error) Cause {
	var fe *fetch.Error
	var document *harvest.DocumentError
	switch {
	case transfer.IsMismatch(err):
		return CauseMismatch
	case errors.As(err, &fe):
		return fetchCauses[fe.Kind]
	case errors.As(err, &document):
		return CauseDocument
	case errors.Is(err, ErrOccupied):
		return CauseOccupied
	case errors.Is(err, ErrNoPlace):
		return CauseNoPlace
	case errors.Is(err, ErrNotHeld), errors.Is(err, ErrStale):
		return CauseMoved
	case errors.Is(err, ErrOutage):
		return CauseTemporary
	case harvest.IsSourceError(err):
		return CauseProtocol
	}
	return CauseOther
}

// Cause returns the cause of a verdict; "" if there is no difference.
func (v Verdict) Cause() Cause { return verdictCauses[v] }
