package durable

import (
	"errors"
	"slices"
)

// Space is the space on a file system for unprivileged users.
type Space struct {
	Known            bool   // false if the system does not report its free space; then the fields below are 0
	Total, Free      uint64 // bytes
	Files, FreeFiles uint64 // how many files the file system can have, and how many can still be created; Files is 0 if there is no limit
}

// IsFull reports whether err means that the file system or a quota is full, or that a
// file has its maximum size.
func IsFull(err error) bool {
	return slices.ContainsFunc(fullErrors, func(full error) bool { return errors.Is(err, full) })
}
