// Package catalogtest tests the contracts of the three stores of a catalog. An interface
// describes each store: packages scan and publish use Facts and Publisher, and package
// mirror uses Facts and Mirror. Each test begins with an empty catalog.
package catalogtest

import (
	"context"
	"iter"
	"testing"
	"time"

	"instep/internal/catalog"
	"instep/resourcesync"
)

// Stores has the three stores of one catalog.
type Stores struct {
	Facts     Facts
	Mirror    Mirror
	Publisher Publisher
	// Reopen closes the catalog, even while a method runs, and opens it again. What a
	// method recorded before it returned must still be recorded.
	Reopen func() Stores
}

// New creates an empty catalog. The function now is its clock.
type New func(t *testing.T, now func() time.Time) Stores

// Facts is the store that mirrors and publishers use.
type Facts interface {
	Setting(ctx context.Context, name string) (string, bool, error)
	SetSettings(ctx context.Context, values map[string]string) error
	Set(ctx context.Context, name string) (catalog.SetID, error)
	Sets(ctx context.Context) ([]catalog.NamedSet, error)
	Lookup(ctx context.Context, set catalog.SetID, uris []string) ([]catalog.Resource, error)
	Members(ctx context.Context, set catalog.SetID) iter.Seq2[catalog.Resource, error]
	MembersFrom(ctx context.Context, set catalog.SetID, id int64, n int) ([]catalog.Resource, error)
	LastID(ctx context.Context) (int64, error)
	MembersByKey(ctx context.Context, set catalog.SetID) iter.Seq2[catalog.Resource, error]
	MembersOf(ctx context.Context, sets []catalog.SetID) iter.Seq2[[]catalog.Resource, error]
	MemberKeys(ctx context.Context, set catalog.SetID) iter.Seq2[resourcesync.Key, error]
	Count(ctx context.Context, set catalog.SetID) (n, bytes int64, err error)
	Moment(ctx context.Context) (time.Time, error)
	Reserve(ctx context.Context, t time.Time) error
	Record(ctx context.Context, set catalog.SetID, changes []catalog.Change) error
	RecordWith(ctx context.Context, set catalog.SetID, changes []catalog.Change, settings map[string]string) error
	Enroll(ctx context.Context, set catalog.SetID, changes []catalog.Change) error
	Restat(ctx context.Context, resources []catalog.Resource) error
	Relabel(ctx context.Context, set catalog.SetID, resources []catalog.Resource) error
	Relabelled(ctx context.Context, set catalog.SetID) (int64, error)
	Changes(ctx context.Context, set catalog.SetID, after, through int64) iter.Seq2[catalog.Change, error]
	CountChanges(ctx context.Context, set catalog.SetID, after, through int64) (int64, error)
	LastSeq(ctx context.Context, set catalog.SetID) (int64, time.Time, error)
	ForgetChanges(ctx context.Context, set catalog.SetID, lastSeq, limit int64) (int64, error)
	Forgotten(ctx context.Context, set catalog.SetID) (time.Time, error)
}

