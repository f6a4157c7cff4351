package flock

import "errors"

// Errors of the system-specific tryLock: another process holds the lock, or the file
// system cannot lock such a file.
var (
	errHeld    = errors.New("held")
	errNoLocks = errors.New("no locks")
)
