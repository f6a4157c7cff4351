package document

import (
	"cmp"

	"instep/fetch"
)

// Error says that a document cannot be used: its bytes did not come, or are none of a
// document that can be used.
type Error struct {
	URI      string
	Err      error  // as a rule a *resourcesync.DecodeError; if Entry returned it, the error of that
	Transfer error  // why bytes did not come, or could not be kept; nil if the text is at fault
	Headless bool   // not even the header could be read
	Head     []byte // the bytes before the header was found, or those with which the document begins
}

// Error names the document and what is wrong with it.
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
