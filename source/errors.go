package source

import (
	"errors"
	"fmt"
)

// ErrChangesFull means that the changes of a Window do not fit into one Change List of
// 50,000 entries and 50,000,000 bytes. Nothing was published.
var ErrChangesFull = errors.New("too many changes for one Change List")

// ErrIndexFull means that more than 50,000 Change Lists are needed since the oldest
// Resource List or Resource Dump with which readers may begin, more than an index can
// hold. Nothing was published. A day after the next Resource List there is room again.
var ErrIndexFull = errors.New("too many Change Lists for their index")

// ErrGone is returned by Bitstream.Open if the bytes no longer exist anywhere.
var ErrGone = errors.New("these bytes are not there any more")

// NotOursError reports that a foreign file exists at the key of a document. The file
// was not changed, and nothing was published.
type NotOursError struct{ Key string }

func (e *NotOursError) Error() string {
	return fmt.Sprintf("%q was not written by this publication, or was changed since, and is not replaced", e.Key)
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
