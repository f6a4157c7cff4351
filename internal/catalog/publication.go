package catalog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"time"
)

// Document is a file that was written into the bucket of a publication.
type Document struct {
	Key       string
	Length    int64
	SHA256    [32]byte
	Immutable bool // its bytes never change at this key
}

// States of a publication.
const (
	begun     = "begun"     // its id is used
	committed = "committed" // committed and not written yet
	done      = "done"
)

// BeginPublication returns the id of the next publication, greater than any before.
func (c *Publisher) BeginPublication(ctx context.Context, set SetID) (id int64, err error) {
	err = c.update(ctx, "begin a publication in", func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "DELETE FROM publication WHERE set_id = $1 AND state = $2", set, begun); err != nil {
			return err
		}
		return tx.QueryRowContext(ctx, "INSERT INTO publication (set_id, made, state, body) VALUES ($1, $2, $3, '') RETURNING id",
			set, c.instant().UnixMicro(), begun).Scan(&id)
	})
	return id, err
}

// CommitPublication makes body the publication of that id, still to be written out.
func (c *Publisher) CommitPublication(ctx context.Context, set SetID, id int64, made time.Time, body string) error {
	return c.update(ctx, "commit a publication in", func(tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, "UPDATE publication SET made = $3, state = $4, body = $5 WHERE id = $1 AND set_id = $2 AND state = $6",
			id, set, made.UnixMicro(), committed, body, begun)
		return expectOne(res, err, id, "begun")
	})
}

// Item is a document of a set that stays when later publications add others.
type Item struct {
	Kind   string
	Number int64
	Body   string // JSON: see source.Item
}

// Finished is the data that a written publication leaves in the catalog.
type Finished struct {
	Documents []Document // are ours
	Retired   []string   // keys that nothing links any more since At; one of Documents is in use
	Items     []Item     // new items, and replacements of those of the same kind and number
	Dropped   []Item     // Kind and Number
	At        time.Time
}

// FinishPublication records that the publication of that id is written out.
func (c *Publisher) FinishPublication(ctx context.Context, id int64, f Finished) error {
	return c.update(ctx, "finish a publication in", func(tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, "UPDATE publication SET state = $2 WHERE id = $1 AND state IN ($2, $3)", id, done, committed)
		if err := expectOne(res, err, id, "committed"); err != nil {
			return err
		}
		if err := retire(ctx, tx, f.Retired, f.At); err != nil {
			return err
		}
		if err := keepDocuments(ctx, tx, id, f.Documents); err != nil {
			return err
		}
		if err := keepItems(ctx, tx, id, f); err != nil {
			return err
		}
		return prunePublications(ctx, tx, id)
	})
}

func expectOne(res sql.Result, err error, id int64, state string) error {
	if err != nil {
		return err
	}
	n, err := res.RowsAffected()
	if err == nil && n != 1 {
		err = fmt.Errorf("publication %d: expected one that is %s, found none", id, state)
	}
	return err
}

func retire(ctx context.Context, tx *sql.Tx, keys []string, at time.Time) error {
	s, err := tx.PrepareContext(ctx, "UPDATE document SET retired = $2 WHERE key = $1 AND retired IS NULL")
	if err != nil {
		return err
	}
	defer s.Close()
	for _, key := range keys {
		if _, err := s.ExecContext(ctx, key, at.UnixMicro()); err != nil {
			return err
		}
	}
	return nil
}

func keepDocuments(ctx context.Context, tx *sql.Tx, id int64, docs []Document) error {
	s, err := tx.PrepareContext(ctx, `INSERT INTO document (key, length, sha256, immutable, publication) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (key) DO UPDATE SET length = excluded.length, sha256 = excluded.sha256, immutable = excluded.immutable,
		publication = excluded.publication, retired = NULL`)
	if err != nil {
		return err
	}
	defer s.Close()
	for _, d := range docs {
		if _, err := s.ExecContext(ctx, d.Key, d.Length, d.SHA256[:], d.Immutable, id); err != nil {
			return err
		}
	}
	return nil
}

func keepItems(ctx context.Context, tx *sql.Tx, id int64, f Finished) error {
	const set = "(SELECT set_id FROM publication WHERE id = $1)"
	for _, it := range f.Dropped {
		if _, err := tx.ExecContext(ctx, "DELETE FROM item WHERE set_id = "+set+" AND kind = $2 AND number = $3", id, it.Kind, it.Number); err != nil {
			return err
		}
	}
	for _, it := range f.Items {
		if _, err := tx.ExecContext(ctx, "INSERT INTO item (set_id, kind, number, body) VALUES ("+set+`, $2, $3, $4)
			ON CONFLICT (set_id, kind, number) DO UPDATE SET body = excluded.body`, id, it.Kind, it.Number, it.Body); err != nil {
			return err
		}
	}
	return nil
}

