package scan

import (
	"context"
	"iter"
	"time"

	"instep/internal/catalog"
	"instep/resourcesync"
)

// Facts is the access of a scan to the recorded state of a set. Each call that records
// is atomic, and durable when it returns. Package catalog implements Facts with SQLite;
// catalogtest.RunFacts tests the contract.
type Facts interface {
	Recorded
	Recorder
	// Setting returns the value of a setting, or false if it does not exist.
	Setting(ctx context.Context, name string) (string, bool, error)
	// SetSettings stores all given settings, or none of them.
	SetSettings(ctx context.Context, values map[string]string) error
}

// Recorded reads the recorded state of sets. If changes are recorded while a listing is
// read, the listing may contain some of them.
type Recorded interface {
	// Lookup returns the resource of each URI as it is in a set, in the order of the
	// URIs. For an unknown URI it returns the zero Resource.
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
	// Moment returns a time that is later than every recorded change. After Reserve, no
	// change is recorded with an earlier time than the given one.
	Moment(ctx context.Context) (time.Time, error)
	Reserve(ctx context.Context, t time.Time) error
	// Record records changes in order, all or none, with the same time. It returns
	// catalog.ErrState if a change contradicts the recorded state. RecordWith also
	// stores settings in the same transaction. Enroll is for a set that was never
	// published: it writes no change log.
	Record(ctx context.Context, set catalog.SetID, changes []catalog.Change) error
	RecordWith(ctx context.Context, set catalog.SetID, changes []catalog.Change, settings map[string]string) error
	Enroll(ctx context.Context, set catalog.SetID, changes []catalog.Change) error
	// Restat stores the times and digests of unchanged files, and Relabel stores types,
	// encodings, changefreqs and further attributes. Neither of them counts as a
	// change.
	Restat(ctx context.Context, resources []catalog.Resource) error
	Relabel(ctx context.Context, set catalog.SetID, resources []catalog.Resource) error
}

// Seen stores the results of earlier scans, and the URIs that an adopted publication
// uses for files.
type Seen interface {
	// KeepPieces stores pieces of directories. They are deleted when another file of
	// the same directory is recorded. KnownPieces reports which of the given pieces are
	// stored and unchanged.
	KeepPieces(ctx context.Context, set catalog.SetID, pieces []catalog.Piece) error
	KnownPieces(ctx context.Context, set catalog.SetID, pieces []catalog.Piece) ([]bool, error)
	// Spells reports whether an adopted publication uses another URI for any file than
	// we would. Spellings returns these URIs, by the URI that we would use.
	Spells(ctx context.Context) (bool, error)
	Spellings(ctx context.Context, uris []string) (map[string]string, error)
}

var (
	_ Facts = (*catalog.Facts)(nil)
	_ Seen  = (*catalog.Publisher)(nil)
)
