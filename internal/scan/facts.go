package scan

import (
	"context"
	"iter"
	"time"

	"instep/internal/catalog"
	"instep/resourcesync"
)

// Facts is where a scan finds what is recorded of a set, and records what changed. What one
// call records is there as a whole, and durable, when the call returns. internal/catalog has
// it in SQLite; catalogtest.Facts holds an implementation against what is promised.
type Facts interface {
	Recorded
	Recorder
	// Setting returns the value kept under name; false if there is none.
	Setting(ctx context.Context, name string) (string, bool, error)
	// SetSettings keeps all values, or none.
	SetSettings(ctx context.Context, values map[string]string) error
}

// Recorded is what is known of sets. Listings may be read beside whatever is recorded
// meanwhile, of which they have some or nothing.
type Recorded interface {
	// Lookup returns the resource of each URI as seen from a set, in the order asked; the
	// zero Resource for one that is unknown.
	Lookup(ctx context.Context, set catalog.SetID, uris []string) ([]catalog.Resource, error)
	// Members yields the members of a set in the order in which they were first recorded.
	Members(ctx context.Context, set catalog.SetID) iter.Seq2[catalog.Resource, error]
	// MembersByKey yields them in ascending order of their keys, and MemberKeys these alone.
	MembersByKey(ctx context.Context, set catalog.SetID) iter.Seq2[catalog.Resource, error]
	MemberKeys(ctx context.Context, set catalog.SetID) iter.Seq2[resourcesync.Key, error]
	// Count returns how many members a set has, and how many bytes they have together.
	Count(ctx context.Context, set catalog.SetID) (n, bytes int64, err error)
}

// Recorder records what changed.
type Recorder interface {
	// Moment returns a moment after every change recorded, and Reserve sees to it that every
	// later one has at least that of t.
	Moment(ctx context.Context) (time.Time, error)
	Reserve(ctx context.Context, t time.Time) error
	// Record records changes in their order, all or none, at a moment of their own. What does
	// not fit what is recorded is catalog.ErrState. Enroll does so for a set that was never
	// published, of which nobody has to be told.
	Record(ctx context.Context, set catalog.SetID, changes []catalog.Change) error
	Enroll(ctx context.Context, set catalog.SetID, changes []catalog.Change) error
	// Restat keeps times and digests of bytes that are as they were, and Relabel what they
	// are called: that is no change.
	Restat(ctx context.Context, resources []catalog.Resource) error
	Relabel(ctx context.Context, set catalog.SetID, resources []catalog.Resource) error
}

// Seen is what scans remember for those after them, and how an adopted publication spells
// the URIs of files.
type Seen interface {
	// KeepPieces keeps pieces of directories, which recording anything in these forgets, and
	// KnownPieces reports which are kept as they are.
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
