// Package scan finds what changed in a directory since it was last looked at and
// records it in a catalog. Dir.Plan walks the tree and compares it with what is
// recorded; it changes nothing. Dir.Apply hashes what may have changed and records it.
//
// Neither holds the set in memory. Nothing is deleted on doubt: a directory that
// cannot be read, a file that cannot be looked at, or more deletions than the
// guard allows leave what is recorded as it is.
package scan

import (
	"errors"
	"fmt"
	"time"

	"instep/internal/catalog"
	"instep/internal/guard"
	"instep/resourcesync"
)

// Dir is a directory whose files are the resources of a set. Tree, BaseURL,
// Catalog, Set and Now are required.
type Dir struct {
	Tree    Tree // see RootTree
	BaseURL string
	Catalog *catalog.Catalog
	Set     catalog.SetID

	// Globs as doublestar has them, on the slash-separated path below the directory.
	// A file is published if one of Include matches (or there is none) and none of
	// Exclude; a directory that Exclude matches is not entered.
	Include, Exclude []string
	// Ours reports whether a file or directory belongs to us: it is not published
	// and not entered. nil is none.
	Ours func(path string) bool

	Algorithms []resourcesync.Algorithm // nil is sha-256
	Workers    int                      // files hashed at a time; 0 is one per processor
	Spool      string                   // directory for temporary files; "" is the system's
	MaxDelete  guard.Limit              // more deletions are refused
	Now        func() time.Time
	Observe    func(Event) // called for each change and failure, never concurrently; nil is none
}

// Event is a change that was recorded, or a file or directory that could not be read.
type Event struct {
	Change resourcesync.Change // "" if Err is set
	URI    string
	Path   string // below the directory, slash-separated
	Bytes  int64  // -1 if unknown
	Err    error
}

// Reason says why something in the directory is not published.
type Reason string

// The reasons. A directory that is not entered counts once.
const (
	Dotfile Reason = "dotfile" // its name begins with a dot
	Symlink Reason = "symlink" // of a directory, of nothing, out of the tree, or of a file not published itself
	Special Reason = "special" // neither file nor directory: a FIFO, a device, a socket
	Pattern Reason = "pattern" // by Include or Exclude
	Ours    Reason = "ours"
)

// maxFailures bounds the list of failures; all of them are counted.
const maxFailures = 100

// Failures are what could not be read.
type Failures struct {
	Count int64
	First []*FileError // at most 100
}

func (f *Failures) add(e *FileError) {
	f.Count++
	if len(f.First) < maxFailures {
		f.First = append(f.First, e)
	}
}

// FileError says why a file or directory could not be read. What is recorded of it
// stays as it is.
type FileError struct {
	Path string // below the directory; "." is the directory itself
	Err  error
}

func (e *FileError) Error() string { return fmt.Sprintf("scan %q: %v", e.Path, e.Err) }

func (e *FileError) Unwrap() error { return e.Err }

// ChangedError: a file kept changing while it was hashed.
type ChangedError struct {
	Times           int
	Expected, Found Stat
}

func (e *ChangedError) Error() string {
	return fmt.Sprintf("it changed while it was read, %d times: expected %v, found %v; publish again when it is at rest",
		e.Times, e.Expected, e.Found)
}

// Stat is what a file looked like.
type Stat struct {
	Size    int64
	ModTime time.Time
}

func (s Stat) String() string {
	return fmt.Sprintf("%d bytes of %s", s.Size, s.ModTime.UTC().Format(time.RFC3339Nano))
}

// GuardError: so many resources vanished that it may be a mistake. Nothing was recorded.
type GuardError struct {
	Deletes, Set int64 // resources that vanished, and those of the set before
	Limit        guard.Limit
}

func (e *GuardError) Error() string {
	limit := "the limit " + e.Limit.String()
	if e.Limit == (guard.Limit{}) {
		limit = "10 % and 5 resources, or 50 %, or all of it"
	}
	return fmt.Sprintf("%d of the %d resources of the set are gone or left out now, more than %s: nothing was recorded; "+
		"see whether the directory is complete and the patterns are meant, or raise the limit of deletions", e.Deletes, e.Set, limit)
}

// ErrRoot: the directory itself can't be read.
var ErrRoot = errors.New("the directory to publish cannot be read")

func (d *Dir) observe(e Event) {
	if d.Observe != nil {
		d.Observe(e)
	}
}

func (d *Dir) algorithms() []resourcesync.Algorithm {
	if len(d.Algorithms) == 0 {
		return []resourcesync.Algorithm{resourcesync.SHA256}
	}
	return d.Algorithms
}
