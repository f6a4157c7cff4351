package flock

import "errors"

// Errors of tryLock, which is implemented for each system.
var (
	errHeld    = errors.New("another process holds the lock")
	errNoLocks = errors.New("the file system cannot lock this file")
)
