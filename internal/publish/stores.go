package publish

import (
	"context"
	"iter"
	"time"

	"instep/internal/catalog"
	"instep/internal/scan"
)

// facts is a publisher's access to resources and changes. catalogtest.Facts is its contract
// test.
type facts interface {
	scan.Facts
	// Set returns the set called name and creates it if necessary; Sets returns all.
	Set(ctx context.Context, name string) (catalog.SetID, error)
	Sets(ctx context.Context) ([]catalog.NamedSet, error)
	// Relabelled returns a different number after each Relabel of a set.
	Relabelled(ctx context.Context, set catalog.SetID) (int64, error)
	changeLog
}

// changeLog is the log of recorded changes, except those already removed.
type changeLog interface {
	// Changes yields the changes of a set with after < Seq <= through in order, and
	// CountChanges returns their number.
	Changes(ctx context.Context, set catalog.SetID, after, through int64) iter.Seq2[catalog.Change, error]
	CountChanges(ctx context.Context, set catalog.SetID, after, through int64) (int64, error)
	// LastSeq returns the number and time of the last change of a set; zero if it has
	// none.
	LastSeq(ctx context.Context, set catalog.SetID) (int64, time.Time, error)
	// ForgetChanges removes about most of the oldest changes up to a number, but never
	// the last one. Forgotten returns the time of the last change removed.
	ForgetChanges(ctx context.Context, set catalog.SetID, through, most int64) (int64, error)
	Forgotten(ctx context.Context, set catalog.SetID) (time.Time, error)
}

// publications stores the publications, each one row that is committed before any
// document is written, and the documents and items that remain. Each call is durable
// when it returns. catalogtest.Publisher is its contract test.
type publications interface {
	// BeginPublication returns an id greater than all earlier ones. CommitPublication
	// stores body as the publication with that id, and FinishPublication records that
	// all of it has been written.
	BeginPublication(ctx context.Context, set catalog.SetID) (id int64, err error)
	CommitPublication(ctx context.Context, set catalog.SetID, id int64, made time.Time, body string) error
	FinishPublication(ctx context.Context, id int64, f catalog.Finished) error
	// LastPublication returns the last committed publication; id 0 if there is none.
	LastPublication(ctx context.Context, set catalog.SetID) (id int64, body string, done bool, err error)
	PublishedSets(ctx context.Context) ([]string, error)
	Items(ctx context.Context, set catalog.SetID, kind string, from int64) iter.Seq2[catalog.Item, error]
	// Document returns the document that was last written at key; false if none is
	// ours. Documents yields all keys, ascending.
	Document(ctx context.Context, key string) (catalog.Document, bool, error)
	Documents(ctx context.Context) iter.Seq2[string, error]
	ExpiredDocuments(ctx context.Context, before time.Time, publication int64) iter.Seq2[string, error]
	ForgetDocument(ctx context.Context, key string) error
	// Adopt fills new sets with the content of another publication, all or nothing.
	Adopt(ctx context.Context, after int64, settings map[string]string, fill func(*catalog.Adoption) error) error
}

// stores are a publisher's parts of one database.
type stores struct {
	catalog *catalog.Catalog // the open catalog, or nil
	facts   facts
	pubs    publications
	seen    scan.Seen
}

func openStores(ctx context.Context, o catalog.Options) (stores, error) {
	c, err := catalog.Open(ctx, o)
	if err != nil {
		return stores{}, err
	}
	return stores{catalog: c, facts: c.Facts, pubs: c.Publisher, seen: c.Publisher}, nil
}
