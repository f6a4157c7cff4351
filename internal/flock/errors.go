package flock

import "errors"

// Errors that tryLock returns on every system, instead of those of the system.
var (
	errHeld    = errors.New("another process holds the lock")
	errNoLocks = errors.New("the file system cannot lock this file")
)
