package catalog

import (
	"context"
	"fmt"
	"iter"
	"time"

	"instep/resourcesync"
)

// Document is a file that a publication wrote to the bucket.
type Document struct {
	Key       string
	Length    int64
	SHA256    [32]byte
	Immutable bool // whether the bytes at the key never change
}

// States of a publication, in this order.
const (
	begun     = "begun"     // the id of the publication is reserved
	committed = "committed" // the body of the publication is stored, but its documents may not be in the bucket yet
	done      = "done"
)

// BeginPublication reserves an id for the next publication and returns it. The id is
// greater than that of every earlier publication.
func (c *Publisher) BeginPublication(ctx context.Context, set SetID) (id int64, err error) {
	err = c.transact(ctx, "begin a publication in the catalog", func(r *recorder) {
		r.exec("DELETE FROM publication WHERE set_id = $1 AND state = $2", set, begun)
		r.scanRow([]any{&id}, "INSERT INTO publication (set_id, made, state, body) VALUES ($1, $2, $3, '') RETURNING id", set, c.instant().UnixMicro(), begun)
	})
	return id, err
}

// CommitPublication commits the publication with this id and stores its body. It is
// called before the documents of the publication are written to the bucket.
func (c *Publisher) CommitPublication(ctx context.Context, set SetID, id int64, made time.Time, body string) error {
	return c.transact(ctx, "commit a publication in the catalog", func(r *recorder) {
		n := r.exec("UPDATE publication SET made = $3, state = $4, body = $5 WHERE id = $1 AND set_id = $2 AND state = $6",
			id, set, made.UnixMicro(), committed, body, begun)
		r.expectOne(n, id, "begun")
	})
}

// Item describes a document that later publications of the set keep, such as a Change
// List.
type Item struct {
	Kind   string
	Number int64
	Body   string // JSON: see source.Item
}

// Finished is what the catalog records when a publication has been written to the bucket.
type Finished struct {
	Documents []Document // the documents that were written
	Retired   []string   // the keys of documents to which no document has linked since At; a key that is also in Documents is in use again
	Items     []Item     // the new items; each replaces the stored item of the same kind and number
	Dropped   []Item     // the items to delete, identified by Kind and Number
	At        time.Time
}

// FinishPublication records that the publication with this id has been written to the
// bucket.
func (c *Publisher) FinishPublication(ctx context.Context, id int64, f Finished) error {
	return c.transact(ctx, "finish a publication in the catalog", func(r *recorder) {
		n := r.exec("UPDATE publication SET state = $2 WHERE id = $1 AND state IN ($2, $3)", id, done, committed)
		r.expectOne(n, id, "committed")
		for _, key := range f.Retired {
			r.exec("UPDATE document SET retired = $2 WHERE key = $1 AND retired IS NULL", key, f.At.UnixMicro())
		}
		r.storeDocuments(id, f)
		// The last two publications of the set are kept.
		r.exec("DELETE FROM publication WHERE set_id = "+setOf+` AND id < (
			SELECT MAX(id) FROM publication WHERE id < $1 AND state <> $2 AND set_id = `+setOf+")", id, begun)
	})
}

const setOf = "(SELECT set_id FROM publication WHERE id = $1)"

func (r *recorder) expectOne(n, id int64, state string) {
	if n != 1 {
		r.stop(fmt.Errorf("publication %d: expected the state %s, found no such publication", id, state))
	}
}

func (r *recorder) storeDocuments(id int64, f Finished) {
	for _, d := range f.Documents {
		r.exec(`INSERT INTO document (key, length, sha256, immutable, publication) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (key) DO UPDATE SET length = excluded.length, sha256 = excluded.sha256, immutable = excluded.immutable,
			publication = excluded.publication, retired = NULL`, d.Key, d.Length, d.SHA256[:], d.Immutable, id)
	}
	for _, it := range f.Dropped {
		r.exec("DELETE FROM item WHERE set_id = "+setOf+" AND kind = $2 AND number = $3", id, it.Kind, it.Number)
	}
	for _, it := range f.Items {
		r.exec("INSERT INTO item (set_id, kind, number, body) VALUES ("+setOf+`, $2, $3, $4)
			ON CONFLICT (set_id, kind, number) DO UPDATE SET body = excluded.body`, id, it.Kind, it.Number, it.Body)
	}
}

