package flock

import "errors"

// Errors of tryLock that are the same on every system.
var (
	errHeld    = errors.New("another process holds the lock")
	errNoLocks = errors.New("the file system cannot lock this file")
)
