package durable

import (
	"errors"
	"slices"
)

// Space is the space on a file system for unprivileged users.
type Space struct {
	Known            bool   // whether the system provides the values below
	Total, Free      uint64 // bytes
	Files, FreeFiles uint64 // the largest possible and the remaining number of files; Files is 0 if the file system does not limit it
}

// IsFull reports whether err means that the file system or a quota is full, or that a
// file has its maximum size.
func IsFull(err error) bool {
	return slices.ContainsFunc(fullErrors, func(full error) bool { return errors.Is(err, full) })
}
