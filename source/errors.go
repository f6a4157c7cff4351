package source

import (
	"errors"
	"fmt"
)

// ErrChangesFull means that the changes of a Window do not fit into one Change List of
// 50,000 entries and 50,000,000 bytes. Nothing was published.
var ErrChangesFull = errors.New("too many changes for one Change List")

// ErrIndexFull means that readers need more than 50,000 Change Lists, which is more than an
// index can hold: all lists since the oldest Resource List or Resource Dump with which a
// reader may begin. Nothing was published. A day after a new Resource List the old Change
// Lists are no longer needed.
var ErrIndexFull = errors.New("too many Change Lists for their index")

// ErrGone is returned by Bitstream.Open if the bytes no longer exist anywhere.
var ErrGone = errors.New("these bytes no longer exist")

// NotOursError reports that there is a file at the key of a document that this publication
// did not write. The file was not changed, and nothing was published.
type NotOursError struct{ Key string }

func (e *NotOursError) Error() string {
	return fmt.Sprintf("%q is not replaced, because it was not written by this publication or was changed since", e.Key)
}

// WrongStateError reports that the bucket holds the publication of another state.
// Nothing was changed.
type WrongStateError struct {
	Found, Want string // UUIDs
	BaseURL     string // base URL of the publication that was found
}

func (e *WrongStateError) Error() string {
	return fmt.Sprintf("this was published for %s from another state: %q names state %s, expected %s", e.BaseURL, infoKey, e.Found, e.Want)
}
