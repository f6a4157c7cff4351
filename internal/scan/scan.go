// Package scan finds changes in a directory since the last scan and records them in a
// catalog. Dir.Plan walks the tree and compares it with the recorded state, without
// changing anything. Dir.Apply hashes the files that may have changed and records the
// changes.
//
// Neither holds the set in memory. Nothing is deleted on doubt: a directory that cannot be
// read, a file that cannot be examined, or more deletions than the guard allows leave the
// recorded state as it is.
package scan

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"time"

	"instep/blob"
	"instep/guard"
	"instep/internal/catalog"
	"instep/resourcesync"
)

// Input supplies the resources of a set. Plan compares them with the recorded state
// without changing anything; Apply records the changes found.
type Input interface {
	Plan(ctx context.Context) (*Plan, error)
	Apply(ctx context.Context, p *Plan) (Result, error)
}

// Deps are the dependencies of every Input. BaseURL, Facts, Seen, Set and Now are required.
type Deps struct {
	Facts   Facts
	Seen    Seen
	Set     catalog.SetID
	BaseURL string // ends in "/"
	// Unpublished: the set has no publication yet, so members are added without entries
	// in the change log (Facts.Enroll).
	Unpublished bool
	// Shared: other sets may contain some of the resources, so the first scan must
	// count Result.Clashes too.
	Shared bool

	// Whole: compare everything, even if an Input knows what has changed.
	Whole bool

	Algorithms []resourcesync.Algorithm // digest algorithms; nil is sha-256
	Workers    int                      // number of resources hashed concurrently; 0 is one per processor
	MaxDelete  guard.Limit              // more deletions than this are refused
	Spool      string                   // directory for temporary files; "" is the system's
	// State is the state directory, for an Input that keeps files of its own there;
	// catalog.IsStateName must know their names.
	State  string
	DryRun bool // write nothing
	// Keep, if not nil, receives the bytes of every created or updated resource, under
	// the key KeepKey of their SHA-256, before the change is recorded.
	Keep    blob.Bucket
	Now     func() time.Time
	Observe func(Event) // called for each change and failure, never concurrently; may be nil
	// LeftOut is called for each file or directory that is not published, except our
	// own, never concurrently; may be nil.
	LeftOut func(path string, why Reason)
}

// Identity returns a name that is unique among the sets of all publications.
func (d *Deps) Identity(ctx context.Context) (string, error) {
	id, _, err := d.Facts.Setting(ctx, catalog.UUIDSetting)
	return fmt.Sprint(id, "-", d.Set), err
}

// KeepKey returns the key in Deps.Keep for bytes with this SHA-256.
func KeepKey(sha256 resourcesync.Digest) string {
	name := hex.EncodeToString(sha256.Sum())
	return path.Join(name[:2], name)
}

// Rule labels the resources whose path below the directory matches. If several rules
// match, each field comes from the first that sets it; links are collected from all.
type Rule struct {
	Match      string // a glob of internal/glob
	Type       string // media type that replaces the one found by name and bytes
	Encoding   string // content coding of the stored file, such as "gzip"
	ChangeFreq resourcesync.ChangeFreq
	// KeepLinks are link relations, separated by spaces, that the entry of a mirrored
	// resource keeps although such links apply to the origin alone: see
	// internal/republish.
	KeepLinks string
	Links     []Link
}

// Dir is an Input whose resources are the files of a directory. Tree is required.
type Dir struct {
	Deps
	Tree Tree // see RootTree

	Choice
	Rules []Rule
	// Paths, if not nil, limits the scan to these files and directories; "." is the
	// whole tree. Only members at or below them can be found deleted.
	Ours func(path string) bool
	// info of the parent directory of the tree; nil if unknown
	Paths []string

	Above fs.FileInfo // Device returns the device of a directory, for recognising mount points; false if it has none. If nil, the operating system is asked.
	// Device returns the device that a directory is on, by which mount points are known;
	// false if it has none. nil asks the system.
	Device func(name string, info fs.FileInfo) (device uint64, ok bool)

	globs *globs // compiled globs of the scan; nil if there are none
}

