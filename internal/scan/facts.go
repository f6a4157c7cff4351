package scan

import (
	"context"
	"iter"
	"time"

	"instep/internal/catalog"
	"instep/resourcesync"
)

// Facts gives a scan access to the recorded state of a set. Each method that records
// something is atomic, and what it has recorded is durable when it returns. Package
// catalog implements Facts with SQLite. catalogtest.RunFacts tests this contract.
type Facts interface {
	Recorded
	Recorder
	// Setting returns the value of a setting, or false if it does not exist.
	Setting(ctx context.Context, name string) (string, bool, error)
	// SetSettings stores all given settings, or none of them.
	SetSettings(ctx context.Context, values map[string]string) error
}

// Recorded reads the recorded state of sets. If a change is recorded while a sequence is
// read, the sequence may or may not contain the change.
type Recorded interface {
	// Lookup returns the resources of a set with the given URIs, in the order of the URIs.
	// For an unknown URI it returns a zero Resource.
	Lookup(ctx context.Context, set catalog.SetID, uris []string) ([]catalog.Resource, error)
	// Members yields the members of a set in the order in which they were first recorded.
	Members(ctx context.Context, set catalog.SetID) iter.Seq2[catalog.Resource, error]
	// MembersByKey yields the members of a set in ascending order of their keys, and
	// MemberKeys yields only the keys.
	MembersByKey(ctx context.Context, set catalog.SetID) iter.Seq2[catalog.Resource, error]
	MemberKeys(ctx context.Context, set catalog.SetID) iter.Seq2[resourcesync.Key, error]
	// Count returns the number of members of a set and their total length.
	Count(ctx context.Context, set catalog.SetID) (n, bytes int64, err error)
}

// Recorder records changes.
type Recorder interface {
	// Moment returns a time that is later than all recorded changes. After a call of Reserve,
	// every change is recorded with the reserved time or a later one.
	Moment(ctx context.Context) (time.Time, error)
	Reserve(ctx context.Context, t time.Time) error
	// Record records changes in order, either all or none, all with the same time. It
	// returns catalog.ErrState if a change contradicts the recorded state. RecordWith
	// does the same and also stores settings, in the same transaction. Enroll does the
	// same for a set that was never published, but writes nothing to the change log.
	Record(ctx context.Context, set catalog.SetID, changes []catalog.Change) error
	RecordWith(ctx context.Context, set catalog.SetID, changes []catalog.Change, settings map[string]string) error
	Enroll(ctx context.Context, set catalog.SetID, changes []catalog.Change) error
	// Restat stores new times and digests of unchanged files. Relabel stores new types,
	// encodings, changefreqs and further attributes. None of this counts as a change.
	Restat(ctx context.Context, resources []catalog.Resource) error
	Relabel(ctx context.Context, set catalog.SetID, resources []catalog.Resource) error
}

// Seen stores facts about directories that earlier scans found. It also stores the URIs of
// files in an adopted publication that differ from the URIs that Instep would give to these
// files.
type Seen interface {
	// KeepPieces stores pieces (parts of directories), each with a digest of its files. The
	// catalog deletes a piece when it records another state of a file in the same directory.
	// KnownPieces reports for each of the given pieces whether it is stored and unchanged.
	KeepPieces(ctx context.Context, set catalog.SetID, pieces []catalog.Piece) error
	KnownPieces(ctx context.Context, set catalog.SetID, pieces []catalog.Piece) ([]bool, error)
	// Spells reports whether an adopted publication gives any file another URI than Instep
	// would give. Spellings returns such URIs, by the URI that Instep would use.
	Spells(ctx context.Context) (bool, error)
	Spellings(ctx context.Context, uris []string) (map[string]string, error)
}

var (
	_ Facts = (*catalog.Facts)(nil)
	_ Seen  = (*catalog.Publisher)(nil)
)
