package publish

import (
	"context"
	"iter"
	"time"

	"instep/internal/catalog"
	"instep/internal/scan"
)

// facts is the part of a catalog with the resources and changes. catalogtest.RunFacts tests
// this contract.
type facts interface {
	scan.Facts
	// Set returns the id of the set with a name. It creates the set if necessary. Sets
	// returns all sets.
	Set(ctx context.Context, name string) (catalog.SetID, error)
	Sets(ctx context.Context) ([]catalog.NamedSet, error)
	// Relabelled returns a number that changes whenever Relabel records new types or
	// encodings in the set.
	Relabelled(ctx context.Context, set catalog.SetID) (int64, error)
	changeLog
}

// changeLog is the log in which the catalog records changes. Old changes are removed from it.
type changeLog interface {
	// Changes yields the changes of a set with after < Seq <= through, in ascending order.
	// CountChanges returns the number of these changes.
	Changes(ctx context.Context, set catalog.SetID, after, through int64) iter.Seq2[catalog.Change, error]
	CountChanges(ctx context.Context, set catalog.SetID, after, through int64) (int64, error)
	// LastSeq returns the number and time of the last change of a set, or zero values if
	// the set has none.
	LastSeq(ctx context.Context, set catalog.SetID) (int64, time.Time, error)
	// ForgetChanges removes the oldest changes with Seq <= through from the log. It
	// removes about limit changes, but never the last change of the set. Forgotten returns
	// the time of the newest change that was removed.
	ForgetChanges(ctx context.Context, set catalog.SetID, through, limit int64) (int64, error)
	Forgotten(ctx context.Context, set catalog.SetID) (time.Time, error)
}

// publications is the part of a catalog that stores publications, their documents and their
// items. A publication is stored as one row, which is committed before any of its documents
// is written. When a method returns, what it has stored is durable.
// catalogtest.RunPublisher tests this contract.
type publications interface {
	// BeginPublication returns an id that is greater than all earlier ones.
	// CommitPublication stores the text body as the publication with that id.
	// FinishPublication records that all documents of the publication have been written.
	BeginPublication(ctx context.Context, set catalog.SetID) (id int64, err error)
	CommitPublication(ctx context.Context, set catalog.SetID, id int64, made time.Time, body string) error
	FinishPublication(ctx context.Context, id int64, f catalog.Finished) error
	// LastPublication returns the last committed publication of a set. If there is none,
	// the id is 0.
	LastPublication(ctx context.Context, set catalog.SetID) (id int64, body string, done bool, err error)
	PublishedSets(ctx context.Context) ([]string, error)
	Items(ctx context.Context, set catalog.SetID, kind string, from int64) iter.Seq2[catalog.Item, error]
	// Document returns the record of the document that this program last wrote at a key, or
	// false if there is none. Documents yields the keys of all these documents in ascending
	// order.
	Document(ctx context.Context, key string) (catalog.Document, bool, error)
	Documents(ctx context.Context) iter.Seq2[string, error]
	ExpiredDocuments(ctx context.Context, before time.Time, publication int64) iter.Seq2[string, error]
	ForgetDocument(ctx context.Context, key string) error
	// Adopt calls the function fill in a transaction. fill records the content of an adopted
	// publication in new sets.
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
