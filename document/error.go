package document

import (
	"cmp"

	"instep/fetch"
)

// Error means that a document cannot be used: it could not be transferred, or its text is
// invalid.
type Error struct {
	URI      string
	Err      error  // usually a *resourcesync.DecodeError, or the error that Reader.Entry returned
	Transfer error  // why the transfer or storing failed; nil if the text is invalid
	Headless bool   // not even the header could be read
	Head     []byte // the start of the body up to the rs:md of the document, or all that was read if there is none
}

// Error returns the URI of the document and the reason for the error.
func (e *Error) Error() string { return e.URI + ": " + e.Unwrap().Error() }

// Unwrap returns Transfer if it is set, otherwise Err.
func (e *Error) Unwrap() error { return cmp.Or(e.Transfer, e.Err) }

// Page returns the error for an HTML page that was served instead of a document; nil if
// the response was not a page. The Source may serve the document at another time.
func (e *Error) Page() *fetch.Error {
	if head := e.Begin(); fetch.IsPage(head) {
		return fetch.Blocked(e.URI, head)
	}
	return nil
}

// Begin returns the part of Head that fetch.IsPage needs.
func (e *Error) Begin() []byte { return e.Head[:min(len(e.Head), fetch.PageHead)] }
