package scan

import (
	"context"
	"iter"
	"time"

	"instep/internal/catalog"
	"instep/resourcesync"
)

// Facts is the scan's access to the recorded state of a set. Each recording call is atomic,
// and durable when it returns. internal/catalog implements it with SQLite;
// catalogtest.Facts is the contract test.
type Facts interface {
	Recorded
	Recorder
	// Setting returns the value kept under name; false if there is none.
	Setting(ctx context.Context, name string) (string, bool, error)
	// SetSettings keeps all values, or none.
	SetSettings(ctx context.Context, values map[string]string) error
}

// Recorded reads the recorded state of sets. A listing may run beside recordings and then
// has some or none of them.
type Recorded interface {
	// Lookup returns the resource of each URI as seen from a set, in the order of the URIs;
	// the zero Resource for an unknown one.
	Lookup(ctx context.Context, set catalog.SetID, uris []string) ([]catalog.Resource, error)
	// Members yields the members of a set in the order in which they were first recorded.
	Members(ctx context.Context, set catalog.SetID) iter.Seq2[catalog.Resource, error]
	// MembersByKey yields them in ascending order of their keys, and MemberKeys these alone.
	MembersByKey(ctx context.Context, set catalog.SetID) iter.Seq2[catalog.Resource, error]
	MemberKeys(ctx context.Context, set catalog.SetID) iter.Seq2[resourcesync.Key, error]
	// Count returns how many members a set has, and how many bytes they have together.
	Count(ctx context.Context, set catalog.SetID) (n, bytes int64, err error)
}

// Recorder records changes.
type Recorder interface {
	// Moment returns a moment after every recorded change. Reserve ensures that every later
	// one is not before t.
	Moment(ctx context.Context) (time.Time, error)
	Reserve(ctx context.Context, t time.Time) error
	// Record records changes in order, all or none, at one moment. A change that
	// contradicts the recorded state is catalog.ErrState. Enroll is Record for a set that
	// was never published, which needs no change log. RecordWith is Record, and keeps settings
	// with the changes, all or none.
	Record(ctx context.Context, set catalog.SetID, changes []catalog.Change) error
	RecordWith(ctx context.Context, set catalog.SetID, changes []catalog.Change, settings map[string]string) error
	Enroll(ctx context.Context, set catalog.SetID, changes []catalog.Change) error
	// Restat stores times and digests of unchanged bytes, and Relabel their labels: neither
	// is a change.
	Restat(ctx context.Context, resources []catalog.Resource) error
	Relabel(ctx context.Context, set catalog.SetID, resources []catalog.Resource) error
}

// Seen has the results of earlier scans, and an adopted publication's spellings of the URIs
// of files.
type Seen interface {
	// KeepPieces stores pieces of directories; recording a file in such a directory forgets
	// them. KnownPieces reports which are stored unchanged.
	KeepPieces(ctx context.Context, set catalog.SetID, pieces []catalog.Piece) error
	KnownPieces(ctx context.Context, set catalog.SetID, pieces []catalog.Piece) ([]bool, error)
	// Spells reports whether any URI is spelled in another way than ours, and Spellings
	// returns those that are, by ours.
	Spells(ctx context.Context) (bool, error)
	Spellings(ctx context.Context, uris []string) (map[string]string, error)
}

var (
	_ Facts = (*catalog.Facts)(nil)
	_ Seen  = (*catalog.Publisher)(nil)
)
