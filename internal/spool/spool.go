// Package spool keeps long sequences in temporary files, so that no step of a
// publication or a synchronisation holds a whole set in memory: sets of keys that
// are read back sorted, and logs of records that are read back in order.
package spool
