package runs

import (
	"errors"

	"instep/destination"
	"instep/fetch"
	"instep/harvest"
	"instep/transfer"
)

// Causes of failures, by which failures are grouped. The words never change.
const (
	CauseTemporary = "temporary"  // unreachable, too slow, truncated or busy
	CauseRefused   = "refused"    // refused by our own policy: scheme, address, redirect or certificate
	CauseNotFound  = "not-found"  // listed, but the server does not have it
	CauseDenied    = "denied"     // the server requires other credentials
	CauseTooLarge  = "too-large"  // larger than listed or allowed
	CauseProtocol  = "protocol"   // a response that makes no sense for the request
	CauseMismatch  = "mismatch"   // the received bytes differ from the listed ones
	CauseDocument  = "document"   // a document of the Source cannot be used
	CauseOccupied  = "occupied"   // a foreign file has the path of the resource
	CauseNoPlace   = "no-place"   // the mirror cannot make a path from the URI
	CauseMoved     = "moved"      // changed during the run
	CauseOther     = "other"      // another reason, such as a full disk
	CauseMissing   = "missing"    // an audit found the resource missing
	CauseDifferent = "different"  // an audit found other bytes
	CauseUnread    = "unreadable" // an audit could not read the file
	CauseExtra     = "extra"      // an audit found a resource that the Source does not list
)

var fetchCauses = map[fetch.Kind]string{
	fetch.Temporary: CauseTemporary, fetch.Refused: CauseRefused, fetch.NotFound: CauseNotFound,
	fetch.Denied: CauseDenied, fetch.TooLarge: CauseTooLarge, fetch.Protocol: CauseProtocol,
}

// verdictCauses are the causes for audit verdicts that report a difference.
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
