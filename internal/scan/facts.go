package scan

import (
	"context"
	"iter"
	"time"

	"instep/internal/catalog"
	"instep/resourcesync"
)

// Facts gives a scan access to the recorded state of a set. Each recording call is
// atomic, and durable when it returns. internal/catalog implements it with SQLite;
// catalogtest.Facts is the contract test.
type Facts interface {
	Recorded
	Recorder
	// Setting returns the value stored under name; false if there is none.
	Setting(ctx context.Context, name string) (string, bool, error)
	// SetSettings stores all values or none.
	SetSettings(ctx context.Context, values map[string]string) error
}

// Recorded reads the recorded state of sets. While a listing runs, changes may be
// recorded; the listing then includes some or none of them.
type Recorded interface {
	// Lookup returns the resource of each URI as seen from a set, in the order of the URIs;
	// the zero Resource for an unknown one.
	Lookup(ctx context.Context, set catalog.SetID, uris []string) ([]catalog.Resource, error)
	// Members yields the members of a set in the order in which they were first recorded.
	Members(ctx context.Context, set catalog.SetID) iter.Seq2[catalog.Resource, error]
	// MembersByKey yields the members in ascending order of their keys; MemberKeys
	// yields only the keys.
	MembersByKey(ctx context.Context, set catalog.SetID) iter.Seq2[catalog.Resource, error]
	MemberKeys(ctx context.Context, set catalog.SetID) iter.Seq2[resourcesync.Key, error]
	// Count returns the number of members of a set and their total length.
	Count(ctx context.Context, set catalog.SetID) (n, bytes int64, err error)
}

// Recorder records changes.
type Recorder interface {
	// Moment returns a time later than every recorded change. Reserve ensures that no
	// change is recorded with a time before t.
	Moment(ctx context.Context) (time.Time, error)
	Reserve(ctx context.Context, t time.Time) error
	// Record records changes in order, all or none, with one time. It returns
	// catalog.ErrState if a change contradicts the recorded state. Enroll does the same
	// for a set that was never published, and writes no change log. RecordWith also
	// stores settings in the same transaction.
	Record(ctx context.Context, set catalog.SetID, changes []catalog.Change) error
	RecordWith(ctx context.Context, set catalog.SetID, changes []catalog.Change, settings map[string]string) error
	Enroll(ctx context.Context, set catalog.SetID, changes []catalog.Change) error
	// Restat stores times and digests of unchanged bytes, and Relabel stores labels.
	// Neither counts as a change.
	Restat(ctx context.Context, resources []catalog.Resource) error
	Relabel(ctx context.Context, set catalog.SetID, resources []catalog.Resource) error
}

// Seen stores the results of earlier scans, and how an adopted publication spells the
// URIs of files.
type Seen interface {
	// KeepPieces stores pieces of directories; recording a file in such a directory
	// deletes them. KnownPieces reports which pieces are stored unchanged.
	KeepPieces(ctx context.Context, set catalog.SetID, pieces []catalog.Piece) error
	KnownPieces(ctx context.Context, set catalog.SetID, pieces []catalog.Piece) ([]bool, error)
	// Spells reports whether an adopted publication spells any URI differently than we
	// do. Spellings returns these spellings, by our URI.
	Spells(ctx context.Context) (bool, error)
	Spellings(ctx context.Context, uris []string) (map[string]string, error)
}

var (
	_ Facts = (*catalog.Facts)(nil)
	_ Seen  = (*catalog.Publisher)(nil)
)