// Event is a change that was recorded, or a file or directory that could not be read.
type Event struct {
	Set    string              // name of the set; empty in the events of a scan
	Change resourcesync.Change // "" if Err is set
	URI    string
	Path   string // slash-separated path below the directory
	Bytes  int64  // -1 if unknown
	Err    error
}

// Reason is why a file or directory is not published.
type Reason string

// Values of Reason. A directory that is not entered counts once.
const (
	Dotfile Reason = "dotfile" // its name begins with a dot
	Symlink Reason = "symlink" // a link to a directory, to nothing, out of the tree, or to an unpublished file
	Special Reason = "special" // neither file nor directory: a FIFO, a device, a socket
	Pattern Reason = "pattern" // excluded by Include or Exclude
	Litter  Reason = "litter"  // typically left behind by operating systems and editors
	Assumed Reason = "assumed" // matched by AssumeUnchanged: its recorded state stays
	Ours    Reason = "ours"
	// LinkFile is a file with the links of another (Choice.LinkFiles).
	LinkFile Reason = "link file"

	// Reasons in a mirror that is published.
	Due        Reason = "due"        // the Source has newer bytes than the mirror
	Unverified Reason = "unverified" // the Source has no digest that proves the bytes
	Held       Reason = "held"       // the mirror keeps an earlier state, despite changes at the Source
	Loop       Reason = "loop"       // a resource of our own, which came back through other Sources
)

// maxFailures bounds the list of failures. Further ones are only counted.
const maxFailures = 100

// Failures are the files and directories that could not be read.
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

// FileError is an error of reading a file or directory, whose recorded state stays.
type FileError struct {
	URI  string // "" if it concerns a part of a listing
	Path string // path below the directory; "." for the directory itself; for a resource without a file, its URI
	Err  error
}

// fileError returns the error for a path below the directory.
func (d *Deps) fileError(path string, err error) *FileError {
	return &FileError{URI(d.BaseURL, path), path, err}
}

func (e *FileError) Error() string {
	if e.Path == "" {
		return fmt.Sprintf("scan a part of the list of resources: %v", e.Err)
	}
	return fmt.Sprintf("scan %q: %v", e.Path, e.Err)
}

func (e *FileError) Unwrap() error { return e.Err }

// ChangedError reports that a file kept changing while it was hashed.
type ChangedError struct {
	Times           int
	Expected, Found Stat
}

func (e *ChangedError) Error() string {
	return fmt.Sprintf("it changed while it was read, %d times: expected %v, found %v; publish again when it is at rest",
		e.Times, e.Expected, e.Found)
}

// Stat is the size and time of a file when it was read.
type Stat struct {
	Size    int64
	ModTime time.Time
}

func (s Stat) String() string {
	return fmt.Sprintf("%d bytes of %s", s.Size, s.ModTime.UTC().Format(time.RFC3339Nano))
}

// GuardError reports that more resources vanished than the guard allows, perhaps by
// mistake. Nothing was recorded.
type GuardError struct {
	Deletes, Set int64 // number of vanished resources, and of all resources in the set before
	Limit        guard.Limit
	Mount        string // directory that is no longer a mount point, if resources below it vanished: perhaps its disk is not mounted; "" if there is none
}

func (e *GuardError) Error() string {
	if e.Mount != "" {
		return fmt.Sprintf("the directory %q was a mount point and is none now, and everything published below it is gone (resources: %d): nothing was published", e.Mount, e.Deletes)
	}
	limit := "the limit of " + e.Limit.String()
	if e.Limit == (guard.Limit{}) {
		limit = "the guard allows (10 % and 5, half, or all)"
	}
	return fmt.Sprintf("%d of %d resources are gone or left out now, more than %s: nothing was published", e.Deletes, e.Set, limit)
}

// ErrConnect means that the database that lists resources does not answer.
var ErrConnect = errors.New("connect to the database")

// ErrRoot means that the directory itself cannot be read.
var ErrRoot = errors.New("the directory to publish cannot be read")

func (d *Deps) observe(e Event) {
	if d.Observe != nil {
		d.Observe(e)
	}
}

func (d *Deps) algorithms() []resourcesync.Algorithm {
	if len(d.Algorithms) == 0 {
		return []resourcesync.Algorithm{resourcesync.SHA256}
	}
	return d.Algorithms
}
