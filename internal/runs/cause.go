package runs

import (
	"errors"

	"instep/destination"
	"instep/fetch"
	"instep/harvest"
	"instep/transfer"
)

// The causes: stable words for why something failed, by which failures are grouped.
const (
	CauseTemporary = "temporary"  // not reachable, too slow, cut off or busy
	CauseRefused   = "refused"    // our own policy refuses the scheme, address, redirect or certificate
	CauseNotFound  = "not-found"  // listed, and the server has it not
	CauseDenied    = "denied"     // the server wants credentials, or others
	CauseTooLarge  = "too-large"  // more bytes than listed or allowed
	CauseProtocol  = "protocol"   // an answer that makes no sense where the resource was asked for
	CauseMismatch  = "mismatch"   // the received bytes differ from the listed ones
	CauseDocument  = "document"   // a document of the Source cannot be used
	CauseOccupied  = "occupied"   // a foreign file has the path of the resource
	CauseNoPlace   = "no-place"   // the mirror can make no path of the URI
	CauseMoved     = "moved"      // it changed during the run
	CauseOther     = "other"      // another reason, such as a full disk
	CauseMissing   = "missing"    // an audit found it missing
	CauseDifferent = "different"  // an audit found other bytes
	CauseUnread    = "unreadable" // an audit could not read it
	CauseExtra     = "extra"      // an audit found a resource that the Source does not list
)

var fetchCauses = map[fetch.Kind]string{
	fetch.Temporary: CauseTemporary, fetch.Refused: CauseRefused, fetch.NotFound: CauseNotFound,
	fetch.Denied: CauseDenied, fetch.TooLarge: CauseTooLarge, fetch.Protocol: CauseProtocol,
}

// verdictCauses are the causes of the verdicts that tell of a difference.
var verdictCauses = map[destination.Verdict]string{
	destination.VerdictMissing: CauseMissing, destination.VerdictDifferent: CauseDifferent, destination.VerdictError: CauseUnread, destination.VerdictExtra: CauseExtra,
}

// CauseOf returns the cause of a failure.
func CauseOf(err error) string {
	var fe *fetch.Error
	var document *harvest.DocumentError
	switch {
	case transfer.IsMismatch(err):
		return CauseMismatch
	case errors.As(err, &fe):
		return fetchCauses[fe.Kind]
	case errors.As(err, &document):
		return CauseDocument
	case errors.Is(err, destination.ErrOccupied):
		return CauseOccupied
	case errors.Is(err, destination.ErrNoPlace):
		return CauseNoPlace
	case errors.Is(err, destination.ErrNotHeld), errors.Is(err, destination.ErrStale):
		return CauseMoved
	case errors.Is(err, destination.ErrOutage):
		return CauseTemporary
	case harvest.IsSourceError(err):
		return CauseProtocol
	}
	return CauseOther
}
