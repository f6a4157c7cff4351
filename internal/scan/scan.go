// Package scan finds changes in a directory since the last scan and records them in a
// catalog. Dir.Plan walks the tree and compares it with the recorded state, without
// changing anything. Dir.Apply hashes the files that may have changed and records the
// changes.
//
// Neither method holds the set in memory. In doubt nothing is deleted: if a directory
// cannot be read, a file cannot be examined, or more files are missing than the guard
// allows, the recorded state stays.
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
	// Unpublished says that the set has no publication yet, so members are added
	// without entries in the change log (Facts.Enroll).
	Unpublished bool
	// Shared says that other sets may contain some of the resources, so that already
	// the first scan has to count Result.Clashes.
	Shared bool

	// Whole makes an Input compare all resources, even if the Input knows what has
	// changed.
	Whole bool

	Algorithms []resourcesync.Algorithm // algorithms of the digests to publish; nil means SHA-256
	Workers    int                      // number of resources to hash concurrently; 0 means one for each processor
	MaxDelete  guard.Limit              // a plan with more deletions is refused
	Spool      string                   // directory for temporary files; "" means the directory of the operating system
	// State is the state directory, in which an Input may store files of its own. Their
	// names must be listed in catalog.IsStateName.
	State  string
	DryRun bool // the scan writes nothing
	// Keep is a bucket to which the bytes of every created or updated resource are
	// copied before the change is recorded. The key is KeepKey of their SHA-256. With
	// nil, no bytes are copied.
	Keep    blob.Bucket
	Now     func() time.Time
	Observe func(Event) // a function to call for each change and failure, never concurrently; may be nil
	// LeftOut is called for each file or directory that is not published, except those
	// that this program writes. Calls are never concurrent. It may be nil.
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

// Rule says which media type, content coding, changefreq and links the resources have
// whose path below the directory matches. If several rules match, each field comes from
// the first rule that sets it, and links come from all of them.
type Rule struct {
	Match      string // a glob, as package glob defines it, for the path
	Type       string // media type that replaces the one found by name and bytes
	Encoding   string // content coding of the stored file, such as "gzip"
	ChangeFreq resourcesync.ChangeFreq
	// KeepLinks are link relations, separated by spaces. Package republish copies links
	// with these relations into the entry of a mirrored resource, although they are
	// about the original resource only.
	KeepLinks string
	Links     []Link
}

// Dir is an Input whose resources are the files of a directory. Tree is required.
type Dir struct {
	Deps
	Tree Tree // see RootTree

	Choice
	Rules []Rule
	// Paths limits the scan to these files and directories; "." is the whole tree. Only
	// members at or below these paths can be found deleted. With nil, everything is
	// scanned.
	Paths []string
	// Ours reports whether this program itself writes the file or directory at a path,
	// so that it is not published. Nil means that no path is ours.
	Ours func(path string) bool

	Above fs.FileInfo // the parent directory of the tree; nil if it is unknown
	// Device returns the device on which a directory is stored, for recognising mount
	// points, or false if the device is unknown. With nil, the operating system is asked.
	Device func(name string, info fs.FileInfo) (device uint64, ok bool)

	globs *globs // the compiled globs while a scan runs; otherwise nil
}

// Event is a change that was recorded, or a file or directory that could not be read.
type Event struct {
	Set    string              // name of the set; the scan itself leaves it empty
	Change resourcesync.Change // kind of the change; "" if Err is set
	URI    string
	Path   string // slash-separated path below the directory
	Bytes  int64  // number of bytes; -1 if it is unknown
	Err    error
}

// Reason is why a file or directory is not published.
type Reason string

// Values of Reason. A directory that is left out counts as one, whatever it contains.
const (
	Dotfile Reason = "dotfile" // the name of the file or directory begins with a dot
	Symlink Reason = "symlink" // a symbolic link to a directory, to a missing or unpublished file, or out of the tree
	Special Reason = "special" // neither a regular file nor a directory, but for example a FIFO, a device or a socket
	Pattern Reason = "pattern" // not selected by the patterns Include and Exclude
	Litter  Reason = "litter"  // a file that operating systems and editors leave behind
	Assumed Reason = "assumed" // matched by AssumeUnchanged, so the recorded state stays
	Ours    Reason = "ours"    // a file or directory that this program writes: see Dir.Ours
	// LinkFile is the reason for a file that has the links of another file (see
	// Choice.LinkFiles).
	LinkFile Reason = "link file"

	// The following reasons occur only if a mirror is published.
	Due        Reason = "due"        // the Source has newer bytes than the mirror
	Unverified Reason = "unverified" // the Source has no digest that proves the bytes
	Held       Reason = "held"       // the mirror keeps an earlier state, despite changes at the Source
	Loop       Reason = "loop"       // a resource that we published, and that the mirror got back through other Sources
)

// maxFailures is the largest number of failures in a list. Further failures are only
// counted.
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
	URI  string // URI of the resource; "" if the error concerns a part of a listing
	Path string // path below the directory, "." for the directory itself, or the URI of a resource without a file
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
	return fmt.Sprintf("the file changed while it was read, %d times: expected %v, found %v; publish again when it no longer changes",
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

// GuardError reports that more resources vanished than the guard allows, which may be a
// mistake. Nothing was recorded.
type GuardError struct {
	Deletes, Set int64 // number of vanished resources, and number of resources in the set before the scan
	Limit        guard.Limit
	Mount        string // a directory that is no longer a mount point and below which all resources vanished, perhaps because its disk is not mounted; "" if there is none
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
