package durable

import (
	"errors"
	"slices"
)

// Space describes the space that a file system has for unprivileged users.
type Space struct {
	Known            bool   // whether the system reports its free space; if not, the fields below are 0
	Total, Free      uint64 // bytes
	Files, FreeFiles uint64 // the number of files that the file system can have, and the number that can still be created; Files is 0 if there is no limit
}

// IsFull reports whether err means that the file system or a quota is full, or that a
// file has its maximum size.
func IsFull(err error) bool {
	return slices.ContainsFunc(fullErrors, func(full error) bool { return errors.Is(err, full) })
}
