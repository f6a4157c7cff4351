// Package scan finds changes in a directory since the last scan and records them in a
// catalog. Dir.Plan walks the tree and compares it with the recorded state, without
// changing anything. Dir.Apply hashes the files that may have changed and records the
// changes.
//
// Neither method holds the whole set in memory. No resource is deleted as long as it is
// uncertain that its file is gone: if a directory or file cannot be read, or more files
// are missing than the guard allows, the recorded state stays.
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

// Deps has what every Input needs: the catalog and the settings. BaseURL, Facts, Seen,
// Set and Now are required.
type Deps struct {
	Facts   Facts
	Seen    Seen
	Set     catalog.SetID
	BaseURL string // ends in "/"
	// Unpublished says that the set has not been published yet, so resources are added
	// to it without entries in the change log (Facts.Enroll).
	Unpublished bool
	// Shared says that other sets may contain some of the resources, so that even the
	// first scan has to count Result.Clashes.
	Shared bool

	// Whole makes an Input compare all resources, even if the Input itself knows which
	// ones have changed.
	Whole bool

	Algorithms []resourcesync.Algorithm // the algorithms of the digests to publish; nil means SHA-256
	Workers    int                      // the number of resources to hash concurrently; 0 means one for each processor
	MaxDelete  guard.Limit              // the limit of deletions; a plan that exceeds it is refused
	Spool      string                   // the directory for temporary files; "" means the directory of the operating system
	// State is the state directory, in which an Input may store files of its own. Their
	// names must be listed in catalog.IsStateName.
	State  string
	DryRun bool // whether the scan only makes a plan, and writes nothing
	// Keep is a bucket for copies of the bytes. The bytes of every created or updated
	// resource are copied to it, with the key KeepKey, before the change is recorded.
	// If Keep is nil, no bytes are copied.
	Keep    blob.Bucket
	Now     func() time.Time
	Observe func(Event) // a function that is called for each change and each failure, never concurrently; may be nil
	// LeftOut is called for each file or directory that is not published, except those
	// that this program writes. Calls are never concurrent. It may be nil.
	LeftOut func(path string, why Reason)
}

// Identity returns a name for the set that is unique among the sets of all publications.
func (d *Deps) Identity(ctx context.Context) (string, error) {
	id, _, err := d.Facts.Setting(ctx, catalog.UUIDSetting)
	return fmt.Sprint(id, "-", d.Set), err
}

// KeepKey returns the key under which the bucket Deps.Keep has the bytes with the given
// SHA-256.
func KeepKey(sha256 resourcesync.Digest) string {
	name := hex.EncodeToString(sha256.Sum())
	return path.Join(name[:2], name)
}

// Rule sets the media type, content coding, changefreq and links of the resources whose
// path matches a glob. If several rules match a path, each field comes from the first
// rule that sets it, and the links come from all of them.
type Rule struct {
	Match      string // a glob for the path below the directory, in the syntax of package glob
	Type       string // the media type, instead of the one determined by file name and bytes
	Encoding   string // the content coding of the stored file, such as "gzip"
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
	// Ours reports whether this program itself writes the file or directory at a path.
	// Such a path is not published. If Ours is nil, this program writes none of the
	// paths.
	Ours func(path string) bool

	Above fs.FileInfo // the parent directory of the tree; nil if it is unknown
	// Device returns the number of the device that stores a directory, by which mount
	// points are recognised, or false if the device is unknown. If Device is nil, the
	// operating system is asked.
	Device func(name string, info fs.FileInfo) (device uint64, ok bool)

	globs *globs // the compiled globs while a scan runs; nil otherwise
}

// Event is a change that was recorded, or a file or directory that could not be read.
type Event struct {
	Set    string              // the name of the set; the scan itself does not set this field
	Change resourcesync.Change // the kind of the change; "" if Err is set
	URI    string
	Path   string // the path below the directory, with slashes
	Bytes  int64  // the number of bytes; -1 if the number is unknown
	Err    error
}

// Reason is why a file or directory is not published.
type Reason string

// These are the values of Reason. A directory that is not published counts once,
// whatever it contains.
const (
	Dotfile Reason = "dotfile" // the name of the file or directory begins with a dot
	Symlink Reason = "symlink" // a symbolic link to a directory, to a missing or unpublished file, or out of the tree
	Special Reason = "special" // neither a regular file nor a directory, but for example a FIFO, a device or a socket
	Pattern Reason = "pattern" // not selected by the patterns Include and Exclude
	Litter  Reason = "litter"  // a file that operating systems and editors leave behind
	Assumed Reason = "assumed" // the file matches a pattern of AssumeUnchanged, so its recorded state stays
	Ours    Reason = "ours"    // a file or directory that this program writes: see Dir.Ours
	// LinkFile is the reason why a file is no resource: it contains the links of another
	// file (see Choice.LinkFiles).
	LinkFile Reason = "link file"

	// The following reasons occur only if the published directory is a mirror.
	Due        Reason = "due"        // the Source has newer bytes than the mirror
	Unverified Reason = "unverified" // the Source gives no digest with which the bytes could be verified
	Held       Reason = "held"       // the mirror keeps an earlier state on purpose, although the resource has changed at the Source
	Loop       Reason = "loop"       // the resource is one that we published, and that the mirror received back through other Sources
)

// maxFailures is the largest number of errors that Failures stores. Further errors are
// only counted.
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

// FileError is an error of reading a file or directory. The recorded state of the file or
// directory stays.
type FileError struct {
	URI  string // the URI of the resource; "" if a part of a listing could not be read
	Path string // the path below the directory, "." for the directory itself, or the URI of a resource that has no file
	Err  error
}

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
	Deletes, Set int64 // the number of vanished resources, and the number of resources in the set before the scan
	New          int64 // the number of resources that are not in the set yet
	Limit        guard.Limit
	Mount        string // the directory that is no longer a mount point, perhaps because its disk is not mounted, and whose resources have all vanished; "" if there is none
}

// Renamed reports whether all resources vanished and at least as many are new, for
// example because all resources got other URIs.
func (e *GuardError) Renamed() bool { return e.Mount == "" && e.Deletes == e.Set && e.New >= e.Set }

func (e *GuardError) Error() string {
	if e.Mount != "" {
		return fmt.Sprintf("the directory %q is no longer a mount point, and everything published below it is gone (resources: %d): nothing was published", e.Mount, e.Deletes)
	}
	limit := "the limit of " + e.Limit.String()
	if e.Limit == (guard.Limit{}) {
		limit = "the guard allows (5, or 10 % if that is more, but at most half)"
	}
	if e.Renamed() {
		return fmt.Sprintf("all %d resources would be deleted and %d others created, more than %s: nothing was published", e.Set, e.New, limit)
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
