package document

import (
	"cmp"

	"instep/fetch"
)

// Error means that a document could not be transferred or stored, or that its text is
// invalid.
type Error struct {
	URI      string
	Err      error  // usually a *resourcesync.DecodeError, or the error that Reader.Entry returned
	Transfer error  // why the transfer or storing failed; nil if the text is invalid
	Headless bool   // whether the header could not be read
	Head     []byte // the first bytes of the body; the method Page examines them
}

// Error returns the URI of the document and the reason for the error.
func (e *Error) Error() string { return e.URI + ": " + e.Unwrap().Error() }

// Unwrap returns the error of the transfer if the transfer failed, otherwise Err.
func (e *Error) Unwrap() error { return cmp.Or(e.Transfer, e.Err) }

// Page returns a temporary error if an HTML page was served instead of the document, and
// otherwise nil.
func (e *Error) Page() *fetch.Error {
	if head := e.Begin(); fetch.IsPage(head) {
		return fetch.Blocked(e.URI, head)
	}
	return nil
}

// Begin returns the part of Head that fetch.IsPage needs.
func (e *Error) Begin() []byte { return e.Head[:min(len(e.Head), fetch.PageHead)] }
