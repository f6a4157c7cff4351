package mirror

import (
	"context"
	"iter"
	"time"

	"instep/internal/catalog"
	"instep/resourcesync"
)

// facts is the store of settings, sets, resources and memberships. Each method that
// writes uses one durable transaction. A listing may be read while another method writes.
// Package internal/catalog implements all stores of this file with SQLite, and
// catalogtest is the test suite for implementations.
type facts interface {
	Setting(ctx context.Context, name string) (string, bool, error)
	SetSettings(ctx context.Context, values map[string]string) error
	// Set returns the set with this name, and creates the set if it does not exist.
	Set(ctx context.Context, name string) (catalog.SetID, error)
	Sets(ctx context.Context) ([]catalog.NamedSet, error)
	// Lookup returns the records of resources in the order of uris, with their
	// memberships in the given set. It returns the zero Resource for an unknown URI.
	Lookup(ctx context.Context, set catalog.SetID, uris []string) ([]catalog.Resource, error)
	// MembersByKey yields the members of a set in ascending order of the keys of their URIs, and
	// MemberKeys only these keys.
	// MembersOf yields the members of several sets, and reads all memberships of a resource
	// at one moment. MembersFrom returns the first n members of a set whose IDs are at least
	// id, in ascending order of IDs. LastID returns the greatest ID.
	MembersByKey(ctx context.Context, set catalog.SetID) iter.Seq2[catalog.Resource, error]
	MemberKeys(ctx context.Context, set catalog.SetID) iter.Seq2[resourcesync.Key, error]
	MembersOf(ctx context.Context, sets []catalog.SetID) iter.Seq2[[]catalog.Resource, error]
	MembersFrom(ctx context.Context, set catalog.SetID, id int64, n int) ([]catalog.Resource, error)
	LastID(ctx context.Context) (int64, error)
	Count(ctx context.Context, set catalog.SetID) (n, bytes int64, err error)
}

// own combines the stores that only mirrors use.
type own interface {
	intents
	holdings
	plans
	history
	log
}

// intents is the store of planned changes of files. An intent is durable before its file
// is changed, and is removed when the outcome of the change is recorded.
type intents interface {
	// Intend calls the function place for each intent that has no path yet.
	Intend(ctx context.Context, intents []catalog.Intent, o *catalog.Outcome, place func(uri string, names catalog.Names) (catalog.Place, error)) error
	Intents(ctx context.Context) ([]catalog.Intent, error)
	// Settle records an outcome and removes all intents, in one transaction. It calls
	// ready before it commits this transaction.
	Settle(ctx context.Context, o catalog.Outcome, ready func() error) error
	// Names looks up which paths are in use. The function of FoldBy returns the same text
	// for paths that are the same file. Refold replaces this function, and finds another
	// path for a resource whose path then is the same as that of another resource.
	Names(ctx context.Context) catalog.Names
	Files(ctx context.Context, folds []string) (map[string]bool, error)
	FoldBy(fold func(path string) string)
	Refold(ctx context.Context, r catalog.Refolding) error
}

// holdings is the store of memberships of resources in sets, of cursors, and of evidence
// (what the Source last stated about a URI in a change).
type holdings interface {
	Find(ctx context.Context, set catalog.SetID, uri string) (catalog.Resource, error)
	FindContent(ctx context.Context, sha256 resourcesync.Digest, length int64) (catalog.Resource, bool, error)
	Holders(ctx context.Context, uris []string) ([]catalog.Membership, error)
	Due(ctx context.Context, set catalog.SetID) iter.Seq2[catalog.Resource, error]
	Cursor(ctx context.Context, set catalog.SetID) (body string, ok bool, err error)
	Committed(ctx context.Context, set catalog.SetID) (time.Time, error)
	Evidence(ctx context.Context, set catalog.SetID, uris []string) (map[string]catalog.Evidence, error)
	Losses(ctx context.Context, set catalog.SetID) (catalog.Losses, bool, error)
}

// plans is the store of withheld plans of deletions, and of their approvals.
type plans interface {
	Withhold(ctx context.Context, set catalog.SetID, hash, summary string) error
	Approve(ctx context.Context, hash string) (summary string, until time.Time, err error)
	Approved(ctx context.Context, hash string) (bool, error)
}

// history is the store of runs, and of the states of resources that these runs replaced
// or deleted.
type history interface {
	Runs(ctx context.Context) iter.Seq2[catalog.Run, error]
	Known(ctx context.Context) (time.Time, bool, error)
	Present(ctx context.Context, uri string) ([]catalog.Version, error)
	VersionsOf(ctx context.Context, uri string) iter.Seq2[catalog.Version, error]
	Versions(ctx context.Context, since time.Time) iter.Seq2[catalog.Version, error]
	DeletedSince(ctx context.Context, since time.Time) iter.Seq2[catalog.Version, error]
	AsOf(ctx context.Context, set catalog.SetID, at time.Time) iter.Seq2[catalog.Version, error]
	URIAt(ctx context.Context, path string) (uri string, ok bool, err error)
	RunVersions(ctx context.Context, run int64) iter.Seq2[catalog.Version, error]
	RunCreated(ctx context.Context, run int64, set catalog.SetID) iter.Seq2[catalog.Version, error]
	RunOvertaken(ctx context.Context, run int64, set catalog.SetID) iter.Seq2[catalog.Version, error]
	VersionDays(ctx context.Context, leave func(day string) bool) ([]string, error)
	ForgetVersions(ctx context.Context, day, since string) error
}

// log is the store of changes for programs that publish the mirror: the states of the
// changed resources after each commit. A commit writes the log only if the function of
// LogIf returns true, and otherwise ends the log, which would be incomplete.
type log interface {
	LogIf(wanted func() (bool, error))
	// LogEnd returns the position of the last change in the log. LogHas reports whether
	// the log has all changes after a position. Log yields the changes with after <
	// number <= through.
	LogEnd(ctx context.Context) (catalog.LogPosition, error)
	LogHas(ctx context.Context, p catalog.LogPosition) (bool, error)
	Log(ctx context.Context, after, through int64) iter.Seq2[catalog.Logged, error]
	// TrimLog removes the changes with numbers less than seq. CutLog removes all changes,
	// so that the log is no longer complete.
	TrimLog(ctx context.Context, seq int64) error
	CutLog(ctx context.Context) error
}

// contentNames is the store of names in a mirror with the layout Flat. A name is the path
// of a resource, or a path in the trash, and refers to bytes by their SHA-256.
type contentNames interface {
	Contents(ctx context.Context, paths []string) (map[string]resourcesync.Digest, error)
	HasContent(ctx context.Context, sum resourcesync.Digest) (bool, error)
	NameContents(ctx context.Context, names []catalog.ContentName) error
	ContentNames(ctx context.Context, day string) iter.Seq2[catalog.ContentName, error]
	TrashDays(ctx context.Context) ([]string, error)
	// Loosen records that bytes may have no name. It is called before a name is added or
	// removed. Fasten records that bytes have a name, or that their file was removed.
	// Loose returns some of the bytes that may have no name.
	Loosen(ctx context.Context, sums []resourcesync.Digest) error
	Fasten(ctx context.Context, sums []resourcesync.Digest) error
	Loose(ctx context.Context) ([]catalog.LooseContent, error)
}

type stores struct {
	cat      *catalog.Catalog // nil if a directory without a mirror was opened read-only
	facts    facts
	own      own
	contents contentNames
}

func storesOf(c *catalog.Catalog) stores {
	return stores{cat: c, facts: c.Facts, own: c.Mirror, contents: c.Mirror}
}
