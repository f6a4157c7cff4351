package runs

import (
	"errors"

	"instep/destination"
	"instep/fetch"
	"instep/harvest"
	"instep/transfer"
)

// Causes by which failures are grouped. Records contain these names.
const (
	CauseTemporary = "temporary"  // the server was unreachable, too slow or busy, or the body was truncated
	CauseRefused   = "refused"    // this program refused the scheme, address, redirect or certificate
	CauseNotFound  = "not-found"  // the server does not have the listed resource
	CauseDenied    = "denied"     // the server requires other credentials
	CauseTooLarge  = "too-large"  // the resource is larger than listed or allowed
	CauseProtocol  = "protocol"   // the response does not fit the request
	CauseMismatch  = "mismatch"   // the received bytes differ from the listed digest or length
	CauseDocument  = "document"   // a document of the Source cannot be used
	CauseOccupied  = "occupied"   // a file that the mirror did not write has the path of the resource
	CauseNoPlace   = "no-place"   // the mirror cannot make a path from the URI
	CauseMoved     = "moved"      // the resource changed during the run
	CauseOther     = "other"      // something else failed, such as the disk
	CauseMissing   = "missing"    // an audit found that the mirror lacks the resource
	CauseDifferent = "different"  // an audit found other bytes than the Source lists
	CauseUnread    = "unreadable" // an audit could not read the file
	CauseExtra     = "extra"      // an audit found a resource that the Source does not list
)

var fetchCauses = map[fetch.Kind]string{
	fetch.Temporary: CauseTemporary, fetch.Refused: CauseRefused, fetch.NotFound: CauseNotFound,
	fetch.Denied: CauseDenied, fetch.TooLarge: CauseTooLarge, fetch.Protocol: CauseProtocol,
}

// verdictCauses has the cause for each verdict of an audit that counts as a failure.
var verdictCauses = map[destination.Verdict]string{
	destination.VerdictMissing: CauseMissing, destination.VerdictDifferent: CauseDifferent, destination.VerdictError: CauseUnread, destination.VerdictExtra: CauseExtra,
}

// CauseOf returns the cause by which a failure with the given error is grouped.
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
