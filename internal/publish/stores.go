package publish

import (
	"context"
	"iter"
	"time"

	"instep/internal/catalog"
	"instep/internal/scan"
)

// facts is the part of a catalog with the resources and changes. catalogtest.RunFacts tests
// its contract.
type facts interface {
	scan.Facts
	// Set returns the set with a name, and creates it if necessary. Sets returns all sets.
	Set(ctx context.Context, name string) (catalog.SetID, error)
	Sets(ctx context.Context) ([]catalog.NamedSet, error)
	// Relabelled returns a number that each Relabel of a set changes.
	Relabelled(ctx context.Context, set catalog.SetID) (int64, error)
	changeLog
}

// changeLog is the log of recorded changes, from which old changes are removed.
type changeLog interface {
	// Changes yields the changes of a set with after < Seq <= through in ascending order.
	// CountChanges returns their number.
	Changes(ctx context.Context, set catalog.SetID, after, through int64) iter.Seq2[catalog.Change, error]
	CountChanges(ctx context.Context, set catalog.SetID, after, through int64) (int64, error)
	// LastSeq returns the number and time of the last change of a set, or zero values if
	// the set has none.
	LastSeq(ctx context.Context, set catalog.SetID) (int64, time.Time, error)
	// ForgetChanges removes the oldest changes with Seq <= through, about limit of them,
	// but never the last change. Forgotten returns the time of the last change that was
	// removed.
	ForgetChanges(ctx context.Context, set catalog.SetID, through, limit int64) (int64, error)
	Forgotten(ctx context.Context, set catalog.SetID) (time.Time, error)
}

// publications is the part of a catalog with the publications, their documents and their
// items. A publication is one row, which is committed before any document is written. Each
// call is durable when it returns. catalogtest.RunPublisher tests the contract.
type publications interface {
	// BeginPublication returns an id greater than all earlier ones. CommitPublication
	// stores body as the publication with that id, and FinishPublication records that all
	// its documents have been written.
	BeginPublication(ctx context.Context, set catalog.SetID) (id int64, err error)
	CommitPublication(ctx context.Context, set catalog.SetID, id int64, made time.Time, body string) error
	FinishPublication(ctx context.Context, id int64, f catalog.Finished) error
	// LastPublication returns the last committed publication. The id is 0 if there is none.
	LastPublication(ctx context.Context, set catalog.SetID) (id int64, body string, done bool, err error)
	PublishedSets(ctx context.Context) ([]string, error)
	Items(ctx context.Context, set catalog.SetID, kind string, from int64) iter.Seq2[catalog.Item, error]
	// Document returns the document that we last wrote at key, and false if there is none.
	// Documents yields the keys of all our documents in ascending order.
	Document(ctx context.Context, key string) (catalog.Document, bool, error)
	Documents(ctx context.Context) iter.Seq2[string, error]
	ExpiredDocuments(ctx context.Context, before time.Time, publication int64) iter.Seq2[string, error]
	ForgetDocument(ctx context.Context, key string) error
	// Adopt calls fill, which fills new sets with the content of another publication, in
	// one transaction.
	Adopt(ctx context.Context, after int64, settings map[string]string, fill func(*catalog.Adoption) error) error
}

// stores are the parts of an open catalog that a publisher uses.
type stores struct {
	catalog *catalog.Catalog // nil if no catalog is open
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
