package flock

import "errors"

// The results of the system-specific tryLock: another process holds the lock, or the file
// system cannot lock such a file.
var (
	errHeld    = errors.New("held")
	errNoLocks = errors.New("no locks")
)
