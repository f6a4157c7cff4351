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

// Input supplies the resources of a set. Plan compares them with the recorded state and
// changes nothing; Apply records the changes that Plan found.
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
	// Unpublished: the set has no publication yet, so that members are added without
	// changes in the log (Facts.Enroll).
	Unpublished bool
	// Shared: other sets may have some of the resources, so that the first scan has to
	// count Result.Clashes too.
	Shared bool

	// Whole: all is compared, though an Input may know what has changed.
	Whole bool

	Algorithms []resourcesync.Algorithm // nil is sha-256
	Workers    int                      // resources hashed at a time; 0 is one per processor
	MaxDelete  guard.Limit              // more deletions are refused
	Spool      string                   // directory for temporary files; "" is the system's
	// State is the state directory, for an Input with files of its own, whose names
	// catalog.IsStateName knows.
	State  string
	DryRun bool // nothing is written
	// Keep, if not nil, gets the bytes of every created or updated resource, at KeepKey of
	// their SHA-256, before the change is recorded.
	Keep    blob.Bucket
	Now     func() time.Time
	Observe func(Event) // called for each change and failure, never concurrently; nil is none
	// LeftOut is called for each file or directory that is not published, except our own,
	// never concurrently; nil is none.
	LeftOut func(path string, why Reason)
}

// Identity returns a name that no other set of any publication has.
func (d *Deps) Identity(ctx context.Context) (string, error) {
	id, _, err := d.Facts.Setting(ctx, catalog.UUIDSetting)
	return fmt.Sprint(id, "-", d.Set), err
}

// KeepKey is the key in Deps.Keep of bytes with this SHA-256.
func KeepKey(sha256 resourcesync.Digest) string {
	name := hex.EncodeToString(sha256.Sum())
	return path.Join(name[:2], name)
}

// Rule labels the resources whose path below the directory matches. Each field comes from
// the first rule that matches and sets it; the links of all that match add up.
type Rule struct {
	Match      string // a glob as internal/glob has them
	Type       string // media type, instead of the one derived from name and bytes
	Encoding   string // content coding that the file is in, as "gzip"
	ChangeFreq resourcesync.ChangeFreq
	// KeepLinks are relations, with spaces between them, whose links the entry of a mirrored
	// resource keeps though they hold for the origin alone: see internal/republish.
	KeepLinks string
	Links     []Link
}

// Dir is a directory whose files are the resources of a set. Tree is required.
type Dir struct {
	Deps
	Tree Tree // see RootTree

	Choice
	Rules []Rule
	// Ours reports whether a file or directory belongs to us: it is not published
	// and not entered. nil is none. State directories below the root never are.
	Ours func(path string) bool
	// Paths, if not nil, are the only files and directories that are looked at, "."
	// for all: only members at or below them can be found gone.
	Paths []string

	Above fs.FileInfo // info of the directory above the tree; nil if unknown
	// Device returns the device that a directory is on, by which mount points are known;
	// false if it has none. nil asks the system.
	Device func(name string, info fs.FileInfo) (device uint64, ok bool)

	globs *globs // compiled globs of the scan; nil: there are none
}

// Event is a change that was recorded, or a file or directory that could not be read.
type Event struct {
	Set    string              // name of the set; a scan leaves it out
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
	Symlink Reason = "symlink" // a link to a directory, to nothing, out of the tree, or to a file that is not published itself
	Special Reason = "special" // neither file nor directory: a FIFO, a device, a socket
	Pattern Reason = "pattern" // excluded by Include or Exclude
	Litter  Reason = "litter"  // operating systems and editors leave it behind
	Assumed Reason = "assumed" // left as recorded by AssumeUnchanged
	Ours    Reason = "ours"
	// LinkFile is a file with the links of another (Choice.LinkFiles).
	LinkFile Reason = "link file"

	// Of a mirror that is published.
	Due        Reason = "due"        // the Source has newer bytes than the mirror
	Unverified Reason = "unverified" // nothing that the Source says proves the bytes
	Held       Reason = "held"       // the mirror keeps an earlier state, whatever the Source says
	Loop       Reason = "loop"       // the resource is one of ours, which came back
)

// maxFailures bounds the list of failures; all of them are counted.
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

// FileError is a failure to read a file or directory. Its recorded state stays.
type FileError struct {
	URI  string // "" if it is a part of a listing
	Path string // path below the directory; "." is the directory itself; for a resource without a file, its URI
	Err  error
}

// fileError is about a file or directory below the directory.
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

// ChangedError: a file kept changing while it was hashed.
type ChangedError struct {
	Times           int
	Expected, Found Stat
}

func (e *ChangedError) Error() string {
	return fmt.Sprintf("it changed while it was read, %d times: expected %v, found %v; publish again when it is at rest",
		e.Times, e.Expected, e.Found)
}

// Stat is the stat of a file when it was read.
type Stat struct {
	Size    int64
	ModTime time.Time
}

func (s Stat) String() string {
	return fmt.Sprintf("%d bytes of %s", s.Size, s.ModTime.UTC().Format(time.RFC3339Nano))
}

// GuardError reports that so many resources vanished that it may be a mistake. Nothing
// was recorded.
type GuardError struct {
	Deletes, Set int64 // resources that vanished, and those of the set before
	Limit        guard.Limit
	Mount        string // a directory that was a mount point and no longer is, if resources below it vanished: perhaps its disk is not mounted; "" if there is none
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

// ErrConnect: a database that lists resources does not answer.
var ErrConnect = errors.New("connect to the database")

// ErrRoot: the directory itself can't be read.
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