// Items yields the items of a set with the given Kind and with Number >= lowest, in
// ascending order of Number.
func (c *Publisher) Items(ctx context.Context, set SetID, kind string, lowest int64) iter.Seq2[Item, error] {
	const query = "SELECT kind, number, body FROM item WHERE number > $1 AND set_id = $3 AND kind = $4 ORDER BY number LIMIT $2"
	return listing(c.reading(ctx, "list items in the catalog"), query, lowest-1, func(it *Item) (any, []any) {
		return &it.Number, []any{&it.Kind, &it.Number, &it.Body}
	}, set, kind)
}

// PublishedSets returns the names of the sets that have a finished publication, in
// ascending order.
func (c *Publisher) PublishedSets(ctx context.Context) ([]string, error) {
	return queryColumn[string](c.reading(ctx, "list the published sets of the catalog"), "SELECT name FROM sets s WHERE EXISTS (SELECT 1 FROM publication p WHERE p.set_id = s.id AND p.state = $1) ORDER BY name", done)
}

// LastPublication returns the last committed publication of a set, and whether it was
// written to the bucket. The id is 0 if there is no publication.
func (c *Publisher) LastPublication(ctx context.Context, set SetID) (id int64, body string, isDone bool, err error) {
	var state string
	_, err = scanRow(c.reading(ctx, "read the last publication of the catalog"), []any{&id, &body, &state},
		"SELECT id, body, state FROM publication WHERE set_id = $1 AND state <> $2 ORDER BY id DESC LIMIT 1", set, begun)
	return id, body, state == done, err
}

// Document returns the document that this publisher last wrote at the key, or false if
// there is none.
func (c *Publisher) Document(ctx context.Context, key string) (Document, bool, error) {
	var sum resourcesync.Digest
	d := Document{Key: key}
	found, err := scanRow(c.reading(ctx, fmt.Sprintf("look up the document %q in the catalog", key)), []any{&d.Length, digestTo(&sum), &d.Immutable},
		"SELECT length, sha256, immutable FROM document WHERE key = $1", key)
	if err != nil || !found {
		return Document{}, false, err
	}
	copy(d.SHA256[:], sum.Sum())
	return d, true, nil
}

// Documents yields the keys of all documents that were written and not deleted since,
// in ascending order.
func (c *Publisher) Documents(ctx context.Context) iter.Seq2[string, error] {
	return c.documents(ctx, documentsQuery(""))
}

// ExpiredDocuments yields the keys of documents that were retired before the given
// moment (see Finished.Retired). It omits documents that the given publication or a
// later one has written.
func (c *Publisher) ExpiredDocuments(ctx context.Context, moment time.Time, publication int64) iter.Seq2[string, error] {
	return c.documents(ctx, documentsQuery(expired), moment.UnixMicro(), publication)
}

const expired = "AND retired < $3 AND publication < $4"

func documentsQuery(condition string) string {
	return "SELECT key FROM document WHERE key > $1 " + condition + " ORDER BY key LIMIT $2"
}

func (c *db) documents(ctx context.Context, query string, args ...any) iter.Seq2[string, error] {
	return listing(c.reading(ctx, "list documents in the catalog"), query, "", func(key *string) (any, []any) {
		return key, []any{key}
	}, args...)
}

// ForgetDocument records that the document at the key was deleted.
func (c *Publisher) ForgetDocument(ctx context.Context, key string) error {
	return c.execute(ctx, "forget a document in the catalog", "DELETE FROM document WHERE key = $1", key)
}
