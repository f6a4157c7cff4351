package source

import (
	"errors"
	"fmt"
)

// ErrChangesFull means that the changes of a Window (the period of one Change List) do
// not fit into one Change List of 50,000 entries and 50,000,000 bytes. Nothing was
// published.
var ErrChangesFull = errors.New("too many changes for one Change List")

// ErrIndexFull means that more than 50,000 Change Lists are needed, which is more than
// an index can hold. A reader needs all lists since the Resource List or Resource Dump
// that it has read. Nothing was published. After a new Resource List was published, it
// takes a day until the old Change Lists are no longer needed.
var ErrIndexFull = errors.New("too many Change Lists for their index")

// ErrGone is returned by Bitstream.Open if the bytes no longer exist anywhere.
var ErrGone = errors.New("these bytes no longer exist")

// NotOursError reports that at the key of a document there is a file that this
// publication did not write. The file was not changed, and nothing was published.
type NotOursError struct{ Key string }

func (e *NotOursError) Error() string {
	return fmt.Sprintf("%q is not replaced, because it was not written by this publication or was changed since", e.Key)
}

// WrongStateError reports that the bucket contains a publication from another state
// directory. Nothing was changed.
type WrongStateError struct {
	Found, Want string // UUIDs
	BaseURL     string // the base URL of the publication in the bucket
}

func (e *WrongStateError) Error() string {
	return fmt.Sprintf("the documents here were published for %s with another state, %s, which %q names", e.BaseURL, e.Found, infoKey)
}
