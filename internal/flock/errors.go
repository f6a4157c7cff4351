package flock

import "errors"

// What the system-specific tryLock returns: somebody else holds the lock, or the file
// system has no locks for such a file.
var (
	errHeld    = errors.New("held")
	errNoLocks = errors.New("no locks")
)