const itemsQuery = "SELECT kind, number, body FROM item WHERE number > $1 AND set_id = $3 AND kind = $4 ORDER BY number LIMIT $2"

// Items yields the items of a set of one kind with a number of at least from, ascending.
func (c *Publisher) Items(ctx context.Context, set SetID, kind string, from int64) iter.Seq2[Item, error] {
	return listing(ctx, c.db, "list items in", itemsQuery, from-1, func(rows *sql.Rows, it *Item) (any, error) {
		err := rows.Scan(&it.Kind, &it.Number, &it.Body)
		return it.Number, err
	}, set, kind)
}

// PublishedSets returns the names of the sets with a written publication, ascending.
func (c *Publisher) PublishedSets(ctx context.Context) ([]string, error) {
	return rows(ctx, c.db, "list the published sets of", func(r *sql.Rows) (name string, err error) {
		return name, r.Scan(&name)
	}, "SELECT name FROM sets s WHERE EXISTS (SELECT 1 FROM publication p WHERE p.set_id = s.id AND p.state = $1) ORDER BY name", done)
}

// prunePublications keeps the last two of the set of publication id.
func prunePublications(ctx context.Context, tx *sql.Tx, id int64) error {
	_, err := tx.ExecContext(ctx, `DELETE FROM publication
		WHERE set_id = (SELECT set_id FROM publication WHERE id = $1) AND id < (
			SELECT MAX(p.id) FROM publication p WHERE p.id < $1 AND p.state <> $2
			AND p.set_id = (SELECT set_id FROM publication WHERE id = $1))`, id, begun)
	return err
}

// LastPublication returns the last committed publication of a set and whether it
// is written out; id 0 if there is none.
func (c *Publisher) LastPublication(ctx context.Context, set SetID) (id int64, body string, isDone bool, err error) {
	var state string
	err = c.read.QueryRowContext(ctx, "SELECT id, body, state FROM publication WHERE set_id = $1 AND state <> $2 ORDER BY id DESC LIMIT 1",
		set, begun).Scan(&id, &body, &state)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, "", false, nil
	}
	if err != nil {
		return 0, "", false, c.fail("read the last publication of", err)
	}
	return id, body, state == done, nil
}

// Document returns the document that was last written at key; false if none is ours.
func (c *Publisher) Document(ctx context.Context, key string) (Document, bool, error) {
	d := Document{Key: key}
	var sum []byte
	err := c.read.QueryRowContext(ctx, "SELECT length, sha256, immutable FROM document WHERE key = $1", key).
		Scan(&d.Length, &sum, &d.Immutable)
	if errors.Is(err, sql.ErrNoRows) {
		return Document{}, false, nil
	}
	if err == nil && len(sum) != len(d.SHA256) {
		err = fmt.Errorf("%w: expected a SHA-256 of document %q, found %x; %s", ErrDamaged, key, sum, hint)
	}
	if err != nil {
		return Document{}, false, c.fail("look up a document in", err)
	}
	copy(d.SHA256[:], sum)
	return d, true, nil
}

const documentsQuery = "SELECT key FROM document WHERE key > $1 ORDER BY key LIMIT $2"

// Documents yields the keys of all documents that were written and not removed yet,
// ascending.
func (c *Publisher) Documents(ctx context.Context) iter.Seq2[string, error] {
	return listing(ctx, c.db, "list documents in", documentsQuery, "", func(rows *sql.Rows, key *string) (any, error) {
		err := rows.Scan(key)
		return *key, err
	})
}

const expiredQuery = "SELECT key FROM document WHERE key > $1 AND retired < $3 AND publication < $4 ORDER BY key LIMIT $2"

// ExpiredDocuments yields the keys that were retired before a moment and last
// written by publications before the given one.
func (c *Publisher) ExpiredDocuments(ctx context.Context, before time.Time, publication int64) iter.Seq2[string, error] {
	return listing(ctx, c.db, "list documents in", expiredQuery, "", func(rows *sql.Rows, key *string) (any, error) {
		err := rows.Scan(key)
		return *key, err
	}, before.UnixMicro(), publication)
}

// ForgetDocument records that nothing of ours is at key any more.
func (c *Publisher) ForgetDocument(ctx context.Context, key string) error {
	return c.update(ctx, "forget a document in", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "DELETE FROM document WHERE key = $1", key)
		return err
	})
}
