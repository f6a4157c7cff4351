package durable

import (
	"errors"
	"slices"
)

// Space is the room on a file system for users without special rights.
type Space struct {
	Known            bool   // the system tells
	Total, Free      uint64 // bytes
	Files, FreeFiles uint64 // files that there may be, and be yet; Files is 0 where they are not counted
}

// IsFull reports whether err says that there is no room left.
func IsFull(err error) bool {
	return slices.ContainsFunc(fullErrors, func(full error) bool { return errors.Is(err, full) })
}
