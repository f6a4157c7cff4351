package document

import (
	"cmp"

	"instep/fetch"
)

// Error means that a document cannot be used: it could not be transferred, or its text is
// invalid.
type Error struct {
	URI      string
	Err      error  // usually a *resourcesync.DecodeError; or the error that Entry returned
	Transfer error  // why bytes could not be transferred or stored; nil if the text is invalid
	Headless bool   // not even the header could be read
	Head     []byte // the bytes before the header was found, or those with which the document begins
}

// Error names the document and the fault.
func (e *Error) Error() string { return e.URI + ": " + e.Unwrap().Error() }

// Unwrap returns Transfer, or else Err.
func (e *Error) Unwrap() error { return cmp.Or(e.Transfer, e.Err) }

// Page is the error for a page for people that answered in place of a document; nil if it is
// none. The Source may send the document another time.
func (e *Error) Page() *fetch.Error {
	if head := e.Begin(); fetch.IsPage(head) {
		return fetch.Blocked(e.URI, head)
	}
	return nil
}

// Begin is the part of Head that shows whether it is a page.
func (e *Error) Begin() []byte { return e.Head[:min(len(e.Head), fetch.PageHead)] }