// Mirror is the store that only mirrors use.
type Mirror interface {
	Intend(ctx context.Context, intents []catalog.Intent, o *catalog.Outcome, place func(uri string, names catalog.Names) (catalog.Place, error)) error
	Intents(ctx context.Context) ([]catalog.Intent, error)
	Settle(ctx context.Context, o catalog.Outcome, ready func() error) error
	Names(ctx context.Context) catalog.Names
	Files(ctx context.Context, folds []string) (map[string]bool, error)
	FoldBy(fold func(path string) string)
	Refold(ctx context.Context, r catalog.Refolding) error
	Find(ctx context.Context, set catalog.SetID, uri string) (catalog.Resource, error)
	FindContent(ctx context.Context, sha256 resourcesync.Digest, length int64) (catalog.Resource, bool, error)
	Holders(ctx context.Context, uris []string) ([]catalog.Membership, error)
	Due(ctx context.Context, set catalog.SetID) iter.Seq2[catalog.Resource, error]
	Cursor(ctx context.Context, set catalog.SetID) (body string, ok bool, err error)
	Committed(ctx context.Context, set catalog.SetID) (time.Time, error)
	Evidence(ctx context.Context, set catalog.SetID, uris []string) (map[string]catalog.Evidence, error)
	Losses(ctx context.Context, set catalog.SetID) (catalog.Losses, bool, error)
	Withhold(ctx context.Context, set catalog.SetID, hash, summary string) error
	Approve(ctx context.Context, hash string) (summary string, until time.Time, err error)
	Approved(ctx context.Context, hash string) (bool, error)
	Runs(ctx context.Context) iter.Seq2[catalog.Run, error]
	Known(ctx context.Context) (time.Time, bool, error)
	Present(ctx context.Context, uri string) ([]catalog.Version, error)
	VersionsOf(ctx context.Context, uri string) iter.Seq2[catalog.Version, error]
	Versions(ctx context.Context, moment time.Time) iter.Seq2[catalog.Version, error]
	VersionDays(ctx context.Context, omit func(day string) bool) ([]string, error)
	ForgetVersions(ctx context.Context, day, knownSince string) error
	URIAt(ctx context.Context, path string) (uri string, ok bool, err error)
	DeletedSince(ctx context.Context, moment time.Time) iter.Seq2[catalog.Version, error]
	AsOf(ctx context.Context, set catalog.SetID, moment time.Time) iter.Seq2[catalog.Version, error]
	RunVersions(ctx context.Context, run int64) iter.Seq2[catalog.Version, error]
	RunCreated(ctx context.Context, run int64, set catalog.SetID) iter.Seq2[catalog.Version, error]
	RunOvertaken(ctx context.Context, run int64, set catalog.SetID) iter.Seq2[catalog.Version, error]
	NameContents(ctx context.Context, names []catalog.ContentName) error
	Contents(ctx context.Context, paths []string) (map[string]resourcesync.Digest, error)
	ContentNames(ctx context.Context, day string) iter.Seq2[catalog.ContentName, error]
	TrashDays(ctx context.Context) ([]string, error)
	HasContent(ctx context.Context, sum resourcesync.Digest) (bool, error)
	Loosen(ctx context.Context, sums []resourcesync.Digest) error
	Fasten(ctx context.Context, sums []resourcesync.Digest) error
	Loose(ctx context.Context) ([]catalog.LooseContent, error)
	LogIf(wanted func() (bool, error))
	LogEnd(ctx context.Context) (catalog.LogPosition, error)
	LogHas(ctx context.Context, p catalog.LogPosition) (bool, error)
	Log(ctx context.Context, after, through int64) iter.Seq2[catalog.Logged, error]
	TrimLog(ctx context.Context, seq int64) error
	CutLog(ctx context.Context) error
}

// Publisher is the store that only Sources use.
type Publisher interface {
	BeginPublication(ctx context.Context, set catalog.SetID) (id int64, err error)
	CommitPublication(ctx context.Context, set catalog.SetID, id int64, made time.Time, body string) error
	FinishPublication(ctx context.Context, id int64, f catalog.Finished) error
	LastPublication(ctx context.Context, set catalog.SetID) (id int64, body string, done bool, err error)
	PublishedSets(ctx context.Context) ([]string, error)
	Items(ctx context.Context, set catalog.SetID, kind string, lowest int64) iter.Seq2[catalog.Item, error]
	Document(ctx context.Context, key string) (catalog.Document, bool, error)
	Documents(ctx context.Context) iter.Seq2[string, error]
	ExpiredDocuments(ctx context.Context, moment time.Time, publication int64) iter.Seq2[string, error]
	ForgetDocument(ctx context.Context, key string) error
	Adopt(ctx context.Context, lastSeq int64, settings map[string]string, fill func(*catalog.Adoption) error) error
	KeepPieces(ctx context.Context, set catalog.SetID, pieces []catalog.Piece) error
	KnownPieces(ctx context.Context, set catalog.SetID, pieces []catalog.Piece) ([]bool, error)
	Spells(ctx context.Context) (bool, error)
	Spellings(ctx context.Context, uris []string) (map[string]string, error)
}
